//! Frames as capture files have them, by the descriptions at <https://www.tcpdump.org/linktypes.html>.

use super::*;

/// What stands before an IPv4 packet in a frame of each number, and what says whether it was found.
const BEFORE_IPV4: &[(u16, &str)] = &[
    (0, "02000000"),
    (0, "00000002"),
    (0, "0f000800"),
    (108, "00000002"),
    (1, "020000000002 020000000001 0800"),
    (1, "020000000002 020000000001 002c aaaa03 000000 0800"),
    (1, "020000000002 020000000001 002c 060603"),
    (1, "020000000002 020000000001 8100 0001 8926 80010002 0800"),
    (1, "020000000002 020000000001 8909 01 01 0001 0005 0800"),
    (1, "020000000002 020000000001 88e5 00 10 00000001 0800"),
    (1, "020000000002 020000000001 88e5 20 10 00000001 020000000001 0001 0800"),
    (1, "020000000002 020000000001 d28b 0001 0010 5ceeed57384f59c8 0800"),
    (1, "020000000002 020000000001 d28b 0001 0020 5ceeed57384f 0800"),
    (1, "020000000002 020000000001 d28b 0001 0111 5ceeed57384f59c8 0800"),
    (1, "020000000002 020000000001 892f 0034 0001 0800"),
    (1, "020000000002 020000000001 8864 1100 0007 002a 0021"),
    (6, "1040 020000000002 020000000001 aaaa03 000000 0800"),
    (6, "1040 020000000002 820000000001 0670 0021 0030 aaaa03 000000 0800"),
    (8, "0045 0000000000000000000000000000"),
    (9, "ff03 0021"),
    (9, "21"),
    (9, "0f00 0800"),
    (9, "003d c0000001 21"),
    (9, "ff03 0031 00 01 020000000002 020000000001 0800"),
    (9, "ff03 0031 80 01 020000000002 020000000001 8864 1100 0007 002a 0021"),
    (9, "ff03 0031 40 01 00000007 020000000002 020000000001 0800"),
    (10, "50 020000000002 020000000001 aaaa03 000000 0800"),
    (12, ""),
    (14, ""),
    (50, "ff03 0021"),
    (50, "0f00 0800"),
    (51, "1100 0007 002a 0021"),
    (100, "aaaa03 000000 0800"),
    (100, "aaaa03 0080c2 0007 0000 020000000002 020000000001 0800"),
    (100, "aaaa03 0080c2 0001 0000 020000000002 020000000001 8864 1100 0007 002a 0021"),
    (101, ""),
    (104, "0f00 0800"),
    (105, "0802 0000 020000000003 020000000002 020000000001 0010 aaaa03 000000 0800"),
    // quality of service with HT control; four addresses; several packets in one
    (105, "8882 0000 020000000003 020000000002 020000000001 0010 0000 00000000 aaaa03 000000 0800"),
    (105, "0803 0000 020000000003 020000000002 020000000001 0010 020000000004 aaaa03 000000 0800"),
    (
        105,
        "8802 0000 020000000003 020000000002 020000000001 0010 8000 020000000003 020000000001 002c aaaa03 000000 0800",
    ),
    (106, "0001 020000000002 020000000001 0800"),
    (107, "1841 03 cc"),
    (107, "1841 03 00 80 000000 0800"),
    (107, "1841 0800"),
    (109, "02000000 00000001 00000000"),
    (113, "0000 0001 0006 020000000001 0000 0800"),
    (113, "0000 0001 0006 020000000001 0000 8100 0064 0800"),
    (
        117,
        "3d02 0000 0000000000000000000000000000000000000000 0000000000000000000000000000000000000000 0000000000000000000000000000000000000000",
    ),
    (123, "02000020 aaaa03 000000 0800"),
    (123, "02000020 aaaa03 0080c2 0007 0000 020000000002 020000000001 0800"),
    (127, "0000 0800 00000000 0802 0000 020000000003 020000000002 020000000001 0010 aaaa03 000000 0800"),
    // a clock, and flags that say that the header is filled up to a multiple of four octets
    (
        127,
        "0000 1100 03000000 0000000000000000 20 8802 0000 020000000003 020000000002 020000000001 0010 0000 0000 \
         aaaa03 000000 0800",
    ),
    (138, "0000000000000002 0000000000000001 0800"),
    (163, "80211001 0000000c 00000000 0802 0000 020000000003 020000000002 020000000001 0010 aaaa03 000000 0800"),
    (178, "4d4743 80 0006 020103010100 020000000002 020000000001 0800"),
    (192, "0000 0800 01000000 020000000002 020000000001 0800"),
    (197, "0000000000000000 02 00 0046 0000 0034 0000 020000000002 020000000001 0800"),
    (197, "0000000000000000 96 00 0046 0000 0034 0400000000000000"),
    (204, "00 ff03 0021"),
    (219, "0001013f"),
    (226, "01020000 00000028 00000001 00000000 00000000 00000000"),
    (228, ""),
    (239, "02000000 0800010008000100 2c000900"),
    (239, "02000000 0008000108000100 002c0009"),
    (240, "00000000 020000000002 020000000001 0800"),
    (242, "60000000 00000000 0000000000000000 0000000000000000 0000000000000000 0000000000000000 0800 0000"),
    (258, "10000000 01000000 01000000 656e3000 020000000002 020000000001 0800"),
    (274, "5555555555 5555d5 020000000002 020000000001 0800"),
    (276, "0800 0000 00000001 0001 00 06 020000000001 0000"),
    (276, "8100 0000 00000001 0001 00 06 020000000001 0000 0064 0800"),
    (276, "88a8 0000 00000001 0001 00 06 020000000001 0000 0064 8100 0065 0800"),
    (281, "020000000002 020000000001 00000001 0800"),
    (282, "00000001 020000000002 020000000001 0800"),
    (284, "020000000002 020000000001 c0080000 0800"),
    (285, "020000000002 020000000001 dada 0000 c0080000 0800"),
];

#[test]
fn an_ipv4_packet_behind_every_link_header() {
    for (number, before) in BEFORE_IPV4 {
        let link = LinkType::from_dlt(*number).expect("known");
        let frame = octets(&format!("{before} {}", ipv4(6, TCP)));
        let packet = dissect(link, &frame);
        let found = (packet.outer.ports, packet.outer.ethertype, packet.end);
        assert_eq!(found, (Some((80, 1025)), Some(0x800), End::Payload), "{number} {before}");
        assert_eq!(packet.link_octets(&frame), octets(before).len(), "{number} {before}");
        cut(link, &frame);
    }
}

#[test]
fn numbers_are_in_order_and_each_leads_to_a_packet() {
    let numbers = LinkType::numbers();
    assert!(numbers.is_sorted_by(|one, other| one.0 < other.0), "the search needs this");
    for (number, link) in numbers {
        assert_eq!(LinkType::from_dlt(*number), Some(*link));
    }
    assert_eq!((LinkType::from_dlt(147), LinkType::from_dlt(u16::MAX)), (None, None));
}

#[test]
fn addresses_of_802_11_by_direction() {
    let [one, two, three] = ["020000000001", "020000000002", "020000000003"];
    let macs = |control: &str, four: &str| {
        let frame = octets(&format!("08{control} 0000 {one} {two} {three} 0010 {four} aaaa03 000000 0800"));
        dissect(LinkType::Ieee80211, &frame).outer.macs.map(|macs| (macs.source[5], macs.destination[5]))
    };
    // IEEE 802.11-2020 table 9-30
    assert_eq!(macs("00", ""), Some((2, 1)));
    assert_eq!(macs("01", ""), Some((2, 3)));
    assert_eq!(macs("02", ""), Some((3, 1)));
    assert_eq!(macs("03", "020000000004"), Some((4, 3)));
    // encrypted
    let frame = octets(&format!("0842 0000 {one} {two} {three} 0010 aaaa03 000000 0800"));
    assert_eq!(dissect(LinkType::Ieee80211, &frame).end, End::Unknown);
}

#[test]
fn tags_behind_cooked_headers() {
    let vlans = |number: u16, before: &str| {
        let frame = octets(&format!("{before} 0800 {}", ipv4(6, TCP)));
        let link = LinkType::from_dlt(number).expect("known");
        cut(link, &frame);
        let outer = dissect(link, &frame).outer;
        (0..).map_while(|tag| outer.vlan(tag)).collect::<Vec<_>>()
    };
    // the protocol of the header is the TPID of the first tag
    assert_eq!(vlans(113, "0000 0001 0006 020000000001 0000 8100 2064"), [100]);
    assert_eq!(vlans(113, "0000 0001 0006 020000000001 0000 88a8 0064 8100 0065"), [100, 101]);
    assert_eq!(vlans(276, "8100 0000 00000001 0001 00 06 020000000001 0000 2064"), [100]);
    assert_eq!(vlans(276, "88a8 0000 00000001 0001 00 06 020000000001 0000 0064 8100 0065 9100 0066"), [100, 101, 102]);
}

#[test]
fn what_is_not_ip_keeps_its_type() {
    for ethertype in [0x0806_u16, 0x88cc, 0x8863] {
        let frame = octets(&format!("{MACS} 8100 0001 {ethertype:04x} 1109 0000 0000"));
        let packet = dissect(LinkType::Ethernet, &frame);
        assert_eq!((packet.end, packet.outer.ethertype), (End::Unknown, Some(ethertype)));
        assert_eq!(packet.link_octets(&frame), 18);
    }
    // encrypted
    let frame = octets(&format!("{MACS} 88e5 0c 10 00000001 0800 45"));
    let packet = dissect(LinkType::Ethernet, &frame);
    assert_eq!((packet.end, packet.outer.ethertype), (End::Unknown, Some(0x88e5)));
}
