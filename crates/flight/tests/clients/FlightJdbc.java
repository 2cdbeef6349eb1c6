import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/** What a program with the driver of Flight SQL for JDBC does. usage: FlightJdbc.java PORT FLOWS */
public class FlightJdbc {
    static void check(boolean is, String what) {
        if (!is) {
            throw new AssertionError(what);
        }
    }

    public static void main(String[] arguments) throws SQLException {
        long flows = Long.parseLong(arguments[1]);
        String place = "jdbc:arrow-flight-sql://127.0.0.1:" + arguments[0] + "/?useEncryption=false";
        try (Connection connection = DriverManager.getConnection(place)) {
            check(connection.getMetaData().getDatabaseProductName().equals("weir"), "product");
            boolean found = false;
            try (ResultSet tables = connection.getMetaData().getTables(null, null, "%", null)) {
                while (tables.next()) {
                    found |= tables.getString("TABLE_NAME").equals("flows");
                }
            }
            check(found, "getTables lists no flows");
            int columns = 0;
            try (ResultSet rows = connection.getMetaData().getColumns(null, null, "flows", "%")) {
                while (rows.next()) {
                    columns++;
                }
            }
            check(columns > 20, "getColumns lists " + columns);
            try (Statement statement = connection.createStatement();
                    ResultSet all = statement.executeQuery("SELECT bytes, start FROM flows")) {
                long rows = 0;
                while (all.next()) {
                    rows++;
                }
                check(rows == flows, "rows: " + rows);
            }
            try (PreparedStatement statement =
                    connection.prepareStatement("SELECT count(*), sum(bytes) FROM flows WHERE dst_port = 443");
                    ResultSet row = statement.executeQuery()) {
                check(row.next(), "no row");
                System.out.println("sums " + row.getLong(1) + "," + row.getLong(2));
            }
            try (Statement statement = connection.createStatement()) {
                statement.executeQuery("DELETE FROM flows");
                throw new AssertionError("DELETE is not refused");
            } catch (SQLException refused) {
                check(refused.getMessage().contains("only questions are answered"), refused.getMessage());
            }
        }
    }
}
