import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

/** What a program with pgjdbc does: metadata, parameters, fetch size, errors. usage: Jdbc.java PORT FLOWS */
public class Jdbc {
    static void check(boolean is, String what) {
        if (!is) {
            throw new AssertionError(what);
        }
    }

    public static void main(String[] arguments) throws SQLException {
        long flows = Long.parseLong(arguments[1]);
        Properties properties = new Properties();
        properties.setProperty("user", "ann");
        String place = "jdbc:postgresql://127.0.0.1:" + arguments[0] + "/flows";
        try (Connection connection = DriverManager.getConnection(place, properties)) {
            DatabaseMetaData metadata = connection.getMetaData();
            check(metadata.getDatabaseProductName().equals("PostgreSQL"), "product");
            boolean found = false;
            try (ResultSet tables = metadata.getTables(null, "public", "%", new String[] {"TABLE"})) {
                while (tables.next()) {
                    found |= tables.getString("TABLE_NAME").equals("flows");
                }
            }
            check(found, "getTables lists no flows");
            int columns = 0;
            try (ResultSet rows = metadata.getColumns(null, "public", "flows", "%")) {
                while (rows.next()) {
                    columns++;
                    if (rows.getString("COLUMN_NAME").equals("bytes")) {
                        check(rows.getString("TYPE_NAME").equals("int8"), "bytes is " + rows.getString("TYPE_NAME"));
                    }
                }
            }
            check(columns > 20, "getColumns lists " + columns);

            String sums = "SELECT count(*), sum(bytes) FROM flows WHERE dst_port = ?";
            try (PreparedStatement statement = connection.prepareStatement(sums)) {
                // from the fifth time on the driver prepares it, and takes binary values
                for (int time = 0; time < 8; time++) {
                    statement.setInt(1, 443);
                    try (ResultSet row = statement.executeQuery()) {
                        check(row.next(), "no row");
                        if (time == 7) {
                            System.out.println("sums " + row.getLong(1) + "," + row.getLong(2));
                        }
                    }
                }
            }

            // a fetch size counts in a transaction only
            connection.setAutoCommit(false);
            try (Statement statement = connection.createStatement()) {
                statement.setFetchSize(777);
                long rows = 0;
                try (ResultSet all = statement.executeQuery("SELECT bytes, start, src_addr FROM flows")) {
                    while (all.next()) {
                        check(all.getTimestamp(2) != null && all.getString(3).length() > 0, "a value is missing");
                        rows++;
                    }
                }
                check(rows == flows, "rows: " + rows);
            }
            connection.commit();
            connection.setAutoCommit(true);

            try (Statement statement = connection.createStatement()) {
                statement.executeUpdate("DELETE FROM flows");
                throw new AssertionError("DELETE is not refused");
            } catch (SQLException refused) {
                check(refused.getSQLState().equals("25006"), refused.getSQLState());
            }
            try (Statement statement = connection.createStatement()) {
                statement.setQueryTimeout(1);
                statement.executeQuery("SELECT count(*) FROM flows a, flows b, flows c WHERE a.bytes + b.bytes + c.bytes = 7");
                throw new AssertionError("it is not cancelled");
            } catch (SQLException cancelled) {
                check(cancelled.getSQLState().equals("57014"), cancelled.getSQLState());
            }
        }
    }
}
