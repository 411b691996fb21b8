package clients;

/** What is sent with a schema of fields. */
public class Letter {
    public int number;
    public String body;
}
