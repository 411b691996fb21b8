package containers;

import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.testcontainers.containers.PulsarContainer;
import org.testcontainers.utility.DockerImageName;

/** Starts an image by testcontainers' Pulsar module, publishes and consumes ten messages, and prints how many came. */
public final class StartedImage {
    private static final int MESSAGES = 10;

    private StartedImage() {}

    public static void main(String[] arguments) throws Exception {
        DockerImageName image = DockerImageName.parse(arguments[0]).asCompatibleSubstituteFor("apachepulsar/pulsar");
        long started = System.nanoTime();
        try (PulsarContainer container = new PulsarContainer(image)) {
            container.start();
            double ready = (System.nanoTime() - started) / 1e9;
            System.out.printf("{\"received\": %d, \"ready_s\": %.2f}%n", roundTrip(container.getPulsarBrokerUrl()), ready);
        }
    }

    /** Publishes messages to a new topic and returns how many of them a subscription got, in order. */
    private static int roundTrip(String url) throws Exception {
        try (PulsarClient client = PulsarClient.builder().serviceUrl(url).build();
                Consumer<String> consumer =
                        client.newConsumer(Schema.STRING).topic("orders").subscriptionName("billing").subscribe();
                Producer<String> producer = client.newProducer(Schema.STRING).topic("orders").create()) {
            for (int number = 0; number < MESSAGES; number++) {
                producer.send(Integer.toString(number));
            }
            for (int number = 0; number < MESSAGES; number++) {
                Message<String> message = consumer.receive(1, TimeUnit.MINUTES);
                if (message == null || !message.getValue().equals(Integer.toString(number))) {
                    return number;
                }
                consumer.acknowledge(message);
            }
        }
        return MESSAGES;
    }
}
