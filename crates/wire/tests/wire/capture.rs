//! UDP payloads of captures, as far as these tests need them: Ethernet, VLAN, IPv4 and IPv6 without fragments.

use std::path::Path;

use pcap_parser::{Block, PcapBlockOwned, PcapError, create_reader};

/// The payloads of all UDP datagrams of a capture, in order.
pub(crate) fn udp_payloads(path: &Path) -> Vec<Vec<u8>> {
    frames(path).iter().filter_map(|frame| udp_payload(frame).map(<[u8]>::to_vec)).collect()
}

/// The frames of a capture, in order.
pub(crate) fn frames(path: &Path) -> Vec<Vec<u8>> {
    let file = std::fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader = create_reader(1 << 20, file).expect("a capture");
    let mut frames = Vec::new();
    loop {
        match reader.next() {
            Ok((length, block)) => {
                let frame = match &block {
                    PcapBlockOwned::Legacy(packet) => packet.data,
                    PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => packet.data,
                    PcapBlockOwned::NG(Block::SimplePacket(packet)) => packet.data,
                    _ => &[],
                };
                frames.extend((!frame.is_empty()).then(|| frame.to_vec()));
                reader.consume(length);
            }
            Err(PcapError::Incomplete(_)) => reader.refill().expect("readable"),
            Err(PcapError::Eof) => return frames,
            Err(error) => panic!("{}: {error:?}", path.display()),
        }
    }
}

fn udp_payload(frame: &[u8]) -> Option<&[u8]> {
    let mut at = 12;
    let mut ether_type = [*frame.get(at)?, *frame.get(at + 1)?];
    while matches!(ether_type, [0x81, 0] | [0x88, 0xa8]) {
        at += 4;
        ether_type = [*frame.get(at)?, *frame.get(at + 1)?];
    }
    let packet = frame.get(at + 2..)?;
    let (protocol, header_len) = match ether_type {
        [8, 0] => (*packet.get(9)?, usize::from(packet.first()? & 0xf) * 4),
        [0x86, 0xdd] => (*packet.get(6)?, 40),
        _ => return None,
    };
    let udp = packet.get(header_len..)?;
    let length = usize::from(u16::from_be_bytes([*udp.get(4)?, *udp.get(5)?]));
    (protocol == 17).then(|| udp.get(8..length.min(udp.len())))?
}
