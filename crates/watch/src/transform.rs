//! The transform `watch` of a chain: standing questions about the flows that pass.
//!
//! Flows are handed on as they came, and to the watches by a queue with a limit, so a watch that is slow costs what it would have
//! seen, counted, and no flow. Reports go where those of `weir watch run` go: to the journal, to actions, and as lines to whoever runs
//! the chain. Files and pauses are followed as `weir watch run` follows them. There is no archive to read again after a restart, a
//! pause or a change: windows that were open are asked about what comes, and what passed meanwhile is not seen. What speaks against
//! it is just that; watches on an archive lose nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::RecordBatch;
use weir_chain::{
    Built, ByteSize, ComponentError, ComponentKind, Counter, Counters, Notices, ONE_INPUT, Opener, OptionError, Outlet,
    Role, Transform, choices, options,
};
use weir_flow::scaling::Corrections;

use crate::runner_thread::{AttendedRunner, PublishedCounts, RunnerThread};
use crate::{FlowFeed, LoadedFiles, Runner, RunnerOptions, WatchError};

/// Runs standing questions about the flows that pass.
pub const KIND: ComponentKind<WatchTransformOptions> = ComponentKind {
    name: "watch",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Runs the watches of some files on the flows that pass, and hands the flows on as they came. Windows close by the \
          times in the flows, and by the clock when flows are as new as the clock and none come; at the end of the chain all \
          windows close. Files that are added, changed or removed are noticed within 2 s, and so are pauses \
          (`weir watch pause`); a watch that is changed or goes on begins with what comes then. Reports are kept in the \
          journal, sent by the actions of the watches, and printed. Watches that ask history need an archive, such as one \
          that a sink of the same chain writes. At most `rows_waiting_max` flows wait for the watches: further ones are \
          handed on, not watched, and counted in `rows_unwatched`. Other counters are `reports`, `windows_answered`, \
          `windows_shed`, `windows_failed`, `rows_late`, `rows_shed`, `rows_over_memory` and `rows_without_time`.",
    configure,
};

choices! {
    /// What happens when watches are slower than flows come.
    pub enum WhenFull {
        /// Flows go on, and are not watched.
        Shed = "shed",
        /// Flows wait, for chains that read files.
        Wait = "wait",
    }
}

options! {
    /// Options of `watch`.
    pub struct WatchTransformOptions {
        /// Run these watch files, or those of these folders.
        watches: Vec<PathBuf>,
        /// Keep reports and the state of watches in this folder.
        journal: PathBuf,
        /// Ask this archive for history.
        archive: Option<PathBuf>,
        /// Let at most this many flows wait for the watches.
        rows_waiting_max: u64 = 2_000_000 => 1..=1_000_000_000,
        /// What happens to flows beyond.
        when_full: WhenFull = WhenFull::Shed,
        /// Keep the flows of windows of all watches in at most this much memory. When it is full, the watch that keeps most of it
        /// leaves out flows, which are counted in `rows_over_memory`; with `when_full = "wait"`, flows wait first until windows that
        /// have closed are answered.
        memory_max: ByteSize = ByteSize::from_mib(1024) => 1..=1 << 50,
        /// Override the sampling intervals that exporters report by those of a CSV file, as --sampling-corrections of weir watch run.
        sampling_corrections: Option<PathBuf>,
    }
}

fn configure(options: WatchTransformOptions) -> Result<Opener, OptionError> {
    if options.watches.is_empty() {
        return Err(OptionError::new("watches", "'watches' names no file"));
    }
    Ok(Box::new(move |context| {
        let corrections = options.sampling_corrections.as_deref().map(Corrections::read).transpose();
        let corrections = corrections
            .map_err(|error| ComponentError::caused("cannot use the corrections of sampling intervals", error))?;
        let opened =
            WatchTransform::open(&options, corrections.unwrap_or_default(), &context.counters, &context.notices);
        opened
            .map(|transform| Built::Transform(Box::new(transform)))
            .map_err(|error| ComponentError::caused("cannot run the watches", error))
    }))
}

/// The component.
struct WatchTransform {
    /// `None` after the end.
    running: Option<(RunnerThread, FlowFeed)>,
    unwatched: Counter,
}

impl WatchTransform {
    fn open(
        options: &WatchTransformOptions,
        corrections: Corrections,
        counters: &Counters,
        notices: &Notices,
    ) -> Result<Self, WatchError> {
        let archive = options.archive.as_deref();
        let mut runner_options = RunnerOptions::new(archive.unwrap_or(Path::new("")));
        runner_options.journal = Some(options.journal.clone());
        runner_options.standing.corrections = Arc::new(corrections);
        runner_options.standing.window_octets_max = options.memory_max.bytes();
        let waits = options.when_full == WhenFull::Wait;
        let (mut runner, feed) = Runner::start_fed(&runner_options, archive, options.rows_waiting_max, waits)?;
        let said_to = notices.clone();
        let mut loaded = LoadedFiles::new(options.journal.clone(), true, move |line| said_to.send(line));
        if let Err(error) = loaded.refresh(&mut runner, &options.watches) {
            drop(feed);
            // watches that were begun have the journal until they end; the first error is the one to tell
            let _ = runner.end(|_| ());
            return Err(error);
        }
        runner.wait_joined();
        let published = PublishedCounts::new(counters);
        let (files, notices) = (options.watches.clone(), notices.clone());
        let thread = RunnerThread::start(AttendedRunner { runner, loaded, files, published, notices })?;
        Ok(Self { running: Some((thread, feed)), unwatched: counters.counter("rows_unwatched") })
    }
}

impl Transform for WatchTransform {
    fn take(&mut self, _input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError> {
        if let Some((_, feed)) = &self.running
            && !feed.send(&rows)
        {
            self.unwatched.add(rows.num_rows() as u64);
        }
        out.rows(rows);
        Ok(())
    }

    fn keeps_bursts(&self) -> bool {
        true
    }

    /// The last windows close, and are answered.
    fn finish(&mut self, _out: &mut Outlet) -> Result<(), ComponentError> {
        let Some((thread, feed)) = self.running.take() else { return Ok(()) };
        let Some(attended) = thread.end() else { return Ok(()) };
        drop(feed);
        attended.finish().map_err(|error| ComponentError::caused("the watches have ended", error))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use weir_reports::{Journal, Retention};

    use super::*;

    /// The action of the first watch has a thread that keeps the journal.
    #[test]
    fn a_file_that_is_wrong_leaves_the_journal_to_the_next() {
        let folder = tempfile::tempdir().expect("a folder");
        let [first, second, journal, sent] =
            ["a.toml", "b.toml", "journal", "sent"].map(|name| folder.path().join(name));
        let query = "SELECT count(*) AS flows FROM TUMBLE(flows, received, INTERVAL '1' SECOND)";
        let actions = format!("[[actions]]\nfile = '{}'\n", sent.display());
        fs::write(&first, format!("query = \"{query}\"\n{actions}")).expect("written");
        fs::write(&second, "query = 1").expect("written");
        let options = WatchTransformOptions {
            watches: vec![first, second],
            journal: journal.clone(),
            archive: None,
            rows_waiting_max: 1_000,
            when_full: WhenFull::Shed,
            memory_max: ByteSize::from_mib(1024),
            sampling_corrections: None,
        };
        let (counters, notices) = (Counters::new(), Notices::to(|_| ()));
        assert!(WatchTransform::open(&options, Corrections::default(), &counters, &notices).is_err());
        Journal::open(&journal, Retention::default()).expect("nobody has it any more");
    }
}
