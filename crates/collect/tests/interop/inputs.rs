//! What of the corpus carries NetFlow or IPFIX: captures, payload files, and which files belong together.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use weir_wire::ipfix;

/// One export datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub source: SocketAddr,
    pub received_ms: i64,
    pub payload: Vec<u8>,
}

impl Datagram {
    /// The version field, 0 when there is none.
    pub(crate) fn version(&self) -> u16 {
        self.payload.first_chunk().map_or(0, |version| u16::from_be_bytes(*version))
    }

    fn is_read(&self) -> bool {
        matches!(self.version(), 1 | 5 | 7 | 9 | 10)
    }
}

/// Datagrams that belong together: a capture, or payload files of one exporter.
#[derive(Debug, Clone)]
pub(crate) struct Input {
    /// Project of the corpus that it comes from.
    pub project: String,
    /// Name within the project: a file, or the test that lists several files.
    pub name: String,
    /// The files, relative to the corpus.
    pub files: Vec<String>,
    /// Those of a protocol that is read.
    pub datagrams: Vec<Datagram>,
    /// Those of sFlow, which have tests of their own.
    pub sflow: Vec<Datagram>,
    /// Datagrams that are not read, by protocol.
    pub not_read: BTreeMap<&'static str, usize>,
}

impl Input {
    fn new(project: &str, name: &str, files: Vec<String>, all: Vec<Datagram>) -> Self {
        let mut not_read = BTreeMap::new();
        let (mut datagrams, mut sflow) = (Vec::new(), Vec::new());
        for datagram in all {
            if datagram.is_read() {
                datagrams.push(datagram);
            } else if protocol(&datagram.payload) == "sFlow v5" {
                sflow.push(datagram);
            } else {
                *not_read.entry(protocol(&datagram.payload)).or_insert(0) += 1;
            }
        }
        Self { project: project.to_owned(), name: name.to_owned(), files, datagrams, sflow, not_read }
    }

    /// Project and name.
    pub(crate) fn label(&self) -> String {
        format!("{}/{}", self.project, self.name)
    }
}

/// What a payload is by its first octets.
fn protocol(payload: &[u8]) -> &'static str {
    match payload {
        [0, 0, 0, 5, ..] => "sFlow v5",
        [0, 1, ..] => "NetFlow v1",
        [0, 5, ..] => "NetFlow v5",
        [0, 7, ..] => "NetFlow v7",
        [0, 9, ..] => "NetFlow v9",
        [0, 10, ..] => "IPFIX",
        _ => "no known version",
    }
}

/// A line of the corpus's index.
struct Entry {
    path: String,
    capture: bool,
    features: String,
}

/// Whoever sent the datagrams of payload files.
const PAYLOAD_SOURCE: ([u8; 4], u16) = ([192, 0, 2, 1], 2055);
/// Some time; payload files have none of their own.
pub(crate) const RECEIVED_MS: i64 = 1_700_000_000_000;

const LOGSTASH: &str = "logstash-plugins+logstash-codec-netflow";
const LOGSTASH_FILES: &str = "spec/codecs";

/// Every input of the corpus, in the order of the index.
pub(crate) fn all(corpus: &Path) -> Vec<Input> {
    let entries = index(corpus);
    let mut inputs: Vec<Input> =
        entries.iter().filter(|entry| entry.capture).map(|entry| capture(corpus, entry)).collect();
    let mut taken = BTreeSet::new();
    for (context, files) in logstash_contexts(corpus) {
        taken.extend(files.iter().cloned());
        inputs.push(payloads(corpus, &files, Some(&format!("test '{context}'"))));
    }
    for files in groups(entries.iter().filter(|entry| !entry.capture && !taken.contains(&entry.path))) {
        inputs.push(payloads(corpus, &files, None));
    }
    inputs.sort_by_key(Input::label);
    inputs
}

fn index(corpus: &Path) -> Vec<Entry> {
    let text = fs::read_to_string(corpus.join("INDEX.tsv")).expect("an index");
    let entry = |line: &str| {
        let [path, _, format, _, features] = line.split('\t').collect::<Vec<_>>()[..] else { return None };
        let capture = format.starts_with("pcap") && features.contains("FLOW");
        let present = (capture || format == "export-payload") && corpus.join(path).is_file();
        present.then(|| Entry { path: path.to_owned(), capture, features: features.to_owned() })
    };
    text.lines().skip(1).filter_map(entry).collect()
}

/// The contexts of the logstash codec's tests: name, and files in the order in which they are fed.
fn logstash_contexts(corpus: &Path) -> Vec<(String, Vec<String>)> {
    let Some(golden) = logstash_golden(corpus) else { return Vec::new() };
    let mut names = BTreeMap::new();
    let contexts = golden.as_array().expect("contexts").iter().filter_map(|context| {
        let files = context["dat_files_in_order"].as_array()?;
        let files: Vec<_> =
            files.iter().map(|file| format!("{LOGSTASH}/{LOGSTASH_FILES}/{}", file.as_str().unwrap_or(""))).collect();
        let name = context["context"].as_str()?.trim().to_owned();
        let times = names.entry(name.clone()).and_modify(|times| *times += 1).or_insert(1);
        let name = if *times == 1 { name } else { format!("{name} ({times})") };
        files.iter().all(|file| corpus.join(file).is_file()).then_some((name, files))
    });
    contexts.collect()
}

/// Events that the logstash codec's own tests expect.
pub(crate) fn logstash_golden(corpus: &Path) -> Option<Json> {
    let folder = fs::read_dir(corpus.join("_derived/logstash-codec-netflow")).ok()?;
    let goldens: BTreeSet<PathBuf> = folder.filter_map(|file| Some(file.ok()?.path())).collect();
    let read = |path: &PathBuf| -> Option<Vec<Json>> {
        serde_json::from_str(&fs::read_to_string(path).ok()?).expect("a list of contexts")
    };
    Some(Json::Array(goldens.iter().filter_map(read).flatten().collect()))
}

/// Which payload files belong together: those of one test case folder, and data without a template with whatever
/// file of the same folder and version stands before it.
fn groups<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<Vec<String>> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for entry in entries {
        let (folder, name) = entry.path.rsplit_once('/').unwrap_or(("", &entry.path));
        let numbered = |name: &str| name.split('_').nth(1).unwrap_or("").to_owned();
        let follows = groups.last().is_some_and(|(_, files)| {
            let (last_folder, last_name) = files[0].rsplit_once('/').unwrap_or(("", &files[0]));
            let same_case = folder.contains("/testcases/");
            let continues = folder.contains("inline-vectors")
                && entry.features.contains("data_no_tpl")
                && numbered(name) == numbered(last_name);
            last_folder == folder && (same_case || continues) && !is_capture_folder(folder)
        });
        match groups.last_mut() {
            Some((_, files)) if follows => files.push(entry.path.clone()),
            _ => groups.push((folder.to_owned(), vec![entry.path.clone()])),
        }
    }
    groups.into_iter().map(|(_, files)| files).collect()
}

/// The folder of single captures that is called like the folders of test cases.
fn is_capture_folder(folder: &str) -> bool {
    folder.ends_with("/testcases")
}

/// Project and name of a file of the corpus.
fn names(path: &str) -> (&str, &str) {
    match path.strip_prefix("_derived/").and_then(|rest| rest.split_once('/')) {
        Some((_, rest)) if path.contains("inline-vectors") => rest.split_once('/').unwrap_or(("", rest)),
        _ => path.split_once('/').unwrap_or(("", path)),
    }
}

fn capture(corpus: &Path, entry: &Entry) -> Input {
    let (project, name) = names(&entry.path);
    let datagrams = read_capture(&corpus.join(&entry.path));
    // A capture holds whatever else was on the line; only what looks like an export is one.
    let exports = datagrams.into_iter().filter(|datagram| {
        weir_collect::capture::looks_like_export(&datagram.payload)
            || protocol(&datagram.payload) == "sFlow v5"
            || protocol(&datagram.payload) == "NetFlow v7"
    });
    Input::new(project, name, vec![entry.path.clone()], exports.collect())
}

/// All UDP datagrams of a capture.
pub(crate) fn read_capture(path: &Path) -> Vec<Datagram> {
    let mut datagrams = Vec::new();
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let (report, _) = weir_collect::capture::read(file, |captured| {
        datagrams.push(Datagram {
            source: captured.source,
            received_ms: captured.captured_ms,
            payload: captured.payload.to_vec(),
        });
    });
    assert_eq!(report.datagrams, datagrams.len() as u64, "{}", path.display());
    datagrams
}

fn payloads(corpus: &Path, files: &[String], name: Option<&str>) -> Input {
    let (project, file_name) = names(&files[0]);
    let mut datagrams = Vec::new();
    for file in files {
        let octets = fs::read(corpus.join(file)).expect("a payload");
        for payload in split(&octets) {
            let source = SocketAddr::from(PAYLOAD_SOURCE);
            datagrams.push(Datagram { source, received_ms: RECEIVED_MS, payload: payload.to_vec() });
        }
    }
    Input::new(project, name.unwrap_or(file_name), files.to_vec(), datagrams)
}

/// IPFIX files are messages one after the other (RFC 5655); anything else is one datagram, and so is a last message
/// with whatever follows it.
fn split(octets: &[u8]) -> Vec<&[u8]> {
    let (mut messages, mut rest) = (Vec::new(), octets);
    while let Some(length) = ipfix::message_length(rest).filter(|length| *length < rest.len()) {
        let (message, after) = rest.split_at(length);
        if ipfix::message_length(after).is_none() {
            break;
        }
        messages.push(message);
        rest = after;
    }
    messages.push(rest);
    messages
}
