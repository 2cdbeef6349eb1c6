//! Hands on flows that programs push into this process, with lines of the books that account for them.
//!
//! There are no datagrams behind such flows, so the books have one count for them: what was stored, for each exporter and minute.
//! If the sender waits, a receipt goes with each batch to the sink that stores its flows.
//! The queue belongs to the server that answers the programs (see [`weir_collect::intake`]); this source takes from it.

use std::sync::Arc;
use std::time::Duration;

use weir_chain::{
    Built, Burst, ComponentContext, ComponentError, ComponentKind, Counter, NoOptions, Opener, OptionError, Outlet,
    PullResult, Role, Source,
};
use weir_collect::intake::{self, Intake, NextPush};
use weir_flow::books::stored_rows;
use weir_flow::{BooksBatch, Delivery, FlowBatch, SideTables};

use crate::reception::Reception;

/// Flows that are pushed.
pub const KIND: ComponentKind<NoOptions> = ComponentKind {
    name: "ingest",
    role: Role::Source,
    inputs: &[],
    doc: "Hands on flows that programs push over HTTP into the process that it runs in, in the order in which they were \
          taken. Only weir serve takes any, with the section ingest of its configuration; elsewhere the chain does not \
          begin. With the flows come lines of the books that count them as stored. It counts records_stored, pushes_taken, \
          pushes_full (refused because the queue was full, or the chain ended), pushes_bad (refused because something was \
          wrong with them) and times_replaced (times of reception that cannot be, or that are of more than 1000 days in \
          one push: they are replaced by the present).",
    configure,
};

/// How long one call may take.
const WAIT: Duration = Duration::from_millis(100);

#[expect(clippy::unnecessary_wraps, reason = "every kind is configured by a function of this type")]
fn configure(_: NoOptions) -> Result<Opener, OptionError> {
    Ok(Box::new(|context: &ComponentContext| {
        let intake = intake::offered().ok_or_else(|| {
            ComponentError::new(
                "nothing in this process takes flows over HTTP\n\
                 hint: weir serve does, with the section [ingest] in its configuration",
            )
        })?;
        let counter = |name| context.counters.counter(name);
        Ok(Built::Source(Box::new(Ingest {
            intake,
            stored: counter("records_stored"),
            taken: counter("pushes_taken"),
            full: counter("pushes_full"),
            bad: counter("pushes_bad"),
            context: context.clone(),
        })))
    }))
}

struct Ingest {
    intake: Arc<Intake>,
    stored: Counter,
    taken: Counter,
    full: Counter,
    bad: Counter,
    context: ComponentContext,
}

impl Ingest {
    fn count(&self) {
        let counts = self.intake.counts();
        let pairs = [(&self.taken, counts.taken()), (&self.full, counts.full()), (&self.bad, counts.bad())];
        for (counter, count) in pairs {
            counter.add(count.saturating_sub(counter.get()));
        }
    }
}

impl Source for Ingest {
    fn pull(&mut self, out: &mut Outlet) -> Result<PullResult, ComponentError> {
        let taken = self.intake.take(WAIT);
        self.count();
        let (pushed, receipts) = match taken {
            NextPush::Flows(flows, receipts) => (flows, receipts),
            NextPush::Nothing => return Ok(PullResult::Nothing),
            NextPush::Ended => return Ok(PullResult::Ended),
        };
        // the present is that of each push, and its days are judged by themselves
        let mut reception = Reception::new(&self.context);
        let mut receipts = receipts.into_iter();
        for flows in pushed {
            let flows = reception.judged_flows(flows);
            self.stored.add(flows.rows() as u64);
            let books = Some(BooksBatch::from_rows(&stored_rows(&flows)));
            let receipts = receipts.next().into_iter().collect();
            let side_tables = SideTables { books, receipts, ..SideTables::default() };
            out.burst(Burst::from(Delivery { flows: Some(flows), side_tables }));
        }
        Ok(PullResult::More)
    }

    fn stop(&mut self) {
        self.intake.close();
    }
}

impl Drop for Ingest {
    /// A chain that failed takes no more pushes. Those in the queue are dropped with their receipts, so that their senders learn at
    /// once that the flows are not stored.
    fn drop(&mut self) {
        self.intake.close();
        let mut dropped = 0;
        while let NextPush::Flows(pushed, _) = self.intake.take(Duration::ZERO) {
            dropped += pushed.iter().map(FlowBatch::rows).sum::<usize>();
        }
        if dropped > 0 {
            tracing::warn!("{dropped} flows that were pushed are not kept: the chain has ended before it took them");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use weir_chain::{AnyKind, compliance};
    use weir_flow::{Column, FlowBatchBuilder, Receipt};

    use super::*;

    const INGEST: &'static dyn AnyKind = &KIND;

    /// There is one intake in a process, so this is one test.
    #[test]
    fn complies_and_hands_on_what_was_pushed() {
        let closed = Arc::new(Intake::new(1 << 20));
        closed.close();
        intake::offer(closed);
        assert!(compliance::source(INGEST, "").is_empty());
        let intake = Arc::new(Intake::new(1 << 20));
        intake::offer(Arc::clone(&intake));
        let (Built::Source(mut source), context) = compliance::open(INGEST, "") else { panic!("no source") };
        let mut out = Outlet::new();
        assert_eq!(source.pull(&mut out).expect("nothing"), PullResult::Nothing);
        // 2025-06-01T00:00:00Z by `date -d`, and a time that cannot be one of reception
        let times = [1_748_736_000_000, -1];
        let mut builder = FlowBatchBuilder::new(times.len());
        builder.begin_rows(times.len());
        builder.time(Column::Received).extend(times.into_iter());
        let receipt = Receipt::new(|_| ());
        intake.push_with(vec![builder.finish()], vec![receipt.clone()], 100).expect("there is room");
        source.stop();
        assert_eq!(source.pull(&mut out).expect("flows"), PullResult::More);
        let bursts: Vec<Burst> = out.drain().collect();
        assert_eq!(bursts.iter().map(Burst::len).sum::<usize>(), 2);
        let books = bursts[0].side_tables().books.as_ref().expect("books");
        assert_eq!(books.record_batch().num_rows(), 2, "two minutes of one exporter");
        assert_eq!(bursts[0].side_tables().receipts, [receipt]);
        assert_eq!(source.pull(&mut out).expect("the end"), PullResult::Ended);
        assert!(intake.push(Vec::new(), 1).is_err(), "it is closed");
        assert_eq!(source.pull(&mut out).expect("the end"), PullResult::Ended);
        let counted = ["records_stored", "pushes_taken", "pushes_full", "times_replaced"];
        assert_eq!(counted.map(|name| context.counters.counter(name).get()), [2, 1, 1, 1]);
        a_chain_that_fails_keeps_no_sender_waiting();
    }

    fn a_chain_that_fails_keeps_no_sender_waiting() {
        let intake = Arc::new(Intake::new(1 << 20));
        intake::offer(Arc::clone(&intake));
        let (Built::Source(source), _) = compliance::open(INGEST, "") else { panic!("no source") };
        let (sender, told) = mpsc::channel();
        let receipt = Receipt::new(move |kept| {
            let _ = sender.send(kept);
        });
        let mut builder = FlowBatchBuilder::new(1);
        builder.begin_rows(1);
        builder.time(Column::Received).push(Some(1_748_736_000_000));
        intake.push_with(vec![builder.finish()], vec![receipt], 100).expect("there is room");
        assert_eq!(told.try_recv(), Err(mpsc::TryRecvError::Empty));
        drop(source);
        assert_eq!(told.try_recv(), Err(mpsc::TryRecvError::Disconnected), "nobody keeps the flows");
        assert_eq!(intake.take(Duration::ZERO), NextPush::Ended);
    }
}
