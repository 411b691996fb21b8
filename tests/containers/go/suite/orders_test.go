// Tests of a shop, as a project has them that starts Pulsar by testcontainers.
package suite

import (
	"context"
	"testing"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/testcontainers/testcontainers-go"
	containers "github.com/testcontainers/testcontainers-go/modules/pulsar"
)

func TestAnOrderIsBilled(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	container, err := containers.Run(ctx, "mledger-pulsar")
	testcontainers.CleanupContainer(t, container)
	if err != nil {
		t.Fatal(err)
	}
	url, err := container.BrokerURL(ctx)
	if err != nil {
		t.Fatal(err)
	}
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	billing, err := client.Subscribe(pulsar.ConsumerOptions{Topic: "orders", SubscriptionName: "billing"})
	if err != nil {
		t.Fatal(err)
	}
	producer, err := client.CreateProducer(pulsar.ProducerOptions{Topic: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := producer.Send(ctx, &pulsar.ProducerMessage{Payload: []byte("order 1")}); err != nil {
		t.Fatal(err)
	}
	order, err := billing.Receive(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := billing.Ack(order); err != nil || string(order.Payload()) != "order 1" {
		t.Fatalf("received %q: %v", order.Payload(), err)
	}
}
