//! What a hostile sender costs: memory, and flows of those who really send.
//!
//! `cargo run --release -p weir-collect --example hostile [SECONDS]`
//!
//! Twenty exporters send numbered flows over loopback to a [`Collector`] with its default limits, while made-up ones send
//! garbage, templates by the million, data without templates and flows under ever new Observation Domains. The sender
//! keeps in step with the collector, so that what is lost was not lost to a full socket buffer. At the end it prints
//! what was sent, what became of it, and how much memory the process took beside the stated limit.

use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use weir_collect::{Collector, CollectorOptions, Next};
use weir_flow::{Column, Counter, Delivery};
use weir_wire::{FieldSpecifier, ObservationDomainId, Template, TemplateId, ipfix};

/// As in the `weir` binary.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const REAL: u32 = 20;
const RECORDS: u32 = 20;
/// Datagrams of fakes for each of a real exporter.
const FAKES: u32 = 10;
/// Datagrams on their way at most.
const AHEAD_MAX: u64 = 2_000;
/// Domains from here on are made up.
const FAKE_DOMAINS: u32 = 1_000;

fn template(id: u16, fields: usize) -> Result<Template, Box<dyn Error>> {
    Ok(Template::new(TemplateId::new(id)?, vec![FieldSpecifier::iana(1, 8); fields], 0)?)
}

fn message(
    domain: u32,
    sequence: u32,
    write: impl FnOnce(&mut ipfix::MessageBuilder<'_>) -> Result<(), Box<dyn Error>>,
) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut out = Vec::new();
    let domain = ObservationDomainId(domain);
    let header = ipfix::Header { length: 0, export_time_secs: 1_700_000_000, sequence, domain };
    let mut message = ipfix::MessageBuilder::new(&mut out, &header);
    write(&mut message)?;
    message.finish();
    Ok(out)
}

/// What made-up exporter number `number` sends.
fn fake(number: u32) -> Result<Vec<u8>, Box<dyn Error>> {
    let domain = FAKE_DOMAINS + number;
    let one = template(256, 1)?;
    match number % 5 {
        0 => Ok(number.to_be_bytes().repeat(20)),
        1 => message(domain, 0, |message| Ok(message.record(&one, |out| out.extend([7; 8]))?)),
        2 => message(domain, 0, |message| {
            message.template(&one)?;
            message.record(&one, |out| out.extend([7; 8]))?;
            Ok(())
        }),
        _ => message(domain, 0, |message| {
            for id in 256..356 {
                message.template(&template(id, 1 + usize::from(id % 12))?)?;
            }
            Ok(())
        }),
    }
}

#[derive(Debug, Default)]
struct Seen {
    datagrams: u64,
    real_flows: u64,
    resident_most: usize,
}

impl Seen {
    fn add(&mut self, delivery: &Delivery) {
        if let Some(flows) = &delivery.flows {
            let domains = flows.primitive::<arrow::datatypes::UInt32Type>(Column::ObservationDomain);
            let versions = flows.primitive::<arrow::datatypes::UInt8Type>(Column::ExportVersion);
            let domains = domains.iter().flat_map(|domains| domains.values());
            let versions = versions.iter().flat_map(|versions| versions.values());
            // some of the garbage is good NetFlow v5
            let real = domains.zip(versions).filter(|(domain, version)| **domain < REAL && **version == 10);
            self.real_flows += real.count() as u64;
        }
    }

    /// Takes what the collector has, until few datagrams are on their way.
    fn follow(&mut self, collector: &mut Collector, sent: u64) -> Result<(), Box<dyn Error>> {
        loop {
            if let Next::Delivery(delivery) = collector.next(Duration::ZERO)? {
                self.add(&delivery);
            }
            let statistics = collector.statistics();
            let seen = statistics.iter().map(|d| d.total(Counter::Datagrams) + d.total(Counter::DatagramsRefused));
            self.datagrams = seen.sum();
            if self.datagrams + AHEAD_MAX >= sent {
                return Ok(());
            }
            std::thread::yield_now();
        }
    }
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    4_096 * statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0)
}

fn main() -> Result<(), Box<dyn Error>> {
    let secs = std::env::args().nth(1).map_or(Ok(60), |secs| secs.parse())?;
    // deliveries are taken often, so that the sender need not wait for them
    let options = CollectorOptions {
        delivery_interval: Duration::from_millis(5),
        ..CollectorOptions::new(SocketAddr::from(([127, 0, 0, 1], 0)))
    };
    let mut collector = Collector::start(&options)?;
    let target = collector.sockets().first().ok_or("no socket")?.local;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let real_template = template(256, 2)?;
    for domain in 0..REAL {
        socket.send_to(&message(domain, 0, |message| Ok(message.template(&real_template)?))?, target)?;
    }
    let base = resident();
    let (mut seen, mut sent, mut sequence, mut fakes, mut real_flows) = (Seen::default(), u64::from(REAL), 0, 0, 0);
    let until = Instant::now() + Duration::from_secs(secs);
    while Instant::now() < until {
        for domain in 0..REAL {
            let data = message(domain, sequence, |message| {
                for _ in 0..RECORDS {
                    message.record(&real_template, |out| out.extend([1; 16]))?;
                }
                Ok(())
            })?;
            socket.send_to(&data, target)?;
            real_flows += u64::from(RECORDS);
            for _ in 0..FAKES {
                socket.send_to(&fake(fakes)?, target)?;
                fakes = fakes.wrapping_add(1);
            }
            sent += 1 + u64::from(FAKES);
        }
        sequence = sequence.wrapping_add(RECORDS);
        seen.follow(&mut collector, sent)?;
        seen.resident_most = seen.resident_most.max(resident());
    }
    collector.stop();
    loop {
        match collector.next(Duration::from_secs(1))? {
            Next::Delivery(delivery) => seen.add(&delivery),
            Next::Nothing => {}
            Next::Ended => break,
        }
    }
    let statistics = collector.statistics();
    let total = |counter| statistics.iter().map(|decoder| decoder.total(counter)).sum::<u64>();
    println!("{secs} s, {sent} datagrams sent, {fakes} of them by made-up exporters");
    println!("flows of real exporters: {real_flows} sent, {} lost", real_flows - seen.real_flows);
    println!(
        "resident memory: at most {} MiB more than at the start; the limits allow {} MiB beside buffers and deliveries",
        seen.resident_most.saturating_sub(base) >> 20,
        options.limits.octets_max() >> 20
    );
    for &counter in Counter::ALL {
        if total(counter) > 0 {
            println!("{} {}", counter.name(), total(counter));
        }
    }
    Ok(())
}
