//! Every primitive over a handful of flows. Each line is a filter and the flows that it takes, by letter.

use weir_filter::{Predicate, parse, parse_in_zone};

use crate::rows::{batch, row};

/// Letters of flows. Times are around 2024-01-02T00:00:00Z, which is 1704153600000.
const FLOWS: &[(char, &str)] = &[
    // A web request over IPv4, from NetFlow v5.
    (
        'w',
        "start=1704153600000 end=1704153602000 exporter=192.0.2.254 observation_domain=0 src_addr=10.0.0.1 \
           dst_addr=198.51.100.7 src_port=50000 dst_port=443 protocol=6 tcp_flags=27 tos=0 packets=10 bytes=5000 \
           next_hop=192.0.2.1 in_if=1 out_if=2 src_as=64496 dst_as=64497 src_mask=8 dst_mask=24 engine_type=1 engine_id=3 \
           application=tls server_name=WWW.Example.com ja4=t13d1516h2_8daaf6152771_02713d6af862 alpn=h2,http/1.1 \
           ja3=cd08e31494f9531f560d64c695473da9 tcp_rtt=30000 retransmissions=3 src_country=CH dst_country=US \
           src_label=guests in_if_name=uplink-1 exporter_name=core",
    ),
    // A name look-up over IPv6, from IPFIX, with everything a router may tell.
    (
        'd',
        "start=1704153660000 end=1704153660000 exporter=2001:db8::fe observation_domain=256 src_addr=2001:db8::1 \
           dst_addr=2001:db8:1::53 src_port=40000 dst_port=53 protocol=17 tos=184 packets=1 bytes=80 next_hop=2001:db8::a \
           in_if=3 out_if=1 bytes_reverse=300 packets_reverse=2 flows=4 dst_tos=46 min_ttl=3 max_ttl=64 direction=1 \
           forwarding_status=64 bgp_next_hop=2001:db8::b prev_as=65000 next_as=65001 src_vlan=100 dst_vlan=200 \
           src_mac=00:1b:21:01:02:ff dst_mac=00:1b:21:01:02:01 post_src_mac=00:1b:21:01:02:02 \
           post_dst_mac=00:1b:21:01:02:03 ingress_vrf=12 egress_vrf=13 ethertype=34525 observation_point=7 \
           application=domain dns_name=example.com",
    ),
    // A ping as v5 exports it: type 8, code 0 in the destination port.
    (
        'p',
        "start=1704153600000 end=1704153610000 src_addr=10.9.9.9 dst_addr=10.0.0.1 src_port=0 dst_port=2048 protocol=1 \
           packets=1000 bytes=84000 in_if=1",
    ),
    // An ICMPv6 error as IPFIX exports it.
    ('e', "src_addr=2001:db8::1 dst_addr=2001:db8::2 protocol=58 icmp_type=1 icmp_code=4 packets=1 bytes=100"),
    // A translated and refused connection; a time exceeded in one element.
    (
        'n',
        "start=1704240000000 end=1704239999999 src_addr=10.0.0.2 dst_addr=203.0.113.5 src_port=443 dst_port=80 protocol=6 \
           tcp_flags=2 nat_src_addr=192.0.2.77 nat_dst_addr=203.0.113.6 nat_src_port=1024 nat_dst_port=8080 nat_event=4 \
           firewall_event=3 forwarding_status=129 bytes_out=9 packets_out=3",
    ),
    ('t', "protocol=1 icmp_type_code=2817 dst_port=0"),
];

fn flows() -> weir_flow::FlowBatch {
    batch(&FLOWS.iter().map(|(_, text)| row(text)).collect::<Vec<_>>())
}

fn taken(predicate: &Predicate) -> String {
    let mask = predicate.mask(&flows());
    assert_eq!(mask.len(), FLOWS.len());
    assert!(arrow::array::Array::nulls(&mask).is_none());
    FLOWS.iter().zip(mask.values()).filter(|(_, taken)| *taken).map(|((letter, _), _)| *letter).collect()
}

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    for (filter, expected) in cases {
        let predicate = parse(filter).unwrap_or_else(|error| panic!("{}", error.render(filter)));
        assert_eq!(taken(&predicate), *expected, "{filter}\nreads as {predicate}");
    }
}

#[test]
fn structure() {
    check(&[
        ("", "wdpent"),
        ("  # nothing but a comment", "wdpent"),
        ("any", "wdpent"),
        ("not any", ""),
        ("ANY", "wdpent"),
        ("proto tcp or proto udp and src port 40000", "wdn"),
        ("(proto tcp or proto udp) and src port 40000", "d"),
        ("not proto tcp and not proto udp", "pet"),
        ("not (proto tcp or proto udp)", "pet"),
        ("! proto tcp", "dpet"),
        ("!(proto tcp)", "dpet"),
        ("not not proto tcp", "wn"),
        ("proto tcp # the rest is not read: or any", "wn"),
        ("proto tcp\n# between\n  and\tdst port 443", "w"),
        ("Proto TCP AND Not Dst Port 443", "n"),
        ("((((proto tcp))))", "wn"),
        ("any and proto tcp", "wn"),
        ("not any or proto tcp", "wn"),
    ]);
}

#[test]
fn families_and_protocols() {
    check(&[
        ("ipv4", "wpn"),
        ("inet", "wpn"),
        ("ipv6", "de"),
        ("inet6", "de"),
        ("not ipv4", "det"),
        ("proto 6", "wn"),
        ("proto = 6", "wn"),
        ("proto icmp", "pt"),
        ("proto icmp6", "e"),
        ("proto ipv6-icmp", "e"),
        ("proto 'udp'", "d"),
        ("proto in [tcp, 17]", "wdn"),
        ("proto != tcp", "dpet"),
        ("protocol 17", "d"),
    ]);
}

#[test]
fn texts() {
    check(&[
        ("application tls", "w"),
        ("application TLS", "w"),
        ("app = 'tls'", "w"),
        ("application != tls", "dpent"),
        // the name in the registry of services
        ("application dns", "d"),
        ("application domain", "d"),
        ("application in [dns, tls]", "wd"),
        ("application exactly 'TLS'", ""),
        ("application exactly 'tls'", "w"),
        ("sni www.example.com", "w"),
        ("server name www.example.com", "w"),
        ("server_name like '%.example.com'", "w"),
        ("sni like '%'", "w"),
        ("not sni like '%'", "dpent"),
        ("dns name example.com", "d"),
        ("dns_name like 'EXAMPLE.___'", "d"),
        ("dns name like '%.example.com'", ""),
        ("ja4 t13d1516h2_8daaf6152771_02713d6af862", "w"),
        ("ja4 like 't13d%'", "w"),
        ("ja3 CD08E31494F9531F560D64C695473DA9", "w"),
        ("alpn like 'h2%'", "w"),
        ("http host example.com", ""),
        ("user agent like 'curl/%' or rtt > 29k", "w"),
        ("tcp_rtt < 30000", ""),
        ("retransmissions >= 3", "w"),
        ("reverse retransmissions 0", ""),
        ("country us", "w"),
        ("src country US", ""),
        ("dst country in [US, CN]", "w"),
        // nfdump's word
        ("src geo CH", "w"),
        ("src and dst country CH", ""),
        ("label guests", "w"),
        ("dst label like '%'", ""),
        ("in if name like 'uplink%'", "w"),
        ("if name uplink-1", "w"),
        ("exporter name core", "w"),
    ]);
    assert_eq!(parse("application dns").expect("a filter").to_string(), "application in ['dns', 'domain']");
}

#[test]
fn addresses() {
    check(&[
        ("ip 10.0.0.1", "wp"),
        ("host 10.0.0.1", "wp"),
        ("src ip 10.0.0.1", "w"),
        ("src host 10.0.0.1", "w"),
        ("dst ip 10.0.0.1", "p"),
        ("ip = 2001:db8::1", "de"),
        ("src ip != 10.0.0.1", "dpent"),
        ("ip in [10.0.0.1 10.0.0.0/8]", "wpn"),
        ("ip in [10.0.0.0/8, 10.0.0.1]", "wpn"),
        ("ip in [10.0.0.2, 2001:db8::/33,198.51.100.7]", "wden"),
        ("src ip in [0.0.0.0/0]", "wpn"),
        ("src ip in [::/0]", "de"),
        ("src ip in []", ""),
        ("not src ip in [0.0.0.0/0]", "det"),
        ("net 10.0.0.0/8", "wpn"),
        ("src net 10.9.0.0/16", "p"),
        ("src net 10.9.1.2/16", "p"),
        ("net 10.9.0.0 255.255.0.0", "p"),
        ("net 10/8", "wpn"),
        ("src net 172.16/12", ""),
        ("dst net 198.51.100/24", "w"),
        ("net ::/0", "de"),
        ("dst net 2001:db8:1::/48", "d"),
        ("next ip 192.0.2.1", "w"),
        ("next net 192.0.2.0/24", "w"),
        ("bgp next ip 2001:db8::b", "d"),
        ("bgpnext ip 2001:db8::b", "d"),
        ("router ip 192.0.2.254", "w"),
        ("exporter ip 192.0.2.254", "w"),
        ("exporter net 2001:db8::/32", "d"),
        ("nat ip 192.0.2.77", "n"),
        ("src nat ip 192.0.2.77", "n"),
        ("dst nat ip 192.0.2.77", ""),
        ("xlate ip 203.0.113.6", "n"),
        ("src xip 192.0.2.77", "n"),
        ("nip 203.0.113.6", "n"),
        ("src or dst ip 10.0.0.1", "wp"),
        ("src and dst ip in [10.0.0.0/8]", "p"),
        ("src and dst net 10.0.0.0/8", "p"),
    ]);
}

#[test]
fn ports_and_icmp() {
    check(&[
        ("port 443", "wn"),
        ("src port 443", "n"),
        ("dst port = 443", "w"),
        ("dst port == 443", "w"),
        ("dst port eq 443", "w"),
        ("port != 443", "dpet"),
        ("dst port > 443", "p"),
        ("dst port >= 443", "wp"),
        ("dst port ge 0x1bb", "wp"),
        ("dst port lt 80", "dt"),
        ("dst port <= 80", "dnt"),
        ("dst port<=80", "dnt"),
        ("src port > 49k", "w"),
        ("port in [53, 80]", "dn"),
        ("port in [ 53 80 ]", "dn"),
        ("dst port in [50-100]", "dn"),
        ("dst port in [1-60 70-90,400-500]", "wdn"),
        ("dst port > 65535", ""),
        ("dst port >= 0", "wdpnt"),
        ("src or dst port 80", "n"),
        ("nat port 8080", "n"),
        ("src nat port 1024", "n"),
        ("nport 1024", "n"),
        ("dst xport 8080", "n"),
        ("icmp type 8", "p"),
        ("icmp-type 8", "p"),
        ("icmp type 1", "e"),
        ("icmp code 4", "e"),
        ("icmp-code = 1", "t"),
        ("icmp type > 8", "t"),
        ("icmp type in [8, 11]", "pt"),
        ("icmp code 0", "p"),
        ("not icmp type 8", "wdent"),
    ]);
}

#[test]
fn flags() {
    check(&[
        ("flags S", "wn"),
        ("flags s", "wn"),
        ("flags SA", "w"),
        ("flags S and not flags A", "n"),
        ("flags =S", "n"),
        ("flags=S", "n"),
        ("flags != S", "wdpet"),
        ("flags =SAPF", "w"),
        ("flags X", ""),
        ("flags 27", "w"),
        ("flags = 0x1b", "w"),
        ("flags > 2", "w"),
        ("flags le 2", "n"),
        ("flags in [2, 27]", "wn"),
        ("tcp_flags 2", "n"),
    ]);
}

#[test]
fn interfaces_and_routing() {
    check(&[
        ("if 1", "wdp"),
        ("in if 1", "wp"),
        ("inif 1", "wp"),
        ("out if 1", "d"),
        ("outif 2", "w"),
        ("in if > 1", "d"),
        ("vlan 200", "d"),
        ("src vlan 200", ""),
        ("dst vlan 200", "d"),
        ("mask 24", "w"),
        ("src mask 24", ""),
        ("dst mask 24", "w"),
        ("as 64497", "w"),
        ("src as 64497", ""),
        ("dst as >= 64497", "w"),
        ("src as in [64490-64499]", "w"),
        ("prev as 65000", "d"),
        ("next as 65001", "d"),
        ("not src as 64496", "dpent"),
        ("mac 00:1b:21:01:02:03", "d"),
        ("in src mac 00:1B:21:01:02:FF", "d"),
        ("in mac 0:1b:21:1:2:3", ""),
        ("out mac 0:1b:21:1:2:3", "d"),
        ("src mac 00:1b:21:01:02:02", "d"),
        ("dst mac 00:1b:21:01:02:02", ""),
        ("out dst mac 00-1b-21-01-02-03", "d"),
        ("ingress vrf 12", "d"),
        ("egress vrf > 12", "d"),
        ("tos 184", "d"),
        ("src tos 0", "w"),
        ("dst tos 46", "d"),
        ("ttl 64", "d"),
        ("min ttl < 5", "d"),
        ("max ttl < 5", ""),
        ("flowdir egress", "d"),
        ("flowdir 0", ""),
        ("fwdstat forw", "d"),
        ("fwdstat DaclD", "n"),
        ("fwdstat >= 128", "n"),
        ("ethertype 0x86DD", "d"),
    ]);
}

#[test]
fn counters_rates_and_times() {
    check(&[
        ("packets 10", "w"),
        ("packets > 9", "wp"),
        ("in packets > 9", "wp"),
        ("packets >= 1k", "p"),
        ("bytes > 1k", "wp"),
        ("bytes < 1m", "wdpe"),
        ("out packets 3", "n"),
        ("out bytes > 0", "dn"),
        ("reverse bytes 300", "d"),
        ("bytes_out 9", "n"),
        ("flows 1", "wpent"),
        ("flows > 1", "d"),
        ("flows in [1, 4]", "wdpent"),
        ("flows in [0, 4]", "d"),
        ("duration 2000", "w"),
        ("duration 0", "d"),
        ("duration >= 0", "wdp"),
        ("pps 5", "w"),
        ("pps 100", "p"),
        ("pps 0", "d"),
        ("bps 20000", "w"),
        ("bps > 20k", "p"),
        ("bpp 500", "w"),
        ("bpp < 100", "dp"),
        ("first seen > 2024", "wdpn"),
        ("first seen > 2024-01-02", "dn"),
        ("first seen >= 2024-01-02T00", "wdpn"),
        ("first seen 2024-01-02T00:01", "d"),
        ("first seen = 2024-01-02T01:01+01:00", "d"),
        ("first seen = '2024-01-02 00:01:00.000'", "d"),
        ("last seen < 2024-01-02T00:00:02.001Z", "w"),
        ("last seen <= 2024-01-02T00:00:02.000", "w"),
        ("last seen lt 2024-02", "wdpn"),
        ("start > 2024-01-02", "dn"),
    ]);
}

#[test]
fn exporters_and_events() {
    check(&[
        ("engine type 1", "w"),
        ("engine-type 1", "w"),
        ("engine id 3", "w"),
        ("engine-id > 3", ""),
        ("observation domain id 256", "d"),
        ("observation domain id < 256", "w"),
        ("observation point id 7", "d"),
        ("observation_domain 256", "d"),
        ("nat event add44", "n"),
        ("nat event > 3", "n"),
        ("asa event denied", "n"),
        ("asa event deny", "n"),
        ("event 3", "n"),
        ("firewall event create", ""),
        ("exporter 192.0.2.254", "w"),
        ("sampling_interval > 0", ""),
        ("not sampling_interval > 0", "wdpent"),
    ]);
}

#[test]
fn times_follow_the_zone() {
    let berlin = jiff::tz::TimeZone::fixed(jiff::tz::offset(1));
    let predicate = parse_in_zone("first seen = 2024-01-02T01:01", &berlin).expect("a filter");
    assert_eq!(predicate.to_string(), "first seen = 2024-01-02T00:01:00.000Z");
    assert_eq!(taken(&predicate), "d");
}

#[test]
fn a_batch_without_columns_or_rows() {
    let none = batch(&[]);
    let bare = weir_flow::FlowBatch::from_columns(3, Vec::new()).expect("a batch");
    for filter in ["port 80", "ip 10.0.0.1", "flags S", "pps > 1", "icmp type 8", "ipv4", "first seen > 2024"] {
        let predicate = parse(filter).expect("a filter");
        assert_eq!(predicate.mask(&none).len(), 0);
        assert_eq!(predicate.mask(&bare).true_count(), 0, "{filter}");
        assert_eq!(Predicate::not(predicate).mask(&bare).true_count(), 3, "{filter}");
    }
    assert_eq!(parse("flows 1").expect("a filter").mask(&bare).true_count(), 3);
}

#[test]
fn columns_are_those_read() {
    use weir_flow::Column::{Bytes, DstAddr, End, Protocol, SrcAddr, Start, TcpFlags};
    let columns = parse("ip 10.0.0.1 and not (flags S or bps > 1k)").expect("a filter").columns();
    assert_eq!(columns, [Start, End, SrcAddr, DstAddr, Protocol, TcpFlags, Bytes].into());
    assert!(parse("").expect("a filter").columns().is_empty());
}
