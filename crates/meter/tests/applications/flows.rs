//! Packets dealt out to flows by their Flow Keys alone.

use std::collections::HashMap;
use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use weir_meter::application::{Application, Counts, Direction, Inspection, Inspector, Limits, Verdict};
use weir_wire::packet::Packet;

use crate::captures::each_packet;

/// Protocol and both ends, the lower one first.
pub(crate) type Key = (u8, SocketAddr, SocketAddr);

/// A flow, and what it told.
pub(crate) struct Flow {
    pub(crate) key: Key,
    pub(crate) application: Application,
}

/// The key, whichever end comes first.
pub(crate) fn key(protocol: u8, one: SocketAddr, other: SocketAddr) -> Key {
    (protocol, one.min(other), one.max(other))
}

pub(crate) fn address(octets: &[u8]) -> Option<IpAddr> {
    <[u8; 4]>::try_from(octets).map(IpAddr::from).or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}

/// Octets as hexadecimal digits.
pub(crate) fn digits(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |mut text, octet| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{octet:02x}");
        text
    })
}

/// Protocol, source and destination of a packet of TCP or UDP.
fn ends(packet: &Packet<'_>) -> Option<(u8, SocketAddr, SocketAddr)> {
    let headers = packet.innermost();
    let (ip, (from, to)) = (headers.ip?, headers.ports?);
    let ends = (SocketAddr::new(address(ip.source)?, from), SocketAddr::new(address(ip.destination)?, to));
    matches!(ip.protocol, 6 | 17).then_some((ip.protocol, ends.0, ends.1))
}

/// The flows of a capture in the order in which they begin, and what the inspector counted.
pub(crate) fn flows(path: &Path) -> (Vec<Flow>, Counts) {
    let mut inspector = Inspector::new(Limits::default());
    let mut inspections: Vec<(SocketAddr, Key, Inspection)> = Vec::new();
    let mut places: HashMap<Key, usize> = HashMap::new();
    each_packet(path, |packet| {
        let Some((protocol, source, destination)) = ends(packet) else { return };
        let key = key(protocol, source, destination);
        let place = *places.entry(key).or_insert_with(|| {
            inspections.push((source, key, Inspection::new(protocol, source.port(), destination.port())));
            inspections.len() - 1
        });
        let (first, _, inspection) = &mut inspections[place];
        let direction = if *first == source { Direction::Forward } else { Direction::Reverse };
        let headers = packet.innermost();
        let verdict = inspector.inspect(inspection, direction, headers.tcp_sequence(), headers.payload());
        assert!(matches!(verdict, Verdict::More | Verdict::Done));
    });
    let flows = inspections
        .into_iter()
        .map(|(_, key, inspection)| Flow { key, application: inspector.conclude(inspection) })
        .collect();
    assert_eq!(inspector.buffers_held(), 0, "{}", path.display());
    (flows, inspector.counts())
}
