//! A program with a component of its own: `cargo run -p weir-blocks --example own_component`.
//!
//! The tutorial (docs/tutorials/add-a-component.md) goes through it. The component keeps flows that were fast; the chain counts
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

#[expect(clippy::needless_pass_by_value, reason = "what every kind has")]
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
        // A flow column that is null in every row may be missing; then every flow lacks a value, and none is fast.
        let column = |name| rows.column_by_name(name);
        let (Some(starts), Some(ends), Some(bytes)) = (column("start"), column("end"), column("bytes")) else {
            return Ok(());
        };
        let starts = starts.as_primitive::<TimestampMillisecondType>();
        let ends = ends.as_primitive::<TimestampMillisecondType>();
        let bytes = bytes.as_primitive::<UInt64Type>();
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

#[cfg(test)]
mod tests {
    use weir_chain::compliance;
    use weir_flow::{Column, FlowBatchBuilder};

    use super::*;

    /// Flows of one second each.
    fn rows(octets: &[u64]) -> RecordBatch {
        let mut builder = FlowBatchBuilder::new(octets.len());
        for (at, octets) in octets.iter().enumerate() {
            builder.begin_rows(1);
            builder.time(Column::Start).push(Some(1000 * at as i64));
            builder.time(Column::End).push(Some(1000 * at as i64 + 1000));
            builder.u64(Column::Bytes).push(Some(*octets));
        }
        builder.finish().record_batch().clone()
    }

    #[test]
    fn complies() {
        let outcome = compliance::transform(&FAST, "bits_per_second = 8000", &[vec![rows(&[999, 1000, 1001, 5])]]);
        assert_eq!(outcome.len(), 2);
    }
}
