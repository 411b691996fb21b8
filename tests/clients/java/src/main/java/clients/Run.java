package clients;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.zip.CRC32;
import org.apache.pulsar.client.api.BatcherBuilder;
import org.apache.pulsar.client.api.CompressionType;
import org.apache.pulsar.client.api.Consumer;
import org.apache.pulsar.client.api.ConsumerBuilder;
import org.apache.pulsar.client.api.ConsumerEventListener;
import org.apache.pulsar.client.api.Message;
import org.apache.pulsar.client.api.MessageId;
import org.apache.pulsar.client.api.Producer;
import org.apache.pulsar.client.api.ProducerBuilder;
import org.apache.pulsar.client.api.PulsarClient;
import org.apache.pulsar.client.api.Schema;
import org.apache.pulsar.client.api.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.SubscriptionType;
import org.apache.pulsar.client.api.MessageIdAdv;
import org.apache.pulsar.client.api.TypedMessageBuilder;

/** One scenario's run. */
final class Run {
    private static final Set<Integer> REDELIVER_AFTER = Set.of(8, 20, 33);
    private static final int POLL_MS = 200;
    private static final Map<String, SubscriptionType> TYPES = Map.of(
            "exclusive", SubscriptionType.Exclusive,
            "failover", SubscriptionType.Failover,
            "shared", SubscriptionType.Shared,
            "key_shared", SubscriptionType.Key_Shared);

    final CountDownLatch enough = new CountDownLatch(1);
    private final Scenario given;
    private final Set<Integer> answered = new HashSet<>();
    private final Map<Integer, MessageId> first = new HashMap<>();
    private final Map<Integer, Integer> receipts = new HashMap<>();
    private final Set<Integer> done = new HashSet<>();
    private Set<Integer> wanted = Set.of();
    private int underWay;
    private long halfMs;
    private int halfway;
    private volatile boolean produced;
    private volatile boolean failed;
    private volatile String phase = "first";
    private PulsarClient client;

    Run(Scenario given) {
        this.given = given;
    }

    private void say(String event, Object... fields) {
        Driver.say(given.name(), event, fields);
    }

    /** All phases; an error ends them and is an event. */
    void run() {
        guarded(this::phases);
        say("ended");
        if (client != null) {
            client.closeAsync();
        }
    }

    private interface Work {
        void run() throws Exception;
    }

    private void guarded(Work work) {
        try {
            work.run();
        } catch (Throwable error) {
            failed = true;
            StringBuilder text = new StringBuilder(error.toString());
            for (StackTraceElement each : error.getStackTrace()) {
                text.append('\n').append(each);
            }
            say("failed", "error", text.substring(0, Math.min(1500, text.length())));
            synchronized (this) {
                notifyAll();
            }
        }
    }

    private void together(List<Work> works) throws InterruptedException {
        List<Thread> threads = start(works);
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private List<Thread> start(List<Work> works) {
        List<Thread> threads = new ArrayList<>();
        for (Work work : works) {
            Thread thread = new Thread(() -> guarded(work));
            thread.start();
            threads.add(thread);
        }
        return threads;
    }

    private synchronized void allAnswered() throws InterruptedException {
        while (underWay > 0 && !failed) {
            wait();
        }
    }

    private void phases() throws Exception {
        client = PulsarClient.builder()
                .serviceUrl(given.url())
                .operationTimeout(120, TimeUnit.SECONDS)
                .ioThreads(1)
                .listenerThreads(1)
                .build();
        List<Consumer<Object>> consumers = new ArrayList<>();
        List<Producer<Object>> producers = new ArrayList<>();
        List<Work> consuming = new ArrayList<>();
        List<Work> sending = new ArrayList<>();
        for (int number = 0; number < given.consumers(); number++) {
            int who = number;
            Consumer<Object> consumer = subscribe(client, number);
            consumers.add(consumer);
            consuming.add(() -> consume(consumer, who));
        }
        for (int number = 0; number < given.producers(); number++) {
            int who = number;
            Producer<Object> producer = producer(client, given.topic());
            producers.add(producer);
            sending.add(() -> produce(producer, who));
        }
        List<Thread> consumerThreads = start(consuming);
        together(sending);
        allAnswered();
        synchronized (this) {
            wanted = new HashSet<>(answered);
            produced = true;
        }
        say("produced");
        for (Thread thread : consumerThreads) {
            thread.join();
        }
        if (!failed && !given.seek().equals("none")) {
            seek(consumers, consuming);
        }
        if (!failed) {
            for (int number = 0; number < consumers.size(); number++) {
                consumers.get(number).close();
                say("closed", "consumer", number);
            }
            resume(client);
        }
    }

    @SuppressWarnings("unchecked")
    private Schema<Object> schema() {
        Schema<?> schema = switch (given.schema()) {
            case "json" -> Schema.JSON(Letter.class);
            case "avro" -> Schema.AVRO(Letter.class);
            case "string" -> Schema.STRING;
            default -> Schema.BYTES;
        };
        return (Schema<Object>) schema;
    }

    private Consumer<Object> subscribe(PulsarClient client, int number) throws Exception {
        ConsumerBuilder<Object> builder = client.newConsumer(schema())
                .topic(given.topic())
                .subscriptionName(given.subscription())
                .subscriptionType(TYPES.get(given.type()))
                .subscriptionInitialPosition(SubscriptionInitialPosition.Earliest)
                .receiverQueueSize(given.queue())
                .consumerName("consumer-" + number)
                .negativeAckRedeliveryDelay(300, TimeUnit.MILLISECONDS)
                .enableBatchIndexAcknowledgment(given.ack().equals("batch_index"));
        if (given.type().equals("failover")) {
            builder.consumerEventListener(activity(number)); // refused for the other types
        }
        if (given.receipts()) {
            builder.isAckReceiptEnabled(true);
        }
        if (given.receipts() || !given.seek().equals("none")) {
            // one that the client keeps back would follow the seek, and count
            builder.acknowledgmentGroupTime(0, TimeUnit.MILLISECONDS);
        }
        Consumer<Object> consumer = builder.subscribe();
        say("subscribed", "consumer", number, "phase", phase);
        return consumer;
    }

    /** Says when a consumer is told whether it is the active one of a partition. */
    private ConsumerEventListener activity(int who) {
        return new ConsumerEventListener() {
            @Override
            public void becameActive(Consumer<?> consumer, int partition) {
                say("active", "consumer", who, "partition", Math.max(0, partition), "active", true);
            }

            @Override
            public void becameInactive(Consumer<?> consumer, int partition) {
                say("active", "consumer", who, "partition", Math.max(0, partition), "active", false);
            }
        };
    }

    private Producer<Object> producer(PulsarClient client, String topic) throws Exception {
        ProducerBuilder<Object> builder = client.newProducer(schema())
                .topic(topic)
                .sendTimeout(0, TimeUnit.SECONDS)
                .compressionType(CompressionType.valueOf(given.compression().toUpperCase()))
                .blockIfQueueFull(true)
                .maxPendingMessages(100)
                .enableBatching(given.batching())
                .enableChunking(given.chunking());
        if (given.batching()) {
            builder.batchingMaxMessages(10).batchingMaxPublishDelay(5, TimeUnit.MILLISECONDS);
            builder.batcherBuilder(
                    given.type().equals("key_shared") ? BatcherBuilder.KEY_BASED : BatcherBuilder.DEFAULT);
        }
        return builder.create();
    }

    private void produce(Producer<Object> producer, int who) throws Exception {
        int half = given.messages() / 2;
        for (int count = 0; count < given.messages() || (given.paced() && enough.getCount() > 0); count++) {
            if (failed) {
                return;
            }
            if (count == half && given.seek().equals("time")) {
                noteHalf();
            }
            if (given.paced() && count >= half) {
                enough.await(count < given.messages() ? 50 : 500, TimeUnit.MILLISECONDS);
            }
            send(producer, who, count * given.producers() + who);
        }
        producer.flush();
    }

    /** Notes a time after every producer's first half and before any one's second. */
    private void noteHalf() throws InterruptedException {
        synchronized (this) {
            halfway++;
            notifyAll();
            while (!failed && halfMs == 0 && (halfway < given.producers() || underWay > 0)) {
                wait();
            }
            if (halfMs == 0) {
                halfMs = System.currentTimeMillis() + 2;
                notifyAll();
            }
        }
        Thread.sleep(10);
    }

    private void send(Producer<Object> producer, int who, int number) {
        int place = who < 0 ? 0 : number / given.producers();
        byte[] random = new byte[given.chunking() && who >= 0 && place % 4 == 1 ? given.large() : 100];
        new Random(number).nextBytes(random);
        byte[] body = Base64.getEncoder().encode(random);
        int delay = who >= 0 && place % 5 == 2 ? given.delay_ms() : 0;
        String key = "k" + place % 8;
        synchronized (this) {
            underWay++;
        }
        say("send", "producer", who, "number", number, "key", key, "delay_ms", delay);
        TypedMessageBuilder<Object> message = producer.newMessage()
                .key(key)
                .value(content(number, body))
                .property("number", "" + number)
                .property("producer", "" + who)
                .property("sum", "" + sum(body));
        if (delay > 0) {
            message.deliverAfter(delay, TimeUnit.MILLISECONDS);
        }
        message.sendAsync().whenComplete((id, error) -> {
            if (error == null) {
                say("sent", "producer", who, "number", number, "id", position(id));
            } else {
                say("send_failed", "producer", who, "number", number, "error", error.toString());
            }
            synchronized (this) {
                underWay--;
                if (error == null) {
                    answered.add(number);
                    first.put(number, id);
                } else {
                    failed = true;
                }
                notifyAll();
            }
        });
    }

    private Object content(int number, byte[] body) {
        String text = new String(body, StandardCharsets.US_ASCII);
        switch (given.schema()) {
            case "bytes":
                return body;
            case "string":
                return text;
            default:
                Letter letter = new Letter();
                letter.number = number;
                letter.body = text;
                return letter;
        }
    }

    private static long sum(byte[] body) {
        CRC32 crc = new CRC32();
        crc.update(body);
        return crc.getValue();
    }

    private static boolean intact(Message<Object> message, int number) {
        Object value = message.getValue();
        if (value instanceof Letter letter) {
            value = letter.number == number ? letter.body : "";
        }
        byte[] body = value instanceof String text ? text.getBytes(StandardCharsets.US_ASCII) : (byte[]) value;
        return message.getProperty("sum").equals("" + sum(body));
    }

    /** The next message and which receipt of its number in this phase it is, or null. */
    private Message<Object> receive(Consumer<Object> consumer, int who) throws Exception {
        Message<Object> message = consumer.receive(POLL_MS, TimeUnit.MILLISECONDS);
        if (message == null) {
            return null;
        }
        int number = number(message);
        say("received", "consumer", who, "phase", phase, "number", number,
                "producer", Integer.parseInt(message.getProperty("producer")),
                "key", message.getKey(),
                "id", position(message.getMessageId()),
                "redelivery", message.getRedeliveryCount(),
                "intact", intact(message, number));
        synchronized (this) {
            receipts.merge(number, 1, Integer::sum);
        }
        return message;
    }

    private static int number(Message<Object> message) {
        return Integer.parseInt(message.getProperty("number"));
    }

    private synchronized boolean finished() {
        return failed || (produced && done.containsAll(wanted));
    }

    private void consume(Consumer<Object> consumer, int who) throws Exception {
        int held = 0;
        int taken = 0;
        Map<Integer, Integer> sinceAck = new HashMap<>();
        while (!finished()) {
            Message<Object> message = receive(consumer, who);
            if (message == null) {
                if (held > 0) {
                    held = redeliver(consumer, who);
                }
                continue;
            }
            taken++;
            int number = number(message);
            boolean isFirst;
            synchronized (this) {
                isFirst = receipts.get(number) == 1 && phase.equals("first");
            }
            if (given.ack().equals("cumulative")) {
                int partition = position(message.getMessageId()).get(2).intValue();
                int count = sinceAck.merge(partition, 1, Integer::sum);
                if (given.redelivery().equals("all") && REDELIVER_AFTER.contains(taken)) {
                    sinceAck.clear();
                    redeliver(consumer, who);
                } else if (count % 5 == 0) {
                    acknowledge(consumer, who, message, true);
                }
                settle(number);
            } else if (isFirst && given.redelivery().equals("negative") && number % 5 == 0) {
                say("negative", "consumer", who, "number", number, "id", position(message.getMessageId()));
                consumer.negativeAcknowledge(message);
            } else if (isFirst && given.redelivery().equals("all") && number % 5 == 0) {
                held++;
                if (held == 3) {
                    held = redeliver(consumer, who);
                }
            } else {
                if (!phase.equals("first") || !given.leaves() || number % 7 != 3) {
                    acknowledge(consumer, who, message, false);
                }
                settle(number);
            }
        }
    }

    private synchronized void settle(int number) {
        done.add(number);
    }

    private int redeliver(Consumer<Object> consumer, int who) {
        say("redeliver", "consumer", who);
        consumer.redeliverUnacknowledgedMessages();
        return 0;
    }

    /** Without receipts the call does not wait, and what it returns says nothing about the broker. */
    private void acknowledge(Consumer<Object> consumer, int who, Message<Object> message, boolean cumulative)
            throws Exception {
        Object[] fields = {
            "consumer", who, "number", number(message), "id", position(message.getMessageId()), "cumulative", cumulative
        };
        say("ack", fields);
        CompletableFuture<Void> answer =
                cumulative ? consumer.acknowledgeCumulativeAsync(message) : consumer.acknowledgeAsync(message);
        if (!given.receipts()) {
            return;
        }
        try {
            answer.get(given.paced() ? 5 : 120, TimeUnit.SECONDS);
            say("acked", fields);
        } catch (ExecutionException error) {
            say("ack_failed", fields);
        } catch (TimeoutException error) {
            if (!given.paced()) {
                throw error;
            }
            say("ack_failed", fields); // the client forgets one that it makes just when its connection ends
        }
    }

    private void seek(List<Consumer<Object>> consumers, List<Work> consuming) throws Exception {
        phase = "sought";
        Consumer<Object> consumer = consumers.get(0);
        Set<Integer> expected = new HashSet<>(answered);
        receipts.clear();
        switch (given.seek()) {
            case "id":
                List<MessageId> ordered = new ArrayList<>(first.values());
                ordered.sort(null);
                MessageIdAdv target = (MessageIdAdv) ordered.get(ordered.size() / 2);
                say("seek", "kind", "id", "position", List.of(target.getLedgerId(), target.getEntryId()));
                consumer.seek(target);
                expected.removeIf(number -> !isAfter((MessageIdAdv) first.get(number), target));
                break;
            case "time":
                say("seek", "kind", "time", "time_ms", halfMs);
                consumer.seek(halfMs);
                expected.removeIf(number -> number / given.producers() < given.messages() / 2);
                break;
            default:
                say("seek", "kind", "earliest");
                consumer.seek(MessageId.earliest);
        }
        say("sought");
        synchronized (this) {
            done.clear();
            wanted = expected;
        }
        together(consuming);
    }

    private static boolean isAfter(MessageIdAdv one, MessageIdAdv other) {
        return one.getLedgerId() > other.getLedgerId()
                || (one.getLedgerId() == other.getLedgerId() && one.getEntryId() > other.getEntryId());
    }

    /** Subscribes anew, and reads up to a last message of each partition. */
    private void resume(PulsarClient client) throws Exception {
        phase = "resumed";
        Consumer<Object> consumer = subscribe(client, 0);
        Set<Integer> awaited = new HashSet<>();
        for (int place = 0; place < Math.max(1, given.partitions()); place++) {
            String topic = given.partitions() == 0 ? given.topic() : given.topic() + "-partition-" + place;
            Producer<Object> last = producer(client, topic);
            send(last, -1, -1 - place);
            last.flush();
            last.close();
            awaited.add(-1 - place);
        }
        while (!awaited.isEmpty() && !failed) {
            Message<Object> message = receive(consumer, 0);
            if (message != null) {
                acknowledge(consumer, 0, message, given.ack().equals("cumulative"));
                awaited.remove(number(message));
            }
        }
        consumer.close();
        say("closed", "consumer", 0);
    }

    /** Ledger, entry, partition, index in the batch. */
    private static List<Long> position(MessageId id) {
        MessageIdAdv known = (MessageIdAdv) id;
        return List.of(
                known.getLedgerId(),
                known.getEntryId(),
                (long) Math.max(0, known.getPartitionIndex()),
                (long) known.getBatchIndex());
    }
}
