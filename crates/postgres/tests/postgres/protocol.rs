//! The protocol, message by message.

use crate::Server;
use crate::raw::{Raw, kinds, message, startup};
use crate::service::{FLOWS, by_engine, text};

/// Statements that would change something, or read a file of the server.
const FORBIDDEN: &[&str] = &[
    "COPY flows TO '/tmp/flows.csv'",
    "COPY flows TO STDOUT",
    "COPY (SELECT 1) TO STDOUT WITH (FORMAT binary)",
    "COPY flows FROM STDIN",
    "CREATE TABLE a AS SELECT * FROM flows",
    "CREATE EXTERNAL TABLE a STORED AS CSV LOCATION '/etc/passwd'",
    "CREATE VIEW a AS SELECT 1",
    "CREATE FUNCTION a() RETURNS INT RETURN 1",
    "INSERT INTO flows VALUES (1)",
    "UPDATE flows SET bytes = 0",
    "DELETE FROM flows",
    "DROP TABLE flows",
    "TRUNCATE TABLE flows",
    "ALTER TABLE flows ADD COLUMN a INT",
    "VACUUM",
    "SELECT 1; DROP TABLE flows",
    "EXPLAIN ANALYZE DELETE FROM flows",
    "SELECT * FROM '/etc/passwd'",
    "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT * FROM read_parquet('/etc/passwd')",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT lo_import('/etc/passwd')",
    "SET datafusion.catalog.location = '/'",
    "SET ROLE postgres",
    "SET default_transaction_read_only = off",
    "SET TRANSACTION READ WRITE",
    "PREPARE a AS DELETE FROM flows",
];

#[test]
fn nothing_is_changed_and_no_file_is_read() {
    let server = Server::start();
    let mut raw = Raw::logged_in(server.address);
    for statement in FORBIDDEN {
        let error = raw.refused(statement);
        let code = error[&'C'].as_str();
        assert!(!code.starts_with("XX"), "{statement}: {error:?}");
    }
    for (statement, code) in
        [("DELETE FROM flows", "25006"), ("COPY flows TO STDOUT", "25006"), ("PREPARE a AS SELECT 1", "0A000")]
    {
        assert_eq!(raw.refused(statement)[&'C'], code, "{statement}");
    }
    assert_eq!(raw.value("SELECT count(*) FROM flows"), Some(FLOWS.to_string()));
}

#[test]
fn mistakes_have_codes_places_and_hints() {
    let server = Server::start();
    let mut raw = Raw::logged_in(server.address);
    for (statement, code, at) in [
        ("SELECT colum FROM flows", "42703", Some("colum")),
        ("SELECT 1; SELECT\n 'ä', colum FROM flows", "42703", Some("colum")),
        ("SELECT * FROM flow", "42P01", None),
        ("SELECT nonsense(1)", "42883", None),
        ("SELEC 1", "42601", None),
        ("SELECT 'open", "42601", None),
        ("SHOW nonsense", "42704", None),
        ("FETCH 1 FROM nothing", "34000", None),
    ] {
        let error = raw.refused(statement);
        assert_eq!(error[&'C'], code, "{statement}: {error:?}");
        if let Some(word) = at {
            let position: usize = error[&'P'].parse().expect("a number");
            let rest: String = statement.chars().skip(position - 1).collect();
            assert!(rest.starts_with(word), "{statement}: {position}");
        }
    }
    assert!(raw.refused("SELECT src_ip FROM flows")[&'H'].contains("src_addr"));
}

#[test]
fn a_transaction_that_failed_waits_for_its_end() {
    let server = Server::start();
    let mut raw = Raw::logged_in(server.address);
    let state = |messages: &[crate::raw::Message]| char::from(messages.last().expect("a message").octets[0]);
    assert_eq!(state(&raw.query("BEGIN")), 'T');
    assert_eq!(state(&raw.query("SELECT nonsense")), 'E');
    assert_eq!(raw.refused("SELECT 1")[&'C'], "25P02");
    assert_eq!(state(&raw.query("ROLLBACK")), 'I');
    assert_eq!(raw.value("SELECT 1"), Some("1".to_owned()));
}

/// Statements, parameters and portals, message by message.
/// Numbers of `bytea`, `macaddr` and `inet` in `pg_type`.
const BYTEA: u32 = 17;
const MACADDR: u32 = 829;
const INET: u32 = 869;

#[test]
fn addresses_stay_addresses_in_expressions() {
    let server = Server::start();
    let mut raw = Raw::logged_in(server.address);
    for (statement, expected) in [
        ("SELECT src_addr FROM flows LIMIT 1", INET),
        ("SELECT coalesce(src_addr, dst_addr) FROM flows LIMIT 1", INET),
        ("SELECT max(src_addr) AS a FROM flows", INET),
        ("SELECT CASE WHEN bytes > 100 THEN src_addr ELSE dst_addr END FROM flows LIMIT 1", INET),
        ("SELECT CASE WHEN bytes > 100 THEN '192.0.2.1' ELSE dst_addr END FROM flows LIMIT 1", INET),
        ("SELECT (SELECT min(dst_addr) FROM flows)", INET),
        ("WITH a AS (SELECT nullif(src_addr, dst_addr) AS b FROM flows) SELECT b FROM a GROUP BY b LIMIT 1", INET),
        ("SELECT max(src_addr) FROM flows UNION ALL SELECT address('192.0.2.1')", INET),
        ("SELECT lag(coalesce(src_addr, dst_addr)) OVER (ORDER BY start) FROM flows LIMIT 1", INET),
        ("SELECT inet '192.0.2.1'", INET),
        ("SELECT '192.0.2.1'::inet AS a", INET),
        ("SELECT max(src_mac) FROM flows", MACADDR),
        ("SELECT decode('00ff', 'hex')", BYTEA),
    ] {
        let messages = raw.query(statement);
        let described = messages.iter().find(|message| message.kind == 'T');
        let described = described.unwrap_or_else(|| panic!("'{statement}' is refused: {messages:?}"));
        assert_eq!(described.types(), [expected], "{statement}");
    }
    assert_eq!(raw.value("SELECT inet '192.0.2.1'").as_deref(), Some("192.0.2.1"));
    assert_eq!(raw.value("SELECT host(inet '::1')").as_deref(), Some("::1"));
    let inside = raw.value("SELECT count(*) FROM flows WHERE src_addr <<= inet '10.0.0.0/8'");
    assert_eq!(inside, raw.value("SELECT count(*) FROM flows WHERE family(src_addr) = 4"));
}

/// The answer of a statement with one parameter of type `oid`, in text (0) or binary (1).
fn value_with(raw: &mut Raw, statement: &str, oid: u32, format: u8, value: &[u8]) -> Option<String> {
    let parse = [b"\0".as_slice(), statement.as_bytes(), b"\0\0\x01", &oid.to_be_bytes()].concat();
    let length = u32::try_from(value.len()).expect("a short value").to_be_bytes();
    let bind = [b"\0\0\0\x01\0".as_slice(), &[format, 0, 1], &length, value, &[0, 0]].concat();
    let execute = message(b'E', b"\0\0\0\0\0");
    raw.say(&[message(b'P', &parse), message(b'B', &bind), execute, message(b'S', b"")].concat());
    let answered = raw.until_ready();
    let row = answered.iter().find(|message| message.kind == 'D');
    let row = row.unwrap_or_else(|| panic!("'{statement}' is refused: {answered:?}")).values();
    row.into_iter().next().flatten().map(|value| text(&value))
}

#[test]
fn a_network_may_be_a_parameter() {
    const CIDR: u32 = 650;
    let server = Server::start();
    let mut raw = Raw::logged_in(server.address);
    let expected = raw.value("SELECT count(*) FROM flows WHERE src_addr << '10.0.0.0/8'");
    assert_ne!(expected.as_deref(), Some("0"));
    let binary = |is_cidr: u8| [2, 8, is_cidr, 4, 10, 0, 0, 0];
    for condition in ["src_addr << $1", "src_addr <<= $1", "src_addr << $1::inet", "$1 >> src_addr"] {
        let statement = format!("SELECT count(*) FROM flows WHERE {condition}");
        for (oid, format, value) in [
            (0, 0, b"10.0.0.0/8".as_slice()),
            (25, 0, b"10.0.0.0/8"),
            (INET, 0, b"10.0.0.0/8"),
            (INET, 1, &binary(0)),
            (CIDR, 0, b"10.0.0.0/8"),
            (CIDR, 1, &binary(1)),
        ] {
            assert_eq!(value_with(&mut raw, &statement, oid, format, value), expected, "{condition} {oid} {format}");
        }
    }
}

#[test]
fn the_extended_protocol_takes_parameters_and_gives_so_many_rows_at_a_time() {
    let server = Server::start();
    let mut raw = Raw::logged_in(server.address);
    let parse =
        |name: &str, text: &str| message(b'P', &[name.as_bytes(), b"\0", text.as_bytes(), b"\0", &[0, 0]].concat());
    raw.say(&parse("s", "SELECT src_addr, bytes, start FROM flows WHERE protocol = $1 AND bytes > $2 ORDER BY bytes"));
    raw.say(&message(b'D', b"Ss\0"));
    raw.say(&message(b'S', b""));
    let described = raw.until_ready();
    assert_eq!(kinds(&described), "1tTZ");
    // smallint and bigint
    assert_eq!(described[1].octets, [0, 2, 0, 0, 0, 21, 0, 0, 0, 20]);
    let columns = text(&described[2].octets);
    assert!(columns.contains("src_addr") && columns.contains("start"), "{columns}");
    // a binary smallint, a text, and results in binary
    let bind = [
        b"p\0s\0\0\x02\0\x01\0\0\0\x02".as_slice(),
        &[0, 0, 0, 2, 0, 6],
        &[0, 0, 0, 3, b'1', b'0', b'0'],
        &[0, 1, 0, 1],
    ]
    .concat();
    let execute = |rows: u32| message(b'E', &[b"p\0".as_slice(), &rows.to_be_bytes()].concat());
    raw.say(&[parse("", "BEGIN"), message(b'B', b"\0\0\0\0\0\0\0\0"), message(b'E', b"\0\0\0\0\0")].concat());
    raw.say(&[message(b'B', &bind), execute(3), message(b'H', b""), execute(0), message(b'S', b"")].concat());
    let answered = raw.until_ready();
    let order = kinds(&answered);
    assert!(order.starts_with("12C2DDDsDDD") && order.ends_with("DCZ"), "{order}");
    let rows = order.matches('D').count();
    let expected = by_engine("SELECT count(*) FROM flows WHERE protocol = 6 AND bytes > 100");
    assert_eq!(rows.to_string(), expected);
    let row = answered.iter().find(|message| message.kind == 'D').expect("a row").values();
    let address = row[0].as_ref().expect("an address");
    assert!(address.len() == 8 && address[..4] == [2, 32, 0, 4] || address.len() == 20, "{address:?}");
    assert_eq!((row[1].as_ref().map(Vec::len), row[2].as_ref().map(Vec::len)), (Some(8), Some(8)));
}

#[test]
fn an_error_skips_messages_until_the_client_synchronizes() {
    let server = Server::start();
    let mut raw = Raw::logged_in(server.address);
    let parse = message(b'P', b"\0SELECT nonsense\0\0\0");
    let (bind, execute) = (message(b'B', b"\0\0\0\0\0\0\0\0"), message(b'E', b"\0\0\0\0\0"));
    raw.say(&[parse, bind.clone(), execute.clone(), bind, execute, message(b'S', b"")].concat());
    assert_eq!(kinds(&raw.until_ready()), "12EZ");
    assert_eq!(raw.value("SELECT 1"), Some("1".to_owned()));
}

/// Asks for more than can be answered in this test.
const ENDLESS: &str = "SELECT count(*) FROM flows a, flows b, flows c WHERE a.bytes + b.bytes + c.bytes = 7";

#[test]
fn a_statement_is_cancelled_by_its_secret_and_by_leaving() {
    let server = Server::start();
    let mut raw = Raw::logged_in(server.address);
    raw.say(&message(b'Q', &[ENDLESS.as_bytes(), b"\0"].concat()));
    server.service.wait_for_running(1);
    // with a wrong secret nothing happens
    let mut wrong = raw.key.clone();
    wrong[7] ^= 1;
    Raw::open(server.address).say(&startup(80_877_102, &wrong));
    server.wait_for_count("cancels_unknown", |count| count == 1);
    assert_eq!(server.service.running.load(std::sync::atomic::Ordering::Relaxed), 1);
    Raw::open(server.address).say(&startup(80_877_102, &raw.key));
    let messages = raw.until_ready();
    assert_eq!(messages.iter().find(|message| message.kind == 'E').expect("an error").error()[&'C'], "57014");
    server.service.wait_for_running(0);
    assert_eq!(raw.value("SELECT 1"), Some("1".to_owned()));
    raw.say(&message(b'Q', &[ENDLESS.as_bytes(), b"\0"].concat()));
    server.service.wait_for_running(1);
    drop(raw);
    server.service.wait_for_running(0);
}

#[test]
fn a_client_sets_how_long_its_statements_run() {
    let server = Server::start();
    let mut raw = Raw::logged_in(server.address);
    raw.query("SET statement_timeout = '200ms'");
    let error = raw.refused(ENDLESS);
    assert_eq!(error[&'C'], "57014", "{error:?}");
    server.service.wait_for_running(0);
    assert_eq!(raw.value("SHOW statement_timeout"), Some("200ms".to_owned()));
    raw.query("SET statement_timeout = '1min'");
    raw.query("SET TIME ZONE 'Asia/Kolkata'");
    let start = raw.value("SELECT min(start) FROM flows").expect("a time");
    assert!(start.ends_with("+05:30"), "{start}");
}

#[test]
fn counters_that_are_no_bigint_are_an_error_that_says_so() {
    let server = Server::start();
    let mut raw = Raw::logged_in(server.address);
    let large = "SELECT arrow_cast(9223372036854775808, 'UInt64') AS large";
    let error = raw.refused(large);
    assert_eq!(error[&'C'], "22003");
    assert!(error[&'M'].contains("9223372036854775808") && error[&'H'].contains("DECIMAL(20, 0)"), "{error:?}");
    let whole = raw.value("SELECT CAST(arrow_cast(9223372036854775808, 'UInt64') AS DECIMAL(20, 0))");
    assert_eq!(whole, Some("9223372036854775808".to_owned()));
}

/// As `PostgreSQL` has it, where a number is beyond its type.
#[test]
fn a_sum_that_does_not_fit_is_an_error() {
    let server = Server::start();
    let mut raw = Raw::logged_in(server.address);
    let values = "(VALUES (9223372036854775807), (1)) AS t(v)";
    let error = raw.refused(&format!("SELECT sum(v) > 0 AS is_large FROM {values}"));
    assert_eq!(error[&'C'], "22003");
    assert!(error[&'M'].contains("a sum does not fit") && error[&'H'].contains("DECIMAL(38, 0)"), "{error:?}");
    let exact = raw.value(&format!("SELECT sum(CAST(v AS DECIMAL(38, 0))) FROM {values}"));
    assert_eq!(exact, Some("9223372036854775808".to_owned()));
}
