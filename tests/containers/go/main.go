// Starts an image by testcontainers' Pulsar module, publishes and consumes ten messages, and prints how many came back.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/testcontainers/testcontainers-go"
	containers "github.com/testcontainers/testcontainers-go/modules/pulsar"
)

const messages = 10

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	started := time.Now()
	container, err := containers.Run(ctx, os.Args[1])
	defer func() {
		if err := testcontainers.TerminateContainer(container); err != nil {
			log.Print(err)
		}
	}()
	if err != nil {
		log.Panic(err)
	}
	ready := time.Since(started)
	received, err := roundTrip(ctx, container)
	if err != nil {
		log.Panic(err)
	}
	fmt.Printf("{\"received\": %d, \"ready_s\": %.2f}\n", received, ready.Seconds())
}

// roundTrip publishes messages to a new topic and returns how many of them a subscription got, in order.
func roundTrip(ctx context.Context, container *containers.Container) (int, error) {
	url, err := container.BrokerURL(ctx)
	if err != nil {
		return 0, err
	}
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: url})
	if err != nil {
		return 0, err
	}
	defer client.Close()
	consumer, err := client.Subscribe(pulsar.ConsumerOptions{Topic: "orders", SubscriptionName: "billing"})
	if err != nil {
		return 0, err
	}
	producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: "orders"})
	if err != nil {
		return 0, err
	}
	for number := range messages {
		payload := []byte(fmt.Sprint(number))
		if _, err := producer.Send(ctx, &pulsar.ProducerMessage{Payload: payload}); err != nil {
			return 0, err
		}
	}
	for number := range messages {
		message, err := consumer.Receive(ctx)
		if err != nil {
			return number, err
		}
		if got := string(message.Payload()); got != fmt.Sprint(number) {
			return number, fmt.Errorf("%q came in place of %d", got, number)
		}
		if err := consumer.Ack(message); err != nil {
			return number, err
		}
	}
	return messages, nil
}
