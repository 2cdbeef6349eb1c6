//! Flows that are handed on, as columns.

use std::sync::Arc;

use arrow::array::{ArrayRef, PrimitiveArray, RecordBatch, TimestampMillisecondArray};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{ArrowPrimitiveType, Schema, SchemaRef, UInt16Type, UInt64Type};
use weir_chain::ComponentError;
use weir_flow::Column;
use weir_flow::schema::field;

use super::records::{HAS_BYTES, HAS_BYTES_REVERSE, HAS_PACKETS, HAS_PACKETS_REVERSE, HAS_TCP_FLAGS};
use super::table::{FlowTable, REVERSED};
use weir_rows::keys::FlowKeys;

/// Columns that every joined flow has beside its key.
pub(super) const JOINED: [Column; 8] = [
    Column::Start,
    Column::End,
    Column::TcpFlags,
    Column::Packets,
    Column::Bytes,
    Column::PacketsReverse,
    Column::BytesReverse,
    Column::Flows,
];

/// Makes batches of flows.
#[derive(Debug, Default)]
pub(super) struct Output {
    /// The schema of the last batch, shared by those that have the same.
    schema: Option<(Vec<Column>, SchemaRef)>,
}

impl Output {
    /// The flows in these places. Counters of the opposite direction are left out while no flow ever had any, unless
    /// `with_reverse`.
    pub(super) fn batch(
        &mut self,
        table: &FlowTable,
        keys: &FlowKeys,
        places: &[u32],
        with_reverse: bool,
    ) -> Result<RecordBatch, ComponentError> {
        let mut key_rows = keys.key_rows(places.len());
        let mut bits: Vec<u16> = Vec::with_capacity(places.len());
        let mut times: Vec<[i64; 2]> = Vec::with_capacity(places.len());
        let mut counts: Vec<[u64; 3]> = Vec::with_capacity(places.len());
        let mut tcp_flags: Vec<u16> = Vec::with_capacity(places.len());
        for &place in places {
            let flow = &table.flows[place as usize];
            let words = if flow.key.is_wide() { table.wide.of(place as usize) } else { &[] };
            key_rows.push(flow.key, words, flow.bits & REVERSED != 0);
            bits.push(flow.bits);
            times.push([flow.start, flow.end]);
            counts.push([flow.packets, flow.bytes, flow.flows.into()]);
            tcp_flags.push(flow.tcp_flags);
        }
        let mut columns = keys.columns(&key_rows);
        columns.extend(table.kept.columns(places));
        let time = |at: usize| -> ArrayRef {
            let values: Vec<i64> = times.iter().map(|times| times[at]).collect();
            Arc::new(TimestampMillisecondArray::new(values.into(), None).with_timezone("UTC"))
        };
        let count = |at: usize| counts.iter().map(|counts| counts[at]).collect::<Vec<u64>>();
        columns.extend([
            (Column::Start, time(0)),
            (Column::End, time(1)),
            (Column::TcpFlags, numbers::<UInt16Type>(tcp_flags, &bits, HAS_TCP_FLAGS)),
            (Column::Packets, numbers::<UInt64Type>(count(0), &bits, HAS_PACKETS)),
            (Column::Bytes, numbers::<UInt64Type>(count(1), &bits, HAS_BYTES)),
            (Column::Flows, numbers::<UInt64Type>(count(2), &bits, 0)),
        ]);
        if with_reverse || !table.reverse.is_empty() {
            let reverse = |at: usize| {
                let value = |&place: &u32| table.reverse.get(place as usize).map_or(0, |reverse| reverse[at]);
                places.iter().map(value).collect::<Vec<u64>>()
            };
            columns.extend([
                (Column::PacketsReverse, numbers::<UInt64Type>(reverse(0), &bits, HAS_PACKETS_REVERSE)),
                (Column::BytesReverse, numbers::<UInt64Type>(reverse(1), &bits, HAS_BYTES_REVERSE)),
            ]);
        }
        self.assemble(columns)
    }

    fn assemble(&mut self, mut columns: Vec<(Column, ArrayRef)>) -> Result<RecordBatch, ComponentError> {
        columns.sort_by_key(|(column, _)| *column);
        let (names, arrays): (Vec<Column>, Vec<ArrayRef>) = columns.into_iter().unzip();
        let known = self.schema.take().filter(|(known, _)| *known == names);
        let (names, schema) = known.unwrap_or_else(|| {
            let schema = Schema::new(names.iter().map(|&column| field(column)).collect::<Vec<_>>());
            (names, Arc::new(schema))
        });
        self.schema = Some((names, Arc::clone(&schema)));
        RecordBatch::try_new(schema, arrays)
            .map_err(|error| ComponentError::caused("cannot hand on joined flows", error))
    }
}

/// Values that are there when their bit is set; with no bit all are.
fn numbers<T: ArrowPrimitiveType>(values: Vec<T::Native>, bits: &[u16], bit: u16) -> ArrayRef {
    let nulls = if bits.iter().all(|bits| bits & bit == bit) {
        None
    } else {
        Some(NullBuffer::new(BooleanBuffer::collect_bool(bits.len(), |row| bits[row] & bit != 0)))
    };
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls))
}
