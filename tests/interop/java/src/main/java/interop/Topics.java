package interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.api.DigestType;
import org.apache.bookkeeper.mledger.AsyncCallbacks.AddEntryCallback;
import org.apache.bookkeeper.mledger.AsyncCallbacks.DeleteCallback;
import org.apache.bookkeeper.mledger.Entry;
import org.apache.bookkeeper.mledger.ManagedCursor;
import org.apache.bookkeeper.mledger.ManagedLedger;
import org.apache.bookkeeper.mledger.ManagedLedgerConfig;
import org.apache.bookkeeper.mledger.ManagedLedgerException;
import org.apache.bookkeeper.mledger.ManagedLedgerFactoryConfig;
import org.apache.bookkeeper.mledger.Position;
import org.apache.bookkeeper.mledger.PositionFactory;
import org.apache.bookkeeper.mledger.impl.AckSetStateUtil;
import org.apache.bookkeeper.mledger.impl.ManagedCursorImpl;
import org.apache.bookkeeper.mledger.impl.ManagedLedgerFactoryImpl;
import org.apache.bookkeeper.mledger.impl.ManagedLedgerImpl;
import org.apache.pulsar.common.api.proto.CommandSubscribe.InitialPosition;
import org.apache.pulsar.metadata.api.MetadataStoreConfig;
import org.apache.pulsar.metadata.api.extended.MetadataStoreExtended;

/** Pulsar's own managed ledgers and cursors. Positions are [ledger, entry]. */
final class Topics implements Main.Family {
    private static final long SETTLED_WITHIN_S = 600;

    private final Map<String, ManagedLedger> open = new HashMap<>();
    private ManagedLedgerFactoryImpl factory;

    @Override
    public ObjectNode call(String name, ObjectNode request) throws Exception {
        return switch (name) {
            case "connect" -> connect(request);
            case "open" -> open(request);
            case "append" -> append(request);
            case "cursor" -> cursor(request);
            case "ack" -> ack(request);
            case "ack_many" -> ackMany(request);
            case "ack_batch" -> ackBatch(request);
            case "batch_index" -> batchIndex(request);
            case "mark_delete" -> markDelete(request);
            case "cursor_properties" -> cursorProperties(request);
            case "read" -> read(request);
            case "state" -> state(request);
            case "settle" -> settle(request);
            case "close" -> close(request);
            case "terminate" -> terminate(request);
            case "info" -> info(request);
            case "stats" -> stats(request);
            default -> throw Main.unknown("topic", name);
        };
    }

    /** {zookeeper} → {}. */
    private ObjectNode connect(ObjectNode request) throws Exception {
        MetadataStoreExtended store = MetadataStoreExtended.create(
                "zk:" + request.get("zookeeper").asText(),
                MetadataStoreConfig.builder().sessionTimeoutMillis(10_000).build());
        ManagedLedgerFactoryConfig conf = new ManagedLedgerFactoryConfig();
        conf.setMaxCacheSize(0);
        factory = new ManagedLedgerFactoryImpl(store, new BookKeeper(Ledgers.configuration(request)), conf);
        return Main.JSON.createObjectNode();
    }

    /** {topic, max_entries?, digest?, password?, long_array?, batch_index?} → state. E=3 Wq=3 Aq=2 everywhere. */
    private ObjectNode open(ObjectNode request) throws Exception {
        ManagedLedgerConfig conf = new ManagedLedgerConfig();
        conf.setEnsembleSize(3).setWriteQuorumSize(3).setAckQuorumSize(2);
        conf.setMetadataEnsembleSize(3).setMetadataWriteQuorumSize(3).setMetadataAckQuorumSize(2);
        conf.setDigestType(DigestType.valueOf(request.path("digest").asText("CRC32C")));
        conf.setPassword(request.path("password").asText(""));
        conf.setMinimumRolloverTime(0, TimeUnit.MILLISECONDS);
        conf.setMaxEntriesPerLedger(request.path("max_entries").asInt(50_000));
        conf.setRetentionTime(-1, TimeUnit.MILLISECONDS).setRetentionSizeInMB(-1);
        conf.setPersistIndividualAckAsLongArray(request.path("long_array").asBoolean(false));
        conf.setDeletionAtBatchIndexLevelEnabled(request.path("batch_index").asBoolean(false));
        open.put(name(request), factory.open(name(request), conf));
        return state(request);
    }

    /** {topic, entries: [hex]} → {positions}; all are sent before the first is answered. */
    private ObjectNode append(ObjectNode request) throws Exception {
        List<CompletableFuture<Position>> pending = new ArrayList<>();
        for (JsonNode entry : request.get("entries")) {
            pending.add(add(topic(request), Ledgers.HEX.parseHex(entry.asText())));
        }
        ObjectNode result = Main.JSON.createObjectNode();
        ArrayNode positions = result.putArray("positions");
        for (CompletableFuture<Position> one : pending) {
            fill(positions.addArray(), one.get());
        }
        return result;
    }

    private static CompletableFuture<Position> add(ManagedLedger topic, byte[] payload) {
        CompletableFuture<Position> added = new CompletableFuture<>();
        topic.asyncAddEntry(payload, new AddEntryCallback() {
            @Override
            public void addComplete(Position position, io.netty.buffer.ByteBuf data, Object context) {
                added.complete(position);
            }

            @Override
            public void addFailed(ManagedLedgerException problem, Object context) {
                added.completeExceptionally(problem);
            }
        }, null);
        return added;
    }

    /** {topic, cursor, initial: "earliest" | "latest", properties?, cursor_properties?} → {}. */
    private ObjectNode cursor(ObjectNode request) throws Exception {
        Map<String, Long> properties = new HashMap<>();
        request.path("properties").fields().forEachRemaining(
                field -> properties.put(field.getKey(), field.getValue().asLong()));
        Map<String, String> cursorProperties = new HashMap<>();
        request.path("cursor_properties").fields().forEachRemaining(
                field -> cursorProperties.put(field.getKey(), field.getValue().asText()));
        topic(request).openCursor(request.get("cursor").asText(),
                "latest".equals(request.path("initial").asText()) ? InitialPosition.Latest : InitialPosition.Earliest,
                properties, cursorProperties);
        return Main.JSON.createObjectNode();
    }

    /** {topic, cursor, positions} → {}, once persisted. */
    private ObjectNode ack(ObjectNode request) throws Exception {
        found(request).delete(positions(request.get("positions")));
        return Main.JSON.createObjectNode();
    }

    /** {topic, cursor, position, ack_set: [word]} → {}: bits that are 0 are acknowledged; once persisted. */
    private ObjectNode ackBatch(ObjectNode request) throws Exception {
        Position position = position(request.get("position"));
        long[] words = Main.JSON.convertValue(request.get("ack_set"), long[].class);
        found(request).delete(
                AckSetStateUtil.createPositionWithAckSet(position.getLedgerId(), position.getEntryId(), words));
        return Main.JSON.createObjectNode();
    }

    /** {topic, cursor, position} → {ack_set: [word] or null}: what is left of a partly acknowledged batch. */
    private ObjectNode batchIndex(ObjectNode request) throws Exception {
        long[] words = found(request).getDeletedBatchIndexesAsLongArray(position(request.get("position")));
        ObjectNode result = Main.JSON.createObjectNode();
        result.set("ack_set", Main.JSON.valueToTree(words));
        return result;
    }

    /** {topic, cursors: [name], positions} → {}: opens the cursors and acks the positions on each of them. */
    private ObjectNode ackMany(ObjectNode request) throws Exception {
        List<Position> positions = positions(request.get("positions"));
        List<CompletableFuture<Void>> pending = new ArrayList<>();
        for (JsonNode name : request.get("cursors")) {
            CompletableFuture<Void> done = new CompletableFuture<>();
            topic(request).openCursor(name.asText(), InitialPosition.Earliest).asyncDelete(positions,
                    new DeleteCallback() {
                        @Override
                        public void deleteComplete(Object context) {
                            done.complete(null);
                        }

                        @Override
                        public void deleteFailed(ManagedLedgerException problem, Object context) {
                            done.completeExceptionally(problem);
                        }
                    }, null);
            pending.add(done);
        }
        for (CompletableFuture<Void> one : pending) {
            one.get();
        }
        return Main.JSON.createObjectNode();
    }

    /** {topic, cursor, position, properties?} → {}, once persisted. */
    private ObjectNode markDelete(ObjectNode request) throws Exception {
        Map<String, Long> properties = new HashMap<>();
        request.path("properties").fields().forEachRemaining(
                field -> properties.put(field.getKey(), field.getValue().asLong()));
        found(request).markDelete(position(request.get("position")), properties);
        return Main.JSON.createObjectNode();
    }

    /** {topic, cursor, cursor_properties} → {}. */
    private ObjectNode cursorProperties(ObjectNode request) throws Exception {
        Map<String, String> properties = new HashMap<>();
        request.get("cursor_properties").fields().forEachRemaining(
                field -> properties.put(field.getKey(), field.getValue().asText()));
        found(request).setCursorProperties(properties).get();
        return Main.JSON.createObjectNode();
    }

    /** {topic, cursor, count} → {entries: [[ledger, entry, hex]]}: what the cursor would deliver next. */
    private ObjectNode read(ObjectNode request) throws Exception {
        ManagedCursor cursor = found(request);
        ObjectNode result = Main.JSON.createObjectNode();
        ArrayNode entries = result.putArray("entries");
        int count = request.get("count").asInt();
        while (entries.size() < count && cursor.hasMoreEntries()) {
            for (Entry entry : cursor.readEntries(count - entries.size())) {
                entries.addArray().add(entry.getLedgerId()).add(entry.getEntryId())
                        .add(Ledgers.HEX.formatHex(entry.getData()));
                entry.release();
            }
        }
        return result;
    }

    /** {topic} → {ledgers, last_confirmed, entries, size, cursors: [{name, mark_delete, …}]}. */
    private ObjectNode state(ObjectNode request) throws Exception {
        ManagedLedger topic = topic(request);
        ObjectNode result = Main.JSON.createObjectNode();
        ArrayNode ledgers = result.putArray("ledgers");
        topic.getLedgersInfo().values().forEach(info -> ledgers.addArray()
                .add(info.getLedgerId()).add(info.getEntries()).add(info.getSize()));
        fill(result.putArray("last_confirmed"), topic.getLastConfirmedEntry());
        result.put("entries", topic.getNumberOfEntries()).put("size", topic.getTotalSize());
        result.put("terminated", topic.isTerminated());
        ArrayNode cursors = result.putArray("cursors");
        if (request.path("cursors").asBoolean(true)) {
            topic.getCursors().forEach(cursor -> describe(cursors.addObject(), cursor));
        }
        return result;
    }

    private static void describe(ObjectNode node, ManagedCursor cursor) {
        node.put("name", cursor.getName());
        fill(node.putArray("mark_delete"), cursor.getMarkDeletedPosition());
        fill(node.putArray("read"), cursor.getReadPosition());
        node.put("backlog", cursor.getNumberOfEntriesInBacklog(true));
        node.put("holes", ((ManagedCursorImpl) cursor).getIndividuallyDeletedMessages());
        node.put("cursor_ledger", ((ManagedCursorImpl) cursor).getCursorLedger());
        ObjectNode properties = node.putObject("properties");
        cursor.getProperties().forEach(properties::put);
        ObjectNode cursorProperties = node.putObject("cursor_properties");
        cursor.getCursorProperties().forEach(cursorProperties::put);
    }

    /**
     * {topic} → {}, once every cursor's position is durable, the moves past consumed ledgers included.
     *
     * <p>The original makes these moves in the background when a topic is opened and when a ledger is full, so that one
     * may be made twice. A close that overtakes one fails: the move's write finds its ledger closed, goes to the znode,
     * and races the close's own.
     */
    private ObjectNode settle(ObjectNode request) throws Exception {
        ManagedLedgerImpl topic = (ManagedLedgerImpl) topic(request);
        // What was begun in the background has begun its moves by then.
        topic.getExecutor().submit(() -> { }).get(SETTLED_WITHIN_S, TimeUnit.SECONDS);
        // Pulsar 4.0 returns nothing, and has begun the moves by then.
        Object moved = ManagedLedgerImpl.class.getMethod("maybeUpdateCursorBeforeTrimmingConsumedLedger").invoke(topic);
        if (moved instanceof CompletableFuture<?> moves) {
            moves.get(SETTLED_WITHIN_S, TimeUnit.SECONDS);
        }
        long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(SETTLED_WITHIN_S);
        for (ManagedCursor cursor : topic.getCursors()) {
            while (!durable(cursor)) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException("cursor " + cursor.getName() + " is at "
                            + cursor.getMarkDeletedPosition() + ", and durable only up to "
                            + cursor.getPersistentMarkDeletedPosition());
                }
                Thread.sleep(1);
            }
        }
        return Main.JSON.createObjectNode();
    }

    /**
     * A cursor that never moved has its first position in its znode, and none here; nor has one that moves first now.
     * A move to where the cursor is already is written too, and only the count of such writes tells of it.
     */
    private static boolean durable(ManagedCursor cursor) throws ReflectiveOperationException {
        Position written = cursor.getPersistentMarkDeletedPosition();
        boolean same = written == null || written.equals(cursor.getMarkDeletedPosition());
        Field writes = ManagedCursorImpl.class.getDeclaredField("pendingMarkDeletedSubmittedCount");
        writes.setAccessible(true);
        // The state comes last: a switch that begins above has written the position before it writes the znode.
        return same && writes.getInt(cursor) == 0 && !((ManagedCursorImpl) cursor).getState().equals("SwitchingLedger");
    }

    /**
     * {topic} → {}. A trim that the original has put off may still move a cursor while it is closed. Both write the same
     * state of the cursor, which has no other owner, and the later write fails: what the first one wrote stands.
     */
    private ObjectNode close(ObjectNode request) throws Exception {
        settle(request);
        try {
            open.remove(name(request)).close();
        } catch (ManagedLedgerException.BadVersionException raced) {
            if (!raced.getMessage().contains(name(request) + "/")) { // not a cursor's record but the topic's own
                throw raced;
            }
        }
        return Main.JSON.createObjectNode();
    }

    /** {topic} → {position}. */
    private ObjectNode terminate(ObjectNode request) throws Exception {
        ObjectNode result = Main.JSON.createObjectNode();
        fill(result.putArray("position"), topic(request).terminate());
        return result;
    }

    /** {topic} → what `pulsar-admin topics info-internal` shows. */
    private ObjectNode info(ObjectNode request) throws Exception {
        return Main.JSON.valueToTree(factory.getManagedLedgerInfo(name(request)));
    }

    /** {topic} → what `pulsar-admin topics stats-internal` shows of the managed ledger. */
    private ObjectNode stats(ObjectNode request) throws Exception {
        return Main.JSON.valueToTree(topic(request).getManagedLedgerInternalStats(true).get());
    }

    private static String name(ObjectNode request) {
        return request.get("topic").asText();
    }

    private ManagedLedger topic(ObjectNode request) {
        return open.get(name(request));
    }

    private ManagedCursor found(ObjectNode request) {
        for (ManagedCursor cursor : topic(request).getCursors()) {
            if (cursor.getName().equals(request.get("cursor").asText())) {
                return cursor;
            }
        }
        throw new IllegalArgumentException("no cursor " + request.get("cursor").asText());
    }

    private static List<Position> positions(JsonNode nodes) {
        List<Position> positions = new ArrayList<>();
        nodes.forEach(node -> positions.add(position(node)));
        return positions;
    }

    private static Position position(JsonNode node) {
        return PositionFactory.create(node.get(0).asLong(), node.get(1).asLong());
    }

    private static void fill(ArrayNode node, Position position) {
        node.add(position.getLedgerId()).add(position.getEntryId());
    }
}
