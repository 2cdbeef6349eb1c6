//! Functions that look addresses up in the version of a file that was valid at the time of the flow.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use weir_flow::{Column, FlowBatch, FlowBatchBuilder, parse_address};
use weir_sql::{Engine, EngineOptions, Enrichment, EnrichmentFiles, VersionLimits};

use crate::rows::{engine_with, lines};

/// 2025-11-24T16:00:00Z
const DAY_1_MS: i64 = 1_764_000_000_000;
const DAY_MS: i64 = 86_400_000;

/// A flow of 10.1.2.3 on each of three days, of 1, 2 and 4 octets.
fn flows() -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(3);
    builder.begin_rows(3);
    for day in 0..3 {
        for time in [Column::Received, Column::Start, Column::End] {
            builder.time(time).push(Some(DAY_1_MS + day * DAY_MS));
        }
        builder.address(Column::SrcAddr).push(parse_address("10.1.2.3").as_deref());
        builder.u64(Column::Bytes).push(Some(1 << day));
    }
    builder.finish()
}

/// The labels of `10.0.0.0/8`, each from the day before the flow of its day on.
fn enrichment(folder: &Path, labels: &[&str]) -> Arc<Enrichment> {
    let path = folder.join("labels.csv");
    let files = EnrichmentFiles {
        labels: Some(path.clone()),
        limits: Some(VersionLimits::default()),
        ..EnrichmentFiles::default()
    };
    let files = files.with_versions_of(folder);
    for (day, label) in labels.iter().enumerate() {
        fs::write(&path, format!("10.0.0.0/8,{label}\n")).expect("written");
        let changed = DAY_1_MS + day as i64 * DAY_MS - DAY_MS / 2;
        let changed = UNIX_EPOCH + Duration::from_millis(changed as u64);
        File::options().append(true).open(&path).and_then(|file| file.set_modified(changed)).expect("changed");
        Enrichment::load(&files).expect("readable").keep_versions();
    }
    Arc::new(Enrichment::load(&files).expect("readable"))
}

fn labelled(folder: &Path, labels: &[&str]) -> Engine {
    let options = EngineOptions { threads: 2, enrichment: enrichment(folder, labels), ..EngineOptions::default() };
    engine_with(&folder.join("archive"), &[flows()], &[], &options).expect("an engine")
}

#[test]
fn a_flow_has_the_label_of_its_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let engine = labelled(folder.path(), &["office", "lab"]);
    let cases: &[(&str, &[&str])] = &[
        ("SELECT bytes, label(src_addr) FROM flows ORDER BY bytes", &["1,office", "2,lab", "4,lab"]),
        ("SELECT label(src_addr), sum(bytes) FROM flows GROUP BY label(src_addr) ORDER BY 2", &["office,1", "lab,6"]),
        ("SELECT label(src_addr) AS l, sum(bytes) FROM flows GROUP BY l ORDER BY l", &["lab,6", "office,1"]),
        (
            "SELECT label(src_addr), sum(bytes) FROM flows GROUP BY ROLLUP (label(src_addr)) ORDER BY 2",
            &["office,1", "lab,6", ",7"],
        ),
        ("SELECT bytes FROM flows WHERE label(src_addr) = 'office'", &["1"]),
        ("SELECT upper(label(prefix(src_addr, 24))) FROM flows WHERE bytes = 1", &["OFFICE"]),
        ("SELECT count(DISTINCT label(f.src_addr)) FROM flows f", &["2"]),
        (
            "SELECT label(src_addr) FROM (SELECT * FROM flows) AS inner_flows WHERE bytes < 3 ORDER BY bytes",
            &["office", "lab"],
        ),
        // a time that is given counts, before the first version the first one
        ("SELECT label(src_addr, received - INTERVAL '1' YEAR) FROM flows WHERE bytes = 4", &["office"]),
        ("SELECT label('10.0.0.1', max(received)) FROM flows", &["lab"]),
        // no time is known of an address alone, nor of one that flows of all days share
        ("SELECT label('10.0.0.1')", &["lab"]),
        ("SELECT label(src_addr), sum(bytes) FROM flows GROUP BY src_addr", &["lab,7"]),
    ];
    for (statement, expected) in cases {
        assert_eq!(lines(engine.sql(statement)).expect(statement), *expected, "{statement}");
    }
}

#[test]
fn one_version_costs_no_column() {
    let reads_times = |labels: &[&str]| {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = labelled(folder.path(), labels);
        let plan = lines(engine.sql("EXPLAIN SELECT label(src_addr) FROM flows")).expect("a plan");
        let columns = plan.iter().find_map(|line| line.split_once("columns: "));
        columns.expect("columns are read").1.contains("received")
    };
    assert!(!reads_times(&["office"]));
    // the same content a day later is the same version
    assert!(!reads_times(&["office", "office"]));
    assert!(reads_times(&["office", "lab"]));
}
