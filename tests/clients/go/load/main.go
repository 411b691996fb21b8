// Load on a broker by the official Go client: publishes for some seconds, and prints one line of figures as JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	pulsarlog "github.com/apache/pulsar-client-go/pulsar/log"
	"github.com/sirupsen/logrus"
)

const (
	queueSize = 1000 // messages that a consumer has in advance
	batchSize = 1000 // messages of a batch at most
)

var (
	url     = flag.String("url", "", "service URL")
	topic   = flag.String("topic", "", "topic")
	seconds = flag.Float64("seconds", 5, "how long to publish")
	size    = flag.Int("size", 1024, "bytes of a message")
	batch   = flag.Bool("batch", false, "send batches")
	kind    = flag.String("consume", "", "subscription type of a consumer: shared, exclusive; none by default")
	drain   = flag.Bool("drain", false, "consume only when all is published")
	fanOut  = flag.Int("subscriptions", 1, "how many subscriptions consume, each everything")
	window  = flag.Int("window", 1000, "how many messages are on their way at most")
	inTurn  = flag.Bool("in-turn", false, "send a message only when the one before is answered")
)

func must[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func cpuSeconds() float64 {
	var used syscall.Rusage
	must(0, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}

func quantile(sorted []time.Duration, part float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[int(part*float64(len(sorted)-1))].Seconds() * 1000
}

// consumer counts and acknowledges what it receives, and notes when the last of `all` came.
type consumer struct {
	received atomic.Int64
	all      atomic.Int64
	began    time.Time
	took     time.Duration
	done     chan struct{}
}

func subscribe(client pulsar.Client, number int, queue int) pulsar.Consumer {
	types := map[string]pulsar.SubscriptionType{"shared": pulsar.Shared, "exclusive": pulsar.Exclusive}
	return must(client.Subscribe(pulsar.ConsumerOptions{Topic: *topic, SubscriptionName: fmt.Sprintf("load-%d", number),
		Type: types[*kind], SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest, ReceiverQueueSize: queue}))
}

// consumeAll starts a consumer of each subscription, all at once, the first by this client, each other by its own.
func consumeAll(client pulsar.Client) []*consumer {
	clients := []pulsar.Client{client}
	for len(clients) < *fanOut {
		clients = append(clients, connect())
	}
	all := make([]*consumer, *fanOut)
	var started sync.WaitGroup
	for number := range all {
		started.Add(1)
		go func() {
			defer started.Done()
			all[number] = consume(subscribe(clients[number], number, queueSize))
		}()
	}
	started.Wait()
	return all
}

func connect() pulsar.Client {
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	return must(pulsar.NewClient(pulsar.ClientOptions{URL: *url, Logger: pulsarlog.NewLoggerWithLogrus(quiet)}))
}

func consume(from pulsar.Consumer) *consumer {
	c := &consumer{began: time.Now(), done: make(chan struct{})}
	c.all.Store(-1)
	go func() {
		for c.received.Load() != c.all.Load() {
			waiting, cancel := context.WithTimeout(context.Background(), time.Second)
			message, err := from.Receive(waiting)
			cancel()
			if err == nil {
				c.received.Add(1)
				c.took = time.Since(c.began)
				from.Ack(message)
			}
		}
		close(c.done)
	}()
	return c
}

func publish(client pulsar.Client) (int64, time.Duration, []time.Duration) {
	producer := must(client.CreateProducer(pulsar.ProducerOptions{Topic: *topic, DisableBatching: !*batch,
		MaxPendingMessages: *window, BatchingMaxPublishDelay: time.Millisecond, BatchingMaxMessages: batchSize}))
	payload := make([]byte, *size)
	for at := range payload {
		payload[at] = byte(at * 7)
	}
	var guard sync.Mutex
	var latencies []time.Duration
	var count int64
	began := time.Now()
	for time.Since(began).Seconds() < *seconds {
		at := time.Now()
		if *inTurn {
			must(producer.Send(context.Background(), &pulsar.ProducerMessage{Payload: payload}))
			latencies = append(latencies, time.Since(at))
		} else {
			sampled := count%64 == 0
			producer.SendAsync(context.Background(), &pulsar.ProducerMessage{Payload: payload},
				func(_ pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
					must(0, err)
					if sampled {
						guard.Lock()
						latencies = append(latencies, time.Since(at))
						guard.Unlock()
					}
				})
		}
		count++
	}
	must(0, producer.FlushWithCtx(context.Background()))
	took := time.Since(began)
	guard.Lock()
	defer guard.Unlock()
	slices.Sort(latencies)
	return count, took, latencies
}

func main() {
	flag.Parse()
	client := connect()
	var consumers []*consumer
	if *kind != "" {
		if *drain {
			for number := 0; number < *fanOut; number++ {
				subscribe(client, number, 1).Close()
			}
		} else {
			consumers = consumeAll(client)
		}
	}
	before := cpuSeconds()
	count, took, latencies := publish(client)
	figures := map[string]any{"messages": count, "published_per_s": float64(count) / took.Seconds(),
		"p50_ms": quantile(latencies, 0.5), "p99_ms": quantile(latencies, 0.99)}
	handled := count
	if *kind != "" {
		handled = count * int64(*fanOut)
		if *drain {
			before = cpuSeconds()
			consumers = consumeAll(client)
		}
		for _, from := range consumers {
			from.all.Store(count)
		}
		first, last := consumers[0].began, time.Time{}
		for _, from := range consumers {
			<-from.done
			if from.began.Before(first) {
				first = from.began
			}
			if ended := from.began.Add(from.took); ended.After(last) {
				last = ended
			}
		}
		figures["received_per_s"] = float64(handled) / last.Sub(first).Seconds()
	}
	figures["client_cpu_us"] = (cpuSeconds() - before) / float64(handled) * 1e6
	must(0, json.NewEncoder(os.Stdout).Encode(figures))
}
