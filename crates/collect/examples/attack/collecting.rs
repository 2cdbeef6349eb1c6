//! A collector in this process, when no other one is to be attacked: flows are counted and not stored.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::datatypes::{UInt32Type, UInt64Type};
use weir_collect::{Collector, CollectorOptions, Limits, Listener, Next, Transport};
use weir_flow::{Column, Counter, FlowBatch};
use weir_secure::{ClientAuth, TlsServerOptions};
use weir_testkit::certificates::{Certificate, Says};

use crate::real;

/// Writes an authority and a certificate for localhost, and starts a collector with it.
pub(crate) fn start(folder: &Path) -> Result<(Collector, Vec<SocketAddr>), Box<dyn Error>> {
    let authority = Certificate::authority("attack");
    authority.write(folder, "ca");
    authority.sign(&Says { dns: &["localhost"], ..Says::name("server") }).write(folder, "server");
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let listeners = [Transport::Udp, Transport::Tcp, Transport::Tls, Transport::Dtls];
    let options = CollectorOptions {
        listeners: listeners.map(|transport| Listener { transport, address: any }).to_vec(),
        tls: Some(TlsServerOptions {
            certificate: folder.join("server.pem"),
            key: folder.join("server.key"),
            authorities: Some(folder.join("ca.pem")),
            revocations: None,
            client_auth: ClientAuth::None,
            peers: Vec::new(),
        }),
        state: Some(folder.join("state")),
        ..CollectorOptions::new(any)
    };
    let collector = Collector::start(&options)?;
    let addresses = collector.listeners().iter().map(|listener| listener.local).collect();
    Ok((collector, addresses))
}

/// What has come of the flows of real exporters, and how much memory it took.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// Numbers of flows, by the last octet of the exporter's address: how often each has come.
    flows: BTreeMap<u8, Vec<u8>>,
    resident_most: usize,
    notices: usize,
}

impl Received {
    /// Takes what the collector hands on until it is told to end, and then the rest.
    pub(crate) fn follow(mut self, mut collector: Collector, is_over: &AtomicBool) -> Result<Self, Box<dyn Error>> {
        loop {
            if is_over.load(Ordering::Relaxed) {
                collector.stop();
            }
            match collector.next(Duration::from_millis(100))? {
                Next::Delivery(delivery) => delivery.flows.iter().for_each(|flows| self.add(flows)),
                Next::Nothing => {}
                Next::Ended => break,
            }
            while collector.take_notice().is_some() {
                self.notices += 1;
            }
            self.resident_most = self.resident_most.max(resident());
        }
        let statistics = collector.statistics();
        for &counter in Counter::ALL {
            let total: u64 = statistics.iter().map(|decoder| decoder.total(counter)).sum();
            if total > 0 {
                println!("{} {total}", counter.name());
            }
        }
        Ok(self)
    }

    fn add(&mut self, flows: &FlowBatch) {
        let (Some(domains), Some(bytes), Some(exporters), Some(sources)) = (
            flows.primitive::<UInt32Type>(Column::ObservationDomain),
            flows.primitive::<UInt64Type>(Column::Bytes),
            flows.binary(Column::Exporter),
            flows.binary(Column::SrcAddr),
        ) else {
            return;
        };
        for row in 0..flows.rows() {
            if domains.value(row) != real::DOMAIN || sources.value(row) != [10, 99, 0, 1] {
                continue;
            }
            let Some(last) = exporters.value(row).last() else { continue };
            let counts = self.flows.entry(*last).or_default();
            let number = bytes.value(row) as usize;
            // what is mutated may have any number
            if number < 1 << 28 {
                counts.resize(counts.len().max(number + 1), 0);
                counts[number] = counts[number].saturating_add(1);
            }
        }
    }

    /// Prints what is missing of what was sent.
    pub(crate) fn print(&self, sent: &[u64]) {
        for ((name, address), sent) in real::EXPORTERS.iter().zip(sent) {
            let counts = self.flows.get(&address.octets()[3]).map_or(&[][..], Vec::as_slice);
            let counts = counts.get(..*sent as usize).unwrap_or(counts);
            let came = counts.iter().filter(|count| **count > 0).count() as u64;
            let twice = counts.iter().filter(|count| **count > 1).count();
            println!("real exporter over {name}: {sent} flows sent, {} lost, {twice} twice", sent - came);
        }
        let limit = Limits::default().octets_max() >> 20;
        println!(
            "resident memory of collector and attackers: at most {} MiB; the limits of each of two decoders allow {limit} MiB",
            self.resident_most >> 20
        );
        println!("lines for the log: {}", self.notices);
    }
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    4_096 * statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0)
}
