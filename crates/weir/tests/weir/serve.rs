//! `weir serve` over HTTP, as clients see it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::process::{run, weir};
use super::service::{PATIENCE, Service, archive, hash};

/// What a command prints as JSON.
fn printed(arguments: &[&str]) -> Value {
    let output = run(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// A table answer as objects, with times as commands print them.
fn objects(answer: &Value, names: &[&str]) -> Value {
    let columns = answer["columns"].as_array().expect("columns");
    let rows = answer["rows"].as_array().expect("rows").iter().map(|row| {
        let members = columns.iter().enumerate().filter_map(|(position, column)| {
            let name = column["name"].as_str()?;
            let value = match (column["type"].as_str()?, &row[position]) {
                ("time", Value::Number(ms)) => {
                    let time = jiff::Timestamp::from_millisecond(ms.as_i64()?).ok()?;
                    Value::String(format!("{time:.3}"))
                }
                (_, value) => value.clone(),
            };
            names.contains(&name).then(|| (name.to_owned(), value))
        });
        Value::Object(members.collect())
    });
    Value::Array(rows.collect())
}

/// The same members of objects that a command printed.
fn members(printed: &Value, names: &[&str]) -> Value {
    let rows = printed.as_array().expect("rows").iter().map(|row| {
        let members = names.iter().map(|name| ((*name).to_owned(), row[*name].clone()));
        Value::Object(members.collect())
    });
    Value::Array(rows.collect())
}

#[test]
fn answers_over_http_are_those_of_the_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path(), "20000");
    let service = Service::start(&["--archive", &archive]);
    let names = ["src_addr", "flows", "packets", "bytes"];
    let ranked = service.get("/rank?by=srcip&measure=bytes&limit=7&filter=proto%20tcp");
    let query =
        ["query", "-R", &archive, "--statistic", "srcip/bytes", "--limit", "7", "--format", "json", "proto tcp"];
    assert_eq!(objects(&ranked, &names), members(&printed(&query), &names));
    let totals = printed(&[
        "sql",
        "-R",
        &archive,
        "--format",
        "json",
        "SELECT count(*) AS flows, sum(bytes) AS bytes FROM flows WHERE protocol = 6",
    ]);
    assert_eq!((&ranked["totals"]["flows"], &ranked["totals"]["bytes"]), (&totals[0]["flows"], &totals[0]["bytes"]));
    let share = ranked["columns"]
        .as_array()
        .expect("columns")
        .iter()
        .position(|column| column["name"] == "bytes_share")
        .expect("shares");
    let bytes = ranked["columns"]
        .as_array()
        .expect("columns")
        .iter()
        .position(|column| column["name"] == "bytes")
        .expect("bytes");
    let expected =
        ranked["rows"][0][bytes].as_f64().expect("a number") / totals[0]["bytes"].as_f64().expect("a number");
    assert!((ranked["rows"][0][share].as_f64().expect("a number") - expected).abs() < 1e-12);
    let names = ["start", "end", "src_addr", "src_port", "dst_addr", "bytes"];
    let listed = service.get("/flows?order=-bytes&limit=20&columns=start,end,src_addr,src_port,dst_addr,bytes");
    let query = [
        "query",
        "-R",
        &archive,
        "--order",
        "bytes",
        "--limit",
        "20",
        "--format",
        "json",
        "--columns",
        "start,end,src_addr,src_port,dst_addr,bytes",
    ];
    assert_eq!(objects(&listed, &names), members(&printed(&query), &names));
    assert_eq!(
        (listed["is_truncated"].clone(), listed["completeness"]["verdict"].clone()),
        (json!(true), json!("complete"))
    );
    let names = ["protocol", "dst_port", "flows", "packets", "bytes"];
    let grouped = service.get("/group?by=proto,dstport&measure=packets&limit=9");
    let query = [
        "query",
        "-R",
        &archive,
        "--aggregate",
        "proto,dstport",
        "--order",
        "packets",
        "--limit",
        "9",
        "--format",
        "json",
    ];
    assert_eq!(objects(&grouped, &names), members(&printed(&query), &names));
    let statement = "SELECT dst_port, count(*) AS n, max(start) AS last FROM flows GROUP BY dst_port ORDER BY n DESC, dst_port LIMIT 5";
    let answer = service.sql(statement);
    assert_eq!(answer.status, 200, "{}", answer.body);
    let names = ["dst_port", "n", "last"];
    assert_eq!(
        objects(&answer.json(), &names),
        members(&printed(&["sql", "-R", &archive, "--format", "json", statement]), &names)
    );
    pages_of_a_list(&service);
    pictures(&service, totals[0]["bytes"].as_f64().expect("a number"));
    a_repeated_question(&service);
}

/// Parts of a list follow one another.
fn pages_of_a_list(service: &Service) {
    let rows = |path: &str| service.get(path)["rows"].as_array().expect("rows").clone();
    let all = rows("/flows?order=start&limit=30");
    let parts = [rows("/flows?order=start&limit=20"), rows("/flows?order=start&limit=10&offset=20")].concat();
    assert_eq!(all, parts);
}

/// What is in pictures adds up to what flows carried.
fn pictures(service: &Service, tcp_bytes: f64) {
    let line = service.get("/timeline?by=dstport&top=3&filter=proto%20tcp&points=50");
    let series = line["series"].as_array().expect("series");
    assert_eq!(series.len(), 4, "three ports and the rest");
    assert_eq!(series[3]["name"], "other");
    let rates = series.iter().flat_map(|series| series["values"].as_array().expect("values"));
    let bits: f64 = rates.filter_map(Value::as_f64).sum::<f64>() * line["step_ms"].as_f64().expect("a number") / 1000.0;
    assert!((bits / 8.0 / tcp_bytes - 1.0).abs() < 1e-9, "{bits} bits and {tcp_bytes} bytes");
    let sankey = service.get("/sankey?by=proto,router&measure=flows&limit=1000");
    let flows: u64 = sankey["links"].as_array().expect("links").iter().filter_map(|link| link["value"].as_u64()).sum();
    assert_eq!(flows, 20_000);
    let estimate = service.get("/estimate");
    assert_eq!((&estimate["rows_max"], &estimate["filtered_rows_max"]), (&json!(20_000), &json!(20_000)));
    // all flows are of IPv4, which indexes know
    let nothing = service.get("/estimate?filter=ipv6");
    assert_eq!(nothing["rows_max"], 20_000, "by times it may be there");
    let filtered = ["filtered_segments", "filtered_octets", "filtered_rows_max", "segments_unchecked"];
    assert!(filtered.iter().all(|name| nothing[*name] == 0), "{nothing}");
}

fn a_repeated_question(service: &Service) {
    let path = "/rank?by=dstip&limit=3";
    let first = service.get(path);
    let second = service.get(path);
    assert_eq!((&first["is_cached"], &second["is_cached"]), (&json!(false), &json!(true)));
    assert_eq!((&first["rows"], &first["position"]), (&second["rows"], &second["position"]));
    let arrow =
        service.ask("GET", "/api/v1/rank?by=dstip&limit=3", &["Accept: application/vnd.apache.arrow.stream"], "");
    assert!(arrow.head.contains("content-type: application/vnd.apache.arrow.stream"), "{}", arrow.head);
}

/// What was asked of a time that is over is answered again without reading while flows of other times come in, and read anew
/// when flows of that time have come.
#[test]
fn answers_about_the_past_are_kept_while_flows_come_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("flows.pcap").display().to_string();
    let archive = folder.path().join("archive").display().to_string();
    assert!(run(&["generate", "--write", &capture, "--records", "2000"]).status.success());
    assert!(run(&["import", "--archive", &archive, &capture]).status.success());
    let service = Service::start(&["--archive", &archive, "--collect", "127.0.0.1:0"]);
    let collector = service.collector.expect("it collects").to_string();
    let send = |start: &str, flows: u64| {
        let sent = run(&["generate", "--to", &collector, "--records", "500", "--start", start]);
        assert!(sent.status.success(), "{}", String::from_utf8_lossy(&sent.stderr));
        service.wait_for("/info", |info| info["archive"]["flows"] == flows);
    };
    let ask = || service.get("/rank?by=proto&limit=9&from=2025-12-31T00:00:00Z&until=2026-01-01T12:00:00Z");
    let first = ask();
    assert_eq!((&first["totals"]["flows"], &first["is_cached"]), (&json!(2000), &json!(false)));
    send("2026-02-01T00:00:00Z", 2500);
    let kept = ask();
    assert_eq!((&kept["rows"], &kept["is_cached"]), (&first["rows"], &json!(true)));
    send("2026-01-01T00:30:00Z", 3000);
    let read = ask();
    assert_eq!((&read["totals"]["flows"], &read["is_cached"]), (&json!(2500), &json!(false)));
}

/// What a time line has altogether, in bytes.
fn bytes_of(line: &Value) -> f64 {
    let series = line["series"].as_array().expect("series").iter();
    let rates = series.flat_map(|series| series["values"].as_array().expect("values"));
    rates.filter_map(Value::as_f64).sum::<f64>() * line["step_ms"].as_f64().expect("a number") / 8000.0
}

#[test]
fn a_sketch_is_about_what_the_time_line_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let capture = folder.path().join("flows.pcap").display().to_string();
    let archive = folder.path().join("archive").display().to_string();
    // 2,000 seconds of traffic
    let made = run(&["generate", "--write", &capture, "--records", "20000", "--density", "10"]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert!(run(&["import", "--archive", &archive, &capture]).status.success());
    let service = Service::start(&["--archive", &archive]);
    let window = "from=2026-01-01T00:00:00Z&until=2026-01-01T00:33:20Z&by=dstport&top=3";
    let (line, sketch) = (service.get(&format!("/timeline?{window}")), service.get(&format!("/sketch?{window}")));
    // of few flows all are read: it is the time line
    assert_eq!(sketch["share"].as_f64(), Some(1.0));
    let ratio = bytes_of(&sketch) / bytes_of(&line);
    assert!((ratio - 1.0).abs() < 0.01, "{ratio}: {sketch} {line}");
    let names = |line: &Value| -> Vec<Value> {
        line["series"].as_array().expect("series").iter().map(|series| series["name"].clone()).collect()
    };
    assert_eq!((names(&sketch), names(&sketch).len()), (names(&line), 4), "three ports and the rest");
    // scaled too, and by a column that comes after those that are counted
    for more in ["by=dstport&scaled=true", "by=in_if", "by=in_if&measure=flows", "filter=bytes%20%3E%20500&scaled=true"]
    {
        let which = format!("from=2026-01-01T00:00:00Z&until=2026-01-01T00:33:20Z&top=3&{more}");
        let (line, sketch) = (service.get(&format!("/timeline?{which}")), service.get(&format!("/sketch?{which}")));
        assert_eq!((sketch["share"].as_f64(), names(&sketch)), (Some(1.0), names(&line)), "{more}");
        let ratio = bytes_of(&sketch) / bytes_of(&line);
        assert!((ratio - 1.0).abs() < 0.01, "{more}: {ratio}: {sketch} {line}");
    }
    let open = service.ask("GET", "/api/v1/sketch", &[], "").problem();
    assert_eq!(open, (400, "a sketch needs 'from'".to_owned()));
}

#[test]
fn dashboards_are_files_and_counters_are_those_of_the_books() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path(), "1000");
    let service = Service::start(&["--archive", &archive]);
    assert_eq!(service.get("/dashboards"), json!([]));
    let text = "title = \"Border\"\n[[panels]]\ntitle = \"Ports\"\nquestion = \"by=dst_port\"\n";
    let put = |name: &str, text: &str| service.ask("PUT", &format!("/api/v1/dashboards/{name}"), &[], text);
    assert_eq!(put("border", text).status, 200);
    let file = Path::new(&archive).join("dashboards/border.toml");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), text);
    let shown = service.get("/dashboards/border");
    assert_eq!((&shown["title"], &shown["panels"][0]["question"]), (&json!("Border"), &json!("by=dst_port")));
    // what is wrong changes nothing
    let (status, detail) = put("border", "title = \"Border\"\ncolour = \"red\"\n").problem();
    assert_eq!(status, 400, "{detail}");
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), text);
    assert_eq!(put("..%2Fborder", text).problem().0, 404);
    // a file that somebody else wrote is listed with what is wrong with it
    std::fs::write(Path::new(&archive).join("dashboards/wrong.toml"), "titel = 'x'").expect("written");
    let listed = service.get("/dashboards");
    assert_eq!((&listed[0]["error"], &listed[1]["error"]["status"]), (&Value::Null, &json!(400)));
    assert_eq!(service.ask("DELETE", "/api/v1/dashboards/border", &[], "").status, 204);
    assert!(!file.exists());
    let checked = run(&["archive", "check", "--archive", &archive]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    let exporter = service.get("/exporters")[0]["exporter"].as_str().expect("an exporter").to_owned();
    let books = service.get(&format!("/exporters/{exporter}"));
    let stored =
        books[0]["counters"].as_array().expect("counters").iter().find(|each| each["name"] == "records_stored");
    assert_eq!(stored.expect("a counter")["count"], 1000);
    assert_eq!(books[0]["version"], 10);
    assert_eq!(service.ask("GET", "/api/v1/exporters/router", &[], "").problem().0, 400);
}

#[test]
fn files_that_two_people_change_are_not_overwritten_unseen() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path(), "1000");
    let watches = folder.path().join("watches");
    std::fs::create_dir(&watches).expect("a folder");
    let service = Service::start(&["--archive", &archive, "--watch", &watches.display().to_string()]);
    let query = "SELECT count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '1' DAY)";
    for (kind, rest) in [("dashboards", String::new()), ("watches", format!("query = \"{query}\"\n"))] {
        let text = |title: &str| format!("title = '{title}'\n{rest}");
        let path = format!("/api/v1/{kind}/shared");
        let put = |title: &str, more: &[&str]| service.ask("PUT", &path, more, &text(title));
        let first = put("first", &[]);
        assert_eq!(first.status, 200, "{}", first.body);
        let tag = first.json()["etag"].as_str().expect("a tag").to_owned();
        let shown = service.ask("GET", &path, &[], "");
        assert!(shown.head.contains(&format!("etag: {tag}")), "{}", shown.head);
        let based = format!("If-Match: {tag}");
        let second = put("second", &[&based]);
        assert_eq!(second.status, 200, "{}", second.body);
        assert_ne!(second.json()["etag"], tag.as_str());
        assert_eq!(put("third", &[&based]).problem().0, 412);
        assert_eq!(put("third", &["If-None-Match: *"]).problem().0, 412);
        assert_eq!(service.ask("DELETE", &path, &[&based], "").problem().0, 412);
        assert_eq!(service.get(&format!("/{kind}/shared"))["title"], "second");
        // a name that is no text, or that no file can have
        assert_eq!(service.ask("GET", &format!("/api/v1/{kind}/%ff"), &[], "").problem().0, 400);
        assert_eq!(service.ask("GET", &format!("/api/v1/{kind}/{}", "a".repeat(5000)), &[], "").problem().0, 404);
    }
    // one file that cannot be read hides no other
    for folder in [watches, Path::new(&archive).join("dashboards")] {
        std::fs::write(folder.join("latin.toml"), b"title = 'Z\xfcrich'").expect("written");
        std::fs::create_dir(folder.join("folder.toml")).expect("a folder");
    }
    for kind in ["watches", "dashboards"] {
        let listed = service.get(&format!("/{kind}"));
        let seen = |at: usize| (listed[at]["name"].clone(), listed[at]["error"]["status"].clone());
        assert_eq!([seen(0), seen(1)], [(json!("latin"), json!(400)), (json!("shared"), Value::Null)], "{listed}");
        assert_eq!(listed.as_array().map(Vec::len), Some(2), "{listed}");
    }
}

#[test]
fn what_is_wrong_with_a_request_is_a_problem() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = Service::start(&["--archive", &archive(folder.path(), "1000")]);
    let problem = |path: &str| service.ask("GET", path, &[], "").problem();
    assert_eq!(problem("/api/v1/rank?by=colour"), (400, "flows cannot be grouped by 'colour'".to_owned()));
    assert_eq!(problem("/api/v1/flows?order=size").0, 400);
    assert_eq!(problem("/api/v1/flows?limit=0").0, 400);
    assert_eq!(problem("/api/v1/flows?form=now").0, 400);
    assert_eq!(problem("/api/v1/flows?from=soon"), (400, "'soon' is no time".to_owned()));
    assert_eq!(problem("/api/v1/flows?filter=ip%20in%20%2Fetc%2Fpasswd").0, 400);
    assert_eq!((problem("/api/v1/nothing").0, problem("/api").0, problem("/no-page").0), (404, 404, 404));
    let wrong = service.ask("GET", "/api/v1/flows?filter=src%20prot%2080", &[], "").json();
    assert_eq!((&wrong["hint"], &wrong["place"]), (&json!("did you mean 'port'?"), &json!({ "from": 4, "to": 8 })));
    assert_eq!(service.get("/filter/check?filter=src%20prot%2080")["error"]["from"], 4);
    assert_eq!(service.get("/filter/check?filter=src%20port%2080"), json!({ "ok": true }));
    let wrong = service.sql("SELECT colum FROM flows").json();
    assert_eq!((&wrong["status"], &wrong["place"]), (&json!(400), &json!({ "from": 7, "to": 12 })));
    for statement in
        ["CREATE TABLE a AS SELECT 1", "COPY flows TO '/tmp/flows.csv'", "DROP TABLE flows", "SELECT 1; SELECT 2"]
    {
        assert_eq!(service.sql(statement).problem().0, 400, "{statement}");
    }
    let check = |statement: &str| {
        let body = json!({ "statement": statement }).to_string();
        service.ask("POST", "/api/v1/sql/check", &["Content-Type: application/json"], &body).json()
    };
    assert_eq!(check("SELECT src_addr, sum(bytes) FROM flows GROUP BY src_addr"), json!({ "ok": true }));
    let wrong = check("SELECT colum FROM flows");
    assert_eq!((&wrong["ok"], &wrong["error"]["place"]), (&json!(false), &json!({ "from": 7, "to": 12 })));
    assert_eq!(check("DROP TABLE flows")["ok"], json!(false));
    assert_eq!(service.ask("POST", "/api/v1/sql", &["Content-Type: text/plain"], "SELECT 1").problem().0, 400);
    let coded = ["Content-Type: application/json", "Content-Encoding: gzip"];
    let coded = service.ask("POST", "/api/v1/sql", &coded, r#"{"statement":"SELECT 1"}"#);
    assert!(coded.problem().0 == 415 && coded.head.contains("accept-encoding: identity"), "{coded:?}");
    assert_eq!(service.ask("DELETE", "/api/v1/flows", &[], "").problem().0, 405);
    assert_eq!(service.ask("GET", "/api/v1/flows", &["Host: evil.example"], "").problem().0, 403);
    let foreign = ["Content-Type: application/json", "Origin: http://evil.example"];
    assert_eq!(service.ask("POST", "/api/v1/sql", &foreign, "{}").problem().0, 403);
    service.get("/info");
}

#[test]
fn slow_and_broken_clients_hold_up_nobody() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path(), "1000");
    let config = folder.path().join("weir.toml");
    std::fs::write(&config, "[http]\nheader_timeout = '5s'\nconnections_max = 20\nbody_max = '1KiB'\n")
        .expect("written");
    let service = Service::start(&["--archive", &archive, &config.display().to_string()]);
    let mut slow: Vec<TcpStream> = (0..15).map(|_| TcpStream::connect(service.address).expect("it listens")).collect();
    for stream in &mut slow {
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.write_all(b"GET /api/v1/info HTTP/1.1\r\nHost: ").expect("written");
    }
    let long = vec![b'A'; 100_000];
    for garbage in [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"\0\0\0\0\r\n\r\n", b"GET\r\n\r\n", &long] {
        let mut stream = TcpStream::connect(service.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let _ = stream.write_all(garbage);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{:?}", String::from_utf8_lossy(&answer));
    }
    service.get("/info");
    let large = service.sql(&"x".repeat(4000));
    assert_eq!(large.problem(), (413, "the body of the request is too large".to_owned()));
    // whoever does not go on is closed
    for stream in &mut slow {
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"), "{:?}", String::from_utf8_lossy(&answer));
    }
    service.get("/info");
}

/// A statement that takes far longer than anybody waits.
const ENDLESS: &str = "SELECT count(*) FROM flows a, flows b, flows c WHERE a.bytes + b.bytes * 3 = c.bytes + 7";

/// Sends a statement and does not wait for its answer.
fn begin(service: &Service, statement: &str) -> TcpStream {
    let body = json!({ "statement": statement }).to_string();
    let mut stream = TcpStream::connect(service.address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let head = format!(
        "POST /api/v1/sql HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        service.address,
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("written");
    stream
}

#[test]
fn questions_are_cancelled_by_who_leaves_and_by_who_may() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = Service::start(&["--archive", &archive(folder.path(), "20000")]);
    let is_running = |questions: &Value| {
        let all = questions.as_array().expect("questions");
        all.iter().any(|question| question["text"].as_str().is_some_and(|text| text.contains("a.bytes")))
    };
    let stream = begin(&service, ENDLESS);
    service.wait_for("/questions", is_running);
    drop(stream);
    service.wait_for("/questions", |questions| !is_running(questions));
    let mut stream = begin(&service, ENDLESS);
    let running = service.wait_for("/questions", is_running);
    let found = running
        .as_array()
        .expect("questions")
        .iter()
        .find(|question| question["text"].as_str().is_some_and(|text| text.contains("a.bytes")));
    let id = found.expect("it runs")["id"].clone();
    assert_eq!(service.ask("DELETE", &format!("/api/v1/questions/{id}"), &[], "").status, 204);
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 409");
    assert_eq!(service.ask("DELETE", "/api/v1/questions/999999", &[], "").problem().0, 404);
    service.stop();
}

#[test]
fn a_question_costs_no_record_and_the_end_is_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive").display().to_string();
    let service = Service::start(&["--archive", &archive, "--collect", "127.0.0.1:0"]);
    let target = service.collector.expect("it collects").to_string();
    let records = 100_000;
    let mut generator = weir();
    generator.args(["generate", "--to", &target, "--records", &records.to_string(), "--rate", "10000"]);
    let mut generator = generator.stdout(Stdio::null()).spawn().expect("it generates");
    let (mut asked, mut bomb) = (0, None);
    while generator.try_wait().expect("a status").is_none() {
        service.get("/rank?by=srcip&limit=10");
        service.get("/timeline?by=dstport&points=100");
        assert_eq!(service.sql("SELECT count(*), sum(bytes) FROM flows").status, 200);
        asked += 1;
        if asked == 2 {
            bomb = Some(begin(&service, ENDLESS));
        }
    }
    assert!(asked > 2, "it was asked {asked} times");
    service.wait_for("/info", |info| info["archive"]["flows"] == records);
    let metrics = service.ask("GET", "/metrics", &[], "").body;
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
    service.stop();
    drop(bomb);
    let counted = printed(&["sql", "-R", &archive, "--format", "json", "SELECT count(*) AS n FROM flows"]);
    assert_eq!(counted[0]["n"], records);
    let books = printed(&[
        "sql",
        "-R",
        &archive,
        "--format",
        "json",
        "SELECT sum(kernel_drops) + sum(queue_drops) + sum(records_lost) AS lost, sum(records_stored) AS stored FROM exporter_books",
    ]);
    assert_eq!((&books[0]["lost"], &books[0]["stored"]), (&json!(0), &json!(records)));
}

#[test]
fn the_service_shows_what_it_collects() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, watches) = (folder.path().join("archive"), folder.path().join("watches"));
    std::fs::create_dir(&watches).expect("a folder");
    let (archive, watches) = (archive.display().to_string(), watches.display().to_string());
    let service = Service::start(&["--archive", &archive, "--demo", "--demo-rate", "2000", "--watch", &watches]);
    service.wait_for("/info", |info| info["archive"]["flows"].as_u64().is_some_and(|flows| flows > 1000));
    let exporters = service.wait_for("/exporters", |exporters| exporters.as_array().is_some_and(|all| all.len() > 1));
    assert_eq!(exporters[0]["exporter"], "127.0.0.1");
    assert_eq!(service.get("/completeness?from=-1h")["verdict"], "complete");
    live(&service);
    metrics(&service);
    let page = service.ask("GET", "/", &[], "");
    assert!(page.status == 200 && page.head.contains("content-security-policy: default-src 'none'"), "{}", page.head);
    assert_eq!(service.ask("GET", "/readyz", &[], "").status, 200);
    let columns = service.get("/columns");
    let words =
        columns.as_array().expect("columns").iter().find(|column| column["name"] == "src_addr").expect("a column");
    assert!(words["filter_words"].as_array().expect("words").contains(&json!("src ip")), "{words}");
    watched(&service);
    let days = service.get("/archive");
    assert!(days["rows_unsealed"].as_u64().is_some_and(|rows| rows > 0), "{days}");
    service.stop();
}

/// A second with flows comes.
fn live(service: &Service) {
    let mut stream = TcpStream::connect(service.address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(stream, "GET /api/v1/live HTTP/1.1\r\nHost: {}\r\n\r\n", service.address).expect("written");
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    let mut samples = lines.filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data:")?.trim()).ok());
    let sample = samples.find(|sample| sample["flows_per_s"].as_f64().is_some_and(|rate| rate > 100.0));
    let sample = sample.expect("a second with flows");
    assert_eq!((&sample["exporters"][0]["exporter"], &sample["drops"]), (&json!("127.0.0.1"), &json!(0)));
    // who comes later finds it among the seconds before
    let seconds = service.get("/live/seconds");
    let second = seconds.as_array().expect("seconds").iter().find(|second| second["time_ms"] == sample["time_ms"]);
    assert_eq!(second.expect("the same second")["bytes_per_s"], sample["bytes_per_s"]);
}

fn metrics(service: &Service) {
    let answer = service.ask("GET", "/metrics", &[], "");
    assert!(answer.head.contains("content-type: application/openmetrics-text"), "{}", answer.head);
    for metric in [
        "weir_books_records_stored_total ",
        "weir_books_kernel_drops_total 0",
        "weir_archive_flows ",
        "weir_questions_total{outcome=\"answered\"}",
        "weir_queue_bursts{from=\"collector\",to=\"archive\"}",
        "weir_component_events_total{component=\"archive\",event=\"rows_durable\"}",
    ] {
        assert!(answer.body.contains(metric), "{metric} is missing: {}", answer.body);
    }
}

/// A watch is checked, made, tested, shown and removed.
fn watched(service: &Service) {
    let text = "query = \"\"\"\nSELECT dst_port, count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '1' SECOND) GROUP BY dst_port HAVING count(*) > 10\n\"\"\"\ntitle = \"busy ports\"\nkey = \"dst_port\"\n";
    let json_type = ["Content-Type: application/json"];
    let checked = service.ask("POST", "/api/v1/watches/check", &json_type, &json!({ "text": text }).to_string()).json();
    assert_eq!((&checked["ok"], &checked["error"]), (&json!(true), &Value::Null), "{checked}");
    let wrong = json!({ "text": text.replace("dst_port,", "dst_prot,") }).to_string();
    let wrong = service.ask("POST", "/api/v1/watches/check", &json_type, &wrong).json();
    assert_eq!((&wrong["ok"], wrong["error"]["place"].is_object()), (&json!(false), true), "{wrong}");
    assert_eq!(service.ask("PUT", "/api/v1/watches/busy", &[], text).status, 200);
    assert_eq!(service.ask("PUT", "/api/v1/watches/..%2Fbusy", &[], text).status, 400);
    assert_eq!(service.ask("PUT", "/api/v1/watches/other", &[], "query = 1").problem().0, 400);
    let tested = service.ask("POST", "/api/v1/watches/busy/backtest", &json_type, "{}").json();
    assert!(tested["reports"].as_u64().is_some_and(|reports| reports > 0), "{tested}");
    assert_eq!((&tested["rows_future"], &tested["rows_without_time"]), (&json!(0), &json!(0)), "{tested}");
    // it is noticed, and reports what it finds
    let reports = service.wait_for("/reports?watch=busy", |reports| !reports.as_array().expect("reports").is_empty());
    assert_eq!((&reports[0]["title"], &reports[0]["acknowledged"]), (&json!("busy ports"), &json!(false)));
    let wrong_key = json!({ "watch": "busy", "key": "src_adr=10.0.0.1" }).to_string();
    let (status, why) = service.ask("POST", "/api/v1/reports/ack", &json_type, &wrong_key).problem();
    assert!(status == 400 && why.contains("busy"), "{why}");
    let acknowledged = service.ask("POST", "/api/v1/reports/ack", &json_type, &json!({ "watch": "busy" }).to_string());
    assert_eq!(acknowledged.status, 204, "{}", acknowledged.body);
    service.wait_for("/reports?watch=busy", |reports| reports[0]["acknowledged"] == true);
    assert_eq!(service.get("/watches")[0]["name"], "busy");
    assert_eq!(service.ask("DELETE", "/api/v1/watches/busy", &[], "").status, 204);
    assert_eq!(service.get("/watches"), json!([]));
}

#[test]
fn users_are_asked_who_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path(), "1000");
    let config = folder.path().join("weir.toml");
    let (password, token) = (hash("correct horse"), hash("battery"));
    let text = format!(
        "[archive]\nfolder = '{archive}'\n[[users]]\nname = 'ann'\nrole = 'analyst'\npassword = '{password}'\n\
         [[users]]\nname = 'robot'\nrole = 'viewer'\ntokens = ['{token}']\n"
    );
    std::fs::write(&config, text).expect("written");
    let service = Service::start(&[&config.display().to_string()]);
    assert_eq!(service.ask("GET", "/api/v1/flows", &[], "").problem().0, 401);
    assert_eq!(service.ask("GET", "/metrics", &[], "").problem().0, 401);
    let info = service.get("/info");
    assert_eq!((&info["user"], &info["archive"], &info["has_users"]), (&Value::Null, &Value::Null, &json!(true)));
    assert_eq!(service.ask("GET", "/", &[], "").status, 200, "the page to sign in needs no user");
    let bearer = "Authorization: Bearer robot:battery";
    assert_eq!(service.ask("GET", "/api/v1/flows?limit=1", &[bearer], "").status, 200);
    let body = json!({ "statement": "SELECT 1" }).to_string();
    let kind = "Content-Type: application/json";
    assert_eq!(service.ask("POST", "/api/v1/sql", &[kind, bearer], &body).problem().0, 403);
    let wrong = json!({ "name": "ann", "password": "battery" }).to_string();
    assert_eq!(service.ask("POST", "/api/v1/session", &[kind], &wrong).problem().0, 401);
    let right = json!({ "name": "ann", "password": "correct horse" }).to_string();
    let session = service.ask("POST", "/api/v1/session", &[kind], &right);
    let cookie = session.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
    let cookie = format!("Cookie: {}", cookie.split(';').next().expect("a pair"));
    assert_eq!(service.ask("POST", "/api/v1/sql", &[kind, &cookie], &body).status, 200);
    let foreign = [kind, &cookie, "Sec-Fetch-Site: cross-site"];
    assert_eq!(service.ask("POST", "/api/v1/sql", &foreign, &body).problem().0, 403);
    assert_eq!(service.ask("DELETE", "/api/v1/session", &[&cookie], "").status, 204);
    assert_eq!(service.ask("POST", "/api/v1/sql", &[kind, &cookie], &body).problem().0, 401);
}

#[test]
fn what_cannot_be_served_is_said_before_anything_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive").display().to_string();
    let error = |command: &mut Command| {
        let output = command.output().expect("it runs");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let open =
        error(weir().args(["serve", "--listen", "0.0.0.0:0", "--collect", "127.0.0.1:0", "--archive", &archive]));
    assert!(open.contains("there are no users") && open.contains("hint: "), "{open}");
    assert!(!Path::new(&archive).exists());
    let missing = error(weir().args(["serve", "--listen", "127.0.0.1:0", "--archive", &archive]));
    assert!(missing.contains("cannot open the archive"), "{missing}");
    let config = folder.path().join("weir.toml");
    std::fs::write(&config, "[htpp]\nlisten = '127.0.0.1:0'\n").expect("written");
    let misspelt = error(weir().arg("serve").arg(&config).arg("--check"));
    assert!(
        misspelt.contains("weir.toml: line 1: 'htpp' is no section") && misspelt.contains("hint: did you mean 'http'?"),
        "{misspelt}"
    );
    std::fs::write(&config, "[collect]\nlisten = '127.0.0.1:0'\n[http]\nlisten = '127.0.0.1:0'\n").expect("written");
    assert!(weir().arg("serve").arg(&config).arg("--check").output().expect("it runs").status.success());
    // what is right as a text, and cannot begin
    let cannot_begin = [
        ("[http]\nlisten = '0.0.0.0:0'\n", "there are no users"),
        ("[http]\ntls_cert = 'none.pem'\ntls_key = 'none.pem'\n", "none.pem"),
        ("[http]\nproxies = ['garbage']\n", "'garbage' is not an address of a proxy"),
        ("[collect]\nlisten = ['udp://nonsense']\n", "nonsense"),
        ("[collect]\n[statistics]\nby = ['foo']\n", "'foo' is no column to count by"),
        ("[collect]\nfilter = 'src prot 80'\n", "prot"),
        ("[enrichment]\ngeo_mmdb = 'none.mmdb'\n", "none.mmdb"),
        ("[meter]\ninterfaces = 'lo'\n", "write [[meter]]"),
        ("[[meter]]\ninterfaces = 'lo'\nidle_timout = '1s'\n", "did you mean 'idle_timeout'?"),
        ("[[meter]]\ninterfaces = 'lo'\nfilter = 'src prot 80'\n", "prot"),
        ("[[meter]]\ninterfaces = []\n", "'interfaces'"),
    ];
    for (text, said) in cannot_begin {
        std::fs::write(&config, text).expect("written");
        for command in [["serve", "--check"], ["config", "check"]] {
            let wrong = error(weir().args(command).arg(&config));
            assert!(wrong.contains(said), "{text}: {wrong}");
        }
    }
}
