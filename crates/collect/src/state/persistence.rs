//! What a collector's decode threads store for the next process: their ports to state file and spool.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_flow::{EXPORT_VERSION_SFLOW5, SequenceRow};

use super::file::{self, StateFolder, StatePort, WriteFailures};
use crate::spool::thread::{self, SpoolPort};
use crate::{CollectError, CollectorOptions, Decoder};

/// How soon a decoder looks again while sets come back from disk.
const RECALL_WAIT: Duration = Duration::from_millis(2);

/// State file and spool of a collector, before their ports are given to the decoders.
#[derive(Debug, Default)]
pub(crate) struct Persistence {
    pub threads: Vec<JoinHandle<()>>,
    /// A warning about the state that was found.
    pub notice: Option<String>,
    /// Writes of the state that have failed since.
    pub failures: Arc<WriteFailures>,
    /// Sets that the spool could not write since.
    pub spool_failures: Arc<WriteFailures>,
    pub ports: PersistencePorts,
}

/// The stored state, and the ports that the decoders get, one each.
#[derive(Debug, Default)]
pub(crate) struct PersistencePorts {
    stored: Arc<Vec<u8>>,
    ports: Vec<(StatePort, SpoolPort)>,
}

impl Persistence {
    /// Opens the state folder, if there is one, for this many decoders.
    pub(crate) fn open(options: &CollectorOptions, decoders: usize) -> Result<Self, CollectError> {
        let Some(path) = &options.state else { return Ok(Self::default()) };
        let failed = |source| CollectError::State { path: path.clone(), source };
        let folder = StateFolder::open(path).map_err(failed)?;
        let (stored, notice) = folder.load();
        let whole = if notice.is_none() { stored.clone() } else { Vec::new() };
        let failures = Arc::<WriteFailures>::default();
        let spool_failures = Arc::<WriteFailures>::default();
        let (spool_thread, spool_ports) =
            thread::start(&folder.spool(), &options.limits, decoders, Arc::clone(&spool_failures))?;
        let (state_thread, state_ports) = file::start(folder, decoders, whole, Arc::clone(&failures));
        let threads = [spool_thread, state_thread].into_iter().collect::<Result<_, _>>();
        Ok(Self {
            threads: threads.map_err(CollectError::Thread)?,
            notice,
            failures,
            spool_failures,
            ports: PersistencePorts {
                stored: Arc::new(stored),
                // taken from the end
                ports: state_ports.into_iter().zip(spool_ports).rev().collect(),
            },
        })
    }
}

impl PersistencePorts {
    /// The port of the next decoder.
    pub(crate) fn of_decoder(&mut self) -> DecoderPersistence {
        DecoderPersistence { stored: Arc::clone(&self.stored), ports: self.ports.pop() }
    }
}

/// State file and spool, as one decoder uses them.
#[derive(Debug, Default)]
pub(crate) struct DecoderPersistence {
    stored: Arc<Vec<u8>>,
    ports: Option<(StatePort, SpoolPort)>,
}

impl DecoderPersistence {
    /// A decoder that knows the stored state of its exporters.
    pub(crate) fn decoder(&mut self, options: &CollectorOptions, is_own: impl Fn(SocketAddr) -> bool) -> Decoder {
        let mut decoder = Decoder::new(options.limits.clone()).with_own_clock();
        if options.templates_across_ports {
            decoder = decoder.with_templates_across_ports();
        }
        if let Some(rules) = &options.senders.agent_rules {
            decoder = decoder.with_agent_rules(rules.clone());
        }
        if let Some(rows) = &options.sequences {
            let is_of_udp = |row: &&SequenceRow| {
                let address = weir_flow::address::to_ip(&row.key.exporter);
                // agents of sFlow may send from any address, so whichever decoder hears of one goes on with it
                row.key.export_version == EXPORT_VERSION_SFLOW5
                    || address.is_some_and(|address| is_own(SocketAddr::new(address, row.key.exporter_port)))
            };
            decoder = decoder.with_sequences(rows.iter().filter(is_of_udp).cloned());
        }
        if self.ports.is_some() {
            decoder = decoder.with_spool();
            // an error was reported when it was loaded; what comes before the damage is good
            let _ = decoder.import_state_of(&self.stored, is_own);
        }
        self.stored = Arc::default();
        decoder
    }

    /// Until when to wait for datagrams at most.
    pub(crate) fn due(&self, decoder: &Decoder, due: Instant) -> Instant {
        match &self.ports {
            Some((_, spool)) if decoder.is_recalling() || spool.has_answers() => due.min(Instant::now() + RECALL_WAIT),
            _ => due,
        }
    }

    pub(crate) fn exchange(&mut self, decoder: &mut Decoder) {
        if let Some((_, spool)) = &mut self.ports {
            spool.exchange(decoder);
        }
    }

    pub(crate) fn export(&mut self, decoder: &mut Decoder) {
        if let Some((state, _)) = &mut self.ports {
            state.export(decoder);
        }
    }

    /// Stores everything for the process after this one.
    pub(crate) fn close(self, decoder: &mut Decoder, deliver: impl FnMut(&mut Decoder)) {
        if let Some((state, spool)) = self.ports {
            spool.close(decoder, deliver);
            state.close(decoder);
        }
    }
}
