//! Made-up traffic for `weir serve --demo`.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weir_export::{ExporterConfig, Version};
use weir_generate::{SendPlan, Stream, TrafficModel, send};

/// Hosts that traffic is between.
const HOSTS: u32 = 1 << 16;
/// A year; nobody tries something out for longer.
const DURATION_MAX: Duration = Duration::from_hours(365 * 24);

/// A thread that sends made-up flows to the collector of this process.
pub(super) struct Demo {
    rate: u32,
    target: Target,
    is_ending: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Where the collector listens, which it says when it begins.
#[derive(Clone, Default)]
pub(super) struct Target(Arc<Mutex<Option<SocketAddr>>>);

impl Target {
    /// Looks whether a notice of the collector says where it listens.
    pub(super) fn notice(&self, line: &str) {
        let place = line.strip_prefix("listening on ").and_then(|rest| rest.split(' ').next());
        let address = place.map(|place| place.rsplit_once("//").map_or(place, |(_, address)| address));
        if let Some(address) = address.and_then(|address| address.parse().ok()) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(address);
        }
    }

    fn address(&self) -> Option<SocketAddr> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Demo {
    /// So many flows a second.
    pub(super) fn new(rate: u32) -> Self {
        Self { rate, target: Target::default(), is_ending: Arc::default(), thread: Mutex::default() }
    }

    pub(super) fn target(&self) -> Target {
        self.target.clone()
    }

    /// Begins, once the collector listens.
    pub(super) fn begin(&self) {
        let Some(target) = self.target.address() else {
            eprintln!("error: the collector does not listen for UDP, so there is no demo");
            return;
        };
        let (rate, is_ending) = (self.rate, Arc::clone(&self.is_ending));
        let run = move || {
            if let Err(error) = traffic(target, rate, &is_ending) {
                eprintln!("error: the demo has ended: {error:#}");
            }
        };
        match thread::Builder::new().name("demo".to_owned()).spawn(run) {
            Ok(thread) => *self.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread),
            Err(error) => eprintln!("error: the demo cannot begin: {error}"),
        }
    }

    /// Ends.
    pub(super) fn end(self) {
        self.is_ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.into_inner().unwrap_or_else(PoisonError::into_inner) {
            // one that panicked has ended too
            let _ = thread.join();
        }
    }
}

fn traffic(target: SocketAddr, rate: u32, is_ending: &AtomicBool) -> anyhow::Result<()> {
    let start_ms = jiff::Timestamp::now().as_millisecond();
    // as many flows a second of simulated time as of ours, so that flows end now
    let model =
        TrafficModel { hosts: HOSTS, flows_per_second: rate, start_ms, ipv6_permille: 100, ..TrafficModel::new(1) };
    let mut flows = model.flows(u64::from(u32::MAX))?;
    let streams = [1, 2].map(|domain| Stream {
        source: None,
        config: ExporterConfig { domain, ..ExporterConfig::new(Version::Ipfix) },
    });
    let plan = SendPlan { target, flows_per_second: Some(rate), duration_max: DURATION_MAX, stop: Some(is_ending) };
    send(&mut flows, &streams, &plan)?;
    Ok(())
}
