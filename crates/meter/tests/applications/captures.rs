//! Frames of capture files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};
use weir_wire::packet::{LinkType, Packet, dissect};

/// Gives every frame of a capture, dissected, to the function; what is no capture has none.
pub(crate) fn each_packet(path: &Path, mut take: impl FnMut(&Packet<'_>)) {
    let mut file: Box<dyn Read + Send> = Box::new(File::open(path).expect("a capture"));
    if path.extension().is_some_and(|extension| extension == "gz") {
        file = Box::new(flate2::read::MultiGzDecoder::new(file));
    }
    let Ok(mut reader) = create_reader(1 << 20, file) else { return };
    let mut links: Vec<i32> = Vec::new();
    loop {
        match reader.next() {
            Ok((offset, block)) => {
                match block {
                    PcapBlockOwned::LegacyHeader(header) => links.push(header.network.0),
                    PcapBlockOwned::Legacy(packet) => each(links.first(), packet.data, &mut take),
                    PcapBlockOwned::NG(Block::SectionHeader(_)) => links.clear(),
                    PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => links.push(interface.linktype.0),
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                        let octets = &packet.data[..packet.data.len().min(packet.caplen as usize)];
                        each(links.get(packet.if_id as usize), octets, &mut take);
                    }
                    PcapBlockOwned::NG(Block::SimplePacket(packet)) => each(links.first(), packet.data, &mut take),
                    PcapBlockOwned::NG(_) => {}
                }
                reader.consume(offset);
            }
            Err(PcapError::Incomplete(_)) => {
                if reader.reader_exhausted() || reader.refill().is_err() {
                    return;
                }
            }
            Err(_) => return,
        }
    }
}

fn each(link: Option<&i32>, frame: &[u8], take: &mut impl FnMut(&Packet<'_>)) {
    let number = link.and_then(|link| u16::try_from(*link).ok());
    if let Some(link) = number.and_then(LinkType::from_dlt) {
        take(&dissect(link, frame));
    }
}
