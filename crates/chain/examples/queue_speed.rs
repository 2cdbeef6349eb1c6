//! What a queue between two threads costs: `cargo run --release -p weir-chain --example queue_speed`.
//!
//! A source hands on the same batch of 11 columns again and again, a sink counts its rows: first in one thread, then in
//! two, with bursts of 1 to 10,000 rows. The difference of processor time, both threads together, is what cutting,
//! queueing and waking up cost.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use weir_chain::config::{QUEUE_BURSTS, ThreadChoice};
use weir_chain::{
    Built, Burst, Chain, ComponentError, ComponentKind, NoOptions, ONE_INPUT, Outlet, PullResult, Role, Sink, Source,
    options,
};

/// The allocator of the `weir` command: columns made in one thread are freed in another.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const BATCH_ROWS: usize = 8192;
const COLUMNS: usize = 11;

struct Again {
    batch: RecordBatch,
    left: u64,
}

impl Source for Again {
    fn pull(&mut self, out: &mut Outlet) -> Result<PullResult, ComponentError> {
        if self.left == 0 {
            return Ok(PullResult::Ended);
        }
        self.left -= 1;
        out.rows(self.batch.clone());
        Ok(PullResult::More)
    }

    fn stop(&mut self) {
        self.left = 0;
    }
}

struct Nothing;

impl Sink for Nothing {
    fn take(&mut self, _burst: Burst) -> Result<(), ComponentError> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ComponentError> {
        Ok(())
    }
}

options! {
    /// Options of [`AGAIN`].
    pub struct AgainOptions {
        /// How often.
        batches: u64 => 0..=1 << 40,
    }
}

const AGAIN: ComponentKind<AgainOptions> = ComponentKind {
    name: "again",
    role: Role::Source,
    inputs: &[],
    doc: "The same batch again and again.",
    configure: |options| {
        Ok(Box::new(move |_| {
            let fields: Vec<_> = (0..COLUMNS).map(|n| Field::new(format!("c{n}"), DataType::UInt64, false)).collect();
            let column: ArrayRef = Arc::new(UInt64Array::from_iter_values(0..BATCH_ROWS as u64));
            let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), vec![column; COLUMNS])
                .map_err(|error| ComponentError::caused("cannot make a batch", error))?;
            Ok(Built::Source(Box::new(Again { batch, left: options.batches })))
        }))
    },
};

const NOTHING: ComponentKind<NoOptions> = ComponentKind {
    name: "nothing",
    role: Role::Sink,
    inputs: ONE_INPUT,
    doc: "Drops everything.",
    configure: |_| Ok(Box::new(|_| Ok(Built::Sink(Box::new(Nothing))))),
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{:>8} {:>8} {:>12} {:>14} {:>12}", "burst", "threads", "rows", "cpu ns/burst", "cpu ns/row");
    for (thread, burst, rows) in [
        (ThreadChoice::Upstream, 0, 40_000_000_000),
        (ThreadChoice::Own, 1, 4_000_000),
        (ThreadChoice::Own, 10, 40_000_000),
        (ThreadChoice::Own, 100, 400_000_000),
        (ThreadChoice::Own, 512, 2_000_000_000),
        (ThreadChoice::Own, 2048, 8_000_000_000),
        (ThreadChoice::Own, 10_000, 8_000_000_000_u64),
    ] {
        let batches = rows / BATCH_ROWS as u64;
        let chain = Chain::builder("queue speed")
            .queues(burst, QUEUE_BURSTS)
            .add("a", &AGAIN, AgainOptions { batches }, &[], ThreadChoice::Default)
            .add("b", &NOTHING, NoOptions {}, &["a"], thread)
            .build()
            .map_err(|errors| errors[0].clone())?;
        let (progress, ended) = chain.start()?.wait();
        ended?;
        let cpu: f64 = progress.threads.iter().map(|thread| thread.cpu.as_secs_f64()).sum();
        let (bursts, rows) = (progress.components[1].bursts_in, progress.components[1].rows_in);
        let ns = |count: u64| cpu * 1e9 / count as f64;
        println!("{burst:>8} {:>8} {rows:>12} {:>14.1} {:>12.3}", progress.threads.len(), ns(bursts), ns(rows));
    }
    Ok(())
}
