package containers;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.concurrent.TimeUnit;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.junit.jupiter.api.Test;
import org.testcontainers.containers.PulsarContainer;
import org.testcontainers.junit.jupiter.Container;
import org.testcontainers.junit.jupiter.Testcontainers;
import org.testcontainers.utility.DockerImageName;

/** Tests of a shop, as a project has them that starts Pulsar by testcontainers. */
@Testcontainers
class OrdersTest {
    @Container
    private static final PulsarContainer PULSAR = new PulsarContainer(
            DockerImageName.parse("mledger-pulsar").asCompatibleSubstituteFor("apachepulsar/pulsar"));

    @Test
    void anOrderIsBilled() throws Exception {
        try (PulsarClient client = PulsarClient.builder().serviceUrl(PULSAR.getPulsarBrokerUrl()).build();
                Consumer<String> billing =
                        client.newConsumer(Schema.STRING).topic("orders").subscriptionName("billing").subscribe();
                Producer<String> producer = client.newProducer(Schema.STRING).topic("orders").create()) {
            producer.send("order 1");
            Message<String> order = billing.receive(1, TimeUnit.MINUTES);
            billing.acknowledge(order);
            assertEquals("order 1", order.getValue());
        }
    }
}
