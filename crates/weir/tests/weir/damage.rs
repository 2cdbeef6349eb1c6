//! A flipped bit in each kind of file of an archive, and a disk that is full: never a wrong answer without a word.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use weir_archive::Snapshot;
use weir_flow::{Column, Table};

use crate::process::{Collector, Exporter, run, weir};

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

/// Imports two captures and merges what came of them; lets a collector begin a tail, and kills it.
fn archive(folder: &Path) -> PathBuf {
    let archive = folder.join("archive");
    for seed in ["5", "6"] {
        let capture = folder.join(seed);
        let wanted = ["--protocol", "netflow-v5", "--records", "30000", "--density", "100", "--seed", seed];
        let made = run(&[&["generate", "--write", path_text(&capture)], &wanted[..]].concat());
        assert!(made.status.success(), "{}", text(&made.stderr));
        let imported = run(&["import", "--archive", path_text(&archive), path_text(&capture)]);
        assert!(imported.status.success(), "{}", text(&imported.stderr));
    }
    let merged = run(&["archive", "compact", "--archive", path_text(&archive)]);
    assert!(merged.status.success(), "{}", text(&merged.stderr));
    let collector = Collector::start(&archive, &["--no-merge"]);
    let mut exporter = Exporter::new(0);
    let until = Instant::now() + Duration::from_mins(2);
    // several frames, so that one of them can be damaged with whole ones behind it
    while tail_batches(&archive) < 6 {
        assert!(Instant::now() < until, "the collector appends nothing");
        exporter.send(collector.address);
        std::thread::sleep(Duration::from_millis(20));
    }
    collector.kill();
    archive
}

fn tail_batches(archive: &Path) -> usize {
    Snapshot::open(archive).expect("a snapshot").tail_frames().len()
}

/// Questions whose answers are compared.
const QUESTIONS: &[&[&str]] = &[
    &["query", "-q", "-o", "csv", "--columns", "*"],
    &["query", "-q", "-o", "csv", "-s", "srcip/bytes", "-n", "0"],
    &["query", "-q", "-o", "csv", "-A", "proto,dstport", "dst port 443"],
    &["sql", "-q", "-o", "csv", "SELECT * FROM flows"],
    &["sql", "-q", "-o", "csv", "SELECT dst_port, count(*), sum(bytes) FROM flows WHERE dst_port = 443 GROUP BY 1"],
];

/// The answer, its lines sorted, or what was said instead.
fn ask(archive: &Path, question: &[&str]) -> Result<Vec<String>, String> {
    let (command, words) = question.split_first().expect("a command");
    let output = weir().arg(command).arg("-R").arg(archive).args(words).output().expect("weir runs");
    if !output.status.success() {
        assert_eq!(output.status.code(), Some(1), "{question:?}: {}", text(&output.stderr));
        return Err(text(&output.stderr));
    }
    let mut lines: Vec<String> = text(&output.stdout).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    Ok(lines)
}

/// Flips a bit; `weir archive check` must tell, and every question must have the true answer or say what is wrong.
struct Flips<'a> {
    archive: &'a Path,
    truth: Vec<Vec<String>>,
}

impl<'a> Flips<'a> {
    fn new(archive: &'a Path) -> Self {
        let truth = QUESTIONS.iter().map(|question| ask(archive, question).expect("an answer"));
        Self { archive, truth: truth.collect() }
    }

    /// Tells how many questions said that something is wrong.
    #[track_caller]
    fn flip(&self, file: &Path, at: u64, part: &str) -> usize {
        let whole = fs::read(file).expect("a file");
        let mut octets = whole.clone();
        octets[at as usize] ^= 8;
        fs::write(file, &octets).expect("written");
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        let mut refused = 0;
        for (question, truth) in QUESTIONS.iter().zip(&self.truth) {
            match ask(self.archive, question) {
                Ok(answer) => assert!(answer == *truth, "{part}, octet {at}: a wrong answer to {question:?}"),
                Err(said) => {
                    refused += 1;
                    let is_told =
                        said.contains(name) || said.contains("hint: `weir archive check` lists the damaged segments");
                    assert!(is_told, "{part}, octet {at}: {question:?}: {said}");
                }
            }
        }
        let check = run(&["archive", "check", "--archive", path_text(self.archive)]);
        let said = text(&check.stdout) + &text(&check.stderr);
        assert_eq!(check.status.code(), Some(1), "{part}, octet {at}: {said}");
        assert!(said.contains(name), "{part}, octet {at}: {said}");
        fs::write(file, &whole).expect("written");
        refused
    }
}

/// The segment of flows, where its index begins and ends, and where the pages of a column begin.
fn segment(archive: &Path, column: Column) -> (PathBuf, std::ops::Range<u64>, Vec<(u64, u64)>) {
    let snapshot = Snapshot::open(archive).expect("a snapshot");
    let [segment] = snapshot.segments(Table::Flows) else { panic!("one segment, not {snapshot:?}") };
    let octets = fs::read(segment.path()).expect("a segment");
    // the header, behind Parquet's magic number: its own magic number, then place and length of the index
    let number = |at: usize| u64::from_le_bytes(octets[at..at + 8].try_into().expect("8 octets"));
    let index = number(12)..number(12) + number(20);
    let pages = segment.index().expect("an index").expect("an index").column_pages(column).expect("places");
    let groups = pages.expect("values").groups.into_iter();
    let pages = groups.flat_map(|group| group.pages).map(|page| (page.offset, page.octets));
    (segment.path(), index, pages.collect())
}

#[test]
fn a_bit_flipped_beside_the_values_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path());
    let flips = Flips::new(&archive);
    let (file, index, _) = segment(&archive, Column::Bytes);
    let octets = fs::metadata(&file).expect("a segment").len();
    assert!(flips.flip(&file, 16, "header") > 0);
    assert!(flips.flip(&file, index.start + 100, "index") > 0);
    assert!(flips.flip(&file, index.end - 1, "index") > 0);
    // the last section before the index is a rollup
    flips.flip(&file, index.start - 9, "rollup");
    for at in [index.end + 5, octets - 200, octets - 6] {
        flips.flip(&file, at, "footer");
    }
    assert!(flips.flip(&file, octets - 6, "length of the footer") > 0);
}

#[test]
fn a_bit_flipped_in_a_tail_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path());
    let flips = Flips::new(&archive);
    let tail = fs::read_dir(archive.join("tail")).expect("tails").next().expect("a tail").expect("a tail").path();
    // of the first frame: magic number, position, checksums, payload
    for at in [2, 18, 45, 61, 200, 700] {
        assert_eq!(flips.flip(&tail, at, "tail"), QUESTIONS.len());
    }
}

#[test]
fn a_bit_flipped_in_a_page_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path());
    let flips = Flips::new(&archive);
    let mut refused = 0;
    for column in [Column::SrcAddr, Column::Start, Column::Bytes, Column::DstPort, Column::TcpFlags] {
        let (file, _, pages) = segment(&archive, column);
        for (page, (offset, octets)) in pages.into_iter().enumerate() {
            // at the end, in the middle and near the beginning of what is compressed
            let at = [octets - 2, octets / 2, octets / 2 + 17, octets * 3 / 4][page % 4];
            refused += flips.flip(&file, offset + at, column.name());
        }
    }
    assert!(refused > 0);
}

/// What is known of exporters is only ever an aid: a collector says that it is damaged, and goes on without it.
#[test]
fn a_bit_flipped_in_the_state_of_a_collector_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive");
    let mut exporter = Exporter::new(0);
    let collector = Collector::start(&archive, &[]);
    exporter.send(collector.address);
    collector.stop();
    let state = archive.join("collector/exporters.state");
    let mut octets = fs::read(&state).expect("a state");
    let middle = octets.len() / 2;
    octets[middle] ^= 8;
    fs::write(&state, octets).expect("written");
    let mut command = weir();
    command.args(["collect", "--listen", "127.0.0.1:0", "--archive"]).arg(&archive);
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().expect("weir starts");
    let mut said = String::new();
    let lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().expect("standard error")));
    for line in lines.map_while(Result::ok) {
        said += &line;
        if line.contains("listening on") {
            break;
        }
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
    assert!(said.contains("exporters.state"), "{said}");
    assert_eq!(
        ask(&archive, &["sql", "-q", "-o", "csv", "SELECT count(*) AS n FROM flows"]),
        Ok(vec!["30".to_owned(), "n".to_owned()])
    );
}

/// A small file system of its own, or `None` when this process may not mount one.
pub(crate) struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    pub(crate) fn mount(size: &str) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let options = format!("size={size}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder.path()).output();
        if mounted.is_ok_and(|output| output.status.success()) {
            return Some(Self(folder));
        }
        weir_testkit::skip("root", "mounting a small disk needs root");
        None
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).output();
    }
}

fn flows_kept(archive: &Path) -> u64 {
    let answer = ask(archive, &["sql", "-q", "-o", "csv", "SELECT count(*) AS n FROM flows"]).expect("an answer");
    answer.iter().find_map(|line| line.parse().ok()).expect("a number")
}

#[test]
fn a_full_disk_costs_what_cannot_be_written_and_no_more() {
    let Some(disk) = SmallDisk::mount("6m") else { return };
    let archive = disk.path().join("archive");
    let collector = Collector::start(&archive, &["--segment-rows", "3000", "--no-merge", "--free-space-min", "0"]);
    let mut exporter = Exporter::new(0);
    for _ in 0..300 {
        exporter.send(collector.address);
    }
    let until = Instant::now() + Duration::from_mins(2);
    while Snapshot::open(&archive).expect("a snapshot").flows() < 9000 {
        assert!(Instant::now() < until, "flows do not arrive");
        std::thread::sleep(Duration::from_millis(20));
    }
    let before = Snapshot::open(&archive).expect("a snapshot").flows();
    // all that is left
    let ballast = disk.path().join("ballast");
    let mut file = fs::File::create(&ballast).expect("a file");
    while std::io::Write::write_all(&mut file, &[1; 4096]).is_ok() {}
    drop(file);
    for _ in 0..300 {
        exporter.send(collector.address);
    }
    let merged = run(&["archive", "compact", "--archive", path_text(&archive)]);
    let check = run(&["archive", "check", "--archive", path_text(&archive)]);
    assert!(check.status.success(), "{}{}", text(&check.stdout), text(&check.stderr));
    assert!(flows_kept(&archive) >= before, "{}", text(&merged.stderr));
    let expired = run(&["archive", "expire", "--max-size", "1KiB", "--archive", path_text(&archive)]);
    assert!(expired.status.success(), "expiry frees a full disk: {}", text(&expired.stderr));
    fs::remove_file(&ballast).expect("removed");
    let kept = flows_kept(&archive);
    let until = Instant::now() + Duration::from_mins(1);
    while flows_kept(&archive) == kept {
        assert!(Instant::now() < until, "the collector does not go on once there is room");
        exporter.send(collector.address);
        std::thread::sleep(Duration::from_millis(100));
    }
    collector.stop();
    let check = run(&["archive", "check", "--archive", path_text(&archive)]);
    assert!(check.status.success(), "{}{}", text(&check.stdout), text(&check.stderr));
}
