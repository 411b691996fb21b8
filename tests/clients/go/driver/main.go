// The official Go client, driven by scenarios: JSON lines in, events as JSON lines out.
package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/sirupsen/logrus"
)

// scenario is what a run does; the fields of tests/clients/scenario.py.
type scenario struct {
	Name, URL, Topic, Subscription, Type, Compression, Ack, Redelivery, Seek, Schema string
	Batching, Receipts, Chunking, Paced, Leaves                                      bool
	DelayMs                                                                          int `json:"delay_ms"`
	Partitions, Consumers, Producers, Messages, Large, Queue                         int
}

type fields map[string]any

var output sync.Mutex

// say writes one event.
func say(name, event string, more fields) {
	line := fields{"scenario": name, "at": float64(time.Now().UnixMicro()) / 1e6, "event": event}
	for key, value := range more {
		line[key] = value
	}
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	os.Stdout.Write(append(text, '\n'))
}

// quiet is the client's log: errors on stderr.
func quiet() log.Logger {
	logger := logrus.New()
	logger.SetOutput(os.Stderr)
	logger.SetLevel(logrus.ErrorLevel)
	if os.Getenv("DRIVER_DEBUG") != "" {
		logger.SetLevel(logrus.DebugLevel)
	}
	return log.NewLoggerWithLogrus(logger)
}

// main begins the scenarios of each line that has some; others say which of them have produced enough.
func main() {
	input := bufio.NewReader(os.Stdin)
	runs := map[string]*run{}
	for {
		line, err := input.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		var order struct {
			Scenarios []scenario
			Enough    string
		}
		if err == nil {
			err = json.Unmarshal(line, &order)
		}
		if err != nil {
			panic(err)
		}
		for _, given := range order.Scenarios {
			each := newRun(given)
			runs[given.Name] = each
			go each.run()
		}
		if order.Enough != "" {
			close(runs[order.Enough].enough)
		}
	}
}

var types = map[string]pulsar.SubscriptionType{
	"exclusive":  pulsar.Exclusive,
	"failover":   pulsar.Failover,
	"shared":     pulsar.Shared,
	"key_shared": pulsar.KeyShared,
}

var compressions = map[string]pulsar.CompressionType{
	"none":   pulsar.NoCompression,
	"lz4":    pulsar.LZ4,
	"zlib":   pulsar.ZLib,
	"zstd":   pulsar.ZSTD,
	"snappy": pulsar.SNAPPY,
}
