//! Datagrams into capture files, with the headers that would have been around them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::path::Path;

use weir_export::{Datagram, Exporter};

use crate::flows::Flows;
use crate::pace::Pace;
use crate::sent::{SendError, Sent, Stream};

/// Ports that exporters send from, counted up from here.
const SOURCE_PORT_MIN: u16 = 50_000;

/// Writes all flows into a capture file, as exporters would have sent them to `target`; an exporter without an
/// address has 127.0.0.1. Packets have the simulated clock of the flows as their time.
pub fn write_pcap(path: &Path, flows: &mut Flows, streams: &[Stream], target: SocketAddrV4) -> Result<Sent, SendError> {
    let failed = |source| SendError::File { path: path.to_owned(), source };
    let mut exporters = Vec::new();
    for (stream, port) in streams.iter().zip(SOURCE_PORT_MIN..) {
        let source = match stream.source {
            None => Ipv4Addr::LOCALHOST,
            Some(IpAddr::V4(source)) => source,
            Some(address) => return Err(SendError::NotIpv4 { address }),
        };
        exporters.push((Exporter::new(stream.config.clone())?, SocketAddrV4::new(source, port)));
    }
    if exporters.is_empty() {
        return Err(SendError::NoStream);
    }
    let (mut sent, pace, mut turn) = (Sent::default(), Pace::new(None), 0);
    // datagrams have the time of the end of their batch: one of many flows of a slow model would be minutes long
    let rows_max = (flows.model().flows_per_second as usize).clamp(1, Flows::BATCH_ROWS);
    let file = File::create(path).map_err(failed)?;
    let mut writer = PcapWriter::new(BufWriter::new(file)).map_err(failed)?;
    let mut outcome = Ok(());
    while outcome.is_ok()
        && let Some(batch) = flows.next_batch(rows_max)
    {
        let (exporter, source) = &mut exporters[turn];
        let clock_ms = flows.clock_ms();
        let mut sink = |datagram: Datagram<'_>| {
            count(&mut sent, datagram);
            // The first failure stays; what comes after it would fail as well.
            if outcome.is_ok() {
                outcome = writer.datagram(clock_ms, *source, target, datagram.octets);
            }
        };
        exporter.encode(&batch, clock_ms, &mut sink);
        turn = (turn + 1) % streams.len();
    }
    for (exporter, source) in &mut exporters {
        exporter.flush(flows.clock_ms(), &mut |datagram| {
            count(&mut sent, datagram);
            if outcome.is_ok() {
                outcome = writer.datagram(flows.clock_ms(), *source, target, datagram.octets);
            }
        });
    }
    outcome.and_then(|()| writer.finish()).map_err(failed)?;
    sent.add_exported(exporters.iter().map(|(exporter, _)| exporter));
    sent.duration = pace.elapsed();
    Ok(sent)
}

fn count(sent: &mut Sent, datagram: Datagram<'_>) {
    sent.datagrams += 1;
    sent.flows += u64::from(datagram.flows);
    sent.octets += datagram.octets.len() as u64;
}

/// Writes a capture file of the classic kind: little-endian, microseconds, Ethernet.
#[derive(Debug)]
pub struct PcapWriter<W> {
    out: W,
}

/// Lengths of the headers before the payload.
const ETHERNET_OCTETS: usize = 14;
const IPV4_OCTETS: usize = 20;
const UDP_OCTETS: usize = 8;

impl<W: Write> PcapWriter<W> {
    /// Writes the header of the file.
    pub fn new(mut out: W) -> io::Result<Self> {
        let (major, minor) = (2_u16, 4_u16);
        out.write_all(&0xa1b2_c3d4_u32.to_le_bytes())?;
        out.write_all(&major.to_le_bytes())?;
        out.write_all(&minor.to_le_bytes())?;
        // Time zone and accuracy, which nobody uses; longest packet; link type Ethernet.
        for number in [0_u32, 0, 262_144, 1] {
            out.write_all(&number.to_le_bytes())?;
        }
        Ok(Self { out })
    }

    /// Writes one UDP datagram, of at most 65507 octets, with its headers and checksums.
    pub fn datagram(
        &mut self,
        time_ms: i64,
        source: SocketAddrV4,
        target: SocketAddrV4,
        payload: &[u8],
    ) -> io::Result<()> {
        let Ok(length) = u16::try_from(IPV4_OCTETS + UDP_OCTETS + payload.len()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "datagram is too long for IPv4"));
        };
        let frame_octets = (ETHERNET_OCTETS + usize::from(length)) as u32;
        let micros = time_ms.rem_euclid(1000) as u32 * 1000;
        for number in [time_ms.div_euclid(1000) as u32, micros, frame_octets, frame_octets] {
            self.out.write_all(&number.to_le_bytes())?;
        }
        // Locally administered MAC addresses made of the IPv4 ones, and EtherType IPv4.
        self.out.write_all(&[2, 0])?;
        self.out.write_all(&target.ip().octets())?;
        self.out.write_all(&[2, 0])?;
        self.out.write_all(&source.ip().octets())?;
        self.out.write_all(&[8, 0])?;
        self.out.write_all(&ipv4_header(length, source, target))?;
        self.out.write_all(&udp_header(source, target, payload))?;
        self.out.write_all(payload)
    }

    /// Writes out what is buffered.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// RFC 791 section 3.1.
fn ipv4_header(length: u16, source: SocketAddrV4, target: SocketAddrV4) -> [u8; IPV4_OCTETS] {
    let mut header = [0; IPV4_OCTETS];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&length.to_be_bytes());
    // Don't fragment; 64 hops; UDP.
    (header[6], header[8], header[9]) = (0x40, 64, 17);
    header[12..16].copy_from_slice(&source.ip().octets());
    header[16..20].copy_from_slice(&target.ip().octets());
    let checksum = checksum(&[&header]);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header
}

/// RFC 768; the checksum is also over a pseudo header of addresses, protocol and length.
fn udp_header(source: SocketAddrV4, target: SocketAddrV4, payload: &[u8]) -> [u8; UDP_OCTETS] {
    let length = ((UDP_OCTETS + payload.len()) as u16).to_be_bytes();
    let mut header = [0; UDP_OCTETS];
    header[..2].copy_from_slice(&source.port().to_be_bytes());
    header[2..4].copy_from_slice(&target.port().to_be_bytes());
    header[4..6].copy_from_slice(&length);
    let protocol = [0, 17, length[0], length[1]];
    let sum = match checksum(&[&source.ip().octets(), &target.ip().octets(), &protocol, &header, payload]) {
        // 0 would say that there is no checksum.
        0 => 0xffff,
        sum => sum,
    };
    header[6..8].copy_from_slice(&sum.to_be_bytes());
    header
}

/// The complement of the one's complement sum of 16-bit words (RFC 1071). All parts but the last have an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let sum: u64 = words.map(|word| u64::from(word[0]) << 8 | word.get(1).map_or(0, |&low| low.into())).sum();
    let mut sum = sum;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use weir_export::{ExporterConfig, Version};

    use super::*;
    use crate::TrafficModel;

    /// The times of the packets of a capture, in seconds since the epoch: 24 octets before the first, and before each 16
    /// with its time and length (draft-ietf-opsawg-pcap, sections 4 and 5).
    fn packet_secs(path: &Path) -> Vec<i64> {
        let octets = std::fs::read(path).expect("a file");
        let number = |at: usize| u32::from_le_bytes(octets[at..at + 4].try_into().expect("four octets"));
        let (mut at, mut secs) = (24, Vec::new());
        while at < octets.len() {
            secs.push(i64::from(number(at)));
            at += 16 + number(at + 8) as usize;
        }
        secs
    }

    /// Two minutes of five flows in a second: whoever takes windows of a minute of them finds that many.
    #[test]
    fn datagrams_of_a_slow_model_come_at_the_time_of_their_flows() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("slow.pcap");
        let model = TrafficModel { flows_per_second: 5, ..TrafficModel::new(1) };
        let streams = [Stream { source: None, config: ExporterConfig::new(Version::V5) }];
        let target = "192.0.2.1:2055".parse().expect("an address");
        write_pcap(&path, &mut model.flows(600).expect("a model"), &streams, target).expect("a capture");
        let secs = packet_secs(&path);
        // packets of NetFlow v5 have at most 30 flows, those of six seconds
        assert!(secs.len() >= 20, "{secs:?}");
        let begin_secs = model.start_ms / 1_000;
        assert!(secs[0] <= begin_secs + 7, "{secs:?}");
        assert!(secs.windows(2).all(|pair| (0..=7).contains(&(pair[1] - pair[0]))), "{secs:?}");
    }
}
