//! Reads an sFlow datagram or a packet to the last octet and checks what must hold for any input. The fuzz targets
//! include this file too, so it uses nothing but the crate and the standard library.

use weir_wire::packet::{self, Headers, LinkType, Packet, TUNNELS_MAX};
use weir_wire::sflow::{self, FlowRecord, Records, Sample};

/// What was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) samples: usize,
    pub(crate) records: usize,
    pub(crate) problems: usize,
    /// Packets with ports.
    pub(crate) ports: usize,
    /// Packets in tunnels.
    pub(crate) tunnelled: usize,
}

fn lies_within(part: &[u8], whole: &[u8]) {
    let (part, whole) = (part.as_ptr_range(), whole.as_ptr_range());
    assert!(part.is_empty() || (whole.start <= part.start && part.end <= whole.end), "not of the input");
}

/// Reads a datagram, with every record and every sampled header in it.
pub(crate) fn datagram(octets: &[u8]) -> Found {
    let mut found = Found::default();
    let Ok(datagram) = sflow::decode(octets) else { return Found { problems: 1, ..found } };
    assert!(matches!(datagram.header.agent.len(), 0 | 4 | 16));
    for sample in datagram.samples {
        let records = match sample {
            Ok(Sample::Flow(sample) | Sample::Discarded(sample)) => {
                let index = sample.output.index();
                assert!(index.is_none() || sample.output.discarded().is_none());
                sample.records
            }
            Ok(Sample::Counters(sample)) => sample.records,
            Ok(Sample::Unknown { body, .. }) => {
                lies_within(body, octets);
                found.samples += 1;
                continue;
            }
            Err(_) => {
                found.problems += 1;
                continue;
            }
        };
        found.samples += 1;
        read(records, octets, &mut found);
    }
    // Each sample and each record has a head of eight octets.
    assert!(found.samples + found.records <= octets.len() / 8);
    found
}

fn read(records: Records<'_>, octets: &[u8], found: &mut Found) {
    for record in records {
        let Ok(record) = record else {
            found.problems += 1;
            continue;
        };
        found.records += 1;
        lies_within(record.body, octets);
        let _ = (record.check_counters(), record.host_description());
        match record.flow() {
            Ok(FlowRecord::Header(header)) => {
                lies_within(header.header, octets);
                if let Some(link) = header.link_type() {
                    let seen = packet(link, header.header);
                    found.ports += seen.ports;
                    found.tunnelled += seen.tunnelled;
                }
            }
            Ok(FlowRecord::Gateway(gateway)) => {
                assert!(gateway.communities.len().is_multiple_of(4));
                assert!(gateway.segments > 0 || gateway.first_as.is_none());
            }
            _ => {}
        }
    }
}

/// Dissects a packet.
pub(crate) fn packet(link: LinkType, octets: &[u8]) -> Found {
    let packet = packet::dissect(link, octets);
    check(&packet, octets);
    if link == LinkType::Ethernet {
        check_plain(&packet, octets);
    }
    Found {
        ports: usize::from(packet.innermost().ports.is_some()),
        tunnelled: usize::from(packet.inner().is_some()),
        ..Found::default()
    }
}

fn check(packet: &Packet<'_>, octets: &[u8]) {
    assert!(packet.link_octets(octets) <= octets.len());
    assert!(packet.tunnels <= TUNNELS_MAX);
    assert_eq!(packet.tunnel.is_some(), packet.tunnels > 0);
    check_headers(&packet.outer, octets);
    if let Some(inner) = packet.inner() {
        assert!(packet.tunnels > 0 && inner.ip.is_some());
        check_headers(inner, octets);
    }
}

/// The short way says what dissecting says, and is gone by every packet that it is made for.
fn check_plain(packet: &Packet<'_>, octets: &[u8]) {
    let plain = packet::plain(octets);
    let headers = &packet.outer;
    let (Some(ip), Some(ports)) = (headers.ip, headers.ports) else {
        return assert_eq!(plain, None, "without ports nothing is plain");
    };
    let padded = |address: &[u8]| {
        let mut octets = [0; 16];
        octets[..address.len()].copy_from_slice(address);
        octets
    };
    let told = packet::PlainPacket {
        source: padded(ip.source),
        destination: padded(ip.destination),
        is_ipv6: ip.source.len() == 16,
        protocol: ip.protocol,
        tos: ip.tos,
        ttl: ip.ttl,
        vlan: headers.vlan(0),
        total_length: ip.total_length,
        src_port: ports.0,
        dst_port: ports.1,
        tcp_flags: headers.tcp_flags.unwrap_or_default(),
    };
    let of_either = |port| [1701, 2152, 3386, 3544, 5072, 5247].contains(&port);
    let is_tunnel = |to| of_either(to) || [4341, 4754, 4789, 4790, 6081, 6635, 8472].contains(&to);
    let transport = match ip.protocol {
        6 => 20,
        17 if !of_either(ports.0) && !is_tunnel(ports.1) => 8,
        _ => return assert_eq!(plain, None, "{told:?}"),
    };
    let is_plain = headers.macs.is_some()
        && headers.vlan_tags.len() <= 4
        && ip.octets.as_ptr() == octets[14 + headers.vlan_tags.len()..].as_ptr()
        && ip.header_octets == if told.is_ipv6 { 40 } else { 20 }
        && ip.fragment.is_none()
        && ip.total_length >= ip.header_octets + transport
        && ip.carried().len() >= transport as usize;
    assert_eq!(plain, is_plain.then_some(told));
    assert!(plain.is_none() || packet.tunnels == 0);
}

fn check_headers(headers: &Headers<'_>, octets: &[u8]) {
    for (part, unit) in [(headers.vlan_tags, 4), (headers.labels, 4)] {
        lies_within(part, octets);
        assert!(part.len().is_multiple_of(unit));
    }
    if let Some(macs) = headers.macs {
        lies_within(macs.source, octets);
        lies_within(macs.destination, octets);
    }
    let Some(ip) = headers.ip else {
        assert_eq!((headers.ports, headers.tcp_flags, headers.icmp), (None, None, None));
        return;
    };
    assert!(matches!(ip.source.len(), 4 | 16) && ip.source.len() == ip.destination.len());
    lies_within(ip.source, octets);
    lies_within(ip.destination, octets);
    lies_within(ip.octets, octets);
    assert!(ip.header_octets as usize <= ip.octets.len().max(60), "only options may be missing");
    assert_eq!(ip.header().len() + ip.carried().len(), ip.octets.len());
    lies_within(headers.transport(), ip.octets);
    lies_within(headers.payload(), ip.carried());
    let later = ip.fragment.is_some_and(|fragment| fragment.offset > 0);
    assert!(!later || (headers.ports.is_none() && headers.icmp.is_none()), "a later fragment has no such header");
    assert!(headers.tcp_flags.is_none() || headers.ports.is_some());
}
