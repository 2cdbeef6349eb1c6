//! Flight SQL, as drivers of ADBC and JDBC see it.

#[path = "../../../postgres/tests/postgres/service.rs"]
mod service;

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::sync::watch;
use weir_flight::{FlightCounts, FlightOptions, FlightServer};
use weir_testkit::certificates::{Certificate, Says};

use self::service::{
    Conversation, FLOWS, PATIENCE, TestService, by_engine, client, memory_octets, python_with, wait_until,
};

/// What ADBC's tests need.
const ADBC: (&str, &str) = ("adbc_driver_flightsql, pyarrow", "adbc-driver-flightsql and pyarrow from PyPI");

/// A server on a free port, until it is dropped.
struct Server {
    address: SocketAddr,
    counts: Arc<FlightCounts>,
    service: TestService,
    ending: watch::Sender<bool>,
    runtime: Option<Runtime>,
}

impl Server {
    fn start_with(options: FlightOptions, has_users: bool) -> Self {
        let options = FlightOptions { listen: "127.0.0.1:0".parse().ok(), ..options };
        let server = FlightServer::bind(&options, has_users).expect("it listens").expect("it listens");
        let (address, counts, service) = (server.address(), server.counts(), TestService::new(has_users));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("threads");
        let (ending, is_ending) = watch::channel(false);
        runtime.spawn(server.run(Arc::new(service.clone()), is_ending));
        Self { address, counts, service, ending, runtime: Some(runtime) }
    }

    fn start() -> Self {
        Self::start_with(FlightOptions::default(), false)
    }

    fn count(&self, name: &str) -> u64 {
        let found = self.counts.all().into_iter().find(|(known, ..)| *known == name);
        found.unwrap_or_else(|| panic!("there is no counter {name}")).2
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ending.send_replace(true);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A client of this folder.
fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

#[test]
fn adbc_lists_tables_asks_and_cancels() {
    let Some(python) = python_with(ADBC.0, ADBC.1) else { return };
    let server = Server::start();
    let place = format!("grpc://{}", server.address);
    let said = client(&python, &[], &script("adbc_flight.py"), &[&place, &FLOWS.to_string()]);
    let expected = by_engine("SELECT count(*), sum(bytes) FROM flows WHERE dst_port = 443");
    assert!(said.contains(&format!("sums {expected}")), "{said}");
    server.service.wait_for_running(0);
    assert!(server.count("statements_failed") >= 4);
}

#[test]
fn adbc_logs_in_over_tls() {
    let Some(python) = python_with(ADBC.0, ADBC.1) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let authority = Certificate::authority("weir tests");
    authority.sign(&Says { ip: Some("127.0.0.1"), ..Says::name("flows.example.net") }).write(folder.path(), "server");
    authority.write(folder.path(), "authority");
    let file = |name: &str| Some(folder.path().join(name));
    let options =
        FlightOptions { certificate: file("server.pem"), key: file("server.key"), ..FlightOptions::default() };
    let server = Server::start_with(options, true);
    let place = format!("grpc+tls://{}", server.address);
    let roots = folder.path().join("authority.pem").display().to_string();
    client(&python, &[], &script("adbc_login.py"), &[&place, &roots, &FLOWS.to_string()]);
    assert!(server.count("logins_refused") >= 2);
}

/// Java, and the path of the driver, which comes from Maven (`org.apache.arrow:flight-sql-jdbc-driver`); the test is skipped
/// without them.
fn java_with_driver() -> Option<(PathBuf, String)> {
    let javac = weir_testkit::program("javac")?;
    let Some(jar) = std::env::var_os("WEIR_FLIGHT_JDBC").map(PathBuf::from).filter(|jar| jar.is_file()) else {
        weir_testkit::skip("flight-sql-jdbc", "WEIR_FLIGHT_JDBC names no jar of flight-sql-jdbc-driver");
        return None;
    };
    Some((javac.with_file_name("java"), jar.display().to_string()))
}

/// What the driver wants of Java.
const OPENED: &str = "--add-opens=java.base/java.nio=ALL-UNNAMED";

#[test]
fn jdbc_lists_tables_and_asks() {
    let Some((java, jar)) = java_with_driver() else { return };
    let server = Server::start();
    let (port, flows) = (server.address.port().to_string(), FLOWS.to_string());
    let said = client(&java, &[OPENED, "-cp", &jar], &script("FlightJdbc.java"), &[&port, &flows]);
    let expected = by_engine("SELECT count(*), sum(bytes) FROM flows WHERE dst_port = 443");
    assert!(said.contains(&format!("sums {expected}")), "{said}");
}

/// `Statement.cancel()` of the driver resets the call that answers; it sends no request to cancel.
#[test]
fn what_jdbc_cancels_works_no_more() {
    let Some((java, jar)) = java_with_driver() else { return };
    let server = Server::start();
    let (port, flows) = (server.address.port().to_string(), FLOWS.to_string());
    let client = Conversation::begin(&java, &[OPENED, "-cp", &jar], &script("FlightJdbcCancel.java"), &[&port, &flows]);
    client.cancels(2, &server.service, || server.count("statements"));
}

/// Sends octets, and reads until the end of the connection.
fn throw(address: SocketAddr, octets: &[u8]) {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    // it may have been closed already
    let _ = stream.write_all(octets);
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn garbage_silence_and_a_thousand_connections_leave_it_answering() {
    let options = FlightOptions {
        login_timeout: weir_chain::TimeSpan::from_secs(5),
        connections_max: 50,
        ..FlightOptions::default()
    };
    let server = Server::start_with(options, false);
    let before = memory_octets();
    let mut noise = 22_u64;
    for round in 0..200 {
        let octets: Vec<u8> = (0..300)
            .map(|_| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (noise >> 33) as u8
            })
            .collect();
        let preface: &[u8] = if round % 2 == 0 { b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" } else { b"" };
        throw(server.address, &[preface, &octets].concat());
    }
    throw(server.address, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    let silent: Vec<TcpStream> = (0..1000).filter_map(|_| TcpStream::connect(server.address).ok()).collect();
    // more than have a place are refused; who has one and says nothing has it for a while
    let ended = || server.count("connections_refused") + server.count("connections_idle");
    wait_until("silent connections end", || ended() >= silent.len() as u64 && server.counts.open() == 0);
    assert!(server.count("connections_refused") > 0 && server.count("connections_idle") > 0);
    drop(silent);
    let grown = memory_octets().saturating_sub(before);
    assert!(grown < 300 << 20, "memory has grown by {} MiB", grown >> 20);
    if let Some(python) = python_with(ADBC.0, ADBC.1) {
        let place = format!("grpc://{}", server.address);
        client(&python, &[], &script("adbc_flight.py"), &[&place, &FLOWS.to_string()]);
    }
}
