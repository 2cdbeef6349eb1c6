//! A sink that counts rows and keeps none.

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::sum;
use arrow::datatypes::UInt64Type;
use weir_chain::{
    Built, Burst, ComponentContext, ComponentError, ComponentKind, Counter, NoOptions, ONE_INPUT, Opener, OptionError,
    Role, Sink,
};
use weir_flow::Column;

/// The kind `counter`.
pub const KIND: ComponentKind<NoOptions> = ComponentKind {
    name: "counter",
    role: Role::Sink,
    inputs: ONE_INPUT,
    doc: "Counts rows and keeps none: the end of a chain that only measures. It takes rows of any columns. Counts \
          `rows`, and the sums of the columns `packets` and `bytes` where rows have them as 64-bit counters; a null \
          counts as 0, and sums are modulo 2^64. Books are not counted.",
    configure,
};

#[expect(clippy::unnecessary_wraps, reason = "other kinds have options that may be wrong")]
fn configure(_options: NoOptions) -> Result<Opener, OptionError> {
    Ok(Box::new(|context: &ComponentContext| {
        let [rows, packets, bytes] = ["rows", "packets", "bytes"].map(|name| context.counters.counter(name));
        Ok(Built::Sink(Box::new(Count { rows, packets, bytes })))
    }))
}

#[derive(Debug)]
struct Count {
    rows: Counter,
    packets: Counter,
    bytes: Counter,
}

/// Sum of a counter column; 0 when there is none.
fn total(rows: &RecordBatch, column: Column) -> u64 {
    let values = rows.column_by_name(column.name()).and_then(|values| values.as_primitive_opt::<UInt64Type>());
    values.and_then(sum).unwrap_or(0)
}

impl Sink for Count {
    fn take(&mut self, burst: Burst) -> Result<(), ComponentError> {
        self.rows.add(burst.len() as u64);
        self.packets.add(total(burst.rows(), Column::Packets));
        self.bytes.add(total(burst.rows(), Column::Bytes));
        Ok(())
    }

    fn finish(&mut self) -> Result<(), ComponentError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, UInt64Array};
    use weir_chain::compliance;

    use super::*;

    #[test]
    fn compliance_and_sums() {
        let numbers: ArrayRef = Arc::new(UInt64Array::from(vec![Some(1), None, Some(u64::MAX), Some(40)]));
        let signed: ArrayRef = Arc::new(Int64Array::from(vec![7; 4]));
        let flows = RecordBatch::try_from_iter([("packets", Arc::clone(&numbers)), ("bytes", numbers)]);
        let others = RecordBatch::try_from_iter([("bytes", signed)]);
        let batches = [flows.expect("a batch"), others.expect("a batch")];
        for burst_rows in [1, 3, 100] {
            let counted = compliance::sink(&KIND, "", &batches, burst_rows);
            assert_eq!(counted, [("rows", 8), ("packets", 40), ("bytes", 40)]);
        }
    }
}
