//! A program with a component of its own: `cargo run -p weir-blocks --example own_block`.
//!
//! The tutorial (docs/tutorial/add-a-block.md) goes through it. The component keeps flows that were fast; the chain counts
//! how many of a hundred thousand generated flows those are.

use std::path::Path;

use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{TimestampMillisecondType, UInt64Type};
use weir_chain::{
    Built, Chain, ComponentError, ComponentKind, ONE_INPUT, Opener, OptionError, Outlet, Role, Transform, options,
};

/// The kind, as chain files know it.
const FAST: ComponentKind<FastOptions> = ComponentKind {
    name: "fast",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Keeps flows whose mean rate is at least `bits_per_second`. It needs `start`, `end` and `bytes`; a flow that \
          lacks one of them, or lasted no time, is dropped. No rows are held.",
    configure,
};

options! {
    /// Options of `fast`.
    pub struct FastOptions {
        /// Keep flows of at least this rate.
        bits_per_second: u64 = 1_000_000 => 1..=1 << 50,
    }
}

fn configure(options: FastOptions) -> Result<Opener, OptionError> {
    let FastOptions { bits_per_second } = options;
    if !bits_per_second.is_multiple_of(1000) {
        return Err(OptionError::new("bits_per_second", "'bits_per_second' is no multiple of 1000"));
    }
    Ok(Box::new(move |_| Ok(Built::Transform(Box::new(Fast { bits_per_second })))))
}

struct Fast {
    bits_per_second: u64,
}

impl Transform for Fast {
    fn take(&mut self, _input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError> {
        let column = |name| rows.column_by_name(name).ok_or_else(|| ComponentError::missing_column(name, &rows));
        let starts = column("start")?.as_primitive::<TimestampMillisecondType>();
        let ends = column("end")?.as_primitive::<TimestampMillisecondType>();
        let bytes = column("bytes")?.as_primitive::<UInt64Type>();
        let fast: BooleanArray = starts
            .iter()
            .zip(ends)
            .zip(bytes)
            .map(|((start, end), bytes)| {
                let millis = u64::try_from(end?.checked_sub(start?)?).ok().filter(|&millis| millis > 0)?;
                Some(bytes?.saturating_mul(8000) / millis >= self.bits_per_second)
            })
            .collect();
        let kept = filter_record_batch(&rows, &fast).map_err(|error| ComponentError::caused("cannot filter", error))?;
        out.rows(kept);
        Ok(())
    }
}

const CHAIN: &str = r#"
name = "fast flows"

[components.flows]
type = "generator"
records = 100000

[components.fast]
type = "fast"
inputs = ["flows"]
bits_per_second = 10_000_000
thread = "own"

[components.count]
type = "counter"
inputs = ["fast"]
"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut registry = weir_blocks::registry();
    registry.add(&FAST);
    let chain = Chain::parse(CHAIN, Path::new(""), &registry, &[]).map_err(|errors| errors[0].clone())?;
    let (progress, ended) = chain.start()?.wait();
    print!("{}", progress.table(None));
    Ok(ended?)
}
