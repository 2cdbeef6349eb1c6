//! Files about addresses that change: flows have what was valid at their time.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use super::process::run;
use super::service::{Answer, PATIENCE, Service};

/// 2025-11-23T00:00:00Z, when all files are as they were at first.
const FIRST_SECS: u64 = 1_763_856_000;
/// 2025-11-25T00:00:00Z, when they change.
const CHANGED_SECS: u64 = 1_764_028_800;

/// A flow of a day before the change, and one of a day after it.
const FLOWS: &str = "exporter,src_addr,dst_addr,in_if,packets,bytes,start,end\n\
                     192.0.2.1,10.1.2.3,198.51.100.1,1,1,100,2025-11-24T00:00:00Z,2025-11-24T00:00:01Z\n\
                     192.0.2.1,10.1.2.3,198.51.100.1,1,1,200,2025-11-26T00:00:00Z,2025-11-26T00:00:01Z\n";

struct Fixture {
    folder: tempfile::TempDir,
    archive: String,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let archive = folder.path().join("archive").display().to_string();
        let flows = folder.path().join("flows.csv");
        fs::write(&flows, FLOWS).expect("written");
        let imported = run(&["import", "--archive", &archive, &flows.display().to_string()]);
        assert!(imported.status.success(), "{}", String::from_utf8_lossy(&imported.stderr));
        let fixture = Self { folder, archive };
        fixture.write("labels.csv", "10.0.0.0/8,office\n", FIRST_SECS);
        fixture.write("interfaces.csv", "192.0.2.1,1,uplink\n", FIRST_SECS);
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str, changed_secs: u64) {
        let path = self.path(name);
        fs::write(&path, text).expect("written");
        let changed = UNIX_EPOCH + Duration::from_secs(changed_secs);
        File::options().append(true).open(&path).and_then(|file| file.set_modified(changed)).expect("changed");
    }

    /// The service, and `more` of its section about files.
    fn serve(&self, more: &str) -> Service {
        let config = self.path("weir.toml");
        let text = format!(
            "[archive]\nfolder = '{}'\n[enrichment]\nlabels = 'labels.csv'\ninterfaces = 'interfaces.csv'\n{more}",
            self.archive
        );
        fs::write(&config, text).expect("written");
        Service::start(&[&config.display().to_string()])
    }

    /// Changes both files, and has the service read them.
    fn change(&self, service: &Service) {
        self.write("labels.csv", "10.0.0.0/8,lab\n", CHANGED_SECS);
        self.write("interfaces.csv", "192.0.2.1,1,core\n", CHANGED_SECS);
        assert_eq!(reload(service).status, 200);
    }

    /// What a statement prints, and what is said besides.
    fn sql(&self, more: &[&str], statement: &str) -> (String, String) {
        let output = run(&[&["sql", "-q", "-R", &self.archive, "-o", "csv", statement], more].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        (String::from_utf8(output.stdout).expect("UTF-8"), said)
    }

    /// Contents of versions of a file.
    fn versions(&self, name: &str) -> Vec<PathBuf> {
        let folder = Path::new(&self.archive).join("enrichment").join(name);
        let paths = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        paths.filter(|path| path.file_name().is_some_and(|name| name.len() == 40)).collect()
    }
}

const LABELS: &str = "SELECT label(src_addr), if_name(exporter, in_if, received) FROM flows ORDER BY bytes";

fn reload(service: &Service) -> Answer {
    service.ask("POST", "/api/v1/reload", &[], "")
}

fn labels(service: &Service) -> String {
    service.sql(LABELS).json()["rows"].to_string()
}

/// What the service knows about the address.
fn known(service: &Service, time: &str) -> serde_json::Value {
    let body = format!("{{\"values\": {{\"src_addr\": [\"10.1.2.3\"]}}{time}}}");
    service.ask("POST", "/api/v1/names", &["Content-Type: application/json"], &body).json()["src_addr"]["10.1.2.3"]
        .clone()
}

/// That flows have the names of their times, in answers of the service.
fn check(service: &Service) {
    assert_eq!(labels(service), r#"[["office","uplink"],["lab","core"]]"#);
    let (before, after) = (", \"at\": \"2025-11-24T12:00:00Z\"", ", \"at\": \"2025-11-26T12:00:00Z\"");
    assert_eq!(known(service, before), serde_json::json!({ "label": "office" }));
    assert_eq!(known(service, after), serde_json::json!({ "label": "lab" }));
    assert_eq!(known(service, ""), serde_json::json!({ "label": "lab" }));
    let both_days = format!("{after}, \"from\": \"2025-11-24T00:00:00Z\"");
    assert_eq!(known(service, &both_days), serde_json::json!({ "label": "lab", "changed": true }));
    let second_day = format!("{after}, \"from\": \"2025-11-26T00:00:00Z\"");
    assert_eq!(known(service, &second_day), serde_json::json!({ "label": "lab" }));
    for (until, name) in [("2025-11-24T12:00:00Z", "uplink"), ("2025-11-26T12:00:00Z", "core")] {
        let listed = service.get(&format!("/interfaces?from=2025-11-24T00:00:00Z&until={until}"));
        assert_eq!(listed[0]["name"], name, "{listed}");
    }
}

#[test]
fn a_flow_of_before_has_the_label_of_before() {
    let fixture = Fixture::new();
    let service = fixture.serve("");
    assert_eq!(labels(&service), r#"[["office","uplink"],["office","uplink"]]"#);
    fixture.change(&service);
    check(&service);
    // a file that is damaged leaves all as it was, and is no version
    fixture.write("labels.csv", "10.0.0.0/8,lab\nnonsense\n", CHANGED_SECS + 1);
    let (status, why) = reload(&service).problem();
    assert!(status == 400 && why.contains("labels.csv"), "{status}: {why}");
    check(&service);
    fixture.write("labels.csv", "10.0.0.0/8,lab\n", CHANGED_SECS + 2);
    assert_eq!(reload(&service).status, 200);
    assert_eq!(fixture.versions("labels").len(), 2);
    service.stop();
    let service = fixture.serve("");
    check(&service);
    service.stop();
}

#[test]
fn systems_of_addresses_are_those_of_routes() {
    let fixture = Fixture::new();
    fixture.write("routes", "10.0.0.0/8,64501\n", FIRST_SECS);
    let service = fixture.serve("routes = ['routes']\n");
    let systems = || service.sql("SELECT DISTINCT asn(src_addr) FROM flows").json()["rows"].to_string();
    assert_eq!(systems(), "[[64501]]");
    assert_eq!(known(&service, ""), serde_json::json!({ "label": "office", "as": 64501 }));
    // a file that is damaged leaves all as it was
    fixture.write("routes", "nonsense\n", CHANGED_SECS);
    let (status, why) = reload(&service).problem();
    assert!(status == 400 && why.contains("no route in ") && why.contains("routes"), "{status}: {why}");
    assert_eq!(systems(), "[[64501]]");
    fixture.write("routes", "10.0.0.0/8,64501\n10.1.0.0/16,64502\n", CHANGED_SECS);
    assert_eq!(reload(&service).status, 200);
    assert_eq!(systems(), "[[64502]]");
    service.stop();
}

#[test]
fn commands_read_the_versions_that_the_service_kept() {
    let fixture = Fixture::new();
    let service = fixture.serve("");
    fixture.change(&service);
    service.stop();
    let of_their_times = "office,uplink\nlab,core\n";
    let (file, other) = (fixture.path("labels.csv").display().to_string(), fixture.path("other.csv"));
    for more in [&[][..], &["--labels", &file]] {
        assert!(fixture.sql(more, LABELS).0.ends_with(of_their_times), "{more:?}");
    }
    fixture.write("other.csv", "10.0.0.0/8,other\n", CHANGED_SECS);
    let (printed, said) = fixture.sql(&["--labels", &other.display().to_string()], LABELS);
    assert!(printed.ends_with("other,uplink\nother,core\n"), "{printed}");
    assert!(said.contains("is not the file whose versions are kept"), "{said}");
    // a ranking has the names of the end of its time, and says when there were others
    let interfaces = fixture.path("interfaces.csv").display().to_string();
    let ranked = |time: &[&str]| {
        let ranking = ["query", "-R", &fixture.archive, "-s", "inif", "--bars", "never", "--interfaces", &interfaces];
        let output = run(&[&ranking[..], time].concat());
        let table = String::from_utf8(output.stdout).expect("UTF-8");
        let row: Vec<_> = table.lines().nth(1).unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        let changed = String::from_utf8_lossy(&output.stderr).contains("names of interfaces changed within this time");
        (row.get(1).cloned(), changed)
    };
    assert_eq!(ranked(&["--until", "2025-11-24T12:00:00Z"]), (Some("uplink".to_owned()), false));
    assert_eq!(ranked(&["--from", "2025-11-25T12:00:00Z"]), (Some("core".to_owned()), false));
    assert_eq!(ranked(&[]), (Some("core".to_owned()), true));
    // a version that is damaged is said, and its neighbour stands in
    for path in fixture.versions("labels") {
        if fs::read_to_string(&path).expect("readable").contains("office") {
            fs::write(&path, "10.0.0.0/8,offise\n").expect("written");
        }
    }
    let (printed, said) = fixture.sql(&[], LABELS);
    assert!(printed.ends_with("lab,uplink\nlab,core\n"), "{printed}");
    assert!(said.contains("labels: the version from 2025-11-23T00:00:00Z is not used"), "{said}");
}

/// A disk that takes no version, or somebody else who keeps them, leaves no mix of what was configured before and after,
/// and nobody waits for it.
#[test]
fn a_version_that_waits_to_be_kept_is_in_use() {
    let fixture = Fixture::new();
    let service = fixture.serve("");
    fixture.change(&service);
    // the answers of before are in the cache
    assert_eq!(labels(&service), r#"[["office","uplink"],["lab","core"]]"#);
    // another service that keeps versions of the archive, for as long as it likes
    let lock = File::create(Path::new(&fixture.archive).join("enrichment/labels/lock")).expect("a file");
    lock.lock().expect("nobody has it");
    fixture.write("labels.csv", "10.0.0.0/8,store\n", CHANGED_SECS + 1);
    std::thread::scope(|scope| {
        let reloading = [(); 2].map(|()| scope.spawn(|| reload(&service)));
        let until = Instant::now() + PATIENCE / 2;
        while !service.ask("GET", "/metrics", &[], "").body.contains("\nweir_reloads_total 3") {
            assert!(Instant::now() < until, "both are through");
            std::thread::yield_now();
        }
        assert_eq!(known(&service, ""), serde_json::json!({ "label": "store" }));
        assert_eq!(labels(&service), r#"[["office","uplink"],["store","core"]]"#);
        for reloading in reloading {
            assert_eq!(reloading.join().expect("an answer").status, 200);
        }
    });
    assert_eq!(fixture.versions("labels").len(), 2);
    lock.unlock().expect("it was locked");
    let until = Instant::now() + PATIENCE;
    while fixture.versions("labels").len() < 3 {
        assert!(Instant::now() < until, "the version is kept");
        std::thread::yield_now();
    }
    service.stop();
}

#[test]
fn the_oldest_versions_are_dropped_over_the_limit() {
    let fixture = Fixture::new();
    let service = fixture.serve("versions_max = 2\n");
    for (day, label) in [(1, "lab"), (2, "store"), (4, "kitchen")] {
        fixture.write("labels.csv", &format!("10.0.0.0/8,{label}\n"), FIRST_SECS + day * 86_400);
        assert_eq!(reload(&service).status, 200);
    }
    assert_eq!(fixture.versions("labels").len(), 2);
    // the oldest one that is left counts for the times before
    assert_eq!(labels(&service), r#"[["store","uplink"],["store","uplink"]]"#);
    assert_eq!(known(&service, ""), serde_json::json!({ "label": "kitchen" }));
    service.stop();
}
