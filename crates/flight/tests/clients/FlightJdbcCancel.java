import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Arrays;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * A program that cancels with the driver of Flight SQL for JDBC. It prints what it has done, and waits for a line before it
 * goes on. usage: FlightJdbcCancel.java PORT FLOWS
 */
public class FlightJdbcCancel {
    static final BufferedReader INPUT = new BufferedReader(new InputStreamReader(System.in));

    static void waitForLine() {
        try {
            INPUT.readLine();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static void say(String word) {
        System.out.println(word);
        waitForLine();
    }

    /** Whether a thread waits for batches: what is cancelled after a call has begun and before that, the driver forgets. */
    static boolean awaitsBatches(Thread thread) {
        return Arrays.stream(thread.getStackTrace())
                .anyMatch(at -> at.getClassName().endsWith(".FlightEndpointDataQueue") && at.getMethodName().equals("next"));
    }

    /** Cancels until the question has ended: a request that comes too early finds nothing. */
    static void cancel(Statement statement, Thread asking, CountDownLatch rowsCome, CountDownLatch ended) {
        waitForLine();
        try {
            while (ended.getCount() > 0 && rowsCome.getCount() > 0 && !awaitsBatches(asking)) {
                Thread.sleep(1);
            }
            do {
                statement.cancel();
            } while (!ended.await(100, TimeUnit.MILLISECONDS));
        } catch (SQLException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    static void askAndCancel(Connection connection, String question) throws SQLException, InterruptedException {
        say("ready");
        CountDownLatch rowsCome = new CountDownLatch(1);
        CountDownLatch ended = new CountDownLatch(1);
        try (Statement statement = connection.createStatement()) {
            Thread asking = Thread.currentThread();
            Thread cancelling = new Thread(() -> cancel(statement, asking, rowsCome, ended));
            cancelling.start();
            try (ResultSet rows = statement.executeQuery(question)) {
                while (rows.next()) {
                    // until it is cancelled
                    rowsCome.countDown();
                }
                throw new AssertionError("it is not cancelled");
            } catch (SQLException cancelled) {
                // the driver has words of its own when it is cancelled before the first row
                String message = cancelled.getMessage().toLowerCase();
                if (!message.contains("cancel") && !message.contains("queue closed")) {
                    throw cancelled;
                }
            } finally {
                ended.countDown();
            }
            cancelling.join();
            // neither the statement nor the connection is closed yet
            say("cancelled");
        }
    }

    public static void main(String[] arguments) throws SQLException, InterruptedException {
        String place = "jdbc:arrow-flight-sql://127.0.0.1:" + arguments[0] + "/?useEncryption=false";
        try (Connection connection = DriverManager.getConnection(place)) {
            // before the first row, and while rows come
            askAndCancel(
                    connection,
                    "SELECT count(*) FROM flows a, flows b, flows c WHERE a.bytes + b.bytes + c.bytes = 7");
            askAndCancel(connection, "SELECT a.bytes FROM flows a, flows b");
            try (Statement statement = connection.createStatement();
                    ResultSet row = statement.executeQuery("SELECT count(*) FROM flows")) {
                if (!row.next() || row.getLong(1) != Long.parseLong(arguments[1])) {
                    throw new AssertionError("the connection does not answer any more");
                }
            }
            say("answered");
        }
    }
}
