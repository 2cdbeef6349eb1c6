//! Who may ask what over HTTP: attacks on it.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};

use super::process::run;
use super::service::{Answer, PATIENCE, Service, hash};

/// The key of the sample that comes with the authors' implementation of Crypto-PAn.
const KEY: &str = "1522178d33a4cf80130a5b1649907d10d8988f837979652762574c2d2a842202";
const JSON: &str = "Content-Type: application/json";
const ANN: &str = "Authorization: Bearer ann:right";
const TENANT: &str = "Authorization: Bearer tenant:right";
const OTHER: &str = "Authorization: Bearer other:right";
const MASKED: &str = "Authorization: Bearer masked:right";

/// What becomes of a request of who sees a part of the flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is answered with the flows that are seen.
    Narrowed,
    /// It is refused: it is about all flows.
    Refused,
    /// It has nothing to do with flows.
    Free,
}

/// Every operation of the description. One that is not here makes the test fail: whoever adds it decides.
const FATES: &[(&str, &str, Fate)] = &[
    ("get", "/info", Fate::Narrowed),
    ("post", "/session", Fate::Free),
    ("delete", "/session", Fate::Free),
    ("get", "/flows", Fate::Narrowed),
    ("get", "/flows/download", Fate::Narrowed),
    ("get", "/biflows", Fate::Narrowed),
    ("get", "/interfaces", Fate::Refused),
    ("post", "/names", Fate::Free),
    ("get", "/rank", Fate::Narrowed),
    ("get", "/group", Fate::Narrowed),
    ("get", "/facets", Fate::Narrowed),
    ("get", "/timeline", Fate::Narrowed),
    ("get", "/sankey", Fate::Narrowed),
    ("get", "/sketch", Fate::Narrowed),
    ("post", "/sql", Fate::Narrowed),
    ("post", "/sql/check", Fate::Narrowed),
    ("get", "/estimate", Fate::Refused),
    ("get", "/columns", Fate::Free),
    ("get", "/filter/check", Fate::Free),
    ("get", "/filter/complete", Fate::Free),
    ("post", "/filter/why", Fate::Free),
    ("get", "/completeness", Fate::Narrowed),
    ("get", "/exporters", Fate::Refused),
    ("get", "/exporters/{address}", Fate::Refused),
    ("get", "/dashboards", Fate::Refused),
    ("get", "/dashboards/{name}", Fate::Refused),
    ("put", "/dashboards/{name}", Fate::Refused),
    ("delete", "/dashboards/{name}", Fate::Refused),
    ("get", "/archive", Fate::Refused),
    ("get", "/series", Fate::Refused),
    ("get", "/series/fetch", Fate::Refused),
    ("get", "/watches", Fate::Refused),
    ("get", "/watches/{name}", Fate::Refused),
    ("put", "/watches/{name}", Fate::Refused),
    ("delete", "/watches/{name}", Fate::Refused),
    ("post", "/watches/{name}/pause", Fate::Refused),
    ("post", "/watches/{name}/resume", Fate::Refused),
    ("post", "/watches/check", Fate::Refused),
    ("post", "/watches/{name}/backtest", Fate::Refused),
    ("get", "/reports", Fate::Refused),
    ("post", "/reports/ack", Fate::Refused),
    ("get", "/questions", Fate::Narrowed),
    ("delete", "/questions/{id}", Fate::Free),
    ("get", "/live", Fate::Refused),
    ("get", "/live/seconds", Fate::Refused),
    ("post", "/reload", Fate::Free),
    ("post", "/ingest", Fate::Refused),
];

/// An archive of made-up flows, and a service with users of four kinds.
fn service(folder: &Path) -> Service {
    let archive = super::service::archive(folder, "20000");
    let token = hash("right");
    std::fs::write(folder.join("key"), KEY).expect("written");
    // two rules that part the flows
    let (tenant, other) = ("dst port < 1024", "not dst port < 1024");
    let config = folder.join("weir.toml");
    let text = format!(
        "[archive]\nfolder = '{archive}'\n[access]\npseudonym_key_file = 'key'\n[audit]\nfile = 'audit.jsonl'\n\
         [[roles]]\nname = 'tenant'\nmay = 'analyst'\nrows = '{tenant}'\n\
         [[roles]]\nname = 'other'\nmay = 'analyst'\nrows = '{other}'\n\
         [[roles]]\nname = 'masked'\nmay = 'analyst'\npseudonyms = true\n\
         [[users]]\nname = 'ann'\nrole = 'admin'\ntokens = ['{token}']\n\
         [[users]]\nname = 'tenant'\nrole = 'tenant'\ntokens = ['{token}']\n\
         [[users]]\nname = 'other'\nrole = 'other'\ntokens = ['{token}']\n\
         [[users]]\nname = 'masked'\nrole = 'masked'\ntokens = ['{token}']\n"
    );
    std::fs::write(&config, text).expect("written");
    Service::start(&[&config.display().to_string()])
}

fn sql(service: &Service, who: &str, statement: &str) -> Answer {
    service.ask("POST", "/api/v1/sql", &[JSON, who], &json!({ "statement": statement }).to_string())
}

fn count(service: &Service, who: &str, statement: &str) -> u64 {
    let answer = sql(service, who, statement);
    assert_eq!(answer.status, 200, "{statement}: {}", answer.body);
    answer.json()["rows"][0][0].as_u64().unwrap_or_default()
}

#[test]
fn no_request_leads_around_a_rule() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = service(folder.path());
    let described = service.ask("GET", "/api/v1/openapi.json", &[], "").json();
    let fates: BTreeMap<(&str, &str), Fate> =
        FATES.iter().map(|(method, path, fate)| ((*path, *method), *fate)).collect();
    let mut operations = 0;
    for (path, methods) in described["paths"].as_object().expect("paths") {
        for method in methods.as_object().expect("methods").keys() {
            let fate = fates.get(&(path.as_str(), method.as_str()));
            let fate = *fate.unwrap_or_else(|| panic!("nobody has decided who may {method} {path}"));
            operations += 1;
            if fate != Fate::Refused {
                continue;
            }
            let concrete = format!("/api/v1{path}")
                .replace("{name}", "any")
                .replace("{id}", "1")
                .replace("{address}", "192.0.2.1");
            let parameters = if path == "/series/fetch" { "?family=total" } else { "" };
            let body = match path.as_str() {
                "/watches/check" => json!({ "text": "query = 'SELECT 1'" }).to_string(),
                "/reports/ack" => json!({ "watch": "any" }).to_string(),
                _ if method == "post" || method == "put" => "{}".to_owned(),
                _ => String::new(),
            };
            for who in [TENANT, MASKED] {
                let answer =
                    service.ask(&method.to_uppercase(), &format!("{concrete}{parameters}"), &[JSON, who], &body);
                assert_eq!(answer.problem().0, 403, "{method} {path}: {}", answer.body);
            }
        }
    }
    assert_eq!(operations, FATES.len());
    assert_eq!(service.ask("GET", "/metrics", &[TENANT], "").problem().0, 403);
    assert_eq!(service.ask("GET", "/metrics", &[ANN], "").status, 200);
}

#[test]
fn tenants_see_their_flows_in_every_way_to_ask() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = service(folder.path());
    let (all, seen) = (20_000, count(&service, ANN, "SELECT count(*) FROM flows WHERE dst_port < 1024"));
    assert!(seen > 1000 && seen < all - 1000, "both tenants have flows: {seen}");
    for (who, expected) in [(ANN, all), (TENANT, seen), (OTHER, all - seen)] {
        assert_eq!(count(&service, who, "SELECT count(*) FROM flows"), expected);
        // the same question, which the cache has of another
        for _ in 0..2 {
            let of = |path: &str| service.ask("GET", &format!("/api/v1{path}"), &[who], "").json();
            let ranked = of("/rank?by=proto&limit=1000&measure=flows");
            assert_eq!(ranked["totals"]["flows"], expected, "{who}");
            let grouped = of("/group?by=dstport&limit=10000&measure=flows");
            let flows = grouped["columns"].as_array().expect("columns").iter().position(|one| one["name"] == "flows");
            let sum: u64 =
                grouped["rows"].as_array().expect("rows").iter().filter_map(|row| row[flows?].as_u64()).sum();
            assert!(sum == expected || grouped["is_truncated"] == true, "{who}: {sum}");
            let facets = of("/facets?columns=proto,dstport&measure=flows&filter=not%20proto%20255");
            assert_eq!(facets["totals"]["flows"], expected, "{who}");
            let sankey = of("/sankey?by=proto,router&measure=flows&limit=1000");
            let sum: u64 =
                sankey["links"].as_array().expect("links").iter().filter_map(|link| link["value"].as_u64()).sum();
            assert_eq!(sum, expected, "{who}");
            let line = of("/timeline?measure=flows&points=10");
            let rates = line["series"][0]["values"].as_array().expect("values").iter().filter_map(Value::as_f64);
            let sum = rates.sum::<f64>() * line["step_ms"].as_f64().expect("a step") / 1000.0;
            assert!((sum - expected as f64).abs() < 1.0, "{who}: {sum}");
            let listed = of("/flows?limit=10000&columns=dst_port&filter=any%20or%20not%20any");
            let ports = listed["rows"].as_array().expect("rows").iter().filter_map(|row| row[0].as_u64());
            assert!(who != TENANT || ports.clone().all(|port| port < 1024));
            assert!(who != OTHER || ports.clone().all(|port| port >= 1024));
        }
    }
    for statement in [
        "SELECT count(*) FROM exporter_books",
        "EXPLAIN SELECT count(*) FROM flows",
        "SELECT count(*) FROM information_schema.nothing",
    ] {
        assert_eq!(sql(&service, TENANT, statement).problem().0, 400, "{statement}");
    }
    let info = service.ask("GET", "/api/v1/info", &[TENANT], "").json();
    assert_eq!((&info["archive"], &info["user"]["sees_all"]), (&Value::Null, &json!(false)));
    let complete = service.ask("GET", "/api/v1/completeness", &[TENANT], "").json();
    assert_eq!(
        (&complete["stored"], &complete["exporters"], &complete["counters"]),
        (&json!(0), &json!([]), &json!([]))
    );
    questions_of_others(&service);
}

/// A question that is not one's own is neither listed nor cancelled.
fn questions_of_others(service: &Service) {
    let endless = "SELECT count(*) FROM flows a, flows b, flows c WHERE a.bytes + b.bytes * 3 = c.bytes + 7";
    let body = json!({ "statement": endless }).to_string();
    let mut stream = TcpStream::connect(service.address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let head = format!(
        "POST /api/v1/sql HTTP/1.1\r\nHost: x\r\n{JSON}\r\n{OTHER}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("written");
    let running = |who: &str| service.ask("GET", "/api/v1/questions", &[who], "").json();
    let id = loop {
        let found = running(ANN);
        let mut all = found.as_array().expect("questions").iter();
        if let Some(question) = all.find(|question| question["user"] == "other") {
            break question["id"].clone();
        }
        std::thread::yield_now();
    };
    assert!(running(TENANT).as_array().expect("questions").iter().all(|question| question["user"] == "tenant"));
    let own = running(OTHER);
    let own = own.as_array().expect("questions").iter().find(|question| question["id"] == id).expect("one's own");
    assert_eq!((&own["rows_all"], &own["rows_read"]), (&json!(0), &json!(0)));
    assert_eq!(service.ask("DELETE", &format!("/api/v1/questions/{id}"), &[TENANT], "").problem().0, 404);
    assert_eq!(service.ask("DELETE", &format!("/api/v1/questions/{id}"), &[ANN], "").status, 204);
}

#[test]
fn pseudonyms_are_images_everywhere_and_lead_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = service(folder.path());
    let top = "/api/v1/rank?by=srcip&measure=bytes&limit=50";
    let of = |who: &str, path: &str| service.ask("GET", path, &[who], "").json();
    let (real, masked) = (of(ANN, top), of(MASKED, top));
    let addresses = |answer: &Value| -> Vec<String> {
        let rows = answer["rows"].as_array().expect("rows").iter();
        rows.map(|row| row[0].as_str().expect("an address").to_owned()).collect()
    };
    let (real, masked) = (addresses(&real), addresses(&masked));
    assert_eq!(real.len(), masked.len());
    assert!(real.iter().all(|address| !masked.contains(address)), "{real:?} {masked:?}");
    // what shared a prefix shares one of the same length
    let shared = |all: &[String], a: usize, b: usize| {
        let of = |text: &String| text.parse::<Ipv4Addr>().ok().map(u32::from);
        Some((of(&all[a])? ^ of(&all[b])?).leading_zeros())
    };
    for (a, b) in (0..real.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
        assert_eq!(shared(&real, a, b), shared(&masked, a, b));
    }
    let bytes = |who: &str, address: &str| {
        let filter = format!("/api/v1/rank?by=proto&filter=src%20ip%20{}", address.replace(':', "%3A"));
        of(who, &filter)["totals"]["bytes"].clone()
    };
    assert_eq!(bytes(ANN, &real[0]), bytes(MASKED, &masked[0]));
    assert_eq!(bytes(MASKED, &real[0]), json!(0), "an address as it is kept means another");
    let statement = format!("SELECT sum(bytes) FROM flows WHERE src_addr = '{}'", masked[0]);
    assert_eq!(sql(&service, MASKED, &statement).json()["rows"][0][0], bytes(ANN, &real[0]));
    let text = service.ask("GET", "/api/v1/flows?columns=*&limit=1000", &[MASKED], "").body;
    assert!(real.iter().filter(|address| address.len() > 10).all(|address| !text.contains(&format!("\"{address}\""))));
    for refused in ["/api/v1/rank?by=server_name", "/api/v1/flows?filter=sni%20a", "/api/v1/flows?columns=src_mac"] {
        assert_eq!(service.ask("GET", refused, &[MASKED], "").problem().0, 403, "{refused}");
    }
    assert_eq!(service.ask("GET", "/api/v1/exporters?from=2026-01-01T00:00:00Z", &[ANN], "").status, 200);
    let unknown = service.ask("POST", "/api/v1/reports/ack", &[JSON, ANN], &json!({ "watch": "nosuch" }).to_string());
    assert_eq!(unknown.status, 404);
    audited(folder.path());
}

/// What a sketch reads of a part of the flows must not depend on the others, and addresses in it are images.
#[test]
fn a_sketch_shows_what_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = service(folder.path());
    let window = "from=2026-01-01T00:00:00Z&until=2026-01-02T00:00:00Z";
    let of = |who: &str, what: &str| service.ask("GET", &format!("/api/v1/{what}&{window}"), &[who], "").json();
    // of few flows who sees all has all, and who sees a part has no picture: that there are few is not said
    assert_eq!(of(ANN, "sketch?by=dstport")["share"].as_f64(), Some(1.0));
    for who in [TENANT, OTHER] {
        for question in ["sketch?by=dstport", "sketch?scaled=true", "sketch?filter=proto%20tcp&measure=flows"] {
            let sketch = of(who, question);
            assert_eq!(
                (&sketch["share"], &sketch["times"], &sketch["series"]),
                (&json!(0.03125), &json!([]), &json!([]))
            );
            let why = sketch["why_empty"]["text"].as_str().expect("a reason");
            assert!(why.ends_with("in the parts that were read"), "{who}: {why}");
            assert_eq!(
                (&sketch["why_empty"]["first_ms"], &sketch["completeness"]["stored"]),
                (&Value::Null, &json!(0))
            );
        }
    }
    let names = |answer: &Value| -> Vec<String> {
        let series = answer["series"].as_array().expect("series").iter();
        series.map(|series| series["name"].as_str().expect("a name").to_owned()).collect()
    };
    for scaled in ["", "&scaled=true"] {
        let question = format!("by=srcip&top=5{scaled}");
        let [line, sketch] = ["timeline", "sketch"].map(|what| of(MASKED, &format!("{what}?{question}")));
        assert_eq!((names(&sketch).len(), names(&sketch)), (6, names(&line)), "five images and the rest");
        let real = names(&of(ANN, &format!("timeline?{question}")));
        assert!(real.iter().all(|name| name == "other" || !names(&sketch).contains(name)), "{real:?} {sketch}");
        let image = &names(&sketch)[0];
        let filtered = of(MASKED, &format!("sketch?by=srcip&filter=src%20ip%20{}{scaled}", image.replace(':', "%3A")));
        assert_eq!(names(&filtered), [image.as_str()], "an image leads back");
    }
    let refused = service.ask("GET", &format!("/api/v1/sketch?by=server_name&{window}"), &[MASKED], "");
    assert_eq!(refused.problem().0, 403);
}

/// Everything that was asked and refused is written down.
fn audited(folder: &Path) {
    let text = std::fs::read_to_string(folder.join("audit.jsonl")).expect("the audit");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let has = |wanted: &dyn Fn(&Value) -> bool| assert!(lines.iter().any(wanted), "{text}");
    has(&|line| {
        line["event"] == "question"
            && line["user"] == "ann"
            && line["outcome"] == "answered"
            && line["rows"] == 50
            && line["from"] == "127.0.0.1"
            && line["rows_read"].as_u64().is_some_and(|rows| rows > 0)
            && line["took_us"].as_u64().is_some_and(|us| us > 0)
            && line["text"].as_str().is_some_and(|text| text.starts_with("rank by=srcip"))
    });
    has(&|line| {
        line["user"] == "masked" && line["text"].as_str().is_some_and(|text| text.contains("SELECT sum(bytes)"))
    });
    has(&|line| line["event"] == "refused" && line["user"] == "masked" && line["status"] == 403);
    // parameters that were not given are left out, and times are open
    has(&|line| line["text"] == "exporters from=1767225600000 until=open");
    has(&|line| line["text"].as_str().is_some_and(|text| text.starts_with("acknowledge watch=nosuch until=")));
    assert!(!text.contains("right"), "no token is written down");
}

#[test]
fn users_are_made_by_a_command_and_read_without_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = super::service::archive(folder.path(), "1000");
    let users = folder.path().join("users.toml").display().to_string();
    let user = |arguments: &[&str]| {
        let output = run(&[&["user", "--file", &users], arguments].concat());
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    for arguments in [&["ls"][..], &["remove", "ann"], &["password", "ann"]] {
        let output = run(&[&["user", "--file", &users], arguments].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{arguments:?}");
        assert!(
            errors.starts_with(&format!("error: there is no file of users '{users}'\nhint: weir user add ")),
            "{errors}"
        );
    }
    let admin = format!("Authorization: Bearer {}", user(&["add", "ann", "--role", "admin", "--token"]));
    let config = folder.path().join("weir.toml");
    let with_rule = |rule: &str| {
        format!(
            "[archive]\nfolder = '{archive}'\n[access]\nusers_file = 'users.toml'\n[[roles]]\nname = 'part'\nrows = '{rule}'\n"
        )
    };
    std::fs::write(&config, with_rule("proto tcp")).expect("written");
    let service = Service::start(&[&config.display().to_string()]);
    let bob = format!("Authorization: Bearer {}", user(&["add", "bob", "--role", "part", "--token"]));
    assert!(user(&["ls"]).lines().any(|line| line == "bob: part, 1 token"));
    let status = |who: &str| service.ask("GET", "/api/v1/rank?by=proto", &[who], "").status;
    let reload = || service.ask("POST", "/api/v1/reload", &[&admin], "");
    assert_eq!((status(&admin), status(&bob)), (200, 401));
    assert_eq!(service.ask("POST", "/api/v1/reload", &[&bob], "").status, 401);
    assert_eq!(reload().json()["users"], 2);
    assert_eq!((status(&admin), status(&bob)), (200, 200));
    assert_eq!(service.ask("POST", "/api/v1/reload", &[&bob], "").problem().0, 403);
    // what is wrong leaves all as it was, and says why
    std::fs::write(&config, with_rule("proto tcp and and")).expect("written");
    let (status_of_wrong, why) = reload().problem();
    assert!(status_of_wrong == 400 && why.contains("role 'part'") && why.contains("weir.toml"), "{why}");
    assert_eq!((status(&admin), status(&bob)), (200, 200));
    std::fs::write(&config, format!("[http]\ncache = '1MiB'\n{}", with_rule("proto udp"))).expect("written");
    assert_eq!(reload().json()["restart_needed"], json!(["http"]));
    let carl = format!("Authorization: Bearer {}", user(&["add", "carl", "--role", "viewer", "--token"]));
    assert_eq!(reload().json()["users"], 3);
    let mut events = events_of(&service, &carl);
    user(&["remove", "carl"]);
    user(&["remove", "bob"]);
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(service.child.id() as i32), nix::sys::signal::Signal::SIGHUP)
        .expect("it runs");
    while status(&bob) != 401 {
        std::thread::yield_now();
    }
    assert_eq!(status(&admin), 200);
    let until = Instant::now() + PATIENCE;
    let mut octets = [0; 4096];
    // events that go on come once a second, so that no single read takes long
    while events.read(&mut octets).expect("events, or their end") > 0 {
        assert!(Instant::now() < until, "events of who is no user any more end");
    }
    service.stop();
}

#[test]
fn users_that_are_made_at_the_same_time_are_all_in_the_file_that_the_link_leads_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let (real, link) = (folder.path().join("real"), folder.path().join("users.toml"));
    std::fs::create_dir(&real).expect("a folder");
    std::os::unix::fs::symlink("real/users.toml", &link).expect("a link");
    let file = link.display().to_string();
    let names: Vec<String> = (0..12).map(|number| format!("user{number}")).collect();
    let children: Vec<_> = names
        .iter()
        .map(|name| {
            let mut command = super::process::weir();
            command.args(["user", "--file", &file, "add", name, "--token"]);
            command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped());
            command.spawn().expect("it starts")
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let listed = run(&["user", "--file", &file, "ls"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(names.iter().all(|name| listed.contains(&format!("{name}: viewer, 1 token"))), "{listed}");
    assert!(std::fs::symlink_metadata(&link).expect("the link").is_symlink());
    let left = std::fs::read_dir(&real).expect("a folder").count();
    assert_eq!(left, 1, "the file alone");
}

/// A token that is printed and in no file would look like a right one.
#[test]
fn a_token_that_could_not_be_written_is_not_printed() {
    let folder = tempfile::tempdir().expect("a folder");
    let users = folder.path().join("none").join("users.toml").display().to_string();
    let failed = run(&["user", "--file", &users, "add", "grafana", "--token"]);
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(!failed.status.success() && said.contains("cannot write"), "{said}");
    assert_eq!(String::from_utf8_lossy(&failed.stdout), "");
}

#[test]
fn who_is_removed_while_the_body_arrives_gets_no_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = super::service::archive(folder.path(), "1000");
    let (token, config) = (hash("right"), folder.path().join("weir.toml"));
    let with = |users: &[&str]| {
        let user = |name: &&str| format!("[[users]]\nname = '{name}'\nrole = 'admin'\ntokens = ['{token}']\n");
        let users: String = users.iter().map(user).collect();
        std::fs::write(&config, format!("[archive]\nfolder = '{archive}'\n{users}")).expect("written");
    };
    with(&["ann", "bob"]);
    let service = Service::start(&[&config.display().to_string()]);
    let body = json!({ "statement": "SELECT count(*) FROM flows" }).to_string();
    let begin = || {
        let mut stream = TcpStream::connect(service.address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let head = format!(
            "POST /api/v1/sql HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\n{JSON}\r\n\
             Authorization: Bearer bob:right\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("written");
        // the body is asked for once it is known who asks
        let mut go_on = [0; 25];
        stream.read_exact(&mut go_on).expect("an answer");
        assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
        stream
    };
    let end = |mut stream: TcpStream| {
        stream.write_all(body.as_bytes()).expect("written");
        let mut octets = Vec::new();
        stream.read_to_end(&mut octets).expect("an answer");
        Answer::of(&octets)
    };
    let reload = || service.ask("POST", "/api/v1/reload", &[ANN], "").json()["users"].clone();
    // other users, of whom one is still there
    let stream = begin();
    assert_eq!(reload(), json!(2));
    assert_eq!(end(stream).json()["rows"][0][0], json!(1000));
    let stream = begin();
    with(&["ann"]);
    assert_eq!(reload(), json!(1));
    assert_eq!(end(stream).problem().0, 401);
}

/// The stream of events of a user, which has begun; the connection ends with it.
fn events_of(service: &Service, who: &str) -> TcpStream {
    let mut stream = TcpStream::connect(service.address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let head = format!("GET /api/v1/live HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{who}\r\n\r\n", service.address);
    stream.write_all(head.as_bytes()).expect("written");
    let mut status = [0; 12];
    stream.read_exact(&mut status).expect("an answer");
    assert_eq!(&status, b"HTTP/1.1 200");
    stream
}

#[test]
fn guesses_and_questions_are_limited() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = super::service::archive(folder.path(), "1000");
    let (password, config) = (hash("correct horse"), folder.path().join("weir.toml"));
    let text = format!(
        "[archive]\nfolder = '{archive}'\n[http]\nsign_in_failures_per_minute = 3\n[questions]\nuser_per_minute_max = 60\n\
         [[users]]\nname = 'ann'\nrole = 'analyst'\npassword = '{password}'\n"
    );
    std::fs::write(&config, text).expect("written");
    let service = Service::start(&[&config.display().to_string()]);
    let sign_in = |password: &str| {
        let body = json!({ "name": "ann", "password": password }).to_string();
        service.ask("POST", "/api/v1/session", &[JSON], &body)
    };
    let session = sign_in("correct horse");
    let cookie = session.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).expect("a cookie");
    let cookie = format!("Cookie: {}", cookie.split(';').next().expect("a pair"));
    let answers: Vec<Answer> = (0..20).map(|_| service.ask("GET", "/api/v1/rank?by=proto", &[&cookie], "")).collect();
    let limited = answers.iter().find(|answer| answer.status == 429).expect("a question too many");
    assert!(limited.head.contains("retry-after: 1"), "{}", limited.head);
    assert_eq!(limited.json()["type"], "urn:weir:rate-limit");
    let guesses: Vec<u16> = (0..5).map(|number| sign_in(&number.to_string()).status).collect();
    assert_eq!(guesses, [401, 401, 401, 429, 429]);
    assert_eq!(sign_in("correct horse").status, 429);
}
