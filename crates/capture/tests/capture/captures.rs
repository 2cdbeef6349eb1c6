//! Capture files of the corpus: what tshark reads in them, we do.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use weir_capture::{FileOptions, FillOutcome, PacketBlock, SourceCounts, WarningHandler, open_files};

/// One capture in so many is compared, unless `WEIR_ALL_CAPTURES` is set.
const SAMPLE: usize = 40;

/// Captures in which tshark sees something else, and why.
const DIFFERENT: [(&str, &str); 7] = [
    ("test017.pcapng", "custom blocks are frames to it"),
    ("test017-le.pcapng", "custom blocks are frames to it"),
    ("test018.pcapng", "custom blocks are frames to it"),
    ("fuzz-2021-06-07-c6c72a0a56.pcap", "a length over 2^31 is cut down in it"),
    ("fuzz-2021-10-13.pcap", "a part of a second over a million overflows in it"),
    ("atm-heapoverflow.pcap", "it takes off what SunATM puts before a frame"),
    ("atm-oam-heapoverflow.pcap", "it takes off what SunATM puts before a frame"),
];

/// Time in microseconds, length, captured length, octets.
type Packet = (i64, u32, u32, Vec<u8>);

pub(crate) struct Read {
    pub(crate) packets: Vec<Packet>,
    pub(crate) counts: SourceCounts,
    pub(crate) warnings: Vec<String>,
}

pub(crate) fn read(options: &FileOptions) -> Read {
    let warnings = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&warnings);
    let warn: WarningHandler = Arc::new(move |line: &str| lines.lock().unwrap().push(line.to_owned()));
    let mut source = open_files(options, &warn).unwrap();
    let mut block = PacketBlock::default();
    let mut packets = Vec::new();
    while source.fill(&mut block).unwrap() == FillOutcome::Packets {
        packets.extend(
            block
                .packets()
                .iter()
                .map(|packet| (packet.time_us, packet.length, packet.captured, block.frame(packet).to_vec())),
        );
    }
    let warnings = warnings.lock().unwrap().clone();
    Read { packets, counts: source.counts(), warnings }
}

fn read_file(path: &Path) -> Read {
    read(&FileOptions { paths: vec![path.to_owned()], ..FileOptions::default() })
}

/// Every capture of the corpus, in the order of their names; a sample of them unless all are asked for.
pub(crate) fn captures(corpus: &Path) -> Vec<PathBuf> {
    let index = fs::read_to_string(corpus.join("INDEX.tsv")).unwrap();
    let all = index.lines().filter_map(|line| {
        let mut cells = line.split('\t');
        let (path, _, format) = (cells.next()?, cells.next()?, cells.next()?);
        format.trim_start_matches("gz:").starts_with("pcap").then(|| corpus.join(path))
    });
    let step = if std::env::var_os("WEIR_ALL_CAPTURES").is_some() { 1 } else { SAMPLE };
    let sample: Vec<_> = all.step_by(step).collect();
    assert!(sample.len() >= 20);
    sample
}

/// What tshark reads: time, length, captured length of each frame; `None` when it knows nothing of the link.
fn tshark(program: &Path, capture: &Path) -> Option<Vec<(Option<i64>, u32, u32)>> {
    let fields = ["frame.time_epoch", "frame.len", "frame.cap_len"];
    let mut command = Command::new(program);
    command.arg("-n").arg("-r").arg(capture).args(["-T", "fields"]);
    command.args(fields.iter().flat_map(|field| ["-e", field]));
    let output = command.output().unwrap();
    if String::from_utf8_lossy(&output.stderr).contains("unknown or unsupported") {
        return None;
    }
    let lines = String::from_utf8(output.stdout).unwrap();
    let rows = lines.lines().map(|line| {
        let cells: Vec<_> = line.split('\t').collect();
        (micros(cells[0]), cells[1].parse().unwrap(), cells[2].parse().unwrap())
    });
    Some(rows.collect())
}

/// Microseconds of seconds with nine decimals, cut off; `None` for a packet that has no time, or one after 2038, which
/// tshark counts backwards from 1970.
fn micros(secs: &str) -> Option<i64> {
    if secs.starts_with('-') {
        return None;
    }
    let (secs, part) = secs.split_once('.')?;
    Some(secs.parse::<i64>().ok()? * 1_000_000 + part.get(..6)?.parse::<i64>().ok()?)
}

#[test]
fn tshark_reads_the_same_packets() {
    let (Some(corpus), Some(program)) = (weir_testkit::corpus(), weir_testkit::program("tshark")) else { return };
    let mut compared = 0;
    let mut different = Vec::new();
    let is_same = |capture: &Path| DIFFERENT.iter().all(|(name, _)| !capture.ends_with(name));
    for capture in captures(&corpus).into_iter().filter(|capture| is_same(capture)) {
        let Some(theirs) = tshark(&program, &capture) else { continue };
        let ours = read_file(&capture);
        let name = capture.strip_prefix(&corpus).unwrap().display().to_string();
        if ours.counts.frames_unknown_link > 0 {
            let frames = ours.packets.len() as u64 + ours.counts.frames_unknown_link;
            if frames != theirs.len() as u64 {
                different.push(format!("{name}: {frames} frames, {} of tshark; {:?}", theirs.len(), ours.warnings));
            }
            continue;
        }
        let same = |(ours, theirs): (&Packet, &(Option<i64>, u32, u32))| {
            // a simple packet of pcapng has no time
            theirs.0.is_none_or(|time| time == ours.0) && (ours.1, ours.2) == (theirs.1.max(theirs.2), theirs.2)
        };
        let first = ours.packets.iter().zip(&theirs).position(|pair| !same(pair));
        if ours.packets.len() != theirs.len() || first.is_some() {
            let at = first.map(|at| (&ours.packets[at].0, ours.packets[at].1, ours.packets[at].2, theirs[at]));
            let (many, of_tshark, warnings) = (ours.packets.len(), theirs.len(), ours.warnings);
            different
                .push(format!("{name}: {many} packets, {of_tshark} of tshark; first {first:?} {at:?}; {warnings:?}"));
        }
        compared += ours.packets.len();
    }
    println!("{compared} packets compared");
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(compared > 500);
}

/// The generator wrote beside each file how many blocks of each kind there are in it.
#[test]
fn every_packet_of_the_generators_files_is_there() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let mut files = 0;
    for part in ["output_be", "output_le"] {
        for kind in ["basic", "advanced", "difficult"] {
            let folder = corpus.join("hadrielk+pcapng-test-generator").join(part).join(kind);
            for text in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
                if text.extension().is_none_or(|extension| extension != "txt") {
                    continue;
                }
                let counts = fs::read_to_string(&text).unwrap();
                let counts = counts.lines().filter_map(|line| line.trim().split_once(": "));
                let packets = counts.filter(|(block, _)| ["EPB", "SPB", "PB", "OPB"].contains(block));
                let packets: u64 = packets.map(|(_, count)| count.trim().parse::<u64>().unwrap()).sum();
                let ours = read_file(&text.with_extension("pcapng"));
                assert_eq!(ours.packets.len() as u64 + ours.counts.frames_unknown_link, packets, "{}", text.display());
                assert_eq!(ours.warnings, Vec::<String>::new(), "{}", text.display());
                files += 1;
            }
        }
    }
    assert!(files > 20, "{files}");
}

/// The same packets in four formats; one has whole seconds only.
#[test]
fn packets_are_the_same_in_any_format() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let read = |name: &str| read_file(&corpus.join("LibtraceTeam+libtrace/test/traces").join(name)).packets;
    let pcap = read("100_packets.pcap");
    assert_eq!(pcap.len(), 100);
    assert!(pcap == read("100_packetsns.pcap"));
    assert!(pcap == read("100_packets.pcapng"));
    let seconds = read("100_seconds.pcap");
    assert!(pcap.iter().map(|packet| &packet.3).eq(seconds.iter().map(|packet| &packet.3)));
}

#[test]
fn invalid_headers_are_refused() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    for (name, warnings) in [
        ("linktype-reserved-field-not-zero.pcap", "link type 0x00300000 has reserved bits set"),
        ("pcapng-invalid-vers-1.pcapng", ": damaged at octet 0: the section is of version 0.1, which is not supported"),
        ("pcapng-invalid-vers-2.pcapng", ": damaged at octet 0: the section is of version 1.1, which is not supported"),
        (
            "shb-option-too-long.pcapng",
            ": damaged at octet 0: a block says 52 octets at its begin and 808464432 at its end",
        ),
    ] {
        let read = read_file(&corpus.join("the-tcpdump-group+libpcap/tests").join(name));
        assert_eq!((read.packets.len(), read.counts.files_failed, read.warnings.len()), (0, 1, 1), "{name}");
        assert!(read.warnings[0].ends_with(warnings), "{}", read.warnings[0]);
    }
}

#[test]
fn captures_cut_anywhere_give_what_is_before_the_cut() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut cuts = 0;
    for capture in captures(&corpus) {
        let octets = fs::read(&capture).unwrap();
        if octets.len() > 2_000 {
            continue;
        }
        let whole = read_file(&capture);
        let path = folder.path().join("cut");
        for cut in 0..octets.len() {
            fs::write(&path, &octets[..cut]).unwrap();
            let part = read_file(&path);
            assert!(whole.packets.starts_with(&part.packets), "{} at {cut}", capture.display());
            assert_eq!(part.counts.files_failed, part.warnings.len() as u64);
            cuts += 1;
        }
    }
    assert!(cuts > 1_000, "{cuts}");
}
