package interop;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.pulsar.admin.cli.PulsarAdminTool;

/** Runs commands of pulsar-admin: a line is JSON of the broker's URL and the arguments, the answer one of what it did. */
public final class Admin {
    private static final ObjectMapper JSON = new ObjectMapper();

    private Admin() {
    }

    private static final class Tool extends PulsarAdminTool {
        Tool(Properties properties) throws Exception {
            super(properties);
        }

        boolean does(String[] arguments) {
            return run(arguments);
        }
    }

    private record Command(String url, String[] arguments) {
    }

    private record Done(boolean success, String out, String err) {
    }

    public static void main(String[] none) throws Exception {
        PrintStream answers = System.out;
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        Map<String, Tool> tools = new HashMap<>();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            Command command = JSON.readValue(line, Command.class);
            if (!tools.containsKey(command.url())) {
                Properties properties = new Properties();
                properties.setProperty("webServiceUrl", command.url());
                tools.put(command.url(), new Tool(properties));
            }
            out.reset();
            err.reset();
            boolean success = tools.get(command.url()).does(command.arguments());
            System.out.flush();
            System.err.flush();
            String said = out.toString(StandardCharsets.UTF_8);
            answers.println(JSON.writeValueAsString(new Done(success, said, err.toString(StandardCharsets.UTF_8))));
            answers.flush();
        }
    }
}
