//! Clients that do not take what they asked for.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::Instant;

use serde_json::json;

use super::service::{PATIENCE, Service, archive, hash};

/// An answer of 10 MB, more than the system keeps for a connection.
const LARGE: &str = "SELECT repeat('x', 1000) AS t FROM generate_series(1, 10000)";

fn start(folder: &Path, http: &str) -> Service {
    let config = folder.join("weir.toml");
    std::fs::write(&config, format!("[http]\n{http}\n")).expect("written");
    Service::start(&["--archive", &archive(folder, "1000"), &config.display().to_string()])
}

/// Sends a request and does not read.
fn send(service: &Service, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(service.address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.write_all(request.as_bytes()).expect("written");
    stream
}

fn send_statement(service: &Service, headers: &str, statement: &str) -> TcpStream {
    let body = json!({ "statement": statement }).to_string();
    let (host, length) = (service.address, body.len());
    let head = format!(
        "POST /api/v1/sql HTTP/1.1\r\nHost: {host}\r\n{headers}Content-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n"
    );
    send(service, &format!("{head}{body}"))
}

/// Reads the first line of an answer, which says that it is one.
fn assert_begins(stream: &mut TcpStream) {
    let mut head = [0; 12];
    stream.read_exact(&mut head).expect("an answer");
    assert_eq!(&head, b"HTTP/1.1 200");
}

/// A counter or gauge without labels.
fn metric(service: &Service, name: &str) -> u64 {
    let text = service.ask("GET", "/metrics", &[], "").body;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name} is missing: {text}")).parse::<f64>().expect("a number") as u64
}

fn wait_for_metric(service: &Service, name: &str, is_it: impl Fn(u64) -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_it(metric(service, name)) {
        assert!(Instant::now() < until, "{name} is {}", metric(service, name));
        std::thread::yield_now();
    }
}

#[test]
fn answers_that_nobody_takes_have_a_limit_of_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = start(folder.path(), "sending_max = '15MiB'");
    let mut untaken = send_statement(&service, "", LARGE);
    wait_for_metric(&service, "weir_http_answer_octets", |octets| octets > 10_000_000);
    let (status, detail) = service.sql(LARGE).problem();
    assert_eq!(status, 503, "{detail}");
    assert!(detail.ends_with("octets wait for clients to take them"), "{detail}");
    assert_eq!(metric(&service, "weir_http_answers_refused_total"), 1);
    assert_eq!(service.sql("SELECT 1 AS a").status, 200);
    assert_begins(&mut untaken);
    drop(untaken);
    wait_for_metric(&service, "weir_http_answer_octets", |octets| octets == 0);
    let taken = service.sql(LARGE);
    assert_eq!((taken.status, taken.json()["rows"].as_array().map(Vec::len)), (200, Some(10_000)));
    service.stop();
}

#[test]
fn one_user_who_does_not_read_has_no_answers_of_others_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let token = hash("right");
    let user = |name: &str| format!("[[users]]\nname = '{name}'\nrole = 'analyst'\ntokens = ['{token}']\n");
    let service = start(folder.path(), &format!("sending_max = '32MiB'\n{}{}", user("ann"), user("bob")));
    let (ann, bob) = ("Authorization: Bearer ann:right", "Authorization: Bearer bob:right");
    // larger than a quarter, and the only one
    let mut untaken = send_statement(&service, &format!("{ann}\r\n"), LARGE);
    assert_begins(&mut untaken);
    let body = json!({ "statement": LARGE }).to_string();
    let ask = |who: &str| service.ask("POST", "/api/v1/sql", &["Content-Type: application/json", who], &body);
    let (status, detail) = ask(ann).problem();
    assert_eq!(status, 503, "{detail}");
    assert!(detail.ends_with("octets wait for you to take them"), "{detail}");
    assert_eq!(ask(bob).status, 200);
    drop(untaken);
    service.stop();
}

/// They send requests and read no answer: one large, or many small ones, for which nobody has to say who they are.
#[test]
fn clients_that_take_nothing_are_closed() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = start(folder.path(), "write_timeout = '1s'\nconnections_max = 8");
    let small = format!("GET /api/v1/openapi.json HTTP/1.1\r\nHost: {}\r\n\r\n", service.address);
    let untaken = [
        send_statement(&service, "", LARGE),
        send_statement(&service, "", LARGE),
        send(&service, &small.repeat(300)),
        send(&service, &small.repeat(300)),
    ];
    wait_for_metric(&service, "weir_http_connections_stalled_total", |stalled| stalled == untaken.len() as u64);
    wait_for_metric(&service, "weir_http_answer_octets", |octets| octets == 0);
    // the one that asks
    wait_for_metric(&service, "weir_http_connections_open", |open| open == 1);
    service.stop();
}
