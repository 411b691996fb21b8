package clients;

/** What a run does; the fields of `tests/clients/scenario.py`. */
public record Scenario(
        String name,
        String url,
        String topic,
        String subscription,
        String type,
        boolean batching,
        String compression,
        String ack,
        boolean receipts,
        String redelivery,
        int delay_ms,
        boolean chunking,
        String seek,
        String schema,
        int partitions,
        int consumers,
        int producers,
        int messages,
        int large,
        int queue,
        boolean paced,
        boolean leaves) {}
