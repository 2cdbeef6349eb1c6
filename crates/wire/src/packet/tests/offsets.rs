//! Where headers begin and end, and what is payload.

use super::*;

/// The headers of an Ethernet frame with IPv4 in it.
fn of(frame: &[u8]) -> Headers<'_> {
    *dissect(LinkType::Ethernet, frame).innermost()
}

#[test]
fn transport_and_payload_end_where_ip_says() {
    // 5 octets of payload, then padding of Ethernet
    let tcp = "00500401 00000001 00000002 70121000 00000000 0204 05b4 0101 0402 6865 6c6c 6f";
    let frame = octets(&format!("{MACS} 0800 {} 000000000000", ipv4(6, tcp)));
    let headers = of(&frame);
    let ip = headers.ip.expect("a header");
    assert_eq!((ip.header().len(), ip.header_octets), (20, 20));
    assert_eq!(headers.transport(), octets(tcp));
    assert_eq!((headers.payload(), headers.payload_octets()), (&b"hello"[..], 5));
    // 1 is that of the SYN
    assert_eq!(headers.tcp_sequence(), Some(2));
    assert_eq!(dissect(LinkType::Ethernet, &frame).link_octets(&frame), 14);
    // A frame cut off by the capture says how much there was.
    let headers = of(&frame[..14 + 20 + 20]);
    assert_eq!((headers.transport().len(), headers.payload(), headers.payload_octets()), (20, &[][..], 5));
}

/// Samples of packets end anywhere: RFC 791 has 20 octets of header, RFC 8200 has 40.
#[test]
fn link_headers_end_where_an_ip_header_begins_that_is_cut() {
    for (before, packet, header) in [
        ("0800", ipv4(6, TCP), 20),
        ("8100 0064 0800", ipv4(6, TCP), 20),
        ("002c aaaa03 000000 0800", ipv4(6, TCP), 20),
        ("8864 1100 0007 002a 0021", ipv4(6, TCP), 20),
        ("8847 00064140", ipv4(6, TCP), 20),
        ("86dd", ipv6(6, TCP), 40),
    ] {
        let link = octets(&format!("{MACS} {before}")).len();
        let frame = octets(&format!("{MACS} {before} {packet}"));
        for end in link + 1..link + header {
            let packet = dissect(LinkType::Ethernet, &frame[..end]);
            let found = (packet.outer.ip, packet.end, packet.link_octets(&frame[..end]));
            assert_eq!(found, (None, End::Truncated, link), "{before}, {end} octets");
        }
    }
    // what is no IP header is not of the link either
    let frame = octets(&format!("{MACS} 0800 {}", "00".repeat(40)));
    assert_eq!(dissect(LinkType::Ethernet, &frame).link_octets(&frame), 14);
    assert_eq!(dissect(LinkType::Ethernet, &frame[..14]).link_octets(&frame[..14]), 14);
}

#[test]
fn the_length_of_udp_is_less_than_that_of_ip_at_times() {
    let frame = octets(&format!("{MACS} 0800 {}", ipv4(17, "04000035 000b0000 61626364 6566")));
    assert_eq!(of(&frame).payload(), b"abc");
    // 0 in a jumbogram leaves it to IP; less than the header is nothing.
    let frame = octets(&format!("{MACS} 0800 {}", ipv4(17, "04000035 00000000 61626364")));
    assert_eq!(of(&frame).payload(), b"abcd");
    let frame = octets(&format!("{MACS} 0800 {}", ipv4(17, "04000035 00070000 61626364")));
    assert_eq!(of(&frame).payload(), b"");
}

#[test]
fn options_extensions_and_authentication_are_of_the_header() {
    // RFC 791: four octets of options
    let frame = octets(&format!("{MACS} 0800 46000030 00010000 40060000 c0000201 c6336402 01010100 {TCP} 61626364"));
    let headers = of(&frame);
    assert_eq!((headers.ip.map(|ip| ip.header_octets), headers.payload()), (Some(24), &b"abcd"[..]));
    let chain = format!("2c00 010400000000 3c000000 00000009 0600 010400000000 {TCP} 6162");
    let frame = octets(&format!("{MACS} 86dd {}", ipv6(0, &chain)));
    let headers = of(&frame);
    assert_eq!((headers.ip.map(|ip| ip.header_octets), headers.payload()), (Some(64), &b"ab"[..]));
    assert_eq!(headers.payload_octets(), 2);
    // RFC 4302 section 2.2: the length counts words, less two.
    let authenticated = format!("1104 0000 00000001 00000002 {} {}", "00".repeat(12), udp(53, "6162"));
    let frame = octets(&format!("{MACS} 0800 {}", ipv4(51, &authenticated)));
    let headers = of(&frame);
    assert_eq!(headers.ip.map(|ip| (ip.header_octets, ip.protocol)), Some((44, 17)));
    assert_eq!((headers.ports, headers.payload()), (Some((1024, 53)), &b"ab"[..]));
}

#[test]
fn fragments_have_a_payload_and_the_first_has_ports() {
    let first = octets(&format!("{MACS} 0800 4500001e 00072000 40110000 c0000201 c6336402 {} 6162", udp(53, "")));
    assert_eq!((of(&first).ports, of(&first).transport().len()), (Some((1024, 53)), 10));
    assert_eq!(of(&first).tcp_sequence(), None);
    let later = octets(&format!("{MACS} 0800 4500001c 00070001 40110000 c0000201 c6336402 6162636465666768 00"));
    let headers = of(&later);
    assert_eq!((headers.transport(), headers.payload(), headers.payload_octets()), (&[][..], &b"abcdefgh"[..], 8));
    let later = octets(&format!("{MACS} 86dd {}", ipv6(44, "06000009 00000009 61626364")));
    let headers = of(&later);
    assert_eq!(headers.ip.map(|ip| (ip.protocol, ip.header_octets)), Some((6, 48)));
    assert_eq!((headers.transport(), headers.payload()), (&[][..], &b"abcd"[..]));
}

#[test]
fn protocols_without_ports() {
    // ESP (RFC 4303): the SPI is the first of what is carried.
    let frame = octets(&format!("{MACS} 0800 {}", ipv4(50, "01020304 00000001 aabbccdd")));
    assert_eq!((of(&frame).transport().first_chunk::<4>(), of(&frame).ports), (Some(&[1, 2, 3, 4]), None));
    for protocol in [2, 46, 88, 89, 103, 112] {
        let frame = octets(&format!("{MACS} 0800 {}", ipv4(protocol, "16000000 e0000001")));
        let packet = dissect(LinkType::Ethernet, &frame);
        assert_eq!((packet.end, packet.outer.payload().len()), (End::Payload, 8), "{protocol}");
    }
    // What an error quotes is no tunnel: UDP to VXLAN's port.
    let quoted = ipv4(17, &udp(4789, &format!("08000000 00007b00 {MACS} 0800 {}", ipv4(6, TCP))));
    let frame = octets(&format!("{MACS} 0800 {}", ipv4(1, &format!("0303 0000 00000000 {quoted}"))));
    let packet = dissect(LinkType::Ethernet, &frame);
    assert_eq!((packet.tunnels, packet.outer.icmp, packet.outer.ports), (0, Some((3, 3)), None));
}

/// RFC 2675 section 2: the option has the length, the header has none.
#[test]
fn jumbograms() {
    let octets_total = 70_000_u32;
    let head = "60000000 0000 00 40 20010db8000000000000000000000001 20010db8000000000000000000000002";
    let option = format!("0600 c204 {octets_total:08x}");
    let mut frame = octets(&format!("{MACS} 86dd {head} {option} {TCP}"));
    let ip = of(&frame).ip.expect("a header");
    assert_eq!((ip.total_length, ip.header_octets, of(&frame).ports), (70_040, 48, Some((80, 1025))));
    assert_eq!(of(&frame).payload_octets(), octets_total - 8 - 20);
    frame.resize(14 + 40 + 70_000 + 10, 0);
    assert_eq!(of(&frame).payload().len(), 70_000 - 8 - 20);
    // One that would have fitted is against section 3 and not believed.
    let small = octets(&format!("{MACS} 86dd {head} 0600 c204 00000100 {TCP}"));
    assert_eq!((of(&small).ip.map(|ip| ip.total_length), of(&small).ports), (Some(0), Some((80, 1025))));
}
