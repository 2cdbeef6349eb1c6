//! What the watches that come with weir find of scenes that are planted into synthetic flows, and what they report in
//! quiet hours: a page.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use weir_export::{ExporterConfig, Version};
use weir_generate::{PlantedScene, Scene, SceneKind, Stream, TrafficModel, write_pcap};
use weir_testkit::pages;
use weir_watch::WatchFile;

use crate::detection::{reports, watch_names};
use crate::process::run;

const PAGE: &str = "docs/reference/planted.md";

const HOURS: u64 = 2;
const FLOWS_PER_SECOND: u32 = 5;
/// Traffic of long ago, for watches that need a past.
const PAST_SECS: u64 = 600;
/// When scenes begin, after the start.
const SCENE_MS: i64 = 45 * 60_000;
/// For so long after a scene it may be found.
const AFTER_MS: i64 = 10 * 60_000;
/// Each scene is planted once into the traffic of each.
const SEEDS: [u64; 2] = [7, 8];
const QUIET_SEED: u64 = 9;

/// Watches that must not report anything in quiet hours: four of them because two hours are too little of the past for them.
/// What the others find depends on how large the network is.
const NO_FALSE_ALARMS: [&str; 14] = [
    "anomalies",
    "beaconing",
    "bogons",
    "brute-force",
    "ddos",
    "elephants",
    "exfiltration",
    "exporter-silent",
    "first-contact",
    "interface-mismatch",
    "mice",
    "new-service",
    "portscan",
    "sampling-changed",
];

fn model(seed: u64, scene: Option<SceneKind>) -> TrafficModel {
    let mut model = TrafficModel { hosts: 1 << 10, flows_per_second: FLOWS_PER_SECOND, ..TrafficModel::new(seed) };
    // pings and questions of DNS have any size in the model, as only those of tunnels have in a network
    model.services.retain(|service| service.protocol != 1 && service.port != 53);
    model.scenes = scene.map(|kind| Scene { kind, at_ms: model.start_ms + SCENE_MS }).into_iter().collect();
    model
}

/// Exports flows of so many seconds into a capture, and imports that into an archive.
fn imported(model: &TrafficModel, secs: u64, folder: &Path) -> (PathBuf, Vec<PlantedScene>) {
    let (capture, archive) = (folder.join(format!("from-{}.pcap", model.start_ms)), folder.join("flows"));
    let mut flows = model.flows(secs * u64::from(FLOWS_PER_SECOND)).expect("a model");
    let streams = [Stream { source: None, config: ExporterConfig::new(Version::Ipfix) }];
    let target = "192.0.2.1:2055".parse().expect("an address");
    write_pcap(&capture, &mut flows, &streams, target).expect("a capture");
    let text = |path: &Path| path.to_str().expect("UTF-8").to_owned();
    let output = run(&["import", &text(&capture), "--archive", &text(&archive)]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (archive, flows.planted())
}

/// Whether the watch for a scene reports who takes part in it.
fn is_found(seed: u64, kind: SceneKind) -> bool {
    let folder = tempfile::tempdir().expect("a folder");
    let model = model(seed, Some(kind));
    let watch = WatchFile::read(&pages::path(&format!("watches/{}.toml", kind.watch()))).expect("a watch");
    let needed_ms = watch.options.reports.history_min.millis();
    if needed_ms > 0 {
        // some minutes of the same traffic so long ago: then the archive is as old as the watch needs it
        let past = TrafficModel { start_ms: model.start_ms - needed_ms, scenes: Vec::new(), ..model.clone() };
        imported(&past, PAST_SECS, folder.path());
    }
    let (archive, planted) = imported(&model, HOURS * 3_600, folder.path());
    let [planted] = &planted[..] else { panic!("one scene: {planted:?}") };
    assert!(planted.is_over, "{planted:?}");
    let (begin_ms, end_ms) = (planted.scene.at_ms, planted.scene.end_ms());
    let reports = reports(&archive, kind.watch(), (Some(begin_ms), Some(end_ms + AFTER_MS)));
    let has_all = |key: &str| {
        let has = |part: String| key.split(',').any(|found| found == part);
        planted.key.iter().all(|(column, value)| has(format!("{column}={value}")))
    };
    reports.iter().any(|report| report.window.start_ms < end_ms && has_all(&report.key))
}

fn scenes(page: &mut String) -> Vec<String> {
    page.push_str("## Scenes\n\n| scene | watch | planted | found | missed |\n| --- | --- | ---: | ---: | ---: |\n");
    let mut missed = Vec::new();
    for kind in SceneKind::ALL {
        let found = SEEDS.iter().filter(|seed| is_found(**seed, kind)).count();
        let (name, watch, planted) = (kind.name(), kind.watch(), SEEDS.len());
        writeln!(page, "| {name} | {watch} | {planted} | {found} | {} |", planted - found).expect("text");
        if found < planted {
            missed.push(format!("{name}: {found} of {planted}"));
        }
    }
    missed
}

fn quiet_hours(page: &mut String) -> Vec<String> {
    writeln!(
        page,
        "\n## Quiet hours\n\n| watch | reports in {HOURS} hours | a day | must be none |\n| --- | ---: | ---: | --- |"
    )
    .expect("text");
    let folder = tempfile::tempdir().expect("a folder");
    let model = model(QUIET_SEED, None);
    let (archive, _) = imported(&model, HOURS * 3_600, folder.path());
    // the last windows are not whole
    let until_ms = model.start_ms + HOURS as i64 * 3_600_000;
    let mut alarms = Vec::new();
    for name in watch_names() {
        let count = reports(&archive, &name, (None, Some(until_ms))).len();
        let must_be_none = NO_FALSE_ALARMS.contains(&name.as_str());
        let a_day = count as u64 * 24 / HOURS;
        writeln!(page, "| {name} | {count} | {a_day} | {} |", if must_be_none { "yes" } else { "" }).expect("text");
        if must_be_none && count > 0 {
            alarms.push(format!("{name}: {count}"));
        }
    }
    alarms
}

#[test]
fn what_is_planted_is_found_and_quiet_hours_are_quiet() {
    let mut page = format!(
        "# What the watches find of planted scenes\n\nWritten by `cargo xtask docs` (`cargo test --release -p weir --test weir planted`). \
         `weir generate --scene` plants scenes into synthetic traffic: {FLOWS_PER_SECOND} flows in a second among about a thousand hosts for {HOURS} hours, \
         exported as IPFIX and imported into an archive. A scene is found when the watch for it reports a window of that time with the hosts, ports or networks \
         that take part. The test fails when one is missed, when a watch that must be quiet is not, and when this page is stale.\n\n\
         The watches are as they come. What scenes do is fixed and not hidden: that they are found shows that a watch works from the wire on, and not how well \
         an attacker can hide. Captures of attacks are in [What the watches find](detection.md). Watches that say in `history_min` that they need a past report nothing in \
         an archive of two hours; their scenes are planted into one that has ten minutes of traffic from so long ago. Those that compare with the past of the same hours (anomalies) have \
         none in the quiet hours: that they report nothing there says nothing about a network with a past.\n\n"
    );
    let missed = scenes(&mut page);
    let alarms = quiet_hours(&mut page);
    assert!(missed.is_empty(), "missed {missed:?}\n{page}");
    assert!(alarms.is_empty(), "false alarms {alarms:?}\n{page}");
    pages::check(PAGE, &page);
}
