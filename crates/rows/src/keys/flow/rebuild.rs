//! From keys back to columns.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, PrimitiveArray};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow::datatypes::{ArrowPrimitiveType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_flow::{Column, ColumnType};

use super::{
    ADDRESS_WORDS, DST_CLASS_SHIFT, DST_PORT_SHIFT, DST_SHIFT, Extra, FOUR, FlowKey, FlowKeys, HAS_DST_PORT,
    HAS_PROTOCOL, HAS_SRC_PORT, PROTOCOL_SHIFT, SIXTEEN, SRC_CLASS_SHIFT, SRC_PORT_SHIFT, WideWords, reverse_words,
};

/// Keys of rows that are to be handed on.
#[derive(Debug)]
pub struct KeyRows {
    keys: Vec<FlowKey>,
    wide: WideWords,
}

impl KeyRows {
    /// Appends a key. Its further words are read only when it has some. When it is `reversed`, source and destination
    /// change places.
    #[inline]
    pub fn push(&mut self, mut key: FlowKey, words: &[u64], reversed: bool) {
        let row = self.keys.len();
        if key.is_wide() {
            let target = self.wide.of_mut(row);
            target.copy_from_slice(words);
            if reversed {
                reverse_words(&mut target[..ADDRESS_WORDS]);
            }
        }
        if reversed {
            key.reverse();
        }
        self.keys.push(key);
    }
}

impl FlowKeys {
    /// Rows for keys of this kind.
    pub fn key_rows(&self, capacity: usize) -> KeyRows {
        KeyRows { keys: Vec::with_capacity(capacity), wide: WideWords::new(self.words) }
    }

    /// The columns of keys, in the order of their table.
    pub fn columns(&self, rows: &KeyRows) -> Vec<(Column, ArrayRef)> {
        self.by.iter().map(|&column| (column, self.column(rows, column))).collect()
    }

    fn column(&self, rows: &KeyRows, column: Column) -> ArrayRef {
        match column {
            Column::SrcAddr => addresses(rows, 0, SRC_CLASS_SHIFT, |words| (words[0], words[2], words[3])),
            Column::DstAddr => {
                addresses(rows, DST_SHIFT, DST_CLASS_SHIFT, |words| (words[1], words[2] >> 32, words[3] >> 8))
            }
            Column::SrcPort => numbers::<UInt16Type>(rows, HAS_SRC_PORT, |key| key.bits(SRC_PORT_SHIFT, 16) as u16),
            Column::DstPort => numbers::<UInt16Type>(rows, HAS_DST_PORT, |key| key.bits(DST_PORT_SHIFT, 16) as u16),
            Column::Protocol => numbers::<UInt8Type>(rows, HAS_PROTOCOL, |key| key.bits(PROTOCOL_SHIFT, 8) as u8),
            _ => match self.extras.iter().find(|extra| extra.column == column) {
                Some(extra) => extras(rows, *extra),
                None => {
                    arrow::array::new_null_array(&weir_flow::schema::arrow_type(column.column_type()), rows.keys.len())
                }
            },
        }
    }
}

fn numbers<T: ArrowPrimitiveType>(rows: &KeyRows, has: u128, value: impl Fn(FlowKey) -> T::Native) -> ArrayRef {
    let values: Vec<T::Native> = rows.keys.iter().map(|&key| value(key)).collect();
    Arc::new(PrimitiveArray::<T>::new(values.into(), nulls(rows, |key| key.0 & has != 0)))
}

fn nulls(rows: &KeyRows, is_valid: impl Fn(FlowKey) -> bool) -> Option<NullBuffer> {
    if rows.keys.iter().all(|&key| is_valid(key)) {
        return None;
    }
    Some(NullBuffer::new(BooleanBuffer::collect_bool(rows.keys.len(), |row| is_valid(rows.keys[row]))))
}

/// `words` takes out of the further words the upper 64 bits, the next 32, and the length.
fn addresses(rows: &KeyRows, shift: u32, class_shift: u32, words: impl Fn(&[u64]) -> (u64, u64, u64)) -> ArrayRef {
    let nulls = nulls(rows, |key| key.bits(class_shift, 2) != 0);
    let lower = |key: FlowKey| key.bits(shift, 32) as u32;
    if rows.keys.iter().all(|key| key.bits(class_shift, 2) <= FOUR) {
        let octets: Vec<[u8; 4]> = rows.keys.iter().map(|&key| lower(key).to_be_bytes()).collect();
        let offsets = OffsetBuffer::from_repeated_length(4, octets.len());
        return Arc::new(BinaryArray::new(offsets, octets.into_flattened().into(), nulls));
    }
    let mut octets: Vec<u8> = Vec::with_capacity(rows.keys.len() * 16);
    let mut offsets: Vec<i32> = vec![0];
    for (row, &key) in rows.keys.iter().enumerate() {
        match key.bits(class_shift, 2) {
            0 => {}
            FOUR => octets.extend_from_slice(&lower(key).to_be_bytes()),
            class => {
                let (upper, middle, length) = words(rows.wide.of(row));
                let value = u128::from(upper) << 64 | u128::from(middle & 0xffff_ffff) << 32 | u128::from(lower(key));
                let length = if class == SIXTEEN { 16 } else { (length & 0xff) as usize };
                octets.extend_from_slice(&value.to_be_bytes()[..length]);
            }
        }
        offsets.push(octets.len() as i32);
    }
    Arc::new(BinaryArray::new(OffsetBuffer::new(offsets.into()), octets.into(), nulls))
}

fn extras(rows: &KeyRows, extra: Extra) -> ArrayRef {
    let words = (0..rows.keys.len()).map(|row| &rows.wide.of(row)[extra.word..]);
    let number = |words: &[u64]| (words[1] != 0).then_some(words[0]);
    match extra.column.column_type() {
        ColumnType::U8 => Arc::new(words.map(|w| Some(number(w)? as u8)).collect::<PrimitiveArray<UInt8Type>>()),
        ColumnType::U16 => Arc::new(words.map(|w| Some(number(w)? as u16)).collect::<PrimitiveArray<UInt16Type>>()),
        ColumnType::U32 => Arc::new(words.map(|w| Some(number(w)? as u32)).collect::<PrimitiveArray<UInt32Type>>()),
        ColumnType::U64 => Arc::new(words.map(number).collect::<PrimitiveArray<UInt64Type>>()),
        _ => {
            let octets = words.map(|words| {
                let value = u128::from(words[2]) << 64 | u128::from(words[1]);
                let length = words[0].checked_sub(1)? as usize;
                Some(value.to_be_bytes()[..length].to_vec())
            });
            Arc::new(octets.collect::<BinaryArray>())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::keys::FIVE_TUPLE;
    use crate::test_flows::{TestFlow, batch, flow, flows};

    fn by(columns: &[Column]) -> FlowKeys {
        FlowKeys::new(columns).expect("a key")
    }

    const WITH_EXTRAS: [Column; 7] = [
        Column::Exporter,
        Column::SrcAddr,
        Column::DstAddr,
        Column::SrcPort,
        Column::DstPort,
        Column::Protocol,
        Column::Tos,
    ];

    /// The flow as far as it belongs to the key.
    fn key_of(flow: &TestFlow, with_extras: bool) -> TestFlow {
        let (exporter, tos) = if with_extras { (flow.exporter.clone(), flow.tos) } else { (None, None) };
        TestFlow { key: flow.key.clone(), exporter, tos, ..TestFlow::default() }
    }

    proptest! {
        #[test]
        fn keys_are_equal_when_their_columns_are(
            first in proptest::collection::vec(flow(Just(Some(0))), 1..40),
            second in proptest::collection::vec(flow(Just(Some(0))), 1..40),
            with_extras in any::<bool>(),
        ) {
            let mut keys = by(if with_extras { &WITH_EXTRAS } else { &FIVE_TUPLE });
            // two batches, whose columns may be absent or of one length in one of them only
            let mut found = Vec::new();
            for rows in [&first, &second] {
                keys.encode(&batch(rows)).expect("keys");
                let all = keys.keys().iter().zip(keys.hashes()).enumerate();
                found.extend(all.map(|(row, (key, hash))| (*key, *hash, keys.wide().of(row).to_vec())));
            }
            let rows: Vec<TestFlow> = first.iter().chain(&second).map(|flow| key_of(flow, with_extras)).collect();
            let mut key_rows = keys.key_rows(0);
            for ((key, hash, words), row) in found.iter().zip(&rows) {
                for ((other, other_hash, other_words), other_row) in found.iter().zip(&rows) {
                    let equal = key == other && (!key.is_wide() || words == other_words);
                    prop_assert_eq!(equal, row == other_row);
                    prop_assert_eq!(hash == other_hash, equal);
                }
                key_rows.push(*key, words, false);
            }
            let columns = keys.columns(&key_rows);
            let rebuilt = weir_flow::FlowBatch::from_columns(rows.len(), columns).expect("flows");
            prop_assert_eq!(flows(rebuilt.record_batch()), rows);
        }

        #[test]
        fn both_directions_have_one_key(
            rows in proptest::collection::vec(flow(Just(Some(0))), 1..40),
            with_extras in any::<bool>(),
        ) {
            let mut keys = by(if with_extras { &WITH_EXTRAS } else { &FIVE_TUPLE });
            let rows: Vec<TestFlow> = rows.iter().map(|flow| key_of(flow, with_extras)).collect();
            let reversed = |flow: &TestFlow| TestFlow { key: flow.key.reversed(), ..flow.clone() };
            let both: Vec<TestFlow> = rows.iter().cloned().chain(rows.iter().map(reversed)).collect();
            keys.encode_normalised(&batch(&both)).expect("keys");
            let mut key_rows = keys.key_rows(0);
            for (row, flow) in both.iter().enumerate() {
                let other = (row + rows.len()) % both.len();
                prop_assert_eq!(keys.keys()[row], keys.keys()[other]);
                prop_assert_eq!(keys.hashes()[row], keys.hashes()[other]);
                prop_assert_eq!(keys.wide().of(row), keys.wide().of(other));
                let symmetric = flow.key == flow.key.reversed();
                prop_assert_eq!(keys.is_reversed(row) ^ keys.is_reversed(other), !symmetric);
                key_rows.push(keys.keys()[row], keys.wide().of(row), keys.is_reversed(row));
            }
            let rebuilt = weir_flow::FlowBatch::from_columns(both.len(), keys.columns(&key_rows)).expect("flows");
            prop_assert_eq!(flows(rebuilt.record_batch()), both);
        }
    }

    #[test]
    fn an_address_of_more_than_sixteen_octets_is_refused() {
        let mut flow = TestFlow::default();
        flow.key.dst_addr = Some(vec![1; 17]);
        let mut keys = by(&FIVE_TUPLE);
        keys.encode(&batch(&[flow, TestFlow::default()])).expect("keys");
        assert_eq!(keys.keys().iter().map(|key| key.is_refused()).collect::<Vec<_>>(), [true, false]);
    }

    #[test]
    fn an_absent_column_gives_the_same_hash_as_a_null() {
        let without = TestFlow::default();
        let with = TestFlow { tos: Some(1), ..TestFlow::default() };
        let mut keys = by(&WITH_EXTRAS);
        keys.encode(&batch(&[with, without.clone()])).expect("keys");
        let hash = keys.hashes()[1];
        keys.encode(&batch(&[without])).expect("keys");
        assert_eq!(keys.hashes(), [hash]);
    }

    #[test]
    fn a_time_is_no_part_of_a_key() {
        let error = FlowKeys::new(&[Column::SrcAddr, Column::Start]).expect_err("a time");
        assert_eq!(error.message, "'start' cannot be a part of the key");
    }
}
