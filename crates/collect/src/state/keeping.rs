//! What a collector's decode threads do so that nothing is forgotten: their ports to state file and spool.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::file::{self, StateFolder, StatePort, WriteFailures};
use crate::spool::thread::{self, SpoolPort};
use crate::{CollectError, CollectorOptions, Decoder};

/// How soon a decoder looks again while sets come back from disk.
const RECALL_WAIT: Duration = Duration::from_millis(2);

/// Everything about remembering, before it is given to the decoders.
#[derive(Debug, Default)]
pub(crate) struct Keeping {
    pub threads: Vec<JoinHandle<()>>,
    /// What there is to say about the state that was found.
    pub notice: Option<String>,
    /// What could not be written since.
    pub failures: Arc<WriteFailures>,
    pub ports: KeepingPorts,
}

/// What the decoders get of it, in turn.
#[derive(Debug, Default)]
pub(crate) struct KeepingPorts {
    remembered: Arc<Vec<u8>>,
    ports: Vec<(StatePort, SpoolPort)>,
}

impl Keeping {
    /// Opens the folder, if there is one, for so many decoders.
    pub(crate) fn open(options: &CollectorOptions, decoders: usize) -> Result<Self, CollectError> {
        let Some(path) = &options.state else { return Ok(Self::default()) };
        let failed = |source| CollectError::State { path: path.clone(), source };
        let folder = StateFolder::open(path).map_err(failed)?;
        let (remembered, notice) = folder.load();
        let failures = Arc::<WriteFailures>::default();
        let (spool_thread, spool_ports) = thread::start(&folder.spool(), &options.limits, decoders)?;
        let (state_thread, state_ports) = file::start(folder, decoders, Arc::clone(&failures));
        let threads = [spool_thread, state_thread].into_iter().collect::<Result<_, _>>();
        Ok(Self {
            threads: threads.map_err(CollectError::Thread)?,
            notice,
            failures,
            ports: KeepingPorts {
                remembered: Arc::new(remembered),
                // taken from the end
                ports: state_ports.into_iter().zip(spool_ports).rev().collect(),
            },
        })
    }
}

impl KeepingPorts {
    /// What the next decoder gets.
    pub(crate) fn of_decoder(&mut self) -> DecoderKeeping {
        DecoderKeeping { remembered: Arc::clone(&self.remembered), ports: self.ports.pop() }
    }
}

/// What one decoder has of it.
#[derive(Debug, Default)]
pub(crate) struct DecoderKeeping {
    remembered: Arc<Vec<u8>>,
    ports: Option<(StatePort, SpoolPort)>,
}

impl DecoderKeeping {
    /// A decoder that knows what was remembered of its exporters.
    pub(crate) fn decoder(&mut self, options: &CollectorOptions, is_own: impl Fn(SocketAddr) -> bool) -> Decoder {
        let mut decoder = Decoder::new(options.limits.clone());
        if options.templates_across_ports {
            decoder = decoder.with_templates_across_ports();
        }
        if self.ports.is_some() {
            decoder = decoder.with_spool();
            // what is wrong with it was said when it was loaded; what came before the damage is good
            let _ = decoder.import_state_of(&self.remembered, is_own);
        }
        self.remembered = Arc::default();
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

    /// Writes everything down for the process after this one.
    pub(crate) fn close(self, decoder: &mut Decoder, deliver: impl FnMut(&mut Decoder)) {
        if let Some((state, spool)) = self.ports {
            spool.close(decoder, deliver);
            state.close(decoder);
        }
    }
}
