package interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.net.ServerSocket;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.common.component.LifecycleComponentStack;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.server.EmbeddedServer;
import org.apache.bookkeeper.server.conf.BookieConfiguration;

/** Real bookies of BookKeeper on loopback, any number in this process. */
final class Bookies implements Main.Family {
    private static final String DB_LEDGER_STORAGE = "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage";
    private static final String SORTED_LEDGER_STORAGE = "org.apache.bookkeeper.bookie.SortedLedgerStorage";

    private final Map<String, LifecycleComponentStack> running = new LinkedHashMap<>();

    @Override
    public ObjectNode call(String name, ObjectNode request) throws Exception {
        return switch (name) {
            case "init" -> init(request);
            case "start" -> start(request);
            case "stop" -> stop(request);
            default -> throw Main.unknown("bookies", name);
        };
    }

    /** {zookeeper} → {}: what Pulsar's initialize-cluster-metadata does for BookKeeper; the parent must exist. */
    private ObjectNode init(ObjectNode request) throws Exception {
        ServerConfiguration conf = new ServerConfiguration();
        conf.setMetadataServiceUri("zk+hierarchical://" + request.get("zookeeper").asText() + "/ledgers");
        if (!BookKeeperAdmin.initNewCluster(conf)) {
            throw new IllegalStateException("there is a cluster at " + conf.getMetadataServiceUri());
        }
        return Main.JSON.createObjectNode();
    }

    /** {zookeeper, dir, storage: "db" | "sorted", port?} → {bookie_id, port}. */
    private ObjectNode start(ObjectNode request) throws Exception {
        int port = request.has("port") ? request.get("port").asInt() : freePort();
        ServerConfiguration conf = configuration(request, port);
        LifecycleComponentStack stack =
                EmbeddedServer.builder(new BookieConfiguration(conf)).build().getLifecycleComponentStack();
        stack.start();
        String id = "127.0.0.1:" + port;
        running.put(id, stack);
        return Main.JSON.createObjectNode().put("bookie_id", id).put("port", port);
    }

    private static ServerConfiguration configuration(ObjectNode request, int port) throws Exception {
        File dir = new File(request.get("dir").asText());
        ServerConfiguration conf = new ServerConfiguration();
        conf.setMetadataServiceUri("zk+hierarchical://" + request.get("zookeeper").asText() + "/ledgers");
        conf.setAdvertisedAddress("127.0.0.1");
        conf.setListeningInterface(null);
        conf.setAllowLoopback(true);
        conf.setBookiePort(port);
        conf.setJournalDirName(new File(dir, "journal").getPath());
        conf.setLedgerDirNames(new String[] {new File(dir, "ledgers").getPath()});
        conf.setLedgerStorageClass(
                "sorted".equals(text(request, "storage", "db")) ? SORTED_LEDGER_STORAGE : DB_LEDGER_STORAGE);
        conf.setDiskUsageThreshold(0.999f);
        conf.setDiskUsageWarnThreshold(0.998f);
        conf.setProperty("dbStorage_writeCacheMaxSizeMb", number(request, "write_cache_mb", 16));
        conf.setProperty("dbStorage_readAheadCacheMaxSizeMb", 16);
        conf.setProperty("dbStorage_rocksDB_blockCacheSize", 16 << 20);
        conf.setProperty("journalPreAllocSizeMB", 4);
        conf.setZkTimeout(10_000);
        return conf;
    }

    /** {bookie_id} → {}: its connections close and its registration goes. */
    private ObjectNode stop(ObjectNode request) throws Exception {
        running.remove(request.get("bookie_id").asText()).close();
        return Main.JSON.createObjectNode();
    }

    private static int freePort() throws Exception {
        try (ServerSocket socket = new ServerSocket(0)) {
            return socket.getLocalPort();
        }
    }

    private static String text(ObjectNode request, String field, String otherwise) {
        JsonNode value = request.get(field);
        return value == null ? otherwise : value.asText();
    }

    private static int number(ObjectNode request, String field, int otherwise) {
        JsonNode value = request.get(field);
        return value == null ? otherwise : value.asInt();
    }
}
