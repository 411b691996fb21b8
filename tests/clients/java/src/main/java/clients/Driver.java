package clients;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

/** The official Java client, driven by scenarios: JSON lines in, events as JSON lines out. */
public final class Driver {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Driver() {}

    /** Writes one event. */
    static void say(String scenario, String event, Object... fields) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("scenario", scenario);
        line.put("at", nowMicros() / 1e6);
        line.put("event", event);
        for (int at = 0; at < fields.length; at += 2) {
            line.put((String) fields[at], fields[at + 1]);
        }
        try {
            String text = JSON.writeValueAsString(line);
            synchronized (JSON) {
                System.out.println(text);
                System.out.flush();
            }
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static long nowMicros() {
        java.time.Instant now = java.time.Instant.now();
        return now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
    }

    /** Begins the scenarios of each line that has some; others say which of them have produced enough. */
    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        Map<String, Run> runs = new HashMap<>();
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            JsonNode order = JSON.readTree(line);
            for (JsonNode given : order.path("scenarios")) {
                Run run = new Run(JSON.treeToValue(given, Scenario.class));
                runs.put(given.get("name").asText(), run);
                new Thread(run::run).start();
            }
            if (order.has("enough")) {
                runs.get(order.get("enough").asText()).enough.countDown();
            }
        }
        System.exit(0);
    }
}
