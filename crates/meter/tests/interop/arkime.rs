//! The answers of Arkime: sessions of its tests (`*.test`), one for both directions.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use serde_json::Value;
use weir_meter::Timeouts;

use crate::conversation::{Conversation, Side};
use crate::expected::{Answer, Expected, Octets};
use crate::reason::Reason;

/// TCP 10 minutes, UDP 30 seconds, and 5 seconds after TCP's end (`tcpTimeout`, `udpTimeout`, `tcpClosingTimeout`).
const TIMEOUTS: [Timeouts; 2] = [
    Timeouts { active_us: i64::MAX / 4, idle_us: 600_000_000, fast: None, closed_us: 5_000_000 },
    Timeouts { active_us: i64::MAX / 4, idle_us: 30_000_000, fast: None, closed_us: 5_000_000 },
];

/// Its counters of TCP flags; each packet counts for those that it has, but `ack` for packets without others.
const FLAGS: [(&str, u16); 6] =
    [("fin", 0x01), ("syn", 0x02), ("syn-ack", 0x02), ("rst", 0x04), ("psh", 0x08), ("urg", 0x20)];

pub(crate) fn answers(corpus: &Path) -> Vec<Answer> {
    let folder = corpus.join("arkime+arkime/tests/pcap");
    let files = std::fs::read_dir(&folder).expect("tests of Arkime").flatten();
    let mut tests: Vec<_> =
        files.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "test")).collect();
    tests.sort();
    let answer = |path: std::path::PathBuf| {
        let test: Value = serde_json::from_slice(&std::fs::read(&path).ok()?).ok()?;
        let sessions = test["sessions3"].as_array()?;
        let capture = ["pcap", "pcapng", "pcap.gz"].map(|end| path.with_extension(end));
        Some(Answer {
            name: path.file_name()?.to_string_lossy().into_owned(),
            capture: capture.into_iter().find(|path| path.is_file())?,
            records: sessions.iter().filter_map(|session| record(&session["body"])).collect(),
            timeouts: TIMEOUTS,
            octets: Octets::Frames,
            duration_step_us: 1_000,
            by_vlan: false,
            by_icmp_type: false,
            looks_into_tunnels: true,
            is_partial: false,
            reasons: &[
                Reason::Captured,
                Reason::Reassembled,
                Reason::CutElsewhere,
                Reason::NoPorts,
                Reason::OfProtocol,
                Reason::Turned,
                Reason::Swapped,
                Reason::InFileOrder,
            ],
        })
    };
    tests.into_iter().filter_map(answer).collect()
}

fn record(body: &Value) -> Option<Expected> {
    let protocol = body["ipProtocol"].as_u64().filter(|protocol| *protocol > 0)? as u8;
    let end = |side: &str| {
        let port = body[side]["port"].as_u64().unwrap_or_default() as u16;
        Some(SocketAddr::new(body[side]["ip"].as_str()?.parse::<IpAddr>().ok()?, port))
    };
    let count =
        |side: &str| Some(Side { packets: body[side]["packets"].as_u64()?, octets: body[side]["bytes"].as_u64()? });
    let (conversation, by_low) = Conversation::of(protocol, end("source")?, end("destination")?, None);
    let micros = |name: &str| body[name].as_i64().map(|ms| ms * 1_000);
    let has = |name: &str| body["tcpflags"][name].as_u64().is_some_and(|packets| packets > 0);
    let flags = FLAGS.iter().filter(|(name, _)| has(name)).fold(0, |flags, (_, bit)| flags | bit);
    Some(Expected {
        by_low: Some(by_low),
        first_us: micros("firstPacket"),
        last_us: micros("lastPacket"),
        tcp_flags_of_both: (protocol == 6).then_some(flags),
        ..Expected::of(conversation, Conversation::sides(by_low, count("source")?, count("destination")?))
    })
}
