//! Frames of all captures of the corpus, by link type.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::Path;

use pcap_parser::{Block, PcapBlockOwned, create_reader};
use weir_wire::packet::LinkType;

/// A frame, and where it comes from.
pub(crate) struct Frame {
    pub(crate) capture: String,
    /// Counts from 1 in the capture, as other programs do.
    pub(crate) number: usize,
    pub(crate) octets: Vec<u8>,
    /// Octets on the link.
    pub(crate) original: u32,
}

/// The frames of all captures by their `LINKTYPE_` number, of those that are known.
///
/// Captures may be damaged, and some are so on purpose: what can be read before the damage is taken.
pub(crate) fn of_corpus(corpus: &Path) -> BTreeMap<u16, Vec<Frame>> {
    let index = std::fs::read_to_string(corpus.join("INDEX.tsv")).expect("an index");
    let mut all = BTreeMap::new();
    for line in index.lines() {
        let mut columns = line.split('\t');
        let (Some(path), Some(format)) = (columns.next(), columns.nth(1)) else { continue };
        if format.starts_with("pcap") && corpus.join(path).is_file() {
            of_capture(corpus, path, &mut all);
        }
    }
    all
}

fn of_capture(corpus: &Path, path: &str, all: &mut BTreeMap<u16, Vec<Frame>>) {
    let mut file = Vec::new();
    File::open(corpus.join(path)).and_then(|mut open| open.read_to_end(&mut file)).expect("readable");
    let room = file.len().max(1 << 16);
    let Ok(mut reader) = create_reader(room, Cursor::new(file)) else { return };
    let (mut links, mut number) = (Vec::new(), 0);
    // The file is whole in the reader's room, so there is no more to be read in when a block is not.
    while let Ok((length, block)) = reader.next() {
        let found = match &block {
            PcapBlockOwned::LegacyHeader(header) => {
                links = vec![header.network.0 as u16];
                None
            }
            PcapBlockOwned::Legacy(packet) => Some((0, packet.data, packet.caplen, packet.origlen)),
            PcapBlockOwned::NG(Block::SectionHeader(_)) => {
                links.clear();
                None
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
                links.push(interface.linktype.0 as u16);
                None
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                Some((packet.if_id as usize, packet.data, packet.caplen, packet.origlen))
            }
            PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
                Some((0, packet.data, packet.origlen.min(packet.data.len() as u32), packet.origlen))
            }
            PcapBlockOwned::NG(_) => None,
        };
        if let Some((interface, octets, captured, original)) = found {
            number += 1;
            let octets = octets.get(..captured as usize).unwrap_or(octets).to_vec();
            if let Some(link) = links.get(interface).filter(|link| LinkType::from_dlt(**link).is_some()) {
                let frames = all.entry(*link).or_default();
                frames.push(Frame {
                    capture: path.to_owned(),
                    number,
                    original: original.max(octets.len() as u32),
                    octets,
                });
            }
        }
        reader.consume(length);
    }
}

/// A capture file of frames of one link type.
pub(crate) fn pcap(link: u16, frames: &[Frame]) -> Vec<u8> {
    let head = [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 0x0004_0000, link.into()];
    let mut out: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
    for (number, frame) in frames.iter().enumerate() {
        let words = [number as u32, 0, frame.octets.len() as u32, frame.original];
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        out.extend(&frame.octets);
    }
    out
}
