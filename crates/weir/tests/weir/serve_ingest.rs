//! Flows that programs push over HTTP, and what whoever may push them may not do.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::ipc::writer::StreamWriter;
use serde_json::{Value, json};

use super::service::{Answer, PATIENCE, Service, hash};

const ARROW: &str = "Content-Type: application/vnd.apache.arrow.stream";
const ANN: &str = "Authorization: Bearer ann:right";
const BOB: &str = "Authorization: Bearer bob:right";
const PROBE: &str = "Authorization: Bearer probe:right";

/// A service that takes flows, with an admin, an analyst, and one who may push.
fn service(folder: &Path) -> Service {
    // a machine that is busy takes longer than programs that push wait
    service_with(folder, "", "durable_timeout = '10m'")
}

/// The same with more lines in the sections of the archive and of pushes.
fn service_with(folder: &Path, archive: &str, ingest: &str) -> Service {
    let token = hash("right");
    let user = |name: &str, role: &str| format!("[[users]]\nname = '{name}'\nrole = '{role}'\ntokens = ['{token}']\n");
    let text = format!(
        "[archive]\nfolder = 'archive'\n{archive}\n[ingest]\nbody_max = '64KiB'\n{ingest}\n{}{}{}",
        user("ann", "admin"),
        user("bob", "analyst"),
        user("probe", "ingest")
    );
    let config = folder.join("weir.toml");
    std::fs::write(&config, text).expect("written");
    Service::start(&[&config.display().to_string()])
}

fn stream(columns: Vec<(&str, ArrayRef)>) -> Vec<u8> {
    let rows = RecordBatch::try_from_iter(columns).expect("a batch");
    let mut octets = Vec::new();
    let mut writer = StreamWriter::try_new(&mut octets, rows.schema_ref()).expect("a stream");
    writer.write(&rows).expect("written");
    writer.finish().expect("finished");
    drop(writer);
    octets
}

/// Three flows of two exporters, 600 bytes.
fn flows() -> Vec<u8> {
    let texts = |texts: [&str; 3]| -> ArrayRef { Arc::new(StringArray::from(texts.to_vec())) };
    stream(vec![
        ("exporter", texts(["192.0.2.1", "192.0.2.1", "192.0.2.2"])),
        ("src_addr", texts(["198.51.100.1", "198.51.100.2", "2001:db8::1"])),
        ("bytes", Arc::new(Int64Array::from(vec![100, 200, 300]))),
    ])
}

fn push(service: &Service, who: &str, body: &[u8]) -> Answer {
    service.ask_octets("POST", "/api/v1/ingest", &[ARROW, who], body)
}

fn sql(service: &Service, statement: &str) -> Value {
    let body = json!({ "statement": statement }).to_string();
    let answer = service.ask("POST", "/api/v1/sql", &["Content-Type: application/json", ANN], &body);
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.json()["rows"].clone()
}

#[test]
fn flows_that_are_pushed_are_in_the_archive_and_in_the_books() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = service(folder.path());
    for who in [PROBE, ANN] {
        let answer = push(&service, who, &flows());
        assert_eq!((answer.status, &answer.json()["flows"]), (200, &json!(3)), "{}", answer.body);
    }
    let until = Instant::now() + PATIENCE;
    while sql(&service, "SELECT count(*), sum(bytes), count(received) FROM flows") != json!([[6, 1200, 6]]) {
        assert!(Instant::now() < until, "the flows come into the archive");
        std::thread::yield_now();
    }
    let stored = "SELECT exporter, sum(records_stored) FROM exporter_books GROUP BY exporter ORDER BY exporter";
    assert_eq!(sql(&service, stored), json!([["192.0.2.1", 4], ["192.0.2.2", 2]]));
    let counted = |event: &str, count: u64| {
        let line = format!("weir_component_events_total{{component=\"ingest\",event=\"{event}\"}} {count}");
        while !service.ask("GET", "/metrics", &[ANN], "").body.contains(&line) {
            assert!(Instant::now() < until, "{line}");
            std::thread::yield_now();
        }
    };
    counted("records_stored", 6);
    counted("pushes_taken", 2);
    // what is wrong is refused whole, with what to do
    let unknown = stream(vec![("octets", Arc::new(Int64Array::from(vec![1])))]);
    let answer = push(&service, PROBE, &unknown);
    assert_eq!(answer.problem(), (400, "not columns of flows: octets".to_owned()));
    assert!(answer.json()["hint"].as_str().is_some_and(|hint| hint.contains("/api/v1/columns")));
    assert_eq!(push(&service, PROBE, b"PAR1").problem().0, 400);
    assert_eq!(push(&service, PROBE, &vec![0; 65 << 10]).problem().0, 413);
    let json = service.ask("POST", "/api/v1/ingest", &["Content-Type: application/json", PROBE], "{}");
    assert_eq!(json.problem().0, 400);
    let coded = service.ask_octets("POST", "/api/v1/ingest", &[ARROW, PROBE, "Content-Encoding: gzip"], &flows());
    assert!(coded.problem().0 == 415 && coded.json()["hint"].is_string(), "{}", coded.body);
    counted("pushes_bad", 5);
    assert_eq!(push(&service, BOB, &flows()).problem(), (403, "'bob' is analyst, and this takes ingest".to_owned()));
    assert_eq!(push(&service, "X-Nobody: 1", &flows()).problem().0, 401);
    assert_eq!(sql(&service, "SELECT count(*) FROM flows"), json!([[6]]));
    service.stop();
}

#[test]
fn who_may_push_flows_may_do_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = service(folder.path());
    let described = service.ask("GET", "/api/v1/openapi.json", &[], "").json();
    let mut refused = 0;
    for (path, methods) in described["paths"].as_object().expect("paths") {
        for method in methods.as_object().expect("methods").keys() {
            if path == "/ingest" {
                continue;
            }
            let concrete = format!("/api/v1{path}")
                .replace("{name}", "any")
                .replace("{id}", "1")
                .replace("{address}", "192.0.2.1");
            let answer = service.ask(&method.to_uppercase(), &concrete, &[PROBE], "");
            assert_eq!(
                answer.problem(),
                (403, "'probe' may push flows, and nothing else".to_owned()),
                "{method} {path}"
            );
            refused += 1;
        }
    }
    assert!(refused > 30, "{refused}");
    for path in ["/metrics", "/api/v1/openapi.json", "/api/v1/ingest/", "/api/v1/nothing"] {
        assert_eq!(service.ask("GET", path, &[PROBE], "").problem().0, 403, "{path}");
    }
    for path in ["/healthz", "/readyz"] {
        assert_eq!(service.ask("GET", path, &[PROBE], "").status, 200, "{path}");
    }
    assert_eq!(push(&service, PROBE, &flows()).status, 200);
}

/// Who is answered 200 has flows on disk, and who is answered 202 is not promised any.
#[test]
fn an_answer_says_whether_flows_are_durable() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut service = self::service(folder.path());
    let answer = push(&service, PROBE, &flows());
    assert_eq!(answer.status, 200, "{}", answer.body);
    let taken = answer.json();
    assert_eq!(taken["is_durable"], json!(true));
    assert!(taken["position"].as_u64().is_some_and(|position| position > 0), "{taken}");
    let no_wait = service.ask_octets("POST", "/api/v1/ingest?wait=none", &[ARROW, PROBE], &flows());
    let taken = no_wait.json();
    assert_eq!((no_wait.status, &taken["is_durable"], &taken["position"]), (202, &json!(false), &Value::Null));
    let none = push(&service, PROBE, &stream(vec![("bytes", Arc::new(Int64Array::from(Vec::<i64>::new())))]));
    assert_eq!((none.status, &none.json()["flows"]), (200, &json!(0)), "there is nothing to wait for");
    let wrong = service.ask_octets("POST", "/api/v1/ingest?wait=long", &[ARROW, PROBE], &flows());
    assert_eq!(wrong.problem().0, 400);
    // killed, not stopped: what was confirmed is there
    service.child.kill().expect("it runs");
    service.child.wait().expect("it ends");
    drop(service);
    let service = service_with(folder.path(), "commit_interval = '1h'", "durable_timeout = '1ms'");
    let count = sql(&service, "SELECT count(*) FROM flows")[0][0].as_u64().expect("a number");
    assert!(count == 3 || count == 6, "{count}");
    // a disk that takes long
    let answer = push(&service, PROBE, &flows());
    assert_eq!((answer.status, &answer.json()["is_durable"]), (202, &json!(false)), "{}", answer.body);
    service.stop();
}

#[test]
fn a_service_without_the_section_takes_no_flows() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = super::service::archive(folder.path(), "100");
    let service = Service::start(&["--archive", &archive]);
    let answer = service.ask_octets("POST", "/api/v1/ingest", &[ARROW], &flows());
    assert_eq!(answer.problem().0, 404);
    assert!(answer.json()["hint"].as_str().is_some_and(|hint| hint.contains("[ingest]")));
}

#[test]
fn flows_come_as_text_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = self::service(folder.path());
    let send = |kind: &str, body: &[u8]| {
        service.ask_octets("POST", "/api/v1/ingest", &[&format!("Content-Type: {kind}"), PROBE], body)
    };
    let (json, csv) = ("application/x-ndjson", "text/csv; charset=utf-8");
    let taken = [
        send(json, b"{\"src_addr\":\"192.0.2.1\",\"bytes\":100}\n{\"bytes\":200}\n"),
        send(csv, b"exporter,bytes\n192.0.2.9,300\n,400\n"),
    ];
    for answer in taken {
        assert_eq!((answer.status, &answer.json()["flows"]), (200, &json!(2)), "{}", answer.body);
    }
    let rows = "SELECT count(*), sum(bytes), count(src_addr), count(exporter), count(received) FROM flows";
    let until = Instant::now() + PATIENCE;
    while sql(&service, rows) != json!([[4, 1000, 1, 1, 4]]) {
        assert!(Instant::now() < until, "the flows come into the archive");
        std::thread::yield_now();
    }
    // of what is wrong nothing is stored, whatever precedes it
    let large = "{\"bytes\":1}\n".repeat(6000);
    for (kind, body, status, said) in [
        (json, &b"{\"bytes\":1}\n{\"bytes\":"[..], 400, "line 2: no object of JSON"),
        (json, &b"{\"bytes\":1}\n{\"octets\":1}"[..], 400, "not columns of flows: octets"),
        (json, &b"{\"bytes\":1}\n{\"bytes\":-1}"[..], 400, "column 'bytes' has values that do not fit"),
        (json, large.as_bytes(), 413, "the body of the request is too large"),
        (csv, &b"bytes,packets\n1,2\n3\n"[..], 400, "line 3: "),
        (csv, &b"bytes,sip\n1,2\n"[..], 400, "not columns of flows: sip"),
        ("application/vnd.apache.parquet", &b"PAR1"[..], 400, "the body is no Parquet file that can be read: "),
        ("application/x-protobuf", &b"\x08\x01"[..], 400, "the Content-Type of the body"),
    ] {
        let answer = send(kind, body);
        let (found, detail) = answer.problem();
        assert!(found == status && detail.starts_with(said), "{found}: {detail}");
        assert!(status == 413 || answer.json()["hint"].is_string(), "{}", answer.body);
    }
    // what is taken after them would come after them
    assert_eq!(send(csv, b"bytes\n1\n").status, 200);
    while sql(&service, "SELECT count(*) FROM flows") != json!([[5]]) {
        assert!(Instant::now() < until, "the flow comes into the archive");
        std::thread::yield_now();
    }
}

/// What the service gives as Parquet it takes as Parquet.
#[test]
fn flows_come_as_parquet_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = self::service(folder.path());
    assert_eq!(push(&service, PROBE, &flows()).status, 200);
    let until = Instant::now() + PATIENCE;
    while sql(&service, "SELECT count(*) FROM flows") != json!([[3]]) {
        assert!(Instant::now() < until, "the flows come into the archive");
        std::thread::yield_now();
    }
    let file = download(&service, "format=parquet&columns=received,exporter,src_addr,bytes");
    let parquet = ["Content-Type: application/vnd.apache.parquet", PROBE];
    let answer = service.ask_octets("POST", "/api/v1/ingest", &parquet, &file);
    let taken = answer.json();
    assert_eq!((answer.status, &taken["flows"], &taken["is_durable"]), (200, &json!(3), &json!(true)), "{taken}");
    let no_wait = service.ask_octets("POST", "/api/v1/ingest?wait=none", &parquet, &file);
    assert_eq!((no_wait.status, &no_wait.json()["flows"]), (202, &json!(3)), "{}", no_wait.body);
    let rows = "SELECT exporter, src_addr, sum(bytes), count(*) FROM flows GROUP BY exporter, src_addr ORDER BY 3";
    let expected = json!([
        ["192.0.2.1", "198.51.100.1", 300, 3],
        ["192.0.2.1", "198.51.100.2", 600, 3],
        ["192.0.2.2", "2001:db8::1", 900, 3]
    ]);
    while sql(&service, rows) != expected {
        assert!(Instant::now() < until, "{}", sql(&service, rows));
        std::thread::yield_now();
    }
    let cut = service.ask_octets("POST", "/api/v1/ingest", &parquet, &file[..file.len() - 20]);
    assert_eq!(cut.problem().0, 400);
    service.stop();
}

/// A file of flows, which is no text.
fn download(service: &Service, query: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(service.address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let (address, path) = (service.address, format!("/api/v1/flows/download?{query}"));
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{ANN}\r\n\r\n").expect("written");
    let mut octets = Vec::new();
    stream.read_to_end(&mut octets).expect("an answer");
    let head = octets.windows(4).position(|octets| octets == b"\r\n\r\n").expect("a head");
    assert!(octets.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&octets[..head]));
    octets.split_off(head + 4)
}
