package interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Enumeration;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.bookkeeper.client.BKException;
import org.apache.bookkeeper.client.BookKeeper;
import org.apache.bookkeeper.client.BookKeeper.DigestType;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.client.LedgerEntry;
import org.apache.bookkeeper.client.LedgerHandle;
import org.apache.bookkeeper.client.api.LastConfirmedAndEntry;
import org.apache.bookkeeper.client.api.LedgerMetadata;
import org.apache.bookkeeper.client.api.WriteFlag;
import org.apache.bookkeeper.conf.ClientConfiguration;
import org.apache.bookkeeper.net.BookieId;

/** BookKeeper's own client. A handle is named by the caller, so that two writers may hold one ledger. */
final class Ledgers implements Main.Family {
    static final HexFormat HEX = HexFormat.of();

    private final Map<String, LedgerHandle> handles = new HashMap<>();
    private BookKeeper client;

    @Override
    public ObjectNode call(String name, ObjectNode request) throws Exception {
        return switch (name) {
            case "connect" -> connect(request);
            case "create" -> create(request);
            case "open" -> open(request);
            case "append" -> append(request);
            case "read" -> read(request);
            case "close" -> close(request);
            case "delete" -> delete(request);
            case "metadata" -> metadata(request);
            case "poll" -> poll(request);
            case "lac" -> lac(request);
            case "force" -> force(request);
            case "list" -> list(request);
            case "measure" -> measure(request);
            default -> throw Main.unknown("ledger", name);
        };
    }

    /** What Pulsar's broker sets on its client, by default. */
    static ClientConfiguration configuration(ObjectNode request) {
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri("zk+hierarchical://" + request.get("zookeeper").asText() + "/ledgers");
        conf.setUseV2WireProtocol(true);
        conf.setThrottleValue(0);
        conf.setAddEntryTimeout(10);
        conf.setReadEntryTimeout(10);
        conf.setStickyReadsEnabled(false);
        conf.setNettyMaxFrameSizeBytes(5 * 1024 * 1024 + 10 * 1024);
        conf.setDiskWeightBasedPlacementEnabled(false);
        conf.setBatchReadEnabled(true);
        return conf;
    }

    /** What a client of BookKeeper has by default, so protocol 3, with the settings that `set` names. */
    static ClientConfiguration defaults(ObjectNode request) {
        ClientConfiguration conf = new ClientConfiguration();
        conf.setMetadataServiceUri("zk+hierarchical://" + request.get("zookeeper").asText() + "/ledgers");
        request.path("set").fields().forEachRemaining(
                field -> conf.setProperty(field.getKey(), field.getValue().asText()));
        return conf;
    }

    /** {zookeeper, defaults?, set?} → {}. */
    private ObjectNode connect(ObjectNode request) throws Exception {
        client = new BookKeeper(request.path("defaults").asBoolean() ? defaults(request) : configuration(request));
        return Main.JSON.createObjectNode();
    }

    /** {handle, ensemble, write_quorum, ack_quorum, digest, password, custom?, deferred_sync?} → {ledger}. */
    private ObjectNode create(ObjectNode request) throws Exception {
        Map<String, byte[]> custom = new HashMap<>();
        if (request.has("custom")) {
            request.get("custom").fields().forEachRemaining(
                    field -> custom.put(field.getKey(), field.getValue().asText().getBytes()));
        }
        LedgerHandle handle = request.path("deferred_sync").asBoolean()
                ? deferred(request)
                : client.createLedger(request.get("ensemble").asInt(), request.get("write_quorum").asInt(),
                request.get("ack_quorum").asInt(), digest(request), password(request), custom);
        handles.put(request.get("handle").asText(), handle);
        return Main.JSON.createObjectNode().put("ledger", handle.getId());
    }

    /** A ledger whose adds need not be synced until it is forced. */
    private LedgerHandle deferred(ObjectNode request) throws Exception {
        return (LedgerHandle) client.newCreateLedgerOp()
                .withEnsembleSize(request.get("ensemble").asInt())
                .withWriteQuorumSize(request.get("write_quorum").asInt())
                .withAckQuorumSize(request.get("ack_quorum").asInt())
                .withDigestType(org.apache.bookkeeper.client.api.DigestType.CRC32C)
                .withPassword(password(request))
                .withWriteFlags(WriteFlag.DEFERRED_SYNC)
                .execute().get();
    }

    /** {handle, entry, wait_ms} → {confirmed, entry}: hex, or null; waits until the entry is confirmed. */
    private ObjectNode poll(ObjectNode request) throws Exception {
        LastConfirmedAndEntry found = handle(request).readLastAddConfirmedAndEntryAsync(
                request.get("entry").asLong(), request.get("wait_ms").asLong(), false).get();
        String entry = found.hasEntry() ? HEX.formatHex(found.getEntry().getEntryBytes()) : null;
        return Main.JSON.createObjectNode().put("confirmed", found.getLastAddConfirmed()).put("entry", entry);
    }

    /** {handle} → {explicit, confirmed}: the explicit last add confirmed, and what entries say of it. */
    private ObjectNode lac(ObjectNode request) throws Exception {
        LedgerHandle handle = handle(request);
        return Main.JSON.createObjectNode()
                .put("explicit", handle.readExplicitLastConfirmed())
                .put("confirmed", handle.readLastConfirmed());
    }

    /** {handle} → {confirmed}: everything added is synced. */
    private ObjectNode force(ObjectNode request) throws Exception {
        LedgerHandle handle = handle(request);
        handle.force().get();
        return Main.JSON.createObjectNode().put("confirmed", handle.getLastAddConfirmed());
    }

    /** {ledger, bookie_id, last} → {entries}: the entries up to `last` that a bookie says it has, as a check asks. */
    private ObjectNode list(ObjectNode request) throws Exception {
        BookieId bookie = BookieId.parse(request.get("bookie_id").asText());
        var available = new BookKeeperAdmin(client, new ClientConfiguration())
                .asyncGetListOfEntriesOfLedger(bookie, request.get("ledger").asLong()).get();
        ObjectNode result = Main.JSON.createObjectNode().put("total", available.getTotalNumOfAvailableEntries());
        ArrayNode entries = result.putArray("entries");
        for (long entry = 0; entry <= request.get("last").asLong(); entry++) {
            if (available.isEntryAvailable(entry)) {
                entries.add(entry);
            }
        }
        return result;
    }

    /** {handle, count, size, window} → {write_s, read_s}: adds of one size, then reads of all, a window of each open. */
    private ObjectNode measure(ObjectNode request) throws Exception {
        LedgerHandle handle = handle(request);
        int count = request.get("count").asInt();
        byte[] payload = new byte[request.get("size").asInt()];
        Semaphore window = new Semaphore(request.get("window").asInt());
        AtomicInteger failed = new AtomicInteger();
        CountDownLatch done = new CountDownLatch(count);
        long start = System.nanoTime();
        for (int i = 0; i < count; i++) {
            window.acquire();
            handle.asyncAddEntry(payload, (code, ledger, entry, context) -> {
                failed.addAndGet(code == BKException.Code.OK ? 0 : 1);
                window.release();
                done.countDown();
            }, null);
        }
        done.await();
        long written = System.nanoTime();
        if (failed.get() > 0) {
            return Main.JSON.createObjectNode().put("failed", failed.get());
        }
        long last = handle.getLastAddConfirmed();
        for (long first = last - count + 1; first <= last; first += 100) {
            var entries = handle.readEntries(first, Math.min(last, first + 99));
            while (entries.hasMoreElements()) {
                entries.nextElement().getEntryBuffer().release();
            }
        }
        return Main.JSON.createObjectNode()
                .put("failed", failed.get())
                .put("write_s", (written - start) / 1e9)
                .put("read_s", (System.nanoTime() - written) / 1e9);
    }

    /** {handle, ledger, digest, password, recovery} → {last_entry, length, closed}. */
    private ObjectNode open(ObjectNode request) throws Exception {
        long ledger = request.get("ledger").asLong();
        LedgerHandle handle = request.get("recovery").asBoolean()
                ? client.openLedger(ledger, digest(request), password(request))
                : client.openLedgerNoRecovery(ledger, digest(request), password(request));
        handles.put(request.get("handle").asText(), handle);
        return Main.JSON.createObjectNode()
                .put("last_entry", handle.getLastAddConfirmed())
                .put("length", handle.getLength())
                .put("closed", handle.isClosed());
    }

    /** {handle, entries: [hex]} → {entries: [id]}; all are sent before the first is answered. */
    private ObjectNode append(ObjectNode request) throws Exception {
        LedgerHandle handle = handle(request);
        List<CompletableFuture<Long>> pending = new ArrayList<>();
        for (JsonNode entry : request.get("entries")) {
            pending.add(handle.appendAsync(HEX.parseHex(entry.asText())));
        }
        ObjectNode result = Main.JSON.createObjectNode();
        ArrayNode entries = result.putArray("entries");
        for (CompletableFuture<Long> one : pending) {
            entries.add(one.get());
        }
        return result;
    }

    /** {handle, first, last, batch, unconfirmed} → {entries: [hex]}; batch reads ask until `last` is reached. */
    private ObjectNode read(ObjectNode request) throws Exception {
        LedgerHandle handle = handle(request);
        long first = request.get("first").asLong();
        long last = request.get("last").asLong();
        ObjectNode result = Main.JSON.createObjectNode();
        ArrayNode entries = result.putArray("entries");
        if (!request.path("batch").asBoolean()) {
            addAll(entries, request.path("unconfirmed").asBoolean()
                    ? handle.readUnconfirmedEntries(first, last) : handle.readEntries(first, last));
            return result;
        }
        int requests = 0;
        while (entries.size() <= last - first) {
            long next = first + entries.size();
            addAll(entries, handle.batchReadEntries(next, (int) (last - next + 1), request.get("max_bytes").asLong()));
            requests++;
        }
        return result.put("requests", requests);
    }

    private static void addAll(ArrayNode entries, Enumeration<LedgerEntry> found) {
        while (found.hasMoreElements()) {
            entries.add(HEX.formatHex(found.nextElement().getEntry()));
        }
    }

    /** {handle} → {}. */
    private ObjectNode close(ObjectNode request) throws Exception {
        handles.remove(request.get("handle").asText()).close();
        return Main.JSON.createObjectNode();
    }

    /** {ledger} → {}. */
    private ObjectNode delete(ObjectNode request) throws Exception {
        client.deleteLedger(request.get("ledger").asLong());
        return Main.JSON.createObjectNode();
    }

    /** {ledger} → {state, last_entry, length, ensembles: [[first, [bookie]]], digest, custom}. */
    private ObjectNode metadata(ObjectNode request) throws Exception {
        LedgerMetadata metadata = client.getLedgerManager()
                .readLedgerMetadata(request.get("ledger").asLong()).get().getValue();
        ObjectNode result = Main.JSON.createObjectNode();
        result.put("state", metadata.getState().name());
        result.put("last_entry", metadata.isClosed() ? metadata.getLastEntryId() : -1);
        result.put("length", metadata.getLength());
        result.put("digest", metadata.getDigestType().name());
        ArrayNode ensembles = result.putArray("ensembles");
        metadata.getAllEnsembles().forEach((first, bookies) -> {
            ArrayNode ensemble = ensembles.addArray().add(first).addArray();
            bookies.forEach(bookie -> ensemble.add(bookie.toString()));
        });
        ObjectNode custom = result.putObject("custom");
        metadata.getCustomMetadata().forEach((key, value) -> custom.put(key, new String(value)));
        return result;
    }

    private LedgerHandle handle(ObjectNode request) throws BKException {
        return handles.get(request.get("handle").asText());
    }

    private static DigestType digest(ObjectNode request) {
        return switch (request.get("digest").asText()) {
            case "HMAC" -> DigestType.MAC;
            default -> DigestType.valueOf(request.get("digest").asText());
        };
    }

    private static byte[] password(ObjectNode request) {
        return request.get("password").asText().getBytes();
    }
}
