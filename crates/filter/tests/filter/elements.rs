//! Primitives about elements without a column of their own, and about several columns at once.

use weir_filter::parse;

use crate::rows::{batch, row};

/// Flows by letter.
const FLOWS: &[(char, &str)] = &[
    // Behind MPLS: labels 16001 and 100, the second at the bottom of the stack with traffic class 5.
    ('m', "elements=70:03e810,71:00064b"),
    // From a firewall that refused it by an access list, for a user whose name is padded with zeros.
    (
        'a',
        "firewall_event=3 elements=33002:03e9,33000:0000000a0000000b0000000c,33001:000000010000000200000003,40000:6a616e650000",
    ),
    // A block of ports, from a translator; a name by the element of IANA, which comes before that of Cisco.
    (
        'b',
        "src_port=1030 dst_port=1535 port_range_start=1024 port_range_end=1535 min_ttl=60 max_ttl=60 \
         elements=363:0001,364:0200,40000:6a616e65,371:6a6f65",
    ),
    // Latencies by IPFIX and by NetFlow v9; two different TTLs.
    ('l', "src_port=80 min_ttl=60 max_ttl=64 elements=35632/123:00000064,57596:000000c8"),
    // Nothing of all this.
    ('n', "protocol=6 src_port=1030"),
];

#[track_caller]
fn check(cases: &[(&str, &str)]) {
    let flows = batch(&FLOWS.iter().map(|(_, text)| row(text)).collect::<Vec<_>>());
    for (filter, expected) in cases {
        let predicate = parse(filter).unwrap_or_else(|error| panic!("{}", error.render(filter)));
        let mask = predicate.mask(&flows);
        let taken = FLOWS.iter().zip(mask.values()).filter(|(_, taken)| *taken).map(|((letter, _), _)| *letter);
        assert_eq!(taken.collect::<String>(), *expected, "{filter}\nreads as {predicate}");
        assert_eq!(parse(&predicate.to_string()).as_ref(), Ok(&predicate), "{filter}");
    }
}

#[test]
fn elements_by_name() {
    check(&[
        ("element portRangeStepSize 1", "b"),
        ("element 363 in [1-3]", "b"),
        ("element PORTRANGENUMPORTS > 512", ""),
        ("element userName joe", "b"),
        ("element aaaUsername like 'JA%'", "ab"),
        ("element aaaUsername exactly 'JANE'", ""),
        ("not element userName like '%'", "maln"),
        // both numbers of ntop's elements
        ("element client_nw_latency_ms > 10", "l"),
        ("element NETFLOW9_SERVER_NW_LATENCY_MS >= 200", "l"),
        // those that fill a column are the column
        ("element sourceTransportPort 80", "l"),
        ("element TLSSNI like '%'", ""),
    ]);
    assert_eq!(parse("element TLSSNI x").expect("a filter").to_string(), "sni = 'x'");
}

#[test]
fn mpls() {
    check(&[
        ("mpls label1 16001", "m"),
        ("mpls label1 > 16001", ""),
        ("mpls label2 = 100", "m"),
        ("mpls label10 100", ""),
        ("mpls any 100", "m"),
        ("mpls any >= 16001", "m"),
        ("mpls any in [1-50]", ""),
        ("mpls eos 100", "m"),
        ("mpls eos 16001", ""),
        ("mpls exp2 5", "m"),
        ("mpls exp1 0", "m"),
        ("not mpls any 100", "abln"),
    ]);
}

#[test]
fn firewalls_and_translators() {
    check(&[
        ("asa xevent 1001", "a"),
        ("xevent > 1001", ""),
        ("asa denied ingress", "a"),
        ("asa denied I-ACL", "a"),
        ("asa denied nosyn", ""),
        ("asa event denied", "a"),
        ("asa user jane", "a"),
        ("asa user 'joe'", "b"),
        ("asa user jan", ""),
        ("not asa user jane", "mbln"),
        ("ingress acl 11", "a"),
        ("ingress acl > 12", ""),
        ("egress acl 3", "a"),
        ("ingress acl id 10", "a"),
        ("ingress acl id 11", ""),
        ("ingress ace 11", "a"),
        ("egress xace < 3", ""),
        ("egress acl 11", ""),
        ("nat pblock start 1024", "b"),
        ("nat pblock end > 1534", "b"),
        ("xlate pblock step 1", "b"),
        ("nat pblock size 512", "b"),
        ("port in nat pblock", "b"),
        ("src port in nat pblock", "b"),
        ("dst port in nat pblock", "b"),
        ("not src port in nat pblock", "maln"),
        ("src port in [1030]", "bn"),
    ]);
}

#[test]
fn times_to_live_and_latencies() {
    check(&[
        ("ttl equal", "b"),
        ("not ttl equal", "maln"),
        ("ttl spread 4", "l"),
        ("ttl spread >= 0", "bl"),
        ("client latency 100", "l"),
        ("server latency > 100", "l"),
        ("server latency < 100", ""),
    ]);
}
