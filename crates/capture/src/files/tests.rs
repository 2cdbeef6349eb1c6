//! Files made here octet by octet, as the formats say; what other programs read in real ones is compared in
//! `tests/meter`.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use tempfile::TempDir;
use weir_wire::packet::LinkType;

use super::file::{BLOCK_OCTETS, Shared};
use super::merge::Merged;
use super::{CaptureEnd, FRAME_OCTETS_MAX, FileOptions, open_files};
use crate::source::{FillOutcome, PacketBlock, PacketSource, SourceCounts};

/// Time, length on the wire, position of the interface, octets.
type Packet = (i64, u32, u16, Vec<u8>);

/// What a source handed on.
#[derive(Debug, Default, PartialEq)]
struct Read {
    packets: Vec<Packet>,
    interfaces: Vec<(u32, String, LinkType)>,
    counts: SourceCounts,
    warnings: Vec<String>,
}

impl Read {
    fn times(&self) -> Vec<i64> {
        self.packets.iter().map(|packet| packet.0).collect()
    }

    fn first_octets(&self) -> Vec<u8> {
        self.packets.iter().map(|packet| packet.3[0]).collect()
    }
}

struct Folder {
    folder: TempDir,
    warnings: Arc<Mutex<Vec<String>>>,
}

impl Folder {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), warnings: Arc::default() }
    }

    fn put(&self, name: &str, octets: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        fs::write(&path, octets).unwrap();
        path
    }

    fn warn(&self) -> super::WarningHandler {
        let warnings = Arc::clone(&self.warnings);
        let folder = format!("{}/", self.folder.path().display());
        Arc::new(move |line| warnings.lock().unwrap().push(line.replace(&folder, "")))
    }

    fn read(&self, paths: &[PathBuf]) -> Read {
        let options = FileOptions { paths: paths.to_vec(), ..FileOptions::default() };
        self.drain(open_files(&options, &self.warn()).unwrap())
    }

    fn drain(&self, mut source: Box<dyn PacketSource>) -> Read {
        let mut block = PacketBlock::default();
        let mut read = Read::default();
        while source.fill(&mut block).unwrap() == FillOutcome::Packets {
            assert!(!block.packets().is_empty());
            for packet in block.packets() {
                assert!(packet.length >= packet.captured);
                assert_eq!(packet.link, source.interfaces()[packet.interface as usize].link);
                let frame = block.frame(packet);
                assert_eq!(frame.len(), packet.captured as usize);
                read.packets.push((packet.time_us, packet.length, packet.interface, frame.to_vec()));
            }
        }
        assert!(block.packets().is_empty());
        assert_eq!(source.fill(&mut block).unwrap(), FillOutcome::Ended);
        let interfaces = source.interfaces().iter();
        read.interfaces = interfaces.map(|known| (known.index, known.name.clone(), known.link)).collect();
        read.counts = source.counts();
        read.warnings = std::mem::take(&mut self.warnings.lock().unwrap());
        read
    }
}

fn read(octets: &[u8]) -> Read {
    let folder = Folder::new();
    let path = folder.put("trace", octets);
    folder.read(&[path])
}

/// Numbers in the order of octets that a file has.
#[derive(Clone, Copy, Debug)]
struct Order {
    big_endian: bool,
}

const LITTLE: Order = Order { big_endian: false };
const BIG: Order = Order { big_endian: true };

impl Order {
    fn u16(self, number: u16) -> [u8; 2] {
        if self.big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    fn u32(self, number: u32) -> [u8; 4] {
        if self.big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    fn u64(self, number: u64) -> [u8; 8] {
        if self.big_endian { number.to_be_bytes() } else { number.to_le_bytes() }
    }

    fn numbers(self, numbers: &[u32]) -> Vec<u8> {
        numbers.iter().flat_map(|number| self.u32(*number)).collect()
    }

    fn pcap(self, magic: u32, version: (u16, u16), link: u32) -> Vec<u8> {
        let versions = [self.u16(version.0), self.u16(version.1)].concat();
        [self.u32(magic).to_vec(), versions, self.numbers(&[0, 0, 65_535, link])].concat()
    }

    fn record(self, secs: u32, part: u32, frame: &[u8], length: u32) -> Vec<u8> {
        [self.numbers(&[secs, part, frame.len() as u32, length]), frame.to_vec()].concat()
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let total = body.len() as u32 + 12;
        [self.numbers(&[kind, total]), body, self.numbers(&[total])].concat()
    }

    fn section(self) -> Vec<u8> {
        let body = [self.numbers(&[0x1a2b_3c4d]), self.u16(1).to_vec(), self.u16(0).to_vec(), vec![0xff; 8]];
        self.block(0x0a0d_0d0a, &body.concat())
    }

    fn option(self, number: u16, value: &[u8]) -> Vec<u8> {
        let mut option = [&self.u16(number)[..], &self.u16(value.len() as u16), value].concat();
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    fn interface(self, link: u16, snap_octets: u32, options: &[Vec<u8>]) -> Vec<u8> {
        let mut body = [self.u16(link).to_vec(), self.u16(0).to_vec(), self.u32(snap_octets).to_vec()].concat();
        body.extend(options.concat());
        self.block(1, &body)
    }

    fn packet(self, interface: u32, ticks: u64, frame: &[u8], length: u32) -> Vec<u8> {
        let numbers = [interface, (ticks >> 32) as u32, ticks as u32, frame.len() as u32, length];
        self.block(6, &[&self.numbers(&numbers), frame].concat())
    }

    fn simple_packet(self, frame: &[u8], length: u32) -> Vec<u8> {
        self.block(3, &[&self.u32(length), frame].concat())
    }
}

const MICROS: u32 = 0xa1b2_c3d4;

#[test]
fn pcap_of_either_order_and_any_magic() {
    for order in [LITTLE, BIG] {
        for (magic, part, padding) in [(MICROS, 7, 0), (0xa1b2_3c4d, 7_999, 0), (0xa1b2_cd34, 7, 8)] {
            let mut octets = order.pcap(magic, (2, 4), 1);
            for (secs, frame) in [(1, &b"one"[..]), (4_000_000_000, b""), (3, b"three")] {
                let mut record = order.record(secs, part, frame, 60);
                record.splice(16..16, vec![0xee; padding]);
                octets.extend(record);
            }
            let read = read(&octets);
            let expected = [
                (1_000_007, 60, 0, b"one".to_vec()),
                (4_000_000_000_000_007, 60, 0, vec![]),
                (3_000_007, 60, 0, b"three".to_vec()),
            ];
            assert_eq!(read.packets, expected, "{order:?} {magic:#x}");
            assert_eq!(read.interfaces, [(1, String::new(), LinkType::Ethernet)]);
            assert_eq!(read.counts, SourceCounts { octets_read: octets.len() as u64, ..SourceCounts::default() });
            assert_eq!(read.warnings, Vec::<String>::new());
        }
    }
}

/// Before version 2.3 the length on the wire came first, and in 2.3 either did.
#[test]
fn lengths_are_in_the_order_of_the_version() {
    for (version, first, second) in
        [((2, 4), 2, 60), ((2, 2), 60, 2), ((2, 3), 60, 2), ((2, 3), 2, 60), ((543, 0), 60, 2)]
    {
        let mut octets = LITTLE.pcap(MICROS, version, 1);
        // so many that the other length would fit as well
        octets.extend([LITTLE.numbers(&[1, 0, first, second]), vec![0xab, 0xcd]].concat().repeat(6));
        assert_eq!(read(&octets).packets, vec![(1_000_000, 60, 0, vec![0xab, 0xcd]); 6], "{version:?}");
    }
}

#[test]
fn more_captured_than_on_the_wire_is_the_length() {
    let octets = [LITTLE.pcap(MICROS, (2, 4), 101), LITTLE.record(1, 0, b"abcdef", 2)].concat();
    assert_eq!(read(&octets).packets, [(1_000_000, 6, 0, b"abcdef".to_vec())]);
}

#[test]
fn invalid_headers_are_refused() {
    for (octets, warnings) in [
        (vec![], "trace: file is empty"),
        (vec![0xd4, 0xc3], "trace: header is cut short"),
        (LITTLE.pcap(MICROS, (2, 4), 1)[..23].to_vec(), "trace: header is cut short"),
        (b"GIF89a, or so".to_vec(), "trace: not a pcap or pcapng file: it begins with 0x47494638"),
        (LITTLE.pcap(MICROS, (2, 5), 1), "trace: version 2.5 is not supported"),
        (LITTLE.pcap(MICROS, (2, 4), 0x0030_0001), "trace: link type 0x00300001 has reserved bits set"),
        (
            BIG.block(0x0a0d_0d0a, &[BIG.numbers(&[0x1a2b_3c4d, 0x0001_0001]), vec![0xff; 8]].concat()),
            "trace: damaged at octet 0: the section is of version 1.1, which is not supported",
        ),
        (
            BIG.block(0x0a0d_0d0a, &[BIG.numbers(&[0x1a2b_3c4e, 0x0001_0001]), vec![0xff; 8]].concat()),
            "trace: damaged at octet 0: the order of octets is 0x1a2b3c4e",
        ),
    ] {
        let read = read(&octets);
        assert_eq!((read.warnings, read.counts.files_failed), (vec![warnings.to_owned()], 1));
        assert_eq!(read.packets, []);
    }
}

#[test]
fn files_that_are_missing_are_reported() {
    let folder = Folder::new();
    let good = folder.put("good", &small_pcap(&[5]));
    let read = folder.read(&[folder.folder.path().join("nowhere"), good, folder.folder.path().to_owned()]);
    assert_eq!(read.times(), [5]);
    assert_eq!(read.counts.files_failed, 2);
    assert_eq!(read.warnings.len(), 2);
    assert_eq!(read.warnings[0], "nowhere: cannot be opened: No such file or directory (os error 2)");
    assert!(read.warnings[1].ends_with("cannot be opened: is a directory"), "{}", read.warnings[1]);
}

#[test]
fn what_is_before_an_invalid_record_is_kept() {
    let good = [LITTLE.pcap(MICROS, (2, 4), 1), LITTLE.record(1, 0, b"good", 4)].concat();
    let ng = [LITTLE.section(), LITTLE.interface(1, 0, &[]), LITTLE.packet(0, 1_000_000, b"good", 4)].concat();
    let too_long = FRAME_OCTETS_MAX + 1;
    let mut other_end = LITTLE.packet(0, 1, b"frame", 5);
    *other_end.last_mut().unwrap() = 1;
    for (start, bad, what) in [
        (&good, LITTLE.numbers(&[1, 0, too_long, too_long]), "a frame of 262145 octets is longer than any"),
        (&good, LITTLE.numbers(&[1, 0, u32::MAX, 1]), "a frame of 4294967295 octets is longer than any"),
        (&ng, LITTLE.numbers(&[6, 0, 0]), "a block says that it is 0 octets long"),
        (&ng, LITTLE.numbers(&[6, 14, 0, 14]), "a block says that it is 14 octets long"),
        (&ng, LITTLE.numbers(&[6, u32::MAX - 3, 0]), "a block says that it is 4294967292 octets long"),
        (&ng, LITTLE.numbers(&[6, 16, 0, 16]), "a block says that it is 16 octets long"),
        (&ng, other_end, "a block says 40 octets at its begin and 16777256 at its end"),
        (&ng, LITTLE.packet(1, 1, b"frame", 5), "interface 1 was not described"),
        (
            &ng,
            LITTLE.block(6, &LITTLE.numbers(&[0, 0, 0, 9, 9, 0, 0])),
            "a frame of 9 octets does not fit into its block of 40",
        ),
        (
            &ng,
            LITTLE.interface(1, 0, &[LITTLE.numbers(&[0x00ff_0002])]),
            "an option of 255 octets does not fit into its block",
        ),
    ] {
        let offset = start.len();
        let read = read(&[start.clone(), bad, LITTLE.record(2, 0, b"after", 5)].concat());
        assert_eq!(read.packets, [(1_000_000, 4, 0, b"good".to_vec())], "{what}");
        assert_eq!(read.warnings, [format!("trace: damaged at octet {offset}: {what}")]);
        assert_eq!(read.counts.files_failed, 1);
    }
}

#[test]
fn sections_have_interfaces_and_an_order_of_their_own() {
    let mut octets = Vec::new();
    for order in [LITTLE, BIG] {
        octets.extend(order.section());
        octets.extend(order.interface(1, 3, &[order.option(2, b"eth0"), order.option(9, &[9])]));
        octets.extend(order.interface(101, 0, &[order.option(14, &order.u64(100)), vec![0; 4]]));
        octets.extend(order.interface(9999, 0, &[]));
        octets.extend(order.packet(1, 7_000_001, b"\x45 ip", 1500));
        octets.extend(order.packet(0, 8_000_001_999, b"fr", 2));
        octets.extend(order.packet(2, 1, b"not dissected", 13));
        // neither a time nor the captured length: cut at the snap length of the first interface
        octets.extend(order.simple_packet(b"sim", 99));
        // the obsolete block has the interface and a count in the place of the interface
        let ticks = [0, 9_000_000];
        let body = [
            order.u16(1).to_vec(),
            order.u16(9).to_vec(),
            order.numbers(&ticks),
            order.numbers(&[2, 3]),
            b"ob".to_vec(),
        ];
        octets.extend(order.block(2, &body.concat()));
    }
    let read = read(&octets);
    let expected = [
        (107_000_001, 1500, 1, b"\x45 ip".to_vec()),
        (8_000_001, 2, 0, b"fr".to_vec()),
        (1, 99, 0, b"sim".to_vec()),
        (109_000_000, 3, 1, b"ob".to_vec()),
    ];
    assert_eq!(read.warnings, ["trace: frames of link type 9999 are left out, for it is not dissected"]);
    assert_eq!(read.packets, [expected.clone(), expected].concat());
    assert_eq!(read.interfaces, [(1, "eth0".to_owned(), LinkType::Ethernet), (2, String::new(), LinkType::Ip)]);
    assert_eq!(read.counts.frames_unknown_link, 2);
}

#[test]
fn blocks_of_no_use_are_passed_over_however_long() {
    let long = vec![0xff; 3 * BLOCK_OCTETS];
    let octets = [
        BIG.section(),
        BIG.block(4, b"names"),
        BIG.block(0x0bad, &long),
        BIG.interface(1, 0, &[]),
        BIG.packet(0, 1, b"one", 3),
        BIG.block(0x4000_0bad, &long),
        // a packet with a comment that makes it longer than the block that is handed on
        BIG.block(6, &[BIG.numbers(&[0, 0, 2, 4, 4]), b"two!".to_vec(), long.clone()].concat()),
        BIG.packet(0, 3, b"three", 5),
    ];
    let read = read(&octets.concat());
    assert_eq!(read.warnings, Vec::<String>::new());
    assert_eq!(read.first_octets(), *b"ott");
    assert_eq!(read.times(), [1, 2, 3]);
}

#[test]
fn frames_of_links_that_are_not_dissected_may_be_of_any_length() {
    let mut octets = LITTLE.pcap(MICROS, (2, 4), 9999);
    octets.extend(LITTLE.record(1, 0, &vec![1; 2 << 20], 2 << 20));
    octets.extend(LITTLE.record(1, 0, b"usb", 3));
    let whole = read(&octets);
    assert_eq!((whole.counts.frames_unknown_link, whole.counts.files_failed), (2, 0));
    let cut = read(&octets[..octets.len() / 2]);
    assert_eq!((cut.counts.frames_unknown_link, cut.counts.files_failed), (1, 1));
    let warnings = [
        "trace: frames of link type 9999 are left out, for it is not dissected",
        "trace: damaged at octet 1048605: the file is cut short within this record",
    ];
    assert_eq!(cut.warnings, warnings);
}

#[test]
fn frames_of_a_link_that_cannot_be_filtered_are_left_out_and_the_others_are_not() {
    let mut udp = vec![0; 60];
    (udp[12], udp[14], udp[23]) = (8, 0x45, 17);
    let octets = [
        LITTLE.section(),
        LITTLE.interface(1, 0, &[]),
        // LINKTYPE_NFLOG, for which libpcap compiles no expression about protocols
        LITTLE.interface(239, 0, &[]),
        LITTLE.packet(0, 1, &udp, 60),
        LITTLE.packet(1, 2, b"netfilter", 9),
        LITTLE.packet(1, 3, b"netfilter", 9),
        LITTLE.packet(0, 4, &udp, 60),
    ];
    let folder = Folder::new();
    let paths = vec![folder.put("trace", &octets.concat())];
    let options = FileOptions { paths, filter: Some("udp".to_owned()), ..FileOptions::default() };
    let read = folder.drain(open_files(&options, &folder.warn()).unwrap());
    assert_eq!(read.times(), [1, 4]);
    assert_eq!((read.counts.frames_unfilterable, read.counts.files_failed), (2, 0));
    let [line] = &read.warnings[..] else { panic!("{:?}", read.warnings) };
    assert!(line.starts_with("trace: frames of link type 239 are left out, for they cannot be filtered: "), "{line}");
}

/// Which is found when files are looked into for their times.
#[test]
fn a_link_that_is_not_dissected_is_reported_with_its_file() {
    let folder = Folder::new();
    let links = [
        LITTLE.section(),
        LITTLE.interface(9999, 0, &[]),
        LITTLE.interface(1, 0, &[]),
        LITTLE.packet(0, 1, b"usb", 3),
        LITTLE.packet(1, 2, b"frame", 5),
    ];
    let paths = [folder.put("one", &links.concat()), folder.put("two", &small_pcap(&[3]))];
    let read = folder.read(&paths);
    assert_eq!(read.warnings, ["one: frames of link type 9999 are left out, for it is not dissected"]);
    assert_eq!((read.packets.len(), read.counts.frames_unknown_link), (2, 1));
}

/// What interface statistics count has been counted since the capture began.
#[test]
fn drops_are_the_last_that_statistics_say() {
    let statistics = |interface, drops: u64, os_drops: u64| {
        let options = [
            LITTLE.option(4, &[9; 8]),
            LITTLE.option(5, &drops.to_le_bytes()),
            LITTLE.option(7, &os_drops.to_le_bytes()),
        ];
        LITTLE.block(5, &[LITTLE.numbers(&[interface, 0, 0]), options.concat()].concat())
    };
    let section = [
        LITTLE.section(),
        LITTLE.interface(1, 0, &[]),
        LITTLE.interface(1, 0, &[]),
        statistics(0, 1, 2),
        statistics(1, 10, 0),
        statistics(0, 4, 2),
    ];
    assert_eq!(read(&section.concat()).counts.kernel_drops, 16);
    let sections = [section.concat(), section.concat()].concat();
    assert_eq!(read(&sections).counts.kernel_drops, 32);
}

#[test]
fn a_file_cut_anywhere_gives_what_is_before_the_cut() {
    let pcap = vec![
        LITTLE.pcap(MICROS, (2, 4), 1),
        LITTLE.record(0, 1, b"one", 60),
        LITTLE.record(0, 2, b"", 60),
        LITTLE.record(0, 3, b"three", 60),
    ];
    let ng = vec![
        LITTLE.section(),
        LITTLE.interface(1, 0, &[LITTLE.option(2, b"eth0")]),
        LITTLE.packet(0, 1, b"one", 3),
        LITTLE.block(4, b"names of hosts"),
        LITTLE.packet(0, 2, b"seventeen octets.", 17),
        BIG.section(),
        BIG.interface(1, 0, &[]),
        BIG.packet(0, 3, b"3", 1),
    ];
    for pieces in [pcap, ng] {
        let octets = pieces.concat();
        let whole = read(&octets);
        assert_eq!(whole.times(), [1, 2, 3]);
        let mut unharmed = Vec::new();
        for cut in 0..octets.len() {
            let part = read(&octets[..cut]);
            assert_eq!(part.packets, whole.packets[..part.packets.len()]);
            assert_eq!(part.counts.files_failed, part.warnings.len() as u64);
            if part.warnings.is_empty() {
                unharmed.push((cut, part.packets.len()));
            }
        }
        // where a record ends the file may end
        let mut ends = Vec::new();
        let (mut cut, mut packets) = (0, 0);
        for piece in &pieces[..pieces.len() - 1] {
            cut += piece.len();
            packets += usize::from(whole.packets.get(packets).is_some_and(|(time, ..)| is_packet(piece, *time)));
            ends.push((cut, packets));
        }
        assert_eq!(unharmed, ends);
    }
}

/// Whether a piece of a file of these tests is the record of the packet of that microsecond.
fn is_packet(piece: &[u8], time: i64) -> bool {
    let time = (time as u32).to_le_bytes();
    piece[..8] == [[0; 4], time].concat() || (piece[..4] == [6, 0, 0, 0] && piece[16..20] == time)
}

/// Records of all lengths, so that they end anywhere in a block.
fn large(order: Order) -> (Vec<u8>, Vec<Packet>) {
    let mut octets = order.pcap(MICROS, (2, 4), 1);
    let mut packets = Vec::new();
    for number in 0..4_000_u32 {
        let frame: Vec<u8> = (0..(number * 7919) % 1515).map(|at| (at ^ number) as u8).collect();
        octets.extend(order.record(1, number, &frame, frame.len() as u32));
        packets.push((1_000_000 + i64::from(number), frame.len() as u32, 0, frame));
    }
    assert!(octets.len() > 5 * BLOCK_OCTETS);
    (octets, packets)
}

fn gzip(octets: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(octets).unwrap();
    encoder.finish().unwrap()
}

/// What a program with its option `-c` makes of octets; `None` where it is not installed.
fn packed_by(program: &str, octets: &[u8]) -> Option<Vec<u8>> {
    let program = weir_testkit::program(program)?;
    let folder = Folder::new();
    let path = folder.put("plain", octets);
    let output = std::process::Command::new(program).arg("-c").arg(path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(output.stdout)
}

#[test]
fn records_go_on_in_the_next_block_compressed_or_not() {
    let (octets, packets) = large(LITTLE);
    // two members, as concatenated files are
    let (first, second) = octets.split_at(octets.len() / 3);
    let zipped = [gzip(first), gzip(second)].concat();
    let zstd = zstd::encode_all(octets.as_slice(), 1).unwrap();
    let programs = ["xz", "bzip2", "lz4"].into_iter();
    let packed =
        programs.filter_map(|program| Some([packed_by(program, first)?, packed_by(program, second)?].concat()));
    let forms: Vec<_> = [octets.clone(), zipped, zstd].into_iter().chain(packed).collect();
    for form in &forms {
        let read = read(form);
        assert!(read.packets == packets);
        assert_eq!((read.counts.octets_read, read.counts.files_failed), (octets.len() as u64, 0));
    }
    for form in &forms[1..] {
        let read = read(&form[..form.len() / 2]);
        assert!(read.packets == packets[..read.packets.len()]);
        assert!(read.packets.len() > 1_000, "{}", read.packets.len());
        assert_eq!(read.counts.files_failed, 1);
        assert!(read.warnings[0].starts_with("trace: cannot be read after octet "), "{}", read.warnings[0]);
    }
}

/// A pcap file with a packet at each of these microseconds, whose first octet is the time.
fn small_pcap(times: &[u32]) -> Vec<u8> {
    let records = times.iter().map(|time| LITTLE.record(0, *time, &[*time as u8, 0xff], 60));
    [LITTLE.pcap(MICROS, (2, 4), 1)].into_iter().chain(records).collect::<Vec<_>>().concat()
}

#[test]
fn several_files_are_merged_by_time() {
    let folder = Folder::new();
    let ng = [
        LITTLE.section(),
        LITTLE.interface(1, 0, &[LITTLE.option(2, b"eth7")]),
        LITTLE.packet(0, 3, b"x", 1),
        LITTLE.packet(0, 6, b"y", 1),
        LITTLE.packet(0, 7, b"z", 1),
    ];
    let paths = [
        folder.put("late", &small_pcap(&[20, 21, 22])),
        // its own order is kept, whatever the times
        folder.put("a", &small_pcap(&[1, 6, 4, 9])),
        folder.put("empty", &small_pcap(&[])),
        folder.put("b", &ng.concat()),
        folder.put("early", &small_pcap(&[0])),
    ];
    let read = folder.read(&paths);
    assert_eq!(read.times(), [0, 1, 3, 6, 4, 6, 7, 9, 20, 21, 22]);
    assert_eq!(read.first_octets(), [0, 1, b'x', 6, 4, b'y', b'z', 9, 20, 21, 22]);
    // those without names are one
    let unnamed = (1, String::new(), LinkType::Ethernet);
    assert_eq!(read.interfaces, [unnamed, (1, "eth7".to_owned(), LinkType::Ethernet)]);
    let octets: u64 = paths.iter().map(|path| fs::metadata(path).unwrap().len()).sum();
    assert_eq!(read.counts, SourceCounts { octets_read: octets, ..SourceCounts::default() });
}

#[test]
fn of_equal_times_the_file_named_first_comes_first() {
    let folder = Folder::new();
    let mut paths = Vec::new();
    for file in 0..40_u8 {
        let records = (0..9).map(|time| LITTLE.record(0, time / 3, &[file], 1));
        let octets = [LITTLE.pcap(MICROS, (2, 4), 1)].into_iter().chain(records).collect::<Vec<_>>();
        paths.push(folder.put(&format!("{file}"), &octets.concat()));
    }
    let expected: Vec<_> = (0..3).flat_map(|_| (0..40).flat_map(|file| [file; 3])).collect();
    assert_eq!(folder.read(&paths).first_octets(), expected);
}

#[test]
fn files_over_the_limit_are_opened_as_others_end() {
    let folder = Folder::new();
    let paths = [
        folder.put("a", &small_pcap(&[1, 10])),
        folder.put("b", &small_pcap(&[2, 5])),
        folder.put("c", &small_pcap(&[3, 11])),
        folder.put("d", &small_pcap(&[4, 12])),
    ];
    let merged = Merged::open(&paths, Shared::default(), folder.warn()).with_files_open_max(2);
    assert_eq!(folder.drain(Box::new(merged)).times(), [1, 2, 5, 3, 10, 4, 11, 12]);
}

#[test]
fn large_files_are_merged_over_many_blocks() {
    let folder = Folder::new();
    let (little, mut packets) = large(LITTLE);
    let (big, others) = large(BIG);
    let read = folder.read(&[folder.put("little", &little), folder.put("big", &big)]);
    packets.extend(others);
    packets.sort_by_key(|packet| packet.0);
    assert!(read.packets == packets);
}

#[test]
fn a_file_is_over_when_its_last_packet_is_delivered() {
    let folder = Folder::new();
    let cut = small_pcap(&[3, 4]);
    let paths = [
        folder.put("first", &small_pcap(&[1, 2])),
        folder.put("cut", &cut[..cut.len() - 1]),
        folder.put("large", &large(LITTLE).0),
        folder.folder.path().join("missing"),
    ];
    let options = FileOptions { paths: paths.to_vec(), ..FileOptions::default() };
    let mut source = open_files(&options, &folder.warn()).unwrap();
    let ends = || paths.each_ref().map(|path| options.ends.end_of(path));
    assert_eq!(ends(), [None; 4]);
    let mut block = PacketBlock::default();
    for cut in [None, Some(CaptureEnd::Damaged)] {
        assert_eq!(source.fill(&mut block).unwrap(), FillOutcome::Packets);
        assert_eq!(ends(), [Some(CaptureEnd::Whole), cut, None, None]);
    }
    folder.drain(source);
    assert_eq!(ends(), [Some(CaptureEnd::Whole), Some(CaptureEnd::Damaged), Some(CaptureEnd::Whole), None]);
    let [first, cut, large, _] = paths;
    let over = [(first, CaptureEnd::Whole), (cut, CaptureEnd::Damaged), (large, CaptureEnd::Whole)];
    assert_eq!(options.ends.take_over(), over);
    assert!(options.ends.take_over().is_empty(), "each once");
}

/// A pipe cannot be opened twice, and gives what it has without waiting until a block is full.
#[test]
fn pipes_are_read_as_they_are_written() {
    let folder = Folder::new();
    let pipe = folder.folder.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut writer = fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    writer.write_all(&small_pcap(&[1, 3])).unwrap();
    let options = FileOptions { paths: vec![pipe.clone()], ..FileOptions::default() };
    let mut source = open_files(&options, &folder.warn()).unwrap();
    let mut block = PacketBlock::default();
    for expected in [&[1_i64, 3][..], &[2]] {
        assert_eq!(source.fill(&mut block).unwrap(), FillOutcome::Packets);
        let times: Vec<_> = block.packets().iter().map(|packet| packet.time_us).collect();
        assert_eq!(times, expected);
        writer.write_all(&LITTLE.record(0, 2, b"two", 60)).unwrap();
    }
    let other = folder.put("other", &small_pcap(&[2, 4]));
    // Of its own: what is in a pipe is lost when its last end is closed, and nobody may hold this one open but the two.
    let pipe = folder.folder.path().join("second pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let writing = std::thread::spawn({
        let pipe = pipe.clone();
        move || fs::write(pipe, small_pcap(&[1, 3]))
    });
    let filter = Some("ether[0] != 3".to_owned());
    let options = FileOptions { paths: vec![pipe, other], filter, ..FileOptions::default() };
    let read = folder.drain(open_files(&options, &folder.warn()).unwrap());
    assert_eq!((read.times(), read.counts.frames_filtered), (vec![1, 2, 4], 1));
    writing.join().unwrap().unwrap();
}
