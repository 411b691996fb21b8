package main

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

const pollFor = 200 * time.Millisecond

// run is one scenario's run.
type run struct {
	given  scenario
	enough chan struct{}

	mutex    sync.Mutex
	changed  *sync.Cond
	answered map[int]bool
	first    map[int]pulsar.MessageID
	receipts map[int]int
	done     map[int]bool
	wanted   map[int]bool
	underWay int
	half     time.Time
	halfway  int
	produced bool
	failed   bool
	phase    string
}

func newRun(given scenario) *run {
	r := &run{given: given, enough: make(chan struct{}), answered: map[int]bool{}, first: map[int]pulsar.MessageID{},
		receipts: map[int]int{}, done: map[int]bool{}, wanted: map[int]bool{}, phase: "first"}
	r.changed = sync.NewCond(&r.mutex)
	return r
}

func (r *run) say(event string, more fields) { say(r.given.Name, event, more) }

// run goes through all phases; an error ends them and is an event.
func (r *run) run() {
	r.guarded(r.phases)
	r.say("ended", nil)
}

func (r *run) guarded(work func() error) {
	if err := work(); err != nil {
		r.say("failed", fields{"error": err.Error()})
		r.mutex.Lock()
		r.failed = true
		r.changed.Broadcast()
		r.mutex.Unlock()
	}
}

func (r *run) start(works []func() error) *sync.WaitGroup {
	var all sync.WaitGroup
	for _, work := range works {
		all.Add(1)
		go func() {
			defer all.Done()
			r.guarded(work)
		}()
	}
	return &all
}

func (r *run) isFailed() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.failed
}

func (r *run) allAnswered() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	for r.underWay > 0 && !r.failed {
		r.changed.Wait()
	}
}

func (r *run) phases() error {
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: r.given.URL, OperationTimeout: 120 * time.Second, Logger: quiet()})
	if err != nil {
		return err
	}
	defer client.Close()
	var consumers []pulsar.Consumer
	var consuming, sending []func() error
	for who := 0; who < r.given.Consumers; who++ {
		consumer, err := r.subscribe(client, who)
		if err != nil {
			return err
		}
		consumers = append(consumers, consumer)
		consuming = append(consuming, func() error { return r.consume(consumer, who) })
	}
	for who := 0; who < r.given.Producers; who++ {
		producer, err := r.producer(client, r.given.Topic)
		if err != nil {
			return err
		}
		sending = append(sending, func() error { return r.produce(producer, who) })
	}
	receiving := r.start(consuming)
	r.start(sending).Wait()
	r.allAnswered()
	r.mutex.Lock()
	for number := range r.answered {
		r.wanted[number] = true
	}
	r.produced = true
	r.mutex.Unlock()
	r.say("produced", nil)
	receiving.Wait()
	if !r.isFailed() && r.given.Seek != "none" {
		if err := r.seek(consumers, consuming); err != nil {
			return err
		}
	}
	if r.isFailed() {
		return nil
	}
	for who, consumer := range consumers {
		consumer.Close()
		r.say("closed", fields{"consumer": who})
	}
	return r.resume(client)
}

func (r *run) subscribe(client pulsar.Client, who int) (pulsar.Consumer, error) {
	options := pulsar.ConsumerOptions{
		Topic:                          r.given.Topic,
		SubscriptionName:               r.given.Subscription,
		Type:                           types[r.given.Type],
		SubscriptionInitialPosition:    pulsar.SubscriptionPositionEarliest,
		Schema:                         r.schema(),
		ReceiverQueueSize:              r.given.Queue,
		Name:                           fmt.Sprintf("consumer-%d", who),
		NackRedeliveryDelay:            300 * time.Millisecond,
		EnableBatchIndexAcknowledgment: r.given.Ack == "batch_index",
		AckWithResponse:                r.given.Receipts,
		EventListener:                  activity{r, who},
	}
	if r.given.Receipts || r.given.Seek != "none" {
		// one that the client keeps back would follow the seek, and count
		options.AckGroupingOptions = &pulsar.AckGroupingOptions{MaxSize: 1}
	}
	consumer, err := client.Subscribe(options)
	if err == nil {
		r.say("subscribed", fields{"consumer": who, "phase": r.phase})
	}
	return consumer, err
}

// activity says when a consumer is told whether it is the active one of a partition.
type activity struct {
	run *run
	who int
}

func (a activity) BecameActive(_ pulsar.Consumer, _ string, partition int32) { a.say(partition, true) }

func (a activity) BecameInactive(_ pulsar.Consumer, _ string, partition int32) { a.say(partition, false) }

func (a activity) say(partition int32, active bool) {
	a.run.say("active", fields{"consumer": a.who, "partition": max(0, partition), "active": active})
}

func (r *run) producer(client pulsar.Client, topic string) (pulsar.Producer, error) {
	options := pulsar.ProducerOptions{
		Topic:                   topic,
		Schema:                  r.schema(),
		SendTimeout:             -1,
		MaxPendingMessages:      100,
		CompressionType:         compressions[r.given.Compression],
		DisableBatching:         !r.given.Batching,
		BatchingMaxMessages:     10,
		BatchingMaxPublishDelay: 5 * time.Millisecond,
		EnableChunking:          r.given.Chunking,
	}
	if r.given.Batching && r.given.Type == "key_shared" {
		options.BatcherBuilderType = pulsar.KeyBasedBatchBuilder
	}
	return client.CreateProducer(options)
}

func (r *run) produce(producer pulsar.Producer, who int) error {
	half := r.given.Messages / 2
	for count := 0; count < r.given.Messages || (r.given.Paced && !r.isEnough()); count++ {
		if r.isFailed() {
			return nil
		}
		if count == half && r.given.Seek == "time" {
			r.noteHalf()
		}
		if r.given.Paced && count >= half {
			pause := 50 * time.Millisecond
			if count >= r.given.Messages {
				pause = 500 * time.Millisecond
			}
			select {
			case <-r.enough:
			case <-time.After(pause):
			}
		}
		r.send(producer, who, count*r.given.Producers+who)
	}
	return producer.FlushWithCtx(context.Background())
}

func (r *run) isEnough() bool {
	select {
	case <-r.enough:
		return true
	default:
		return false
	}
}

// noteHalf notes a time after every producer's first half and before any one's second.
func (r *run) noteHalf() {
	r.mutex.Lock()
	r.halfway++
	r.changed.Broadcast()
	for !r.failed && r.half.IsZero() && (r.halfway < r.given.Producers || r.underWay > 0) {
		r.changed.Wait()
	}
	if r.half.IsZero() {
		r.half = time.Now().Add(2 * time.Millisecond)
		r.changed.Broadcast()
	}
	r.mutex.Unlock()
	time.Sleep(10 * time.Millisecond)
}

func (r *run) consume(consumer pulsar.Consumer, who int) error {
	sinceAck := map[int64]int{}
	for !r.finished() {
		message, err := r.receive(consumer, who)
		if err != nil {
			return err
		}
		if message == nil {
			continue
		}
		number := numberOf(message)
		r.mutex.Lock()
		isFirst := r.receipts[number] == 1 && r.phase == "first"
		r.mutex.Unlock()
		switch {
		case r.given.Ack == "cumulative":
			partition := position(message.ID())[2]
			sinceAck[partition]++
			if sinceAck[partition]%5 == 0 {
				r.acknowledge(consumer, who, message, true)
			}
			r.settle(number)
		case isFirst && r.given.Redelivery == "negative" && number%5 == 0:
			r.say("negative", fields{"consumer": who, "number": number, "id": position(message.ID())})
			consumer.Nack(message)
		default:
			if r.phase != "first" || !r.given.Leaves || number%7 != 3 {
				r.acknowledge(consumer, who, message, false)
			}
			r.settle(number)
		}
	}
	return nil
}

// acknowledge: without receipts the call does not wait, and what it returns says nothing about the broker.
func (r *run) acknowledge(consumer pulsar.Consumer, who int, message pulsar.Message, cumulative bool) {
	more := fields{"consumer": who, "number": numberOf(message), "id": position(message.ID()), "cumulative": cumulative}
	r.say("ack", more)
	var err error
	if cumulative {
		err = consumer.AckCumulative(message)
	} else {
		err = consumer.Ack(message)
	}
	if err != nil {
		more["error"] = err.Error()
		r.say("ack_failed", more)
	} else if r.given.Receipts {
		r.say("acked", more)
	}
}

func (r *run) settle(number int) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.done[number] = true
}

func (r *run) finished() bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.failed {
		return true
	}
	if !r.produced {
		return false
	}
	for number := range r.wanted {
		if !r.done[number] {
			return false
		}
	}
	return true
}

func (r *run) seek(consumers []pulsar.Consumer, consuming []func() error) error {
	for _, each := range consumers {
		// this waits behind acknowledgements that are still to be sent, also of chunks: after the seek they would count
		if _, err := each.GetLastMessageIDs(); err != nil {
			return err
		}
	}
	consumer := consumers[0]
	r.phase = "sought"
	wanted := map[int]bool{}
	for number := range r.answered {
		wanted[number] = true
	}
	r.receipts = map[int]int{}
	var err error
	switch r.given.Seek {
	case "id":
		var ordered []pulsar.MessageID
		for _, id := range r.first {
			ordered = append(ordered, id)
		}
		sort.Slice(ordered, func(a, b int) bool { return compare(ordered[a], ordered[b]) < 0 })
		target := ordered[len(ordered)/2]
		for number := range wanted {
			if !isAfter(r.first[number], target) {
				delete(wanted, number)
			}
		}
		r.say("seek", fields{"kind": "id", "position": []int64{target.LedgerID(), target.EntryID()}})
		err = consumer.Seek(target)
	case "time":
		for number := range wanted {
			if number/r.given.Producers < r.given.Messages/2 {
				delete(wanted, number)
			}
		}
		r.say("seek", fields{"kind": "time", "time_ms": r.half.UnixMilli()})
		err = consumer.SeekByTime(r.half)
	default:
		r.say("seek", fields{"kind": "earliest"})
		err = r.seekEarliest(consumer)
	}
	if err != nil {
		return err
	}
	r.say("sought", nil)
	r.mutex.Lock()
	r.done, r.wanted = map[int]bool{}, wanted
	r.mutex.Unlock()
	r.start(consuming).Wait()
	return nil
}

// seekEarliest: the client seeks to ids only in topics that have no partitions.
func (r *run) seekEarliest(consumer pulsar.Consumer) error {
	if r.given.Partitions == 0 {
		return consumer.Seek(pulsar.NewMessageID(-1, -1, -1, 0))
	}
	return consumer.SeekByTime(time.UnixMilli(1))
}

// resume subscribes anew, and reads up to a last message of each partition.
func (r *run) resume(client pulsar.Client) error {
	r.phase = "resumed"
	consumer, err := r.subscribe(client, 0)
	if err != nil {
		return err
	}
	awaited := map[int]bool{}
	for place := 0; place < max(1, r.given.Partitions); place++ {
		topic := r.given.Topic
		if r.given.Partitions > 0 {
			topic = fmt.Sprintf("%s-partition-%d", topic, place)
		}
		last, err := r.producer(client, topic)
		if err != nil {
			return err
		}
		r.send(last, -1, -1-place)
		if err := last.FlushWithCtx(context.Background()); err != nil {
			return err
		}
		last.Close()
		awaited[-1-place] = true
	}
	for len(awaited) > 0 && !r.isFailed() {
		message, err := r.receive(consumer, 0)
		if err != nil {
			return err
		}
		if message != nil {
			r.acknowledge(consumer, 0, message, r.given.Ack == "cumulative")
			delete(awaited, numberOf(message))
		}
	}
	consumer.Close()
	r.say("closed", fields{"consumer": 0})
	return nil
}
