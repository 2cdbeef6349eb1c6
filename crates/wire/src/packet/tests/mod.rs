mod captured;
mod offsets;
mod tunnels;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const MACS: &str = "020000000002 020000000001";
/// 192.0.2.1 to 198.51.100.2, protocol and total length to be filled in.
fn ipv4(protocol: u8, payload: &str) -> String {
    let total = 20 + octets(payload).len();
    format!("4500{total:04x} 00010000 40{protocol:02x}0000 c0000201 c6336402 {payload}")
}

/// From one IPv6 address to another, with a flow label.
fn ipv6(next: u8, payload: &str) -> String {
    let length = octets(payload).len();
    format!(
        "62812345 {length:04x}{next:02x}3f 20010db8000000000000000000000001 20010db8000000000000000000000002 {payload}"
    )
}

/// Port 1024 to another.
fn udp(to: u16, payload: &str) -> String {
    format!("0400{to:04x} {:04x}0000 {payload}", 8 + octets(payload).len())
}

/// SYN and ACK from port 80 to port 1025.
const TCP: &str = "00500401 00000001 00000002 50121000 00000000";

fn octets(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ascii"), 16).expect("hex"))
        .collect()
}

/// Dissects an Ethernet frame and compares the innermost protocol and ports, the tunnel, and why it ended.
fn check(frame: &str, ip: (u8, usize), ports: Option<(u16, u16)>, tunnel: Option<(TunnelKind, Option<u32>)>) {
    let frame = octets(frame);
    let packet = dissect(LinkType::Ethernet, &frame);
    let headers = packet.innermost();
    let found = headers.ip.map(|ip| (ip.protocol, ip.source.len()));
    assert_eq!(found, Some(ip), "{packet:?}");
    assert_eq!(headers.ports, ports, "{packet:?}");
    assert_eq!(packet.tunnel.map(|tunnel| (tunnel.kind, tunnel.id)), tunnel);
    assert_eq!(packet.end, End::Payload);
    cut(LinkType::Ethernet, &frame);
}

/// A frame cut anywhere says nothing but what the whole one says.
fn cut(link: LinkType, frame: &[u8]) {
    let whole = dissect(link, frame);
    for end in 0..frame.len() {
        let short = dissect(link, &frame[..end]);
        assert!(short.tunnels <= whole.tunnels);
        for (short, whole) in [(Some(short.outer), Some(whole.outer)), (short.inner().copied(), whole.inner().copied())]
        {
            let (Some(short), Some(whole)) = (short, whole) else { continue };
            assert!(whole.vlan_tags.starts_with(short.vlan_tags) && whole.labels.starts_with(short.labels));
            assert!(short.ip.is_none() || short.ip.map(|ip| ip.source) == whole.ip.map(|ip| ip.source));
            assert!(short.ports.is_none() || short.ports == whole.ports);
            assert!(short.tcp_flags.is_none() || short.tcp_flags == whole.tcp_flags);
        }
    }
}

#[test]
fn plain_packets() {
    check(&format!("{MACS} 0800 {}", ipv4(6, TCP)), (6, 4), Some((80, 1025)), None);
    check(&format!("{MACS} 86dd {}", ipv6(17, &udp(53, "00"))), (17, 16), Some((1024, 53)), None);
    let frame = octets(&format!("{MACS} 86dd {}", ipv6(6, TCP)));
    let packet = dissect(LinkType::Ethernet, &frame);
    let ip = packet.outer.ip.expect("a header");
    assert_eq!((ip.tos, ip.ttl, ip.flow_label, ip.total_length), (0x28, 63, 0x12345, 60));
    assert_eq!((packet.outer.tcp_flags, packet.outer.ethertype), (Some(0x12), Some(0x86dd)));
    assert_eq!(packet.outer.macs.map(|macs| macs.source), Some(&[2, 0, 0, 0, 0, 1]));
    let frame = octets(&format!("{MACS} 0800 {}", ipv4(1, "0300 0000 00000000")));
    assert_eq!(dissect(LinkType::Ethernet, &frame).outer.icmp, Some((3, 0)));
}

#[test]
fn tags_and_labels() {
    let tagged = format!("{MACS} 88a8 2064 8100 0065 0800 {}", ipv4(6, TCP));
    check(&tagged, (6, 4), Some((80, 1025)), None);
    let tagged = octets(&tagged);
    let outer = dissect(LinkType::Ethernet, &tagged).outer;
    assert_eq!((outer.vlan(0), outer.vlan(1), outer.vlan(2)), (Some(100), Some(101), None));
    let labelled = format!("{MACS} 8847 0001003f 0001113f {}", ipv4(6, TCP));
    check(&labelled, (6, 4), Some((80, 1025)), None);
    assert_eq!(dissect(LinkType::Ethernet, &octets(&labelled)).outer.labels, octets("0001003f 0001113f"));
    // Ethernet over MPLS, with control word and without
    let bridged = format!("{MACS} 0800 {}", ipv4(6, TCP));
    let over = Some((TunnelKind::EthernetOverMpls, None));
    check(&format!("{MACS} 8847 0001013f 00000000 {bridged}"), (6, 4), Some((80, 1025)), over);
    check(&format!("{MACS} 8847 0001013f {bridged}"), (6, 4), Some((80, 1025)), over);
    // SNAP, PPPoE
    check(&format!("{MACS} 0030 aaaa03 000000 0800 {}", ipv4(6, TCP)), (6, 4), Some((80, 1025)), None);
    let session = octets(&format!("{MACS} 8864 1100 0007 002a 0021 {}", ipv4(6, TCP)));
    let outer = dissect(LinkType::Ethernet, &session).outer;
    assert_eq!((outer.pppoe_session, outer.ports, outer.ethertype), (Some(7), Some((80, 1025)), Some(0x800)));
}

#[test]
fn fragments_and_extension_headers() {
    let first = format!("{MACS} 0800 4500001c 00072000 40110000 c0000201 c6336402 {}", udp(53, ""));
    check(&first, (17, 4), Some((1024, 53)), None);
    let later = format!("{MACS} 0800 4500001c 00070001 40110000 c0000201 c6336402 {}", udp(53, ""));
    check(&later, (17, 4), None, None);
    let later = octets(&later);
    let ip = dissect(LinkType::Ethernet, &later).outer.ip.expect("a header");
    assert_eq!(ip.fragment, Some(Fragment { identification: 7, offset: 8, more: false }));
    // hop by hop, fragment, authentication, TCP
    let chain = ipv6(0, &format!("2c00 010400000000 33000001 00000009 0604 0000 {} {TCP}", "00".repeat(20)));
    check(&format!("{MACS} 86dd {chain}"), (6, 16), Some((80, 1025)), None);
    let chain = ipv6(44, &format!("11000008 00000009 {}", udp(53, "")));
    check(&format!("{MACS} 86dd {chain}"), (17, 16), None, None);
}

/// What an extension header says of what follows it is known as soon as its first octet is.
#[test]
fn extension_headers_cut_off() {
    let protocol = |chain: &str, carried: usize| {
        let frame = octets(&ipv6(60, chain));
        dissect(LinkType::Ip, &frame[..40 + carried]).outer.ip.map(|ip| ip.protocol)
    };
    let chain = format!("2b00 010400000000 1102 0401 00000000 {} {}", "00".repeat(16), udp(53, ""));
    for (carried, expected) in [(0, 60), (1, 43), (2, 43), (7, 43), (8, 43), (9, 17), (10, 17), (31, 17), (33, 17)] {
        assert_eq!(protocol(&chain, carried), Some(expected), "{carried}");
    }
    // so is what an authentication header says, which IPv4 has too
    let authenticated = octets(&ipv4(51, &format!("0604 0000 {} {TCP}", "00".repeat(20))));
    let protocol = |octets: usize| dissect(LinkType::Ip, &authenticated[..octets]).outer.ip.map(|ip| ip.protocol);
    assert_eq!([20, 21, 22, 43, 44, 48].map(protocol), [51, 6, 6, 6, 6, 6].map(Some));
}

#[test]
fn tunnels() {
    let bridged = format!("{MACS} 0800 {}", ipv4(6, TCP));
    let inner = ipv4(6, TCP);
    let cases = [
        (ipv4(4, &inner), TunnelKind::Ip, None),
        (ipv6(4, &inner), TunnelKind::Ip, None),
        (ipv4(47, &format!("2000 0800 0000002a {inner}")), TunnelKind::Gre, Some(42)),
        (ipv4(47, &format!("b000 6558 00000000 00002a00 00000001 {bridged}")), TunnelKind::Gre, Some(0x2a00)),
        (ipv4(47, &format!("3001 880b 0000 0005 00000001 0021 {inner}")), TunnelKind::Gre, Some(5)),
        (ipv4(47, &format!("0000 880b ff03 0021 {inner}")), TunnelKind::Gre, None),
        (ipv4(47, &format!("2001 6400 0036 0700 {bridged}")), TunnelKind::Gre, Some(7)),
        (ipv4(47, &format!("0000 88be {bridged}")), TunnelKind::Erspan, None),
        (ipv4(47, &format!("1000 88be 00000001 1001 0064 00000000 {bridged}")), TunnelKind::Erspan, Some(100)),
        (ipv4(47, &format!("1000 22eb 00000001 2001 0065 00000000 00000000 {bridged}")), TunnelKind::Erspan, Some(101)),
        (ipv4(17, &udp(4789, &format!("08000000 00007b00 {bridged}"))), TunnelKind::Vxlan, Some(123)),
        (ipv4(17, &udp(4790, &format!("0c000001 00007b00 {inner}"))), TunnelKind::Vxlan, Some(123)),
        (ipv6(17, &udp(6081, &format!("0100 6558 00007c00 00000000 {bridged}"))), TunnelKind::Geneve, Some(124)),
        (ipv4(17, &udp(2152, &format!("30ff0028 00000009 {inner}"))), TunnelKind::Gtp, Some(9)),
        (ipv4(17, &udp(2152, &format!("34ff0030 00000009 00000085 01100900 {inner}"))), TunnelKind::Gtp, Some(9)),
        (ipv4(137, &format!("0001013f {inner}")), TunnelKind::Mpls, None),
        (ipv4(97, &format!("3000 {bridged}")), TunnelKind::EthernetInIp, None),
    ];
    for (packet, kind, id) in cases {
        let ethertype = if packet.starts_with('4') { "0800" } else { "86dd" };
        check(&format!("{MACS} {ethertype} {packet}"), (6, 4), Some((80, 1025)), Some((kind, id)));
    }
    let six_in_four = ipv4(41, &ipv6(6, TCP));
    check(&format!("{MACS} 0800 {six_in_four}"), (6, 16), Some((80, 1025)), Some((TunnelKind::Ip, None)));
    check(&format!("{MACS} 88e7 000000ff {bridged}"), (6, 4), Some((80, 1025)), Some((TunnelKind::Pbb, Some(255))));
}

#[test]
fn of_tunnels_in_tunnels_the_outermost_and_the_innermost_are_kept() {
    let deep = |count: usize| (0..count).fold(ipv4(6, TCP), |inner, _| ipv4(4, &inner));
    let frame = octets(&deep(3));
    let packet = dissect(LinkType::Ip, &frame);
    assert_eq!((packet.tunnels, packet.outer.ports, packet.innermost().ports), (3, None, Some((80, 1025))));
    assert_eq!(packet.end, End::Payload);
    let frame = octets(&deep(9));
    let packet = dissect(LinkType::Ip, &frame);
    assert_eq!((packet.tunnels, packet.end), (TUNNELS_MAX, End::TooDeep));
    assert!(packet.inner().is_some_and(|headers| headers.ports.is_none()));
    // ARP in VXLAN: the flow is that of the tunnel.
    let frame = octets(&ipv4(17, &udp(4789, &format!("08000000 00007b00 {MACS} 0806 0001"))));
    let packet = dissect(LinkType::Ip, &frame);
    assert_eq!((packet.innermost().ports, packet.tunnel.and_then(|tunnel| tunnel.id)), (Some((1024, 4789)), Some(123)));
}

/// RFC 791 section 3.1: more fragments (0x2000) follow the first one.
#[test]
fn a_tunnel_in_fragments_within_a_tunnel_is_known() {
    let carrier = |fragment: &str| {
        let inner = ipv4(6, TCP);
        let total = 20 + octets(&inner).len();
        format!("4500{total:04x} 0007{fragment} 40040000 0a000001 0a000002 {inner}")
    };
    let in_gre = |packet: &str| ipv4(47, &format!("20000800 0000002a {packet}"));
    let identification = |packet: &str| {
        let frame = octets(packet);
        let fragmented = dissect(LinkType::Ip, &frame).fragmented;
        fragmented.map(|(ip, around)| (ip.fragment.map(|fragment| fragment.identification), around))
    };
    let gre = Tunnel { kind: TunnelKind::Gre, id: Some(42) };
    assert_eq!(identification(&in_gre(&carrier("2000"))), Some((Some(7), gre)));
    assert_eq!(identification(&in_gre(&carrier("2001"))), None, "a further one shows no tunnel");
    assert_eq!(identification(&in_gre(&carrier("0000"))), None, "it is whole");
    assert_eq!(identification(&carrier("2000")), None, "the outermost is kept anyway");
    // what was known of a frame is forgotten with the next one
    let (one, other) = (octets(&in_gre(&carrier("2000"))), octets(&in_gre(&carrier("0000"))));
    let mut packet = dissect(LinkType::Ip, &one);
    dissect_into(LinkType::Ip, &other, &mut packet);
    assert_eq!(packet, dissect(LinkType::Ip, &other));
}

#[test]
fn what_contradicts_itself_is_not_believed() {
    let end = |frame: &str| dissect(LinkType::Ethernet, &octets(frame)).end;
    assert_eq!(end(&format!("{MACS} 0800 44000014 00010000 40060000 c0000201 c6336402")), End::Malformed);
    assert_eq!(end(&format!("{MACS} 0800 45000013 00010000 40060000 c0000201 c6336402")), End::Malformed);
    assert_eq!(end(&format!("{MACS} 86dd {}", ipv4(6, TCP))), End::Malformed);
    assert_eq!(end(&format!("{MACS} 0026 42420300 00000000")), End::Unknown);
    assert_eq!(end(&format!("{MACS} 88cc 0000")), End::Unknown);
    assert_eq!(end(MACS), End::Truncated);
    let chain = ipv6(60, &format!("{} 06 00 000000000000 {TCP}", "3c00 000000000000 ".repeat(EXTENSION_HEADERS_MAX)));
    assert_eq!(end(&format!("{MACS} 86dd {chain}")), End::TooDeep);
    // Padding of short Ethernet frames is no transport header.
    let padded = format!("{MACS} 0800 45000016 00010000 40060000 c0000201 c6336402 0050 0401 0000");
    assert_eq!((end(&padded), dissect(LinkType::Ethernet, &octets(&padded)).outer.ports), (End::Truncated, None));
    // A hundred thousand octets of tags must not exhaust the stack.
    for tag in ["81000001", "8926 00000000", "893f 000000000000"] {
        assert_eq!(end(&format!("{MACS} {}", tag.repeat(100_000))), End::Truncated);
    }
}

#[test]
fn frames_of_802_11() {
    let frame =
        format!("8802 0000 020000000003 020000000002 020000000001 0010 0000 aaaa03 000000 0800 {}", ipv4(6, TCP));
    let frame = octets(&frame);
    let outer = dissect(LinkType::Ieee80211, &frame).outer;
    assert_eq!(outer.ports, Some((80, 1025)));
    assert_eq!(outer.macs.map(|macs| (macs.source[5], macs.destination[5])), Some((1, 3)));
    cut(LinkType::Ieee80211, &frame);
}

/// Frames that take no more than one step, and some that do: what stands before IP, its version, and a protocol.
const STRAIGHT: [(&str, u8, u8); 8] = [
    ("0800", 4, 6),
    ("8100 0001 0800", 4, 17),
    ("88a8 0001 8100 0002 86dd", 6, 6),
    ("86dd", 6, 17),
    ("0800", 4, 4),
    ("8847 0001013f", 4, 6),
    ("8864 1100 0007 002a 0021", 4, 6),
    ("0800 45000000 00010000 402f0000 c0000201 c6336402 0000 0800", 4, 6),
];

proptest! {
    /// Octets of no meaning, behind what leads somewhere.
    #[test]
    fn noise(
        (_, link) in proptest::sample::select(LinkType::numbers()),
        noise in vec(prop_oneof![any::<u8>(), Just(0), Just(4), Just(6), Just(0x45), Just(0x81)], 0..300),
    ) {
        cut(link, &noise);
    }

    /// A packet is dissected into room that held another one, and its first step is taken outside of the loop: both
    /// leave no trace.
    #[test]
    fn the_straight_line_and_the_loop_agree(
        kind in 0..STRAIGHT.len(),
        before in 0..STRAIGHT.len(),
        at in vec((0_usize..120, any::<u8>()), 0..3),
        end in 0_usize..160,
    ) {
        let frames = STRAIGHT.map(|(before, version, protocol)| {
            let transport = if protocol == 17 { udp(53, "6162") } else { TCP.to_owned() };
            let carried = if version == 4 { ipv4(protocol, &transport) } else { ipv6(protocol, &transport) };
            octets(&format!("{MACS} {before} {carried} 0000"))
        });
        let mut frame = frames[kind].clone();
        for (at, octet) in at {
            let at = at % frame.len();
            frame[at] = octet;
        }
        frame.truncate(end);
        let mut packet = dissect(LinkType::Ethernet, &frames[before]);
        dissect_into(LinkType::Ethernet, &frame, &mut packet);
        let mut looped = Packet::begin(&frame);
        from_layer(Layer::Link(LinkType::Ethernet), &mut looped);
        prop_assert_eq!(packet, looped);
    }

    /// A packet of many headers, with octets replaced.
    #[test]
    fn flipped(at in vec((0_usize..200, any::<u8>()), 1..4)) {
        let bridged = format!("{MACS} 8100 0001 86dd {}", ipv6(0, &format!("0600 010400000000 {TCP}")));
        let mut frame = octets(&format!("{MACS} 8100 0002 8847 0001013f {}", ipv4(17, &udp(6081, &format!("0000 6558 00007c00 {bridged}")))));
        for (at, octet) in at {
            let at = at % frame.len();
            frame[at] = octet;
        }
        cut(LinkType::Ethernet, &frame);
    }
}
