//! An attack on a collector: mutated captures over every transport, beside real exporters that count.
//!
//! `cargo run --release -p weir-collect --example attack -- SECONDS` attacks a collector in this process, whose flows are
//! counted and not stored. With `CA UDP TCP TLS DTLS` behind it, the authority of a certificate and the addresses of the
//! listeners, it is one that runs: `bench/attack/run` starts it, calls this and looks at what was stored. Needs the corpus
//! (`WEIR_CORPUS`).
//!
//! Real exporters send numbered flows at a steady rate from addresses of their own, one over each transport. Everything
//! else is hostile, some of it under the addresses of the real ones. What was sent is printed at the end.

#![expect(clippy::print_stderr, reason = "whoever runs it looks on")]

mod collecting;
mod hostile;
mod mutation;
mod real;

use std::collections::VecDeque;
use std::error::Error;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Where the collector listens, and until when it is attacked.
#[derive(Debug, Clone)]
struct Target {
    until: Instant,
    authority: PathBuf,
    udp: SocketAddr,
    tcp: SocketAddr,
    tls: SocketAddr,
    dtls: SocketAddr,
}

impl Target {
    fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }
}

/// What hostile senders have done.
#[derive(Debug, Default)]
struct Sent {
    datagrams: AtomicU64,
    messages: AtomicU64,
    connections: AtomicU64,
    handshakes: AtomicU64,
    half_open: AtomicU64,
    hellos: AtomicU64,
}

impl Sent {
    fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }
}

/// Every datagram of the captures in a folder, and every file that is one message.
fn datagrams(folder: &Path) -> Vec<Vec<u8>> {
    let (mut found, mut folders) = (Vec::new(), VecDeque::from([folder.to_owned()]));
    while let Some(folder) = folders.pop_front() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push_back(path);
                continue;
            }
            let is =
                |endings: &[&str]| path.extension().is_some_and(|found| endings.iter().any(|ending| *ending == found));
            let Ok(octets) = std::fs::read(&path) else { continue };
            if is(&["pcap", "pcapng", "cap"]) {
                let _ = weir_collect::capture::read(octets.as_slice(), |datagram| {
                    if is_export(datagram.payload) {
                        found.push(datagram.payload.to_vec());
                    }
                });
            } else if is(&["dat", "bin", "ipfix"]) && is_export(&octets) && octets.len() < 65_000 {
                found.push(octets);
            }
        }
    }
    found
}

/// Whether it begins as NetFlow, IPFIX or sFlow do.
fn is_export(payload: &[u8]) -> bool {
    matches!(payload, [0, 1 | 5 | 7 | 9 | 10, _, _, ..] | [0, 0, 0, 5, ..])
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let corpus = weir_testkit::corpus().ok_or("the attack needs the corpus: set WEIR_CORPUS")?;
    let datagrams = datagrams(&corpus);
    eprintln!("{} datagrams of captures", datagrams.len());
    let until = |seconds: &str| Ok::<_, Box<dyn Error>>(Instant::now() + Duration::from_secs(seconds.parse()?));
    match arguments.as_slice() {
        [seconds] => {
            let folder = tempfile::tempdir()?;
            let (collector, addresses) = collecting::start(folder.path())?;
            let &[udp, tcp, tls, dtls] = addresses.as_slice() else { return Err("four listeners are missing".into()) };
            let target =
                Target { until: until(seconds)?, authority: folder.path().join("ca.pem"), udp, tcp, tls, dtls };
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let following = scope.spawn(|| {
                    let received = collecting::Received::default().follow(collector, &is_over);
                    received.map_err(|error| error.to_string())
                });
                let flows = attack(&target, &datagrams);
                is_over.store(true, Ordering::Relaxed);
                following.join().map_err(|_| "the collector panicked")??.print(&flows);
                Ok(())
            })
        }
        [seconds, authority, udp, tcp, tls, dtls] => {
            let (until, authority) = (until(seconds)?, authority.into());
            let (udp, tcp, tls, dtls) = (udp.parse()?, tcp.parse()?, tls.parse()?, dtls.parse()?);
            let flows = attack(&Target { until, authority, udp, tcp, tls, dtls }, &datagrams);
            for ((name, address), flows) in real::EXPORTERS.iter().zip(flows) {
                println!("real {name} {address} {flows}");
            }
            Ok(())
        }
        _ => Err("usage: attack SECONDS [CA UDP TCP TLS DTLS]".into()),
    }
}

/// Attacks until it is over. Prints what hostile senders have sent; returns how many flows the real ones have.
fn attack(target: &Target, datagrams: &[Vec<u8>]) -> [u64; 4] {
    let sent = &Sent::default();
    let flows = std::thread::scope(|scope| {
        let real = [
            scope.spawn(move || real::udp(target)),
            scope.spawn(move || real::tcp(target)),
            scope.spawn(move || real::tls(target)),
            scope.spawn(move || real::dtls(target)),
        ];
        scope.spawn(move || hostile::udp(target, datagrams, sent));
        scope.spawn(move || hostile::tcp(target, datagrams, sent));
        scope.spawn(move || hostile::tls(target, datagrams, sent));
        scope.spawn(move || hostile::dtls(target, datagrams, sent));
        real.map(|exporter| exporter.join().unwrap_or(0))
    });
    for (name, count) in [
        ("hostile datagrams over UDP", &sent.datagrams),
        ("hostile messages over connections", &sent.messages),
        ("hostile connections over TCP and TLS", &sent.connections),
        ("handshakes of TLS and DTLS among them", &sent.handshakes),
        ("left half open", &sent.half_open),
        ("hostile datagrams over DTLS", &sent.hellos),
    ] {
        println!("{name}: {}", count.load(Ordering::Relaxed));
    }
    flows
}
