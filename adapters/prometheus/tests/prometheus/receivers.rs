//! What receivers have is what the store of series has, whatever became of them meanwhile.

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use weir_forward::{StatisticsForwardCounts, StatisticsForwardError, StatisticsForwardOptions, StatisticsForwarder};
use weir_prometheus::{RemoteWriteOptions, RemoteWriteStore};
use weir_series::{
    Coverage, Family, FamilyRows, Metric, MetricKind, Resolution, SeriesStore, StatisticsWriter, StepRows, StoreOptions,
};
use weir_testkit::certificates::{Certificate, Says};

use crate::server::{Kind, Samples, Server};

/// Keys of a family with every key, and hosts of one with its largest.
const KEYS: [&str; 3] = ["TCP", "UDP", "quote\"back\\slash\nline ä"];

/// A time of an hour ago, at which steps of all lengths begin: receivers take nothing that is much older.
fn first() -> i64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_secs() as i64;
    now / 600 * 600 - 3_600
}

fn families() -> [Family; 2] {
    let mut hosts = Family { coverage: Coverage::Largest, ..Family::counters("src_addr", &["bytes"]) };
    hosts.metrics.push(Metric::gauge("peers"));
    [Family::counters("protocol", &["bytes"]), hosts]
}

/// Writes steps of a second; which hosts have a value follows from the time.
fn write(dir: &Path, first: i64, seconds: std::ops::Range<i64>) {
    let resolutions = [(1, 7_200), (60, 86_400)].map(|(step_secs, keep_secs)| Resolution { step_secs, keep_secs });
    let options = StoreOptions { resolutions: resolutions.to_vec(), ..StoreOptions::default() };
    let mut writer = StatisticsWriter::open(dir, &options, &families()).expect("a writer");
    let [protocol, host] = ["protocol", "src_addr"].map(|name| writer.family(name).expect("a family"));
    for second in seconds {
        let (mut protocols, mut hosts) = (FamilyRows::new(1), FamilyRows::new(2));
        for (number, key) in (0..).zip(KEYS) {
            protocols.push(writer.series(protocol, key), &[second as u64 * 1_000 + number]);
        }
        for number in (0..40).filter(|number| (second + number) % 3 == 0) {
            let id = writer.series(host, &format!("192.0.2.{number}"));
            hosts.push(id, &[second as u64 + 7, number as u64]);
        }
        let rows = StepRows { families: vec![(protocol, protocols.sorted()), (host, hosts.sorted())] };
        writer.write_step(first + second, rows).expect("written");
    }
    writer.close().expect("closed");
}

/// What the store of series has of a metric: by labels, the samples of steps that begin before a time.
fn stored(dir: &Path, metric: &str, step_secs: u32, until: i64) -> BTreeMap<String, Samples> {
    let series = SeriesStore::open(dir).expect("a store");
    let resolution = *series.resolutions().iter().find(|one| one.step_secs == step_secs).expect("the resolution");
    let catalogue = series.catalogue().expect("a catalogue");
    let mut found: BTreeMap<String, Samples> = BTreeMap::new();
    for (id, family) in (0..).map(weir_series::FamilyId).zip(series.families()) {
        let Some(place) = family.metric(metric) else { continue };
        let fetched = series.fetch(id, None, resolution, until - 7_200, until).expect("fetched");
        for one in &fetched.series {
            let key = catalogue.key(id, one.id).expect("a key");
            let labels = format!("__name__=weir_{metric},by={},key={key},site=north,step={step_secs}", family.name);
            let value = |point: weir_series::Point| match family.metrics[place].kind {
                MetricKind::Counter => point.sum,
                MetricKind::Gauge => point.sum / u64::from(point.count),
            };
            let points = fetched.points(family, one, place).enumerate();
            let sample = |(step, point): (usize, Option<_>)| {
                Some(((fetched.time_secs(step) + i64::from(step_secs)) * 1_000, value(point?)))
            };
            found.insert(labels, points.filter_map(sample).collect());
        }
    }
    found
}

fn options(address: &str) -> RemoteWriteOptions {
    let mut options = RemoteWriteOptions::new(&format!("http://{address}")).expect("an address");
    options.label("site=north").expect("a label");
    // several requests for each step
    options.samples_max = 7;
    options.timeout = Duration::from_mins(1);
    options
}

fn forward(
    dir: &Path,
    step_secs: u32,
    remote: RemoteWriteOptions,
    is_stopping: impl FnMut(&StatisticsForwardCounts) -> bool,
) -> Result<StatisticsForwardCounts, StatisticsForwardError> {
    let store = RemoteWriteStore::new(remote).expect("a store");
    let pause = Duration::from_millis(20);
    let name = format!("every{step_secs}");
    let options =
        StatisticsForwardOptions { name, step_secs, retry_after: pause, retry_after_max: pause, ..Default::default() };
    StatisticsForwarder::open(dir, options, store)?.run(is_stopping, true)
}

/// Fails unless a server has these samples and no others. Some acknowledge seconds before they find what was sent.
#[track_caller]
fn assert_has(server: &Server, metric: &str, wanted: &BTreeMap<String, Samples>) {
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        let mut found = server.samples(metric);
        if found == *wanted {
            // what was sent twice may be found later, too
            thread::sleep(Duration::from_secs(2));
            found = server.samples(metric);
            if found == *wanted {
                return;
            }
        }
        let differs = |labels: &&String| found.get(*labels) != wanted.get(*labels);
        let first = wanted.keys().chain(found.keys()).find(differs);
        let of_first = first.map(|labels| (found.get(labels), wanted.get(labels)));
        assert!(
            Instant::now() < until,
            "{metric}: {} series, {} wanted; {first:?} has and should have {of_first:?}",
            found.len(),
            wanted.len()
        );
        thread::sleep(Duration::from_millis(100));
    }
}

/// Forwards to a server that is away at first, ended in the middle, and asked at the end.
fn survives(kind: Kind, end: fn(&mut Server)) {
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let Some(mut server) = Server::new(kind, home.path()) else { return };
    let first = first();
    write(dir.path(), first, 0..130);
    let address = server.address();
    // away when forwarding begins; then started, ended, and started again
    let mut turn = 0;
    let counts = forward(dir.path(), 1, options(&address), |counts| {
        let is_due = match turn {
            0 => counts.failures >= 3,
            1 => counts.steps_forwarded >= 60,
            2 => counts.failures >= 6,
            _ => false,
        };
        if is_due && turn == 1 {
            end(&mut server);
        } else if is_due {
            server.start();
        }
        turn += u32::from(is_due);
        false
    });
    let counts = counts.expect("forwarded");
    assert_eq!((counts.steps_forwarded, counts.rows_refused, counts.steps_lost), (129, 0, 0), "{counts:?}");
    assert_eq!(turn, 3, "{counts:?}");
    let bytes = stored(dir.path(), "bytes", 1, first + 129);
    assert_eq!(bytes.len(), 43);
    assert_has(&server, "weir_bytes", &bytes);

    // it goes on where it was, also in coarser steps, which have the average of a gauge
    write(dir.path(), first, 130..400);
    forward(dir.path(), 1, options(&address), |_| false).expect("forwarded");
    forward(dir.path(), 60, options(&address), |_| false).expect("forwarded");
    let all = |metric: &str| {
        let mut all = stored(dir.path(), metric, 1, first + 399);
        all.extend(stored(dir.path(), metric, 60, first + 360));
        all
    };
    assert_has(&server, "weir_bytes", &all("bytes"));
    assert_has(&server, "weir_peers", &all("peers"));
}

#[test]
fn prometheus_has_every_step_once_after_it_was_killed() {
    survives(Kind::Prometheus, Server::kill);
}

/// It acknowledges samples some seconds before it writes them: killed, it loses these, and nobody else can keep them.
#[test]
fn victoria_metrics_has_every_step_once_after_it_was_stopped() {
    survives(Kind::VictoriaMetrics, Server::stop);
}

#[test]
fn samples_that_a_receiver_never_takes_are_counted_and_the_others_sent() {
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let Some(mut server) = Server::new(Kind::Prometheus, home.path()) else { return };
    server.start();
    let first = first();
    write(dir.path(), first, 0..20);
    let address = server.address();
    forward(dir.path(), 1, options(&address), |_| false).expect("forwarded");
    // its position is lost, so everything comes again, and is too old but for the last step
    std::fs::remove_file(dir.path().join("forward/every1")).expect("removed");
    write(dir.path(), first, 20..30);
    let counts = forward(dir.path(), 1, options(&address), |_| false).expect("forwarded");
    assert_eq!(counts.steps_forwarded, 29);
    assert!(counts.rows_refused > 0 && counts.failures == 0, "{counts:?}");
    assert_has(&server, "weir_bytes", &stored(dir.path(), "bytes", 1, first + 29));
}

#[test]
fn a_wrong_path_and_a_wrong_authority_lose_nothing() {
    let (dir, home) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let Some(server) = Server::new(Kind::Prometheus, home.path()) else { return };
    let authority = Certificate::authority("authority of the test");
    authority.sign(&Says { ip: Some("127.0.0.1"), ..Says::name("server") }).write(home.path(), "server");
    authority.write(home.path(), "ca");
    Certificate::authority("another authority").write(home.path(), "other");
    let file = home.path().join("web.yml");
    std::fs::write(&file, "tls_server_config: { cert_file: server.pem, key_file: server.key }\n").expect("written");
    let mut server = server.with(format!("--web.config.file={}", file.display()));
    server.start();
    let first = first();
    write(dir.path(), first, 0..5);
    let secure = |ca: &str, path: &str| {
        let url = format!("https://{}{path}", server.address());
        let mut options = RemoteWriteOptions::new(&url).expect("an address");
        options.tls_ca = Some(home.path().join(ca).with_extension("pem"));
        options
    };
    let wrong = forward(dir.path(), 1, secure("ca", "/api/v1/nothing"), |_| false).expect_err("no such path");
    assert!(wrong.to_string().contains("answers 404"), "{wrong}");
    let stopped = forward(dir.path(), 1, secure("other", ""), |counts| counts.failures > 1).expect("stopped");
    assert_eq!((stopped.steps_forwarded, stopped.rows_refused), (0, 0));
    let counts = forward(dir.path(), 1, secure("ca", ""), |_| false).expect("forwarded");
    assert_eq!((counts.steps_forwarded, counts.rows_refused), (4, 0));
}
