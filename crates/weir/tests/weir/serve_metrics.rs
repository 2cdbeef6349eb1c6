//! What the service counts, and what dashboards and alerts make of it.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_flow::Counter;

use super::service::{PATIENCE, Service};

/// How far a forwarder is that has stored 40 flows of 5 deliveries; the checksum is that of RFC 3720, appendix B.4.
pub(crate) const STATE: &str = "\
weir forward 1
position 0:0
rows_forwarded 40
rows_refused 2
rows_lost 3
deliveries_forwarded 5
deliveries_lost 1
rewinds 0
crc32c e7bc832a
";

fn packaging(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging").join(file)
}

/// Names of metrics in a text: words that begin with `weir_`.
fn names(text: &str) -> BTreeSet<String> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("weir_")).map(str::to_owned).collect()
}

/// Counters of the archive that a dashboard names.
fn archive_events(dashboard: &str) -> BTreeSet<String> {
    let dashboard: Value = serde_json::from_str(dashboard).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels").iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default());
    let texts = targets.filter_map(|target| target["expr"].as_str().map(str::to_owned));
    let named = texts.filter_map(|text| {
        let rest = text.split_once("component=\"archive\", event=")?.1.to_owned();
        Some(rest.trim_start_matches(['~', '"']).split('"').next()?.to_owned())
    });
    named.flat_map(|names| names.split('|').map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// Every metric of a service that has everything.
fn metrics() -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, watches) = (folder.path().join("archive"), folder.path().join("watches"));
    std::fs::create_dir(&watches).expect("a folder");
    let query = "SELECT dst_port, count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '1' SECOND) GROUP BY dst_port HAVING count(*) > 10";
    let watch = format!("query = \"{query}\"\ntitle = \"busy ports\"\nkey = \"dst_port\"\n");
    std::fs::write(watches.join("busy.toml"), watch).expect("written");
    let (archive, watches) = (archive.display().to_string(), watches.display().to_string());
    let service =
        Service::start(&["--archive", &archive, "--demo", "--demo-rate", "2000", "--statistics", "--watch", &watches]);
    service.wait_for("/reports", |reports| reports.as_array().is_some_and(|reports| !reports.is_empty()));
    let kept = Path::new(&archive).join("forward");
    std::fs::create_dir_all(&kept).expect("a folder");
    std::fs::write(kept.join("cassandra"), STATE).expect("written");
    let kept = Path::new(&archive).join("statistics/forward");
    std::fs::create_dir_all(&kept).expect("a folder");
    std::fs::write(kept.join("prometheus"), crate::series::STATE).expect("written");
    loop {
        let text = service.ask("GET", "/metrics", &[], "").body;
        if text.contains("weir_watch_history_scans_total{")
            && text.contains("weir_watch_events_total{")
            && text.contains("weir_exporter_flows_per_second{")
        {
            service.stop();
            return text;
        }
        std::thread::yield_now();
    }
}

#[test]
fn every_counter_is_a_metric_and_every_metric_that_is_named_exists() {
    let text = metrics();
    let exported = names(&text);
    for counter in Counter::ALL {
        let name = format!("weir_books_{}_total", counter.name());
        assert!(exported.contains(&name), "{name} is missing");
    }
    for component in ["collector", "archive", "statistics"] {
        let label = format!("component=\"{component}\"");
        // the counters of the collector are the books
        let has_events = text.contains(&format!("weir_component_events_total{{{label}"));
        assert!(has_events || component == "collector", "{component} has no counters");
        assert!(text.contains(&format!("weir_component_rows_in_total{{{label}}}")), "{component} has no rows");
    }
    // a state that is there is read; how many deliveries wait is for the archive to say
    for line in [
        "weir_forward_flows_total{forwarder=\"cassandra\",outcome=\"stored\"} 40",
        "weir_forward_flows_total{forwarder=\"cassandra\",outcome=\"refused\"} 2",
        "weir_forward_deliveries_total{forwarder=\"cassandra\",outcome=\"lost\"} 1",
        "weir_forward_statistics_steps_total{forwarder=\"prometheus\",outcome=\"stored\"} 40",
        "weir_forward_statistics_steps_total{forwarder=\"prometheus\",outcome=\"lost\"} 3",
        "weir_forward_statistics_rows_total{forwarder=\"prometheus\",outcome=\"refused\"} 2",
    ] {
        assert!(text.contains(line), "{line} is missing");
    }
    for file in ["grafana/weir.json", "prometheus/weir.rules.yml"] {
        let written = std::fs::read_to_string(packaging(file)).expect(file);
        let named = names(&written);
        assert!(named.len() > 5, "{file} names {named:?}");
        for name in named {
            assert!(exported.contains(&name), "{file}: there is no metric {name}");
        }
    }
    let dashboard = std::fs::read_to_string(packaging("grafana/weir.json")).expect("a dashboard");
    let events = archive_events(&dashboard);
    assert!(events.contains("sync_failures") && events.len() > 5, "{events:?}");
    for event in events {
        assert!(text.contains(&format!("component=\"archive\",event=\"{event}\"")), "there is no counter {event}");
    }
    // labels come from closed sets: who sends datagrams or requests adds none
    let labels: BTreeSet<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| Some(line.split_once('{')?.1.split_once('}')?.0))
        .flat_map(|labels| labels.split(','))
        .filter_map(|label| label.split('=').next())
        .collect();
    assert_eq!(
        labels,
        BTreeSet::from([
            "component",
            "event",
            "exporter",
            "forwarder",
            "from",
            "kept",
            "outcome",
            "status",
            "step",
            "to",
            "watch"
        ])
    );
}

/// Ended when dropped.
struct Scraper(Child);

impl Drop for Scraper {
    fn drop(&mut self) {
        // it may have ended by itself
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn prometheus_takes_every_metric() {
    let Some(prometheus) = weir_testkit::program("prometheus") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive").display().to_string();
    let service = Service::start(&["--archive", &archive, "--demo", "--demo-rate", "500"]);
    service.wait_for("/info", |info| info["archive"]["flows"].as_u64().is_some_and(|flows| flows > 0));
    let config = folder.path().join("prometheus.yml");
    let text = format!(
        "scrape_configs:\n  - job_name: weir\n    scrape_interval: 1s\n    static_configs:\n      - targets: ['{}']\n",
        service.address
    );
    std::fs::write(&config, text).expect("written");
    // free when it was asked for; prometheus does not say which port it has
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let mut command = Command::new(prometheus);
    command.arg(format!("--config.file={}", config.display())).arg(format!("--web.listen-address={address}"));
    command.arg(format!("--storage.tsdb.path={}", folder.path().join("tsdb").display()));
    let scraper = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("prometheus starts");
    let _scraper = Scraper(scraper);
    let ask = |query: &str| -> Option<Value> {
        let mut stream = TcpStream::connect(address).ok()?;
        let head = format!("GET /api/v1/query?query={query} HTTP/1.0\r\nHost: {address}\r\n\r\n");
        stream.write_all(head.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
    };
    let until = Instant::now() + PATIENCE;
    let is_up = || ask("up").is_some_and(|answer| answer["data"]["result"][0]["value"][1] == "1");
    while !is_up() {
        assert!(Instant::now() < until, "prometheus does not scrape: {:?}", ask("up"));
        std::thread::sleep(Duration::from_millis(100));
    }
    let answer = ask("weir_archive_flows").expect("an answer");
    let flows = answer["data"]["result"][0]["value"][1].as_str().and_then(|value| value.parse::<f64>().ok());
    assert!(flows.is_some_and(|flows| flows > 0.0), "{answer}");
    let known = ask("count(%7B__name__%3D~%22weir_.*%22%7D)").expect("an answer");
    let known = known["data"]["result"][0]["value"][1].as_str().and_then(|value| value.parse::<f64>().ok());
    // a line of the text for each
    assert!(known.is_some_and(|known| known > 100.0), "{known:?}");
    service.stop();
}

#[test]
fn the_dashboard_is_json_and_the_alerts_are_rules() {
    let text = std::fs::read_to_string(packaging("grafana/weir.json")).expect("a dashboard");
    let dashboard: Value = serde_json::from_str(&text).expect("JSON");
    assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() > 10));
    let rules = packaging("prometheus/weir.rules.yml");
    let Some(promtool) = weir_testkit::program("promtool") else { return };
    let checked = Command::new(promtool).args(["check", "rules"]).arg(&rules).output().expect("promtool runs");
    let said = String::from_utf8_lossy(&checked.stdout).into_owned() + &String::from_utf8_lossy(&checked.stderr);
    assert!(checked.status.success(), "{said}");
}
