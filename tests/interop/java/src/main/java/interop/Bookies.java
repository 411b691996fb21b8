package interop;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.PrintStream;
import java.net.ServerSocket;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.bookkeeper.bookie.BookieShell;
import org.apache.bookkeeper.client.BookKeeperAdmin;
import org.apache.bookkeeper.common.component.LifecycleComponentStack;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.meta.LedgerAuditorManager;
import org.apache.bookkeeper.meta.LedgerManagerFactory;
import org.apache.bookkeeper.meta.LedgerUnderreplicationManager;
import org.apache.bookkeeper.meta.MetadataBookieDriver;
import org.apache.bookkeeper.meta.MetadataDrivers;
import org.apache.bookkeeper.replication.AutoRecoveryMain;
import org.apache.bookkeeper.server.EmbeddedServer;
import org.apache.bookkeeper.server.conf.BookieConfiguration;
import org.apache.bookkeeper.stats.NullStatsLogger;
import org.apache.bookkeeper.util.EntryFormatter;
import org.apache.bookkeeper.util.LedgerIdFormatter;

/** Real bookies of BookKeeper on loopback, any number in this process. */
final class Bookies implements Main.Family {
    private static final String DB_LEDGER_STORAGE = "org.apache.bookkeeper.bookie.storage.ldb.DbLedgerStorage";
    private static final String SORTED_LEDGER_STORAGE = "org.apache.bookkeeper.bookie.SortedLedgerStorage";

    private final Map<String, LifecycleComponentStack> running = new LinkedHashMap<>();
    private LedgerAuditorManager auditor;
    private LedgerUnderreplicationManager worker;

    @Override
    public ObjectNode call(String name, ObjectNode request) throws Exception {
        return switch (name) {
            case "init" -> init(request);
            case "start" -> start(request);
            case "stop" -> stop(request);
            case "shell" -> shell(request);
            case "mark" -> mark(request);
            case "audit" -> audit(request);
            case "replicate" -> replicate(request);
            case "recover" -> recover(request);
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

    /** {zookeeper, dir, storage: "db" | "sorted", port?, set: {key: value}?} → {bookie_id, port}. */
    private ObjectNode start(ObjectNode request) throws Exception {
        int port = request.has("port") ? request.get("port").asInt() : freePort();
        ServerConfiguration conf = configuration(request, port);
        request.path("set").fields().forEachRemaining(each -> conf.setProperty(each.getKey(), each.getValue().asText()));
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

    /** {zookeeper, arguments: [text]} → {code, printed}: `bookkeeper shell` with these arguments. */
    private ObjectNode shell(ObjectNode request) throws Exception {
        ServerConfiguration conf = new ServerConfiguration();
        conf.setMetadataServiceUri("zk+hierarchical://" + request.get("zookeeper").asText() + "/ledgers");
        conf.setJournalDirName(new File(System.getProperty("java.io.tmpdir"), "shell-journal").getPath());
        conf.setLedgerDirNames(new String[] {new File(System.getProperty("java.io.tmpdir"), "shell-ledgers").getPath()});
        String[] arguments = Main.JSON.convertValue(request.get("arguments"), String[].class);
        ByteArrayOutputStream printed = new ByteArrayOutputStream();
        PrintStream err = System.err;
        PrintStream out = System.out;
        try (PrintStream capture = new PrintStream(printed, true, StandardCharsets.UTF_8)) {
            System.setErr(capture);
            System.setOut(capture);
            BookieShell shell = new BookieShell( // some of its commands keep the stream that they find now
                    LedgerIdFormatter.LONG_LEDGERID_FORMATTER, EntryFormatter.STRING_FORMATTER);
            shell.setConf(conf);
            int code = shell.run(arguments);
            return Main.JSON.createObjectNode()
                    .put("code", code)
                    .put("printed", printed.toString(StandardCharsets.UTF_8));
        } finally {
            System.setErr(err);
            System.setOut(out);
        }
    }

    /** {zookeeper, ledger, bookie_id} → {}: the ledger is marked as lacking that bookie's replicas, as an auditor does. */
    private ObjectNode mark(ObjectNode request) throws Exception {
        ServerConfiguration conf = new ServerConfiguration();
        conf.setMetadataServiceUri("zk+hierarchical://" + request.get("zookeeper").asText() + "/ledgers");
        MetadataDrivers.runFunctionWithLedgerManagerFactory(conf, factory -> {
            try (LedgerUnderreplicationManager marks = factory.newLedgerUnderreplicationManager()) {
                marks.markLedgerUnderreplicated(request.get("ledger").asLong(), request.get("bookie_id").asText());
                return null;
            } catch (Exception problem) {
                throw new IllegalStateException(problem);
            }
        });
        return Main.JSON.createObjectNode();
    }

    /** {zookeeper, bookie_id} → {}: the bookie is elected auditor, and stays it as long as this process lives. */
    private ObjectNode audit(ObjectNode request) throws Exception {
        auditor = factory(request).newLedgerAuditorManager();
        auditor.tryToBecomeAuditor(request.get("bookie_id").asText(), event -> { });
        return Main.JSON.createObjectNode();
    }

    /** {zookeeper} → {ledger}: a marked ledger is taken, as a replication worker does, as long as this process lives. */
    private ObjectNode replicate(ObjectNode request) throws Exception {
        worker = factory(request).newLedgerUnderreplicationManager();
        return Main.JSON.createObjectNode().put("ledger", worker.pollLedgerToRereplicate());
    }

    /** {zookeeper, set?} → {}: AutoRecovery's auditor and replication worker, for as long as this process lives. */
    private ObjectNode recover(ObjectNode request) throws Exception {
        ServerConfiguration conf = new ServerConfiguration();
        conf.setMetadataServiceUri("zk+hierarchical://" + request.get("zookeeper").asText() + "/ledgers");
        conf.setAdvertisedAddress("127.0.0.1");
        request.path("set").fields().forEachRemaining(
                field -> conf.setProperty(field.getKey(), field.getValue().asText()));
        new AutoRecoveryMain(conf).start();
        return Main.JSON.createObjectNode();
    }

    private static LedgerManagerFactory factory(ObjectNode request) throws Exception {
        ServerConfiguration conf = new ServerConfiguration();
        conf.setMetadataServiceUri("zk+hierarchical://" + request.get("zookeeper").asText() + "/ledgers");
        conf.setAdvertisedAddress("127.0.0.1");
        MetadataBookieDriver driver = MetadataDrivers.getBookieDriver(URI.create(conf.getMetadataServiceUri()));
        driver.initialize(conf, NullStatsLogger.INSTANCE);
        return driver.getLedgerManagerFactory();
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
