//! Programs that people use.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use weir_postgres::PostgresOptions;
use weir_testkit::certificates::{Certificate, Says};

use crate::Server;
use crate::raw::{Raw, startup};
use crate::service::{Conversation, FLOWS, by_engine, client, python_with, text};

/// A client of this folder.
fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// Runs psql, where it is installed.
fn psql(server: &Server, arguments: &[&str]) -> Option<Output> {
    let mut command = Command::new(weir_testkit::program("psql")?);
    command.args(["-X", "-h", "127.0.0.1", "-p", &server.address.port().to_string(), "-d", "flows", "-U", "ann"]);
    Some(command.args(arguments).output().expect("psql runs"))
}

#[test]
fn psql_describes_tables_and_prints_what_weir_sql_does() {
    let server = Server::start();
    let statement = "SELECT protocol, count(*), sum(bytes) FROM flows GROUP BY protocol ORDER BY 2 DESC, 1";
    let Some(output) = psql(&server, &["-At", "-F,", "-c", statement]) else { return };
    assert_eq!(text(&output.stdout).trim(), by_engine(statement), "{}", text(&output.stderr));
    let described = |command: &str| {
        let output = psql(&server, &["-c", command]).expect("psql");
        // psql says so where there are none
        let said = text(&output.stderr).replace("Did not find any relations.", "");
        assert!(output.status.success() && said.trim().is_empty(), "{command}: {said}");
        text(&output.stdout)
    };
    let flows = described("\\d flows");
    for line in ["src_addr", "inet", "bigint", "timestamp with time zone", "macaddr"] {
        assert!(flows.contains(line), "{line}: {flows}");
    }
    assert!(described("\\dt").contains("exporter_books"));
    assert!(described("\\d+ flows").contains("Octets"));
    for command in ["\\l", "\\dn", "\\dv", "\\di", "\\df", "\\du", "\\dT", "\\conninfo", "\\encoding", "\\timing on"] {
        described(command);
    }
    let refused = psql(&server, &["-v", "VERBOSITY=verbose", "-c", "SELECT colum FROM flows"]).expect("psql");
    let said = text(&refused.stderr);
    assert!(said.contains("ERROR:  42703: no column 'colum'") && said.contains("LINE 1: SELECT colum"), "{said}");
}

/// A server with users and a certificate, whose authority is in the folder.
fn secured(folder: &Path) -> Server {
    let authority = Certificate::authority("weir tests");
    let certificate = authority.sign(&Says { ip: Some("127.0.0.1"), ..Says::name("flows.example.net") });
    certificate.write(folder, "server");
    authority.write(folder, "authority");
    let (certificate, key) = (Some(folder.join("server.pem")), Some(folder.join("server.key")));
    Server::start_with(PostgresOptions { certificate, key, ..PostgresOptions::default() }, true)
}

#[test]
fn passwords_are_proved_by_scram_and_certificates_are_checked() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = secured(folder.path());
    let Some(psql) = weir_testkit::program("psql") else { return };
    let ask = |user: &str, password: &str, mode: &str| {
        let authority = folder.path().join("authority.pem");
        let place = format!(
            "host=127.0.0.1 port={} user={user} dbname=flows sslmode={mode} sslrootcert={}",
            server.address.port(),
            authority.display()
        );
        let mut command = Command::new(&psql);
        command.env("PGPASSWORD", password).args(["-X", "-At", &place, "-c", "SELECT count(*) FROM flows"]);
        let output = command.output().expect("psql runs");
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    for mode in ["verify-full", "require", "disable"] {
        let (is_fine, out, error) = ask("ann", "pencil", mode);
        assert!(is_fine && out.trim() == FLOWS.to_string(), "{mode}: {error}");
    }
    for (user, password) in [("ann", "pen"), ("bob", "pencil")] {
        let (is_fine, _, error) = ask(user, password, "require");
        assert!(!is_fine && error.contains("or its password is not right"), "{error}");
    }
    let (is_fine, _, error) = ask("eve", "pencil", "require");
    assert!(!is_fine && error.contains("'eve' is viewer"), "{error}");
    assert_eq!(server.count("logins_refused"), 2);
    // neither a password in clear text nor by MD5 is ever asked for
    let mut raw = Raw::open(server.address);
    raw.say(&startup(3 << 16, b"user\0ann\0\0"));
    let asked = raw.next().expect("a message");
    assert_eq!((asked.kind, &asked.octets[..]), ('R', b"\0\0\0\x0aSCRAM-SHA-256\0\0".as_slice()));
}

#[test]
fn psycopg_takes_addresses_times_parameters_and_cursors() {
    let server = Server::start();
    let port = server.address.port().to_string();
    let expected = by_engine("SELECT count(*), sum(bytes) FROM flows WHERE dst_port = 443");
    for (module, package, file) in
        [("psycopg", "python3-psycopg", "psycopg3.py"), ("psycopg2", "python3-psycopg2", "psycopg2_client.py")]
    {
        let Some(python) = python_with(module, package) else { continue };
        let said = client(&python, &[], &script(file), &[&port, &FLOWS.to_string()]);
        assert!(said.contains(&format!("sums {expected}")), "{said}");
    }
}

/// `Connection.cancel()` of both sends a request over a connection of its own, as libpq does it.
#[test]
fn what_psycopg_cancels_works_no_more() {
    let server = Server::start();
    let port = server.address.port().to_string();
    for (module, package) in [("psycopg", "python3-psycopg"), ("psycopg2", "python3-psycopg2")] {
        let Some(python) = python_with(module, package) else { continue };
        let before = server.count("cancels");
        let arguments = [module, &port, &FLOWS.to_string()];
        let client = Conversation::begin(&python, &[], &script("psycopg_cancel.py"), &arguments);
        client.cancels(2, &server.service, || server.count("statements"));
        assert!(server.count("cancels") >= before + 2, "{module}");
    }
}

#[test]
fn jdbc_fetches_so_many_rows_at_a_time() {
    let (Some(java), jar) = (weir_testkit::program("javac"), Path::new("/usr/share/java/postgresql.jar")) else {
        return;
    };
    if !jar.is_file() {
        return weir_testkit::skip("pgjdbc", "libpostgresql-jdbc-java is not installed");
    }
    let server = Server::start();
    let java = java.with_file_name("java");
    let port = server.address.port().to_string();
    let said = client(&java, &["-cp", &jar.display().to_string()], &script("Jdbc.java"), &[&port, &FLOWS.to_string()]);
    let expected = by_engine("SELECT count(*), sum(bytes) FROM flows WHERE dst_port = 443");
    assert!(said.contains(&format!("sums {expected}")), "{said}");
}

/// What tools ask before a person does anything, as their sources have it.
#[test]
fn what_grafana_and_dbeaver_ask_at_the_start_is_answered() {
    let server = Server::start();
    let mut raw = Raw::logged_in(server.address);
    let queries = include_str!("../clients/startup.sql");
    let mut asked = 0;
    for query in queries.split(";\n").map(str::trim).filter(|query| !query.is_empty()) {
        let rows = raw.rows(query);
        let wants_rows = query.lines().any(|line| line.trim() == "-- rows");
        assert!(!wants_rows || !rows.is_empty(), "no rows: {query}");
        asked += 1;
    }
    assert!(asked > 20, "{asked}");
    // the types that columns are shown with
    let types = raw.rows("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'flows'");
    let of = |name: &str| types.iter().find(|row| row[0].as_deref() == Some(name)).and_then(|row| row[1].clone());
    assert_eq!(of("src_addr").as_deref(), Some("inet"));
    assert_eq!(of("bytes").as_deref(), Some("bigint"));
    assert_eq!(of("start").as_deref(), Some("timestamp with time zone"));
}

#[test]
fn adbc_reads_arrow() {
    let package = "adbc-driver-postgresql and pyarrow from PyPI";
    let Some(python) = python_with("adbc_driver_postgresql, pyarrow", package) else { return };
    let server = Server::start();
    let place = format!("postgresql://ann@{}/flows", server.address);
    let said = client(&python, &[], &script("adbc_postgres.py"), &[&place, &FLOWS.to_string()]);
    let expected = by_engine("SELECT count(*), sum(bytes) FROM flows WHERE dst_port = 443");
    assert!(said.contains(&format!("sums {expected}")), "{said}");
}

#[test]
fn duckdb_attaches_tables() {
    let package = "duckdb, duckdb-extension-postgres-scanner and pytz from PyPI";
    let Some(python) = python_with("duckdb, duckdb_extensions, duckdb_extension_postgres_scanner, pytz", package)
    else {
        return;
    };
    let server = Server::start();
    let port = server.address.port().to_string();
    let said = client(&python, &[], &script("duckdb_attach.py"), &[&port, &FLOWS.to_string()]);
    let expected = by_engine("SELECT count(*), sum(bytes) FROM flows WHERE dst_port = 443");
    assert!(said.contains(&format!("sums {expected}")), "{said}");
}
