package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand"
	"strconv"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const letterSchema = `{"type": "record", "name": "Letter", "fields": [
	{"name": "number", "type": "int"}, {"name": "body", "type": "string"}]}`

// letter is what is sent with a schema of fields.
type letter struct {
	Number int32  `json:"number" avro:"number"`
	Body   string `json:"body" avro:"body"`
}

func (r *run) schema() pulsar.Schema {
	switch r.given.Schema {
	case "json":
		return pulsar.NewJSONSchema(letterSchema, nil)
	case "avro":
		return pulsar.NewAvroSchema(letterSchema, nil)
	case "string":
		return pulsar.NewStringSchema(nil)
	default:
		return nil
	}
}

// position is ledger, entry, partition, index in the batch.
func position(id pulsar.MessageID) []int64 {
	return []int64{id.LedgerID(), id.EntryID(), int64(max(0, id.PartitionIdx())), int64(id.BatchIdx())}
}

func compare(a, b pulsar.MessageID) int64 {
	if a.LedgerID() != b.LedgerID() {
		return a.LedgerID() - b.LedgerID()
	}
	if a.EntryID() != b.EntryID() {
		return a.EntryID() - b.EntryID()
	}
	return int64(a.BatchIdx() - b.BatchIdx())
}

func isAfter(a, b pulsar.MessageID) bool {
	return a.LedgerID() > b.LedgerID() || (a.LedgerID() == b.LedgerID() && a.EntryID() > b.EntryID())
}

func numberOf(message pulsar.Message) int {
	number, err := strconv.Atoi(message.Properties()["number"])
	if err != nil {
		panic(err)
	}
	return number
}

func (r *run) send(producer pulsar.Producer, who, number int) {
	place := 0
	if who >= 0 {
		place = number / r.given.Producers
	}
	size := 100
	if r.given.Chunking && who >= 0 && place%4 == 1 {
		size = r.given.Large
	}
	random := make([]byte, size)
	rand.New(rand.NewSource(int64(number))).Read(random)
	body := base64.StdEncoding.EncodeToString(random)
	message := &pulsar.ProducerMessage{Key: fmt.Sprintf("k%d", place%8), Properties: map[string]string{
		"number": strconv.Itoa(number), "producer": strconv.Itoa(who),
		"sum": strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(body))), 10)}}
	switch r.given.Schema {
	case "bytes":
		message.Payload = []byte(body)
	case "string":
		message.Value = body
	default:
		message.Value = &letter{int32(number), body}
	}
	delay := 0
	if who >= 0 && place%5 == 2 {
		delay = r.given.DelayMs
	}
	if delay > 0 {
		message.DeliverAfter = time.Duration(delay) * time.Millisecond
	}
	r.mutex.Lock()
	r.underWay++
	r.mutex.Unlock()
	r.say("send", fields{"producer": who, "number": number, "key": message.Key, "delay_ms": delay})
	producer.SendAsync(context.Background(), message, func(id pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
		if err == nil {
			r.say("sent", fields{"producer": who, "number": number, "id": position(id)})
		} else {
			r.say("send_failed", fields{"producer": who, "number": number, "error": err.Error()})
		}
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.underWay--
		if err == nil {
			r.answered[number] = true
			r.first[number] = id
		} else {
			r.failed = true
		}
		r.changed.Broadcast()
	})
}

// receive returns the next message, or nil if none comes for a while.
func (r *run) receive(consumer pulsar.Consumer, who int) (pulsar.Message, error) {
	limited, cancel := context.WithTimeout(context.Background(), pollFor)
	defer cancel()
	message, err := consumer.Receive(limited)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	number := numberOf(message)
	sender, err := strconv.Atoi(message.Properties()["producer"])
	if err != nil {
		return nil, err
	}
	r.say("received", fields{"consumer": who, "phase": r.phase, "number": number, "producer": sender,
		"key": message.Key(), "id": position(message.ID()), "redelivery": message.RedeliveryCount(),
		"intact": r.intact(message, number)})
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.receipts[number]++
	return message, nil
}

func (r *run) intact(message pulsar.Message, number int) bool {
	var body string
	switch r.given.Schema {
	case "bytes":
		body = string(message.Payload())
	case "string":
		var value *string
		if err := message.GetSchemaValue(&value); err != nil {
			return false
		}
		body = *value
	default:
		var value letter
		if err := message.GetSchemaValue(&value); err != nil || int(value.Number) != number {
			return false
		}
		body = value.Body
	}
	return message.Properties()["sum"] == strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(body))), 10)
}
