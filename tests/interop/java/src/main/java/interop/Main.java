package interop;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.bookkeeper.client.BKException;

/**
 * Drives the originals by lines of JSON: one request on stdin, one answer on stdout, in order.
 *
 * <p>Request: {"op": "family.name", …arguments}. Answer: the result, with "ms" (time in the original), or
 * {"error": {"class", "message", "code"}}; "code" is BookKeeper's, null for other errors. Ends with stdin.
 */
public final class Main {
    static final ObjectMapper JSON = new ObjectMapper();

    /** A group of operations on one of the originals. */
    interface Family {
        ObjectNode call(String name, ObjectNode request) throws Exception;
    }

    private Main() {
    }

    public static void main(String[] args) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Map<String, Family> families = Map.of(
                "bookies", new Bookies(), "ledger", new Ledgers(), "topic", new Topics());
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.writeValueAsString(answer(families, line)));
        }
        // no orderly end: what is still open is abandoned, as a crash would
        Runtime.getRuntime().halt(0);
    }

    private static ObjectNode answer(Map<String, Family> families, String line) {
        try {
            ObjectNode request = (ObjectNode) JSON.readTree(line);
            String[] op = request.get("op").asText().split("\\.", 2);
            long start = System.nanoTime();
            ObjectNode result = families.get(op[0]).call(op[1], request);
            return result.put("ms", TimeUnit.NANOSECONDS.toMicros(System.nanoTime() - start) / 1000.0);
        } catch (Throwable problem) {
            return error(problem);
        }
    }

    private static ObjectNode error(Throwable problem) {
        Throwable cause = problem;
        while ((cause instanceof ExecutionException || cause instanceof CompletionException)
                && cause.getCause() != null) {
            cause = cause.getCause();
        }
        if (!(cause instanceof BKException)) {
            cause.printStackTrace();
        }
        ObjectNode answer = JSON.createObjectNode();
        ObjectNode error = answer.putObject("error");
        error.put("class", cause.getClass().getSimpleName()).put("message", String.valueOf(cause.getMessage()));
        if (cause instanceof BKException bk) {
            error.put("code", bk.getCode());
        } else {
            error.putNull("code");
        }
        return answer;
    }

    static IllegalArgumentException unknown(String family, String name) {
        return new IllegalArgumentException("no operation " + family + "." + name);
    }
}
