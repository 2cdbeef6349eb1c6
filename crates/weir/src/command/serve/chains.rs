//! Chains of files that run beside the service, in its process.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, ensure};
use weir_chain::{Chain, Notices, Progress, Running};
use weir_serve::Status;

use super::reload_signals::ReloadSignals;
use crate::command::chain;

/// Chains, before they run and while they do.
#[derive(Default)]
pub(super) struct Chains {
    waiting: Mutex<Vec<Chain>>,
    running: Mutex<Vec<Running>>,
    /// What those that have ended did; metrics go on to say it.
    ended: Mutex<Vec<Progress>>,
}

impl Chains {
    /// Reads chain files; what is wrong with one of them is an error. Metrics distinguish them by their names.
    pub(super) fn read(files: &[PathBuf]) -> anyhow::Result<Self> {
        let mut chains: Vec<Chain> = Vec::new();
        for file in files {
            let chain = chain::read(file, &[])?;
            ensure!(
                chains.iter().all(|other| other.name() != chain.name()),
                "{}: another chain is named '{}' too\nhint: begin one of the files with another name, as in name = \"talkers\"",
                file.display(),
                chain.name()
            );
            chains.push(chain);
        }
        Ok(Self { waiting: Mutex::new(chains), ..Self::default() })
    }

    /// Begins them all. When one of them cannot begin, those before it go on until the [end](Self::end).
    pub(super) fn begin(&self, reloads: &Mutex<ReloadSignals>) -> anyhow::Result<()> {
        let notices = Notices::to(|line| eprintln!("{line}"));
        for chain in locked(&self.waiting).drain(..) {
            let name = chain.name().to_owned();
            let running = chain.start_with(&notices).with_context(|| format!("chain '{name}' cannot begin"))?;
            locked(reloads).add(running.reload_signal());
            locked(&self.running).push(running);
        }
        Ok(())
    }

    /// Has the status say how far they are, and reports each that has ended, once: by itself, or because something of it failed.
    /// The others go on.
    pub(super) fn look(&self, status: &Status) {
        let over: Vec<Running> = locked(&self.running).extract_if(.., |running| running.is_finished()).collect();
        locked(&self.ended).extend(over.into_iter().map(report));
        let mut all: Vec<Progress> = locked(&self.running).iter().map(Running::progress).collect();
        all.extend(locked(&self.ended).iter().cloned());
        status.set_chains(all);
    }

    /// Ends them in order: what their sources have handed on is processed.
    pub(super) fn end(self) {
        let running = self.running.into_inner().unwrap_or_else(PoisonError::into_inner);
        running.iter().for_each(Running::stop);
        for running in running {
            report(running);
        }
    }
}

/// Waits for the end of a chain, and prints what it did.
fn report(running: Running) -> Progress {
    let (progress, ended) = running.wait();
    eprint!("{}", progress.table(None));
    match ended {
        Ok(()) => eprintln!("chain '{}' has ended", progress.chain),
        Err(error) => eprintln!("error: chain '{}' has ended: {:#}", progress.chain, anyhow::Error::new(error)),
    }
    progress
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
