//! Stores flows in Cassandra, by way of an archive that keeps them until the cluster has them.
//!
//! The archive is that of the sink `archive`, and so are its guarantees: when a burst is taken it is in the archive. A
//! forwarder in a thread of its own hands it on. What speaks against it is that each flow is written to the local disk
//! too; it is what makes a cluster that is away cost nothing but room there.

use std::path::PathBuf;
use std::time::Duration;

use weir_blocks::sinks::archive::{self, ArchiveSinkOptions, RetentionOptions};
use weir_chain::{
    Built, Burst, ByteSize, ComponentContext, ComponentError, ComponentKind, Counter, Counters, ONE_INPUT, Opener,
    OptionError, Role, Sink, State, StopSignal, TimeSpan, options,
};
use weir_forward::{ForwardCounts, ForwardOptions, ForwardThread};

use crate::{CassandraOptions, CassandraStore};

/// Writes to a cluster.
pub const KIND: ComponentKind<CassandraSinkOptions> = ComponentKind {
    name: "cassandra",
    role: Role::Sink,
    inputs: ONE_INPUT,
    doc: "Stores flows in Cassandra. They go to an archive on the local disk first, the spool, and from there to the cluster; \
          while it is away they stay in the spool, and are stored when it is back, also after a restart. When the spool has \
          reached its size, the oldest flows are removed, stored or not. The keys of flows make storing one again change \
          nothing. A cluster that refuses what it gets (a wrong password, tables of a newer version) is tried again each \
          minute, which is logged, and flows stay in the spool; at the end it is an error. The columns of its rows must be \
          columns of flows; rows that lack received get it from their end. At the end \
          of its input it waits until everything is stored; when the chain is stopped, for 5 s. It counts rows_spooled (those \
          in the spool), rows_forwarded (those that the cluster has acknowledged), rows_refused (those that it can never \
          take), rows_lost and deliveries_lost (removed from the spool before they were stored), forward_failures and \
          forward_retries.",
    configure,
};

options! {
    /// Options of the sink `cassandra`.
    pub struct CassandraSinkOptions {
        /// Folder of the spool, an archive; made when missing.
        spool: PathBuf,
        /// Remove the oldest flows from the spool when it has this size, stored or not.
        spool_size: ByteSize = ByteSize::from_mib(10 * 1024) => 1..=u64::MAX >> 1,
        /// Remove flows of this age from the spool, stored or not; without it none.
        spool_age: Option<TimeSpan>,
        /// Keep the position in the spool under this name.
        name: String = String::from("cassandra"),
    }
    includes {
        /// The cluster.
        cassandra: CassandraOptions,
    }
}

/// How long it waits after a refusal. To end for one would end what is measured, which no later run can make good.
const REFUSED_PAUSE: Duration = Duration::from_mins(1);

fn configure(options: CassandraSinkOptions) -> Result<Opener, OptionError> {
    options.cassandra.check()?;
    let retention = RetentionOptions {
        max_age: options.spool_age,
        max_size: Some(options.spool_size),
        ..RetentionOptions::default()
    };
    let spool = ArchiveSinkOptions { archive: options.spool.clone(), retention, ..ArchiveSinkOptions::default() };
    let open_archive = (archive::KIND.configure)(spool)?;
    Ok(Box::new(move |context| Ok(Built::Sink(Box::new(CassandraSink::open(options, open_archive, context)?)))))
}

struct CassandraSink {
    /// `None` once it has ended. It goes before the spool that it reads, which may be removed with it.
    forwarding: Option<ForwardThread>,
    spool: Box<dyn Sink>,
    spool_counters: Counters,
    stop: StopSignal,
    rows_spooled: Counter,
    counted: Vec<(Counter, Counted)>,
    begun: ForwardCounts,
}

/// How a count is had from those of a forwarder.
type Counted = fn(&ForwardCounts) -> u64;

impl CassandraSink {
    fn open(
        options: CassandraSinkOptions,
        open_archive: Opener,
        context: &ComponentContext,
    ) -> Result<Self, ComponentError> {
        let spool_counters = Counters::new();
        let inner = ComponentContext { counters: spool_counters.clone(), ..context.clone() };
        let Built::Sink(spool) = open_archive(&inner)? else {
            return Err(ComponentError::new("the archive is no sink"));
        };
        let failed = |error| ComponentError::caused("cannot store flows in Cassandra", error);
        let store = CassandraStore::new(options.cassandra).map_err(failed)?;
        let forward = ForwardOptions {
            name: options.name,
            retry_refused_after: Some(REFUSED_PAUSE),
            ..ForwardOptions::default()
        };
        let forwarding = ForwardThread::start(&options.spool, forward, store)
            .map_err(|error| ComponentError::caused("cannot forward the spool", error))?;
        let counter = |name| context.counters.counter(name);
        let counted: Vec<(Counter, Counted)> = vec![
            (counter("rows_forwarded"), |counts| counts.rows_forwarded),
            (counter("rows_refused"), |counts| counts.rows_refused),
            (counter("rows_lost"), |counts| counts.rows_lost),
            (counter("deliveries_lost"), |counts| counts.deliveries_lost),
            (counter("forward_failures"), |counts| counts.failures),
            (counter("forward_retries"), |counts| counts.retries),
        ];
        Ok(Self {
            spool,
            spool_counters,
            begun: forwarding.begun(),
            forwarding: Some(forwarding),
            stop: context.stop.clone(),
            rows_spooled: counter("rows_spooled"),
            counted,
        })
    }

    /// Counters of a component are of this run, those of the forwarder of all runs.
    fn count(&self, counts: &ForwardCounts) {
        for (counter, of) in &self.counted {
            counter.add(of(counts).saturating_sub(of(&self.begun)).saturating_sub(counter.get()));
        }
        let spooled = self.spool_counters.read().into_iter().find(|(name, _)| *name == "rows_stored");
        let spooled = spooled.map_or(0, |(_, count)| count);
        self.rows_spooled.add(spooled.saturating_sub(self.rows_spooled.get()));
    }

    /// Ends forwarding when everything is stored, or the chain is to stop.
    fn end_forwarding(&mut self) -> Result<(), ComponentError> {
        let Some(forwarding) = self.forwarding.take() else { return Ok(()) };
        let stop = self.stop.clone();
        let counts = forwarding.end(move || stop.is_set());
        let counts = counts.map_err(|error| {
            ComponentError::caused("flows wait in the spool, as storing them in Cassandra has ended", error)
        })?;
        self.count(&counts);
        if counts.deliveries_waiting > 0 {
            tracing::warn!(
                "{} deliveries wait in the spool; they are stored when the chain runs again",
                counts.deliveries_waiting
            );
        }
        Ok(())
    }
}

impl Sink for CassandraSink {
    fn take(&mut self, burst: Burst) -> Result<(), ComponentError> {
        self.spool.take(burst)
    }

    fn finish(&mut self) -> Result<(), ComponentError> {
        // while the archive is open, what was appended last comes from memory
        let forwarded = self.end_forwarding();
        self.spool.finish().and(forwarded)
    }

    fn tick(&mut self) -> Result<(), ComponentError> {
        self.spool.tick()?;
        match &self.forwarding {
            Some(forwarding) if forwarding.has_ended() => self.end_forwarding(),
            Some(forwarding) => {
                self.count(&forwarding.counts());
                Ok(())
            }
            None => Ok(()),
        }
    }

    fn state(&self) -> State {
        self.spool.state()
    }
}

#[cfg(test)]
mod tests;
