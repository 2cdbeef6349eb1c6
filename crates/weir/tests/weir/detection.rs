//! What the watches that come with weir find in captures of real attacks, and how often they are wrong: a page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use weir_testkit::pages;
use weir_watch::{Backtest, Report, RunnerOptions, WatchError, WatchFile};

use crate::process::run;

const PAGE: &str = "docs/reference/detection.md";

/// A capture of an attack.
struct Attack {
    /// Place in the corpus.
    file: &'static str,
    /// What is in it, found by reading it.
    what: &'static str,
    /// The watch that is for it, and the key of its report; or why none is.
    expected: Expected,
}

enum Expected {
    /// It is found.
    Found(&'static str, &'static str),
    /// It is missed by the watch that is for it, and why.
    Missed(&'static str, &'static str),
    /// It is not seen in flows.
    Invisible(&'static str),
}

use Expected::{Found, Invisible, Missed};

const NDPI: &str = "ntop+nDPI/tests/cfgs/default/pcap";

const ATTACKS: &[Attack] = &[
    Attack {
        file: "synscan.pcap",
        what: "a SYN scan of some thousand ports of a host in 23 s",
        expected: Found("portscan", "src_addr=172.16.0.8"),
    },
    Attack {
        file: "tcp_scan.pcapng",
        what: "five ports of a host tried in several ways",
        expected: Missed(
            "portscan",
            "five services are far from a hundred a minute; `fanout_min` that low would report every browser",
        ),
    },
    Attack {
        file: "OISF+suricata-verify/tests/firewall/tcp-session-syn-flood-drop-precedence/input.pcap",
        what: "200 SYNs of one host to one port in 0.2 s",
        expected: Missed("ddos", "200 connections begun: a thousand in ten seconds are reported"),
    },
    Attack {
        file: "dns-tunnel-iodine.pcap",
        what: "iodine: IP in the names of DNS questions, 222 of them in 24 s",
        expected: Found("tunnels", "src_addr=10.0.2.30,dst_addr=10.0.2.20,service=dns"),
    },
    Attack {
        file: "dns_exfiltration.pcap",
        what: "a file in the names of 150 DNS questions in a minute",
        expected: Found("tunnels", "src_addr=192.168.220.56,dst_addr=192.168.203.167,service=dns"),
    },
    Attack {
        file: "dns2tcp_tunnel.pcap",
        what: "dns2tcp over TCP to a public resolver, 22 packets in 8 s",
        expected: Missed("tunnels", "fewer than 50 packets: as much as one long answer over TCP"),
    },
    Attack {
        file: "icmp-tunnel.pcap",
        what: "a shell in echo requests and replies, for 19 minutes",
        expected: Found("tunnels", "src_addr=192.168.154.131,dst_addr=192.168.154.132,service=icmp"),
    },
    Attack {
        file: "emotet.pcap",
        what: "Emotet fetched, and calls to its servers, pieces of two months",
        expected: Missed("beaconing", "each piece has one or two calls; pace needs twelve in an hour"),
    },
    Attack {
        file: "trickbot.pcap",
        what: "one TLS session of TrickBot with its server",
        expected: Missed("beaconing", "one call"),
    },
    Attack {
        file: "zeek+zeek/testing/btest/Traces/quic/merlinc2_Zeek_example.pcapng",
        what: "Merlin, command and control over QUIC, for three minutes",
        expected: Missed("beaconing", "all calls are in one connection: its pace is inside a flow"),
    },
    Attack {
        file: "mining.pcapng",
        what: "mining of coins: sessions with pools",
        expected: Missed("beaconing", "sessions that stay open have no pace"),
    },
    Attack {
        file: "ftp_failed.pcap",
        what: "a login to FTP that fails",
        expected: Missed("brute-force", "one try; thirty in five minutes are reported"),
    },
    Attack {
        file: "log4j-webapp-exploit.pcap",
        what: "Log4Shell: a request, the class fetched by LDAP and HTTP, a shell back",
        expected: Invisible(
            "a handful of ordinary sessions; with an archive of 90 days `first-contact` and `new-service` would have two of them",
        ),
    },
    Attack {
        file: "WebattackRCE.pcap",
        what: "797 requests that try to run commands, in one direction",
        expected: Invisible("what is tried is in the requests; the port is one, and the source is this host"),
    },
    Attack {
        file: "WebattackSQLinj.pcap",
        what: "SQL in requests of HTTP",
        expected: Invisible("what is tried is in the requests"),
    },
];

/// Captures of ordinary traffic, some of them of many hosts: what is reported here is a false alarm, or true and harmless.
const ORDINARY: &[&str] = &[
    "netflix.pcap",
    "teams.pcap",
    "instagram.pcap",
    "webex.pcap",
    "vnc.pcap",
    "starcraft_battle.pcap",
    "openvpn_nohmac.pcapng",
    "signal.pcap",
    "bittorrent.pcap",
    "weibo.pcap",
    "ipp.pcap",
    "quic-28.pcap",
    "ultrasurf.pcap",
    "whatsapp_login_call.pcap",
    "wa_voice.pcap",
    "viber.pcap",
    "openvpn.pcap",
    "tor.pcap",
    "android.pcap",
    "googledns_android10.pcap",
    "anyconnect-vpn.pcap",
    "youtubeupload.pcap",
    "rtsp.pcap",
    "zoom2.pcap",
    "discord.pcap",
    "whatsapp.pcap",
    "dropbox.pcap",
    "vxlan.pcap",
    "safari.pcap",
    "git.pcap",
    "jabber.pcap",
    "chrome.pcap",
    "firefox.pcap",
    "sip.pcap",
    "zeek+zeek/testing/btest/Traces/echo-connections.pcap.gz",
    "seladb+PcapPlusPlus/Tests/Pcap++Test/PcapExamples/example.pcap",
];

/// Watches that need a past to compare with (`history_min`), which captures have not: they report nothing of them.
const OF_HISTORY: [&str; 4] = ["elephants", "first-contact", "mice", "new-service"];

fn capture(corpus: &Path, file: &str) -> PathBuf {
    let short = corpus.join(NDPI).join(file);
    if short.is_file() { short } else { corpus.join(file) }
}

pub(crate) fn watch_names() -> Vec<String> {
    let files = std::fs::read_dir(pages::path("watches")).expect("watches").map(|entry| entry.expect("a file").path());
    let mut names: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The keys that a watch reports of an archive.
fn reported(archive: &Path, name: &str) -> BTreeSet<String> {
    reports(archive, name, (None, None))
        .into_iter()
        .map(|report| if report.key.is_empty() { "(window)".to_owned() } else { report.key })
        .collect()
}

/// What a watch reports of an archive, of windows that end after the first time and at the second or before.
pub(crate) fn reports(archive: &Path, name: &str, (from_ms, until_ms): (Option<i64>, Option<i64>)) -> Vec<Report> {
    let file = WatchFile::read(&pages::path(&format!("watches/{name}.toml"))).expect("a watch");
    let mut backtest = Backtest::new(file, &RunnerOptions::new(archive)).unwrap_or_else(|error| failed(name, &error));
    let outcome = backtest.run(from_ms, until_ms, |_, _| ()).unwrap_or_else(|error| failed(name, &error));
    outcome.firings.into_iter().flat_map(|firing| firing.reports).collect()
}

fn failed(name: &str, error: &WatchError) -> ! {
    panic!("{name}: {error}: {:?}", std::error::Error::source(error).map(ToString::to_string))
}

/// Meters a capture into an archive.
fn metered(corpus: &Path, file: &str, archive: &Path) {
    let path = capture(corpus, file);
    let output = run(&["meter", path.to_str().expect("UTF-8"), "--archive", archive.to_str().expect("UTF-8")]);
    assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
}

/// What every watch reports of a capture: by watch, its keys.
fn all_reported(corpus: &Path, file: &str) -> BTreeMap<String, BTreeSet<String>> {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("flows");
    metered(corpus, file, &archive);
    let found = watch_names().into_iter().map(|name| {
        let keys = reported(&archive, &name);
        (name, keys)
    });
    found.filter(|(_, keys)| !keys.is_empty()).collect()
}

/// What became of one watch: attacks that it found, that it missed, and ordinary captures that it reported.
#[derive(Default)]
struct Tally([usize; 3]);

fn attacks(corpus: &Path, page: &mut String, tallies: &mut BTreeMap<String, Tally>) {
    page.push_str("## Attacks\n\n| capture | what it has | watch | found | others that reported |\n| --- | --- | --- | --- | --- |\n");
    for attack in ATTACKS {
        let found = all_reported(corpus, attack.file);
        let (watch, verdict) = match &attack.expected {
            Found(watch, key) => {
                assert!(found.get(*watch).is_some_and(|keys| keys.contains(*key)), "{}: {found:?}", attack.file);
                tallies.entry((*watch).to_owned()).or_default().0[0] += 1;
                let keys: Vec<String> = found[*watch].iter().map(|key| format!("`{key}`")).collect();
                (*watch, format!("yes: {}", keys.join(", ")))
            }
            Missed(watch, why) => {
                assert!(!found.contains_key(*watch), "{} is found now: {found:?}", attack.file);
                tallies.entry((*watch).to_owned()).or_default().0[1] += 1;
                (*watch, format!("no: {why}"))
            }
            Invisible(why) => ("", format!("no: {why}")),
        };
        let others: Vec<&str> = found.keys().map(String::as_str).filter(|name| *name != watch).collect();
        let name = attack.file.rsplit('/').next().unwrap_or(attack.file);
        let name = if name == "input.pcap" { "tcp-session-syn-flood" } else { name };
        writeln!(page, "| `{name}` | {} | {watch} | {verdict} | {} |", attack.what, others.join(", ")).expect("text");
    }
}

fn ordinary(corpus: &Path, page: &mut String, tallies: &mut BTreeMap<String, Tally>) {
    page.push_str("\n## Ordinary captures\n\n| capture | reports |\n| --- | --- |\n");
    for file in ORDINARY {
        let found = all_reported(corpus, file);
        for name in found.keys() {
            tallies.entry(name.clone()).or_default().0[2] += 1;
        }
        let texts: Vec<String> = found.iter().map(|(name, keys)| format!("{name} {}", keys.len())).collect();
        let name = file.rsplit('/').next().unwrap_or(file);
        let texts = if texts.is_empty() { "none".to_owned() } else { texts.join(", ") };
        writeln!(page, "| `{name}` | {texts} |").expect("text");
    }
}

#[test]
fn attacks_are_found_or_not_and_the_page_is_fresh() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let mut page = format!(
        "# What the watches find\n\nWritten by `cargo xtask docs` (`cargo test --release -p weir --test weir detection`) from captures that others have published, metered by \
         `weir meter` into an archive of their own. The same test fails when what is found is not found any more, when what was missed is found, and when this page is \
         stale. That each watch finds what is planted for it in a week of quiet traffic, and nothing without it, is another test (`crates/watch/tests/watch/detections.rs`).\n\n\
         The watches are as they come, with no parameter changed. Captures have no history: {} need one and report nothing.\n\n",
        OF_HISTORY.join(", ")
    );
    let mut tallies: BTreeMap<String, Tally> = watch_names().into_iter().map(|name| (name, Tally::default())).collect();
    attacks(&corpus, &mut page, &mut tallies);
    ordinary(&corpus, &mut page, &mut tallies);
    let captures = ORDINARY.len();
    writeln!(
        page,
        "\n## By watch\n\n| watch | attacks found | missed | of {captures} ordinary captures reported |\n| --- | ---: | ---: | ---: |"
    )
    .expect("text");
    for (name, Tally([found, missed, reported])) in tallies {
        let of = |count: usize| if found + missed == 0 { "no capture".to_owned() } else { count.to_string() };
        writeln!(page, "| {name} | {} | {} | {reported} |", of(found), of(missed)).expect("text");
    }
    pages::check(PAGE, &page);
}
