//! Community IDs against the specification's own baselines and those that Arkime wrote.

use std::collections::HashSet;
use std::net::IpAddr;
use std::path::Path;

use serde_json::Value;
use weir_flow::CommunityId;

use crate::captures::each_packet;
use crate::flows::{address, digits};

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn port(value: &Value) -> u16 {
    value.as_u64().and_then(|port| port.try_into().ok()).unwrap_or_default()
}

#[test]
fn the_baselines_of_the_specification() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let folder = corpus.join("corelight+community-id-spec/baseline");
    for (file, seed) in [("baseline_seed1.json", 1), ("baseline_nob64.json", 0)] {
        let rows = json(&folder.join(file));
        let rows = rows.as_array().expect("rows");
        assert!(rows.len() > 20, "{} rows", rows.len());
        for row in rows {
            let ends = ["saddr", "daddr"].map(|end| row[end].as_str().and_then(|text| text.parse::<IpAddr>().ok()));
            let [Some(source), Some(destination)] = ends else { panic!("{row}") };
            let ports = (port(&row["sport"]), port(&row["dport"]));
            let id = CommunityId::of(seed, source, destination, port(&row["proto"]) as u8, ports);
            let digits = digits(id.octets());
            let expected = row["communityid"].as_str().expect("an id");
            assert!(expected == id.to_string() || expected == format!("1:{digits}"), "{row}: {id} {digits}");
        }
    }
}

/// The packets that the baselines were made of, dissected here.
#[test]
fn the_captures_of_the_specification() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let folder = corpus.join("corelight+community-id-spec");
    let rows = json(&folder.join("baseline/baseline_seed1.json"));
    let expected: HashSet<String> = rows
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|row| row["communityid"].as_str())
        .map(str::to_owned)
        .collect();
    let mut found = HashSet::new();
    each_packet(&folder.join("pcaps/combined.pcap.gz"), |packet| {
        // The specification's program does not look into tunnels.
        let headers = &packet.outer;
        let Some(ip) = headers.ip else { return };
        let Some((source, destination)) = address(ip.source).zip(address(ip.destination)) else { return };
        let icmp = headers.icmp.map(|(kind, code)| (kind.into(), code.into()));
        let ports = headers.ports.or(icmp).unwrap_or_default();
        found.insert(CommunityId::of(1, source, destination, ip.protocol, ports).to_string());
    });
    let missing: Vec<_> = expected.difference(&found).collect();
    assert!(expected.len() > 10 && missing.is_empty(), "{} of {} missing: {missing:?}", missing.len(), expected.len());
}

/// Every session of Arkime's tests that has a Community ID and ports.
#[test]
fn arkime_agrees() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let mut compared = 0;
    let mut differences = Vec::new();
    let folder = corpus.join("arkime+arkime/tests/pcap");
    for entry in std::fs::read_dir(&folder).expect("Arkime's tests").flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|extension| extension != "test") {
            continue;
        }
        let Ok(sessions) = serde_json::from_slice::<Value>(&std::fs::read(&path).expect("a session")) else { continue };
        for session in sessions["sessions3"].as_array().into_iter().flatten() {
            let body = &session["body"];
            let Some((ours, expected)) = arkime_session(body) else { continue };
            compared += 1;
            if !ours.contains(&expected) {
                differences.push(format!("{}: {ours:?}, expected {expected}", path.display()));
            }
        }
    }
    // Arkime hashes ports of 0 for ESP, which the specification gives no ports.
    differences.retain(|difference| !difference.contains("W/sKA6RLXpy2xnZVZwohsx6zKjo="));
    assert!(differences.is_empty(), "{compared} compared\n{}", differences.join("\n"));
    assert!(compared > 300, "only {compared} were compared");
}

/// The IDs that a session may have by its ends, and the one that Arkime gave it. Of a session of ICMP Arkime lists all
/// types that it met and not which of them came first, and it puts the ends in order even when nothing answers a type,
/// where the specification's own programs keep the direction.
fn arkime_session(body: &Value) -> Option<(Vec<String>, String)> {
    let expected = body["network"]["community_id"].as_str()?;
    let (source, destination) = (&body["source"], &body["destination"]);
    let protocol = port(&body["ipProtocol"]) as u8;
    let from: IpAddr = source["ip"].as_str()?.parse().ok()?;
    let to: IpAddr = destination["ip"].as_str()?.parse().ok()?;
    let id = |from, to, ports| CommunityId::of(0, from, to, protocol, ports).to_string();
    let ids = match protocol {
        1 | 58 => {
            let code = port(&body["icmp"]["code"][0]);
            let types = body["icmp"]["type"].as_array()?.iter().map(port);
            types.flat_map(|kind| [id(from, to, (kind, code)), id(to, from, (code, kind))]).collect()
        }
        _ => vec![id(from, to, (port(&source["port"]), port(&destination["port"])))],
    };
    Some((ids, expected.to_owned()))
}
