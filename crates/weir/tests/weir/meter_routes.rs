//! `weir meter --routes`: what nfcapd and an archive are told of the networks of flows, and wrong files.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use weir_testkit::{program, write_capture};

use crate::process::{run, sent_to_nfcapd};

/// Lines of pmacct, which have the neighbour before the origin. The last system takes four octets.
const ROUTES: &str = "198.51.100.1,64600_64500,10.0.0.0/8\n198.51.100.2,64601_64501,10.1.0.0/16\n\
    198.51.100.3,64602_64502,10.1.2.0/24\n198.51.100.4,4200000001_4200000000,192.0.2.0/25\n64503,2001:db8::/32\n";

/// Ends of the flows; the number of each is its source port.
const FLOWS: [(&str, &str); 4] =
    [("10.1.2.3", "192.0.2.7"), ("10.1.7.3", "10.7.7.7"), ("192.0.2.200", "10.1.2.9"), ("192.0.2.9", "203.0.113.9")];

/// Systems, lengths of prefixes and next hop of BGP of each flow by its port, as the lines say; 0 for what no route tells.
fn expected(is_peer: bool) -> BTreeMap<u16, [String; 5]> {
    let of = |address: &str| match address {
        "10.1.2.3" | "10.1.2.9" => (if is_peer { 64602 } else { 64502 }, 24, "198.51.100.3"),
        "10.1.7.3" => (if is_peer { 64601 } else { 64501 }, 16, "198.51.100.2"),
        "10.7.7.7" => (if is_peer { 64600 } else { 64500 }, 8, "198.51.100.1"),
        "192.0.2.7" | "192.0.2.9" => (if is_peer { 4_200_000_001_u32 } else { 4_200_000_000 }, 25, "198.51.100.4"),
        _ => (0, 0, "0.0.0.0"),
    };
    let flow = |(port, (src, dst)): (u16, &(&str, &str))| {
        let ((src_as, src_mask, _), (dst_as, dst_mask, hop)) = (of(src), of(dst));
        let numbers = [src_as, dst_as, src_mask, dst_mask].map(|number| number.to_string());
        let [src_as, dst_as, src_mask, dst_mask] = numbers;
        (port, [src_as, dst_as, src_mask, dst_mask, hop.to_owned()])
    };
    (1..).zip(&FLOWS).map(flow).collect()
}

fn capture(path: &Path) {
    let address = |text: &str| text.parse::<std::net::Ipv4Addr>().expect("an address").octets();
    let frame = |(port, (src, dst)): (u16, &(&str, &str))| {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0, 0];
        frame.extend(address(src).into_iter().chain(address(dst)).chain(port.to_be_bytes()));
        frame.extend([0, 53, 0, 12, 0, 0, 1, 2, 3, 4]);
        (1_700_000_000_000_000 + i64::from(port), frame)
    };
    write_capture(path, (1..).zip(&FLOWS).map(frame));
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

#[test]
fn an_archive_tells_the_routes_of_flows_and_null_where_there_is_none() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    capture(Path::new(&path("trace.pcap")));
    std::fs::write(path("routes"), ROUTES).expect("written");
    for (which, is_peer) in [("origin", false), ("peer", true)] {
        let archive = path(which);
        let (trace, routes) = (path("trace.pcap"), path("routes"));
        let output =
            run(&["meter", &trace, "--archive", &archive, "--routes", &routes, "--route-as", which, "--workers", "2"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let sql = "SELECT src_port, src_as, dst_as, src_mask, dst_mask, bgp_next_hop FROM flows ORDER BY src_port";
        let output = run(&["sql", "--archive", &archive, "--output", "csv", sql]);
        let told = text(&output.stdout);
        let lines = expected(is_peer).into_iter().map(|(port, told)| {
            let told = told.map(|value| if value == "0" || value == "0.0.0.0" { String::new() } else { value });
            format!("{port},{}", told.join(","))
        });
        assert_eq!(told.lines().skip(1).collect::<Vec<_>>(), lines.collect::<Vec<_>>(), "{told}");
    }
}

#[test]
fn nfdump_shows_the_routes_of_every_version() {
    let (Some(nfcapd), Some(nfdump)) = (program("nfcapd"), program("nfdump")) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    capture(Path::new(&path("trace.pcap")));
    std::fs::write(path("routes"), ROUTES).expect("written");
    for version in ["netflow-v5", "netflow-v9", "ipfix"] {
        let files = folder.path().join(version);
        let arguments = ["meter", &path("trace.pcap"), "--protocol", version, "--routes", &path("routes")];
        sent_to_nfcapd(&nfcapd, &files, &arguments);
        let format = "fmt:%sp,%sas,%das,%smk,%dmk,%nhb";
        let output = Command::new(&nfdump).arg("-R").arg(&files).args(["-q", "-o", format]).output().expect("it runs");
        let told = text(&output.stdout);
        let flow = |line: &str| {
            let mut cells = line.split(',').map(|cell| cell.trim().to_owned());
            let port = cells.next()?.parse::<u16>().ok()?;
            Some((port, <[String; 5]>::try_from(cells.collect::<Vec<_>>()).ok()?))
        };
        let mut told: BTreeMap<_, _> = told.lines().filter_map(flow).collect();
        let mut expected = expected(false);
        if version == "netflow-v5" {
            for flow in expected.values_mut() {
                // RFC 6793 section 9: its stand-in; and there is no field for the next hop of BGP
                flow.iter_mut().filter(|cell| *cell == "4200000000").for_each(|cell| "23456".clone_into(cell));
                "0.0.0.0".clone_into(&mut flow[4]);
            }
            // nfcapd 1.7.1 keeps no masks of NetFlow v5
            for flow in told.values_mut().chain(expected.values_mut()) {
                flow[2..4].iter_mut().for_each(|mask| "0".clone_into(mask));
            }
        }
        assert_eq!(told, expected, "by {version}");
    }
}

#[test]
fn wrong_routes_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    capture(Path::new(&path("trace.pcap")));
    std::fs::write(path("garbage"), [0xff; 3_000]).expect("written");
    std::fs::write(path("partly"), format!("{ROUTES}what\n")).expect("written");
    for (routes, told) in [("missing", "cannot read routes from"), ("garbage", "no route in")] {
        let output = run(&["meter", &path("trace.pcap"), "--routes", &path(routes)]);
        let errors = text(&output.stderr);
        assert!(!output.status.success() && errors.contains(told) && errors.contains(routes), "{routes}: {errors}");
        assert!(output.stdout.is_empty(), "nothing is metered without what was asked for");
    }
    let output = run(&["meter", &path("trace.pcap"), "--routes", &path("partly")]);
    let told = text(&output.stderr);
    assert!(output.status.success() && told.contains("1  records of routes that could not be used"), "{told}");
    assert!(text(&output.stdout).contains(",64502,"), "{}", text(&output.stdout));
    let output = run(&["meter", &path("trace.pcap"), "--routes", &path("partly"), "--route-as", "next"]);
    assert!(text(&output.stderr).contains("possible values: origin, peer"), "{}", text(&output.stderr));
}
