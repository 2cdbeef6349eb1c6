//! `weir serve` over flows of exporters that sample, and of others.

use std::path::Path;

use serde_json::{Value, json};

use super::process::run;
use super::service::{Service, hash};

/// One packet in 1000 was sampled, none was left out, and not reported.
const FLOWS: &str = "start,end,exporter,src_addr,dst_addr,protocol,packets,bytes,sampling_interval,in_if\n\
    1704103200.000,1704103200.000,192.0.2.1,10.0.0.1,10.0.0.9,6,10,1000,1000,3\n\
    1704103201.000,1704103201.000,192.0.2.2,10.0.0.2,10.0.0.9,6,20,30000,1,3\n\
    1704103202.000,1704103202.000,192.0.2.3,10.0.0.3,10.0.0.9,17,5,5000,,\n";
const HEADER: &str = "exporter,domain,sampler,in_if,from,to,interval";
const WINDOW: &str = "from=2024-01-01T10:00:00Z&until=2024-01-01T10:00:02.999Z";

fn archive(folder: &Path) -> String {
    let (flows, archive) = (folder.join("flows.csv").display().to_string(), folder.join("archive"));
    std::fs::write(&flows, FLOWS).expect("written");
    let archive = archive.display().to_string();
    let read = run(&["import", "--archive", &archive, &flows]);
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    archive
}

/// Values of two columns of a table, row by row.
fn pairs(answer: &Value, names: [&str; 2]) -> Value {
    let columns = answer["columns"].as_array().expect("columns");
    let at = names.map(|name| columns.iter().position(|column| column["name"] == name).expect("a column"));
    let rows = answer["rows"].as_array().expect("rows").iter();
    rows.map(|row| json!([row[at[0]], row[at[1]]])).collect()
}

/// What a time line has altogether, in bytes.
#[track_caller]
fn check_line(line: &Value, bytes: f64) {
    let series = line["series"].as_array().expect("series").iter();
    let rates = series.flat_map(|series| series["values"].as_array().expect("values"));
    let step_ms = line["step_ms"].as_f64().expect("a number");
    let found = rates.filter_map(Value::as_f64).sum::<f64>() * step_ms / 8000.0;
    assert!((found / bytes - 1.0).abs() < 1e-9, "{found} and not {bytes} bytes: {line}");
}

fn sampling(is_scaled: bool, by: &str, counts: [u64; 2]) -> Value {
    let [sampled, unknown] = counts;
    json!({
        "is_scaled": is_scaled,
        "by": by,
        "has_sampled": sampled > 0,
        "sampled_flows": sampled,
        "unknown_flows": unknown
    })
}

#[test]
fn counts_are_as_measured_unless_they_are_asked_for_scaled() {
    let folder = tempfile::tempdir().expect("a folder");
    let service = Service::start(&["--archive", &archive(folder.path())]);
    let by = ["src_addr", "bytes"];
    let measured = service.get("/rank?by=srcip");
    assert_eq!(pairs(&measured, by), json!([["10.0.0.2", 30_000], ["10.0.0.3", 5000], ["10.0.0.1", 1000]]));
    assert_eq!(measured["totals"], json!({ "flows": 3, "packets": 35, "bytes": 36_000 }));
    assert_eq!(measured["sampling"], sampling(false, "none", [1, 1]));
    let scaled = service.get("/rank?by=srcip&scaled=true");
    assert_eq!(pairs(&scaled, by), json!([["10.0.0.1", 1_000_000], ["10.0.0.2", 30_000], ["10.0.0.3", 5000]]));
    assert_eq!(scaled["totals"], json!({ "flows": 3, "packets": 10_025, "bytes": 1_035_000 }));
    assert_eq!(scaled["sampling"], sampling(true, "reported", [1, 1]));
    let shares = pairs(&scaled, ["bytes_share", "flows_share"]);
    let share = shares[0][0].as_f64().expect("a share");
    assert!((share - 1_000_000.0 / 1_035_000.0).abs() < 1e-12, "{share}");
    // each is kept for itself
    for (path, kept) in [("/rank?by=srcip", &measured), ("/rank?by=srcip&scaled=true", &scaled)] {
        let again = service.get(path);
        assert_eq!((&again["rows"], &again["is_cached"]), (&kept["rows"], &json!(true)), "{path}");
    }
    // the filter means what is shown
    let large = |more: &str| service.get(&format!("/rank?by=srcip&filter=bytes%20%3E%20100000{more}"));
    assert_eq!(pairs(&large(""), by), json!([]));
    assert_eq!(pairs(&large("&scaled=true"), by), json!([["10.0.0.1", 1_000_000]]));
    let unsampled = service.get("/rank?by=srcip&filter=src%20ip%2010.0.0.2");
    assert_eq!(unsampled["sampling"], sampling(false, "none", [0, 0]));
    let groups = service.get("/group?by=proto&scaled=true");
    assert_eq!(pairs(&groups, ["protocol", "bytes"]), json!([[6, 1_030_000], [17, 5000]]));
    pictures(&service);
    single_flows(&service);
    several_columns(&service);
    interfaces(&service);
}

/// What came in through each interface: its exporter, and octets with whether any of its flows was sampled.
fn interfaces(service: &Service) {
    let received = |path: &str| -> Value {
        let listed = service.get(path);
        let rows = listed.as_array().expect("interfaces").iter();
        rows.map(|one| json!([one["exporter"], one["is_scaled"], one["in"]["bytes"], one["in"]["has_sampled"]]))
            .collect()
    };
    let measured = json!([["192.0.2.2", false, 30_000, false], ["192.0.2.1", false, 1000, true]]);
    assert_eq!(received("/interfaces"), measured);
    let scaled = json!([["192.0.2.1", true, 1_000_000, true], ["192.0.2.2", true, 30_000, false]]);
    assert_eq!(received("/interfaces?scaled=true"), scaled);
}

/// Rankings of several columns at once are those of each, about the same flows.
fn several_columns(service: &Service) {
    for which in ["", "&filter=proto%20tcp", "&filter=proto%20tcp&scaled=true", "&scaled=true"] {
        let found = service.get(&format!("/facets?columns=srcip,proto,exporter&limit=2{which}"));
        let facets = found["facets"].as_array().expect("facets");
        assert_eq!(facets.len(), 3, "{which}");
        for (facet, by) in facets.iter().zip(["srcip", "proto", "exporter"]) {
            let alone = service.get(&format!("/rank?by={by}&limit=2{which}"));
            let same = ["columns", "rows", "is_truncated"].map(|member| facet[member] == alone[member]);
            assert_eq!((&facet["by"], same), (&json!(by), [true; 3]), "{which}: {facet} {alone}");
            assert_eq!((&found["totals"], &found["sampling"]), (&alone["totals"], &alone["sampling"]), "{which}");
        }
    }
    let tcp = service.get("/facets?columns=proto&filter=proto%20tcp&scaled=true");
    assert_eq!(pairs(&tcp["facets"][0], ["protocol", "bytes"]), json!([[6, 1_030_000]]));
    assert_eq!(tcp["sampling"], sampling(true, "reported", [1, 0]));
    let problem = |path: &str| service.ask("GET", &format!("/api/v1/facets?{path}"), &[], "").problem();
    assert_eq!(problem("columns=").1, "'columns' has 0 columns, and 1 to 16 are possible");
    assert_eq!(problem("columns=proto,colour").1, "flows cannot be grouped by 'colour'");
    assert_eq!(problem("columns=proto&limit=0").0, 400);
}

fn pictures(service: &Service) {
    let get = |path: &str| service.get(&format!("/{path}&{WINDOW}"));
    let (measured, scaled) = (get("timeline?points=10"), get("timeline?points=10&scaled=true"));
    check_line(&measured, 36_000.0);
    check_line(&scaled, 1_035_000.0);
    assert_eq!(measured["sampling"], sampling(false, "none", [1, 1]));
    assert_eq!(scaled["sampling"], sampling(true, "reported", [1, 1]));
    // the one with a line of its own is the largest as scaled
    let by = get("timeline?by=srcip&top=1&scaled=true");
    assert_eq!((&by["series"][0]["name"], &by["series"][1]["name"]), (&json!("10.0.0.1"), &json!("other")));
    check_line(&get("sketch?by=srcip&scaled=true"), 1_035_000.0);
    let sketch = get("sketch?top=1");
    check_line(&sketch, 36_000.0);
    let links = |more: &str| get(&format!("sankey?by=srcip,dstip{more}"));
    assert_eq!(links("")["links"][0]["value"], 30_000);
    assert_eq!(links("&scaled=true")["links"][0]["value"], 1_000_000);
    // where flows are not counted it is only known whether any was sampled
    let not_counted = json!({
        "is_scaled": true,
        "by": "reported",
        "has_sampled": true,
        "sampled_flows": null,
        "unknown_flows": null
    });
    assert_eq!(links("&scaled=true")["sampling"], not_counted);
    assert_eq!((&sketch["sampling"]["has_sampled"], &sketch["sampling"]["is_scaled"]), (&json!(true), &json!(false)));
}

/// Flows one by one are as they were received, with their interval.
fn single_flows(service: &Service) {
    let listed = service.get("/flows?order=start");
    assert_eq!(pairs(&listed, ["bytes", "sampling_interval"]), json!([[1000, 1000], [30_000, 1], [5000, null]]));
    assert_eq!(listed["sampling"], Value::Null);
    let counted = service.get("/flows?order=start&totals=true");
    assert_eq!(counted["totals"]["bytes"], 36_000);
    assert_eq!(counted["sampling"], sampling(false, "none", [1, 1]));
    assert_eq!(service.ask("GET", "/api/v1/flows?scaled=true", &[], "").problem().0, 400);
}

#[test]
fn a_file_overrides_what_exporters_report_and_is_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path());
    let (file, config) = (folder.path().join("corrections.csv"), folder.path().join("weir.toml"));
    let correct = |lines: &str| std::fs::write(&file, format!("{HEADER}\n{lines}\n")).expect("written");
    correct("192.0.2.3,,,,,,7");
    let text = format!("[archive]\nfolder = '{archive}'\n[questions]\nsampling_corrections = 'corrections.csv'\n");
    std::fs::write(&config, text).expect("written");
    let service = Service::start(&[&config.display().to_string()]);
    let scaled = || service.get("/rank?by=srcip&scaled=true");
    // 1,000,000 and 30,000, and 7 times 5,000
    assert_eq!(scaled()["totals"]["bytes"], 1_065_000);
    assert_eq!(scaled()["sampling"], sampling(true, "corrections", [1, 1]));
    assert_eq!(service.get("/rank?by=srcip")["totals"]["bytes"], 36_000);
    let sum = service.sql("SELECT sum(bytes_scaled) FROM flows").json();
    assert_eq!(sum["rows"][0][0], 1_065_000);
    let reload = || service.ask("POST", "/api/v1/reload", &[], "");
    correct("192.0.2.3,,,,,,9");
    assert_eq!(reload().status, 200);
    assert_eq!(scaled()["totals"]["bytes"], 1_075_000);
    // what is wrong leaves all as it was, and says why
    correct("192.0.2.3,,,,,,often");
    let (status, detail) = reload().problem();
    assert!(status == 400 && detail.contains("corrections.csv") && detail.contains("'often'"), "{status}: {detail}");
    assert_eq!(scaled()["totals"]["bytes"], 1_075_000);
    let file = file.display().to_string();
    let checked = run(&["serve", "--archive", &archive, "--sampling-corrections", &file, "--check"]);
    let errors = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(!checked.status.success() && errors.contains("line 2: 'often' is no interval"), "{errors}");
}

/// Watches that run, and those that are tested on the past.
#[test]
fn watches_of_the_service_use_its_corrections() {
    let folder = tempfile::tempdir().expect("a folder");
    let (table, watches) = (folder.path().join("corrections.csv"), folder.path().join("watches"));
    std::fs::write(&table, format!("{HEADER}\n,,,,,,50\n")).expect("written");
    std::fs::create_dir(&watches).expect("a folder");
    let query =
        "SELECT sum(bytes_scaled) AS scaled, sum(bytes) AS kept FROM TUMBLE(flows, received, INTERVAL '1' SECOND)";
    std::fs::write(watches.join("sums.toml"), format!("query = \"{query}\"\n")).expect("written");
    let (archive, table) = (folder.path().join("archive").display().to_string(), table.display().to_string());
    let watches = watches.display().to_string();
    let demo = ["--archive", &archive, "--demo", "--watch", &watches, "--sampling-corrections", &table];
    let service = Service::start(&demo);
    let check = |row: &Value| {
        let [scaled, kept] = ["scaled", "kept"].map(|name| row[name].as_u64().expect("a number"));
        assert!(kept > 0 && scaled == 50 * kept, "{row}");
    };
    let reports = service.wait_for("/reports", |reports| reports.as_array().is_some_and(|all| !all.is_empty()));
    check(&reports[0]["rows"][0]);
    let json = ["Content-Type: application/json"];
    let tested = service.ask("POST", "/api/v1/watches/sums/backtest", &json, "{}").json();
    check(&tested["first_reports"][0]["evidence"][0]);
    service.stop();
}

#[test]
fn who_sees_a_part_has_the_sampling_of_that_part() {
    let folder = tempfile::tempdir().expect("a folder");
    let (archive, token) = (archive(folder.path()), hash("right"));
    std::fs::write(folder.path().join("key"), [7_u8; 32]).expect("written");
    let config = folder.path().join("weir.toml");
    std::fs::write(folder.path().join("corrections.csv"), format!("{HEADER}\n192.0.2.3,,,,,,7\n")).expect("written");
    let text = format!(
        "[archive]\nfolder = '{archive}'\n[questions]\nsampling_corrections = 'corrections.csv'\n[access]\npseudonym_key_file = 'key'\n\
         [[roles]]\nname = 'part'\nrows = 'proto tcp and bytes < 2000'\n\
         [[roles]]\nname = 'masked'\npseudonyms = true\n\
         [[users]]\nname = 'ann'\nrole = 'part'\ntokens = ['{token}']\n\
         [[users]]\nname = 'bob'\nrole = 'masked'\ntokens = ['{token}']\n"
    );
    std::fs::write(&config, text).expect("written");
    let service = Service::start(&[&config.display().to_string()]);
    let ask = |who: &str, more: &str| {
        let path = format!("/api/v1/rank?by=proto{more}");
        service.ask("GET", &path, &[&format!("Authorization: Bearer {who}:right")], "").json()
    };
    // a rule is about flows as they are kept
    assert_eq!(ask("ann", "&scaled=true")["totals"], json!({ "flows": 1, "packets": 10_000, "bytes": 1_000_000 }));
    assert_eq!(ask("ann", "&scaled=true")["sampling"], sampling(true, "corrections", [1, 0]));
    assert_eq!(ask("ann", "")["totals"], json!({ "flows": 1, "packets": 10, "bytes": 1000 }));
    // who sees images of exporters has the corrections of the exporters: 1,000,000 and 30,000, and 7 times 5,000
    assert_eq!(ask("bob", "&scaled=true")["totals"]["bytes"], 1_065_000);
    assert_eq!(ask("bob", "")["totals"]["bytes"], 36_000);
    assert_eq!(ask("bob", "")["sampling"], sampling(false, "none", [1, 1]));
}
