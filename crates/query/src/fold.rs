//! Lists of flows of which each thread makes something of its own while it reads them.
//!
//! The batches of an [`Answer`](crate::Answer) come in order to one thread, which is too slow where as much is done with each
//! flow as decoding it costs. Here the threads that decode do that too, each into a state of its own, and the caller joins the
//! states. What speaks against it is that the order is lost: which flows one state has, and in which order it got them, depends
//! on threads.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::RecordBatch;

use crate::list::list_columns;
use crate::passes::decoder;
use crate::run::share_out_from;
use crate::scan::ScanSpec;
use crate::{Archive, FlowQuery, QueryError, Select};

impl Archive {
    /// Gives the flows of a list to states, batch by batch: each thread that reads has one, which `make` makes. Each flow is
    /// given once. Batches have the columns that are asked for in the order of the table; a column that is missing from a batch
    /// is null in all of its rows. The question must be a list in no order, without a limit.
    ///
    /// A state may take up to `state_octets`, which count to the memory of the question. Where there is not enough for a state of
    /// each thread, fewer threads read; one always does.
    ///
    /// Once `add` breaks, all threads end, and the answer is `None`. Its first error ends them as well.
    pub fn fold<S: Send>(
        &self,
        question: &FlowQuery,
        state_octets: usize,
        make: impl Fn() -> S + Sync,
        add: impl Fn(&mut S, &RecordBatch) -> Result<ControlFlow<()>, QueryError> + Sync,
    ) -> Result<Option<Vec<S>>, QueryError> {
        read_into_states(self, question, state_octets, make, add)
    }
}

/// As [`Archive::fold`].
fn read_into_states<S: Send>(
    archive: &Archive,
    question: &FlowQuery,
    state_octets: usize,
    make: impl Fn() -> S + Sync,
    add: impl Fn(&mut S, &RecordBatch) -> Result<ControlFlow<()>, QueryError> + Sync,
) -> Result<Option<Vec<S>>, QueryError> {
    let options = &archive.options;
    if options.approximate {
        return Err(QueryError::NotApproximate("a list of flows"));
    }
    let Select::List { columns, sorting: None, limit: None } = &question.select else {
        return Err(QueryError::NeedsEngine("reading other answers than lists of flows in threads"));
    };
    if question.scaled {
        return Err(QueryError::NeedsEngine("scaling by sampling intervals"));
    }
    let _admitted = archive.admitted()?;
    let wanted = ScanSpec::new(question, list_columns(columns).iter().copied());
    let scan = archive.flows(&question.window).scan(&wanted, options);
    let mut states = options.memory.reservation("states of threads");
    // the other way of reading, in one thread, has a state as well
    states.grow(state_octets);
    let others = 1..options.threads.min(scan.units_max());
    let threads = 1 + others.take_while(|_| states.try_grow(state_octets).is_ok()).count();
    let is_broken = AtomicBool::new(false);
    let make = || Ok((decoder()?, make(), options.memory.reservation("pages that are decoded")));
    let folded = share_out_from(
        threads,
        || scan.next_unit(),
        make,
        |(decoder, state, decoded), unit| {
            unit.read(decoder, |batch| {
                decoded.resize(batch.record_batch().get_array_memory_size());
                // another thread may have broken off within its unit
                if is_broken.load(Ordering::Relaxed) || add(state, batch.record_batch())?.is_break() {
                    is_broken.store(true, Ordering::Relaxed);
                    return Err(QueryError::Cancelled);
                }
                Ok(())
            })
        },
    );
    match folded {
        Err(QueryError::Cancelled) if is_broken.load(Ordering::Relaxed) && !options.progress.is_stopped() => Ok(None),
        folded => Ok(Some(folded?.into_iter().map(|(_, state, _)| state).collect())),
    }
}
