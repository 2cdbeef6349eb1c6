//! Tunnels that were added for metering, and what is not taken for one.

use super::*;

/// 192.0.2.1 to 198.51.100.2 with TCP, in Ethernet.
fn bridged() -> String {
    format!("{MACS} 0800 {}", ipv4(6, TCP))
}

/// The same in IEEE 802.11, with this frame control.
fn radio(control: &str) -> String {
    format!("{control} 0000 020000000003 020000000002 020000000001 0010 aaaa03 000000 0800 {}", ipv4(6, TCP))
}

fn teredo_ipv6(next: u8, payload: &str) -> String {
    let length = octets(payload).len();
    // RFC 4380 section 2.6: the prefix 2001:0000::/32
    format!(
        "60000000 {length:04x}{next:02x}40 200100009d3890d7387802fcaf02c6e8 20010db8000000000000000000000002 {payload}"
    )
}

#[test]
fn tunnels_in_udp() {
    let inner = ipv4(6, TCP);
    let cases = [
        // GSM 09.60 section 6: flags, type, length, sequence, flow label, pad, TID
        (3386, format!("1eff003c 0001 0002 ffffffff 4200012143658709 {inner}"), TunnelKind::Gtp, None),
        (4341, format!("08000000 00002a00 {inner}"), TunnelKind::Lisp, Some(42)),
        (1701, format!("0002 0007 0009 ff03 0021 {inner}"), TunnelKind::L2tp, Some(0x0007_0009)),
        // with length, sequence numbers and an offset of two octets
        (1701, format!("4a02 003e 0007 0009 0001 0000 0002 0000 0021 {inner}"), TunnelKind::L2tp, Some(0x0007_0009)),
        (1701, format!("0003 0000 0000002a {}", bridged()), TunnelKind::L2tp, Some(42)),
        // with a cookie of eight octets and a sublayer
        (1701, format!("0003 0000 0000002a 0102030405060708 40000001 {}", bridged()), TunnelKind::L2tp, Some(42)),
        // RFC 5415 section 4.3: of 802.3; of 802.11 with a radio header, and its frame control in the wrong order
        (5247, format!("00100200 00000000 {}", bridged()), TunnelKind::Capwap, None),
        (5247, format!("00200320 00000000 04bf230000000000 {}", radio("0802")), TunnelKind::Capwap, None),
        (5247, format!("00200320 00000000 04bf230000000000 {}", radio("0208")), TunnelKind::Capwap, None),
        // VXLAN-GPE with a service path, RFC 8300 section 2.2
        (4790, format!("0c000004 00007b00 0fc20203 00002aff {}", bridged()), TunnelKind::Nsh, Some(42)),
    ];
    for (port, payload, kind, id) in cases {
        check(&format!("{MACS} 0800 {}", ipv4(17, &udp(port, &payload))), (6, 4), Some((80, 1025)), Some((kind, id)));
    }
}

#[test]
fn ipv6_in_udp() {
    let teredo = Some((TunnelKind::Teredo, None));
    let inner = teredo_ipv6(6, TCP);
    let authentication = "0001 0000 0102030405060708 00";
    let origin = "0000 fb2e 3ffffdfe";
    for before in ["", origin, authentication, &format!("{authentication} {origin}")] {
        check(
            &format!("{MACS} 0800 {}", ipv4(17, &udp(3544, &format!("{before}{inner}")))),
            (6, 16),
            Some((80, 1025)),
            teredo,
        );
    }
    // Identity of 16 octets, signature of 20, SHA-1, forward, IPv6
    let ayiya = format!("44 52 11 29 00000001 {} {}", "00".repeat(36), ipv6(6, TCP));
    check(
        &format!("{MACS} 0800 {}", ipv4(17, &udp(5072, &ayiya))),
        (6, 16),
        Some((80, 1025)),
        Some((TunnelKind::Ayiya, None)),
    );
}

#[test]
fn tunnels_in_gre_and_ip() {
    let inner = ipv4(6, TCP);
    let gre = Some((TunnelKind::Gre, None));
    let cases = [
        (47, format!("0000 883e {inner}"), gre),
        (47, format!("0000 883e 00010203 {inner}"), gre),
        (47, format!("0000 8200 {}", radio("8801").replacen("0010 aaaa", "0010 0000 aaaa", 1)), gre),
        (47, format!("2000 8909 00000028 0800 0101 0001 0000 {inner}"), Some((TunnelKind::Gre, Some(0x28)))),
        (115, format!("0000002a {}", bridged()), Some((TunnelKind::L2tp, Some(42)))),
        (103, format!("21000000 00000000 {inner}"), Some((TunnelKind::PimRegister, None))),
    ];
    for (protocol, payload, tunnel) in cases {
        check(&format!("{MACS} 0800 {}", ipv4(protocol, &payload)), (6, 4), Some((80, 1025)), tunnel);
    }
    check(&format!("{MACS} 8903 0440 {}", bridged()), (6, 4), Some((80, 1025)), Some((TunnelKind::FabricPath, None)));
    let service = format!("{MACS} 894f 0fc20203 00002aff {}", bridged());
    check(&service, (6, 4), Some((80, 1025)), Some((TunnelKind::Nsh, Some(42))));
}

/// Source route entries of RFC 1701 end with one of length 0; the checksum and the offset are there with routing, too.
#[test]
fn routed_gre() {
    let inner = ipv4(6, TCP);
    let routes = "0800 00 08 c0000201 c6336402 0000 00 00";
    let cases = [
        (format!("4000 0800 00000000 {routes} {inner}"), None),
        (format!("c000 0800 00000000 {routes} {inner}"), None),
        (format!("f000 0800 00000000 0000002a 00000001 0800 04 04 c0000201 {routes} {inner}"), Some(42)),
        (format!("6000 6558 00000000 0000002a 0000 00 00 {}", bridged()), Some(42)),
    ];
    for (payload, key) in cases {
        check(&format!("{MACS} 0800 {}", ipv4(47, &payload)), (6, 4), Some((80, 1025)), Some((TunnelKind::Gre, key)));
    }
    let endless = octets(&format!(
        "{MACS} 0800 {}",
        ipv4(47, &format!("4000 0800 00000000 {}", "0800 00 04 00000000".repeat(9)))
    ));
    assert_eq!(dissect(LinkType::Ethernet, &endless).end, End::Truncated);
}

/// Nothing says what a pseudowire carries. Ethernet is known by a type that is dissected, and not by those of IP alone:
/// without a control word the first octet of most addresses is 0, as that of the word would be.
#[test]
fn pseudowires_with_more_than_ip() {
    let macs = "001b21000002 001b21000001";
    let session = format!("{macs} 8864 1100 0007 002a 0021 {}", ipv4(6, TCP));
    let labelled = format!("{macs} 8847 0001013f {}", ipv4(6, TCP));
    for frame in [session, labelled] {
        for (before, kind, id) in [
            ("8847 0001013f", TunnelKind::EthernetOverMpls, None),
            ("8847 0001013f 00000000", TunnelKind::EthernetOverMpls, None),
            ("8847 0001013f 00001234", TunnelKind::EthernetOverMpls, None),
        ] {
            check(&format!("{MACS} {before} {frame}"), (6, 4), Some((80, 1025)), Some((kind, id)));
        }
        for cookie in ["", "01020304", "0102030405060708"] {
            let payload = ipv4(115, &format!("0000002a {cookie} {frame}"));
            check(&format!("{MACS} 0800 {payload}"), (6, 4), Some((80, 1025)), Some((TunnelKind::L2tp, Some(42))));
        }
    }
}

#[test]
fn a_port_alone_is_no_tunnel() {
    let cases = [
        // IPv6, but from no address of Teredo; and no IPv6
        (3544, ipv6(6, TCP)),
        (3544, "00".repeat(60)),
        // answers of DNS to clients with such ports
        (6081, format!("1234 8180 0001 0001 0000 0000 {}", "03777777".repeat(4))),
        (4341, format!("1234 8180 0001 0001 0000 0000 {}", "03777777".repeat(4))),
        (5247, format!("1234 8180 0001 0001 0000 0000 {}", "03777777".repeat(4))),
        (2152, format!("1234 8180 0001 0001 0000 0000 {}", "03777777".repeat(4))),
        // control messages of L2TP, GTP and CAPWAP, and the heartbeat of AYIYA
        (1701, format!("c802 0014 0000 0000 0000 0000 {}", "00".repeat(8))),
        (2152, "32010004 00000000 00000000".to_owned()),
        (5247, format!("00100008 00000000 {}", "00".repeat(20))),
        (5072, format!("44520229 00000001 {}", "00".repeat(40))),
    ];
    for (port, payload) in cases {
        let frame = octets(&ipv4(17, &udp(port, &payload)));
        let packet = dissect(LinkType::Ip, &frame);
        assert_eq!((packet.tunnels, packet.outer.ports), (0, Some((1024, port))), "{port} {payload}");
        assert_eq!(packet.end, End::Payload);
    }
    // A null register of PIM has the header of a packet, and no packet.
    let frame = octets(&ipv4(103, &format!("21000000 40000000 {}", ipv4(103, ""))));
    assert_eq!(dissect(LinkType::Ip, &frame).tunnels, 0);
    // What is encrypted
    let frame = octets(&ipv4(17, &udp(5247, "01000000 16feff00")));
    assert_eq!(dissect(LinkType::Ip, &frame).tunnels, 0);
}

/// Provider bridges and pseudowires carry frames in frames: what is in them has no IP packet around it.
#[test]
fn the_outermost_ip_header_may_be_in_a_tunnel_of_links() {
    for before in ["88e7 000000ff", "8847 0001013f 00000000", "8903 0440"] {
        let frame = octets(&format!("{MACS} {before} {}", bridged()));
        let packet = dissect(LinkType::Ethernet, &frame);
        assert_eq!(
            (packet.tunnels, packet.outer.ip, packet.outermost().ports),
            (1, None, Some((80, 1025))),
            "{before}"
        );
        let vxlan = ipv4(17, &udp(4789, &format!("08000000 00007b00 {}", bridged())));
        let frame = octets(&format!("{MACS} {before} {MACS} 8100 0005 0800 {vxlan}"));
        let packet = dissect(LinkType::Ethernet, &frame);
        assert_eq!(
            (packet.outermost().ports, packet.innermost().ports),
            (Some((1024, 4789)), Some((80, 1025))),
            "{before}"
        );
        let link = octets(&format!("{MACS} {before} {MACS} 8100 0005 0800")).len();
        assert_eq!((packet.outer.vlan(0), packet.link_octets(&frame)), (None, link), "{before}");
    }
}

#[test]
fn a_control_word_is_not_taken_for_an_address_because_of_the_adapter() {
    let mut wrong = Vec::new();
    // third octet of the adapter's vendor, and the first of its number
    for number in 0..=0xffff_u32 {
        let macs = format!("001122334455 0200{number:04x}0001");
        let frame = octets(&format!("{MACS} 8847 0001013f 00000000 {macs} 0800 {}", ipv4(6, TCP)));
        let packet = dissect(LinkType::Ethernet, &frame);
        if packet.innermost().ports != Some((80, 1025)) {
            wrong.push(number);
        }
    }
    assert!(wrong.is_empty(), "{} {wrong:x?}", wrong.len());
}
