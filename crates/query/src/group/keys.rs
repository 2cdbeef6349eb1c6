//! What flows of one group agree in, as one number per flow.
//!
//! Keys of up to 128 bits, those of an IPv4 five-tuple among them, become a number: comparing and hashing it is one
//! step, and the columns of the answer are taken out of it again. Rows whose key has more bits (IPv6, or many columns)
//! become octets instead, in tables of their own.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, PrimitiveArray, StringArray, TimestampMillisecondArray,
};
use arrow::datatypes::{ArrowPrimitiveType, TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_filter::{AddressSet, Comparison, Operand, Predicate, Test, TextCondition};
use weir_flow::schema::field;
use weir_flow::{Column, ColumnType, FlowBatch, keep_prefix};

use crate::AggregateKey;

/// Bits of the number that a key may become.
const BITS_MAX: u32 = 128;
/// Stands for the length of a value that is null.
const NULL: u8 = 0xff;
/// Ends a text. Texts come in alphabetical order so.
const TEXT_END: u8 = 0;

/// One column of a key.
#[derive(Debug, Clone)]
pub(crate) struct KeyPart {
    /// Where the value comes from.
    pub(crate) from: AggregateKey,
    /// Name of the column in the answer.
    pub(crate) name: String,
}

impl KeyPart {
    /// The column whose type the values have.
    pub(crate) fn column(&self) -> Column {
        self.from.column()
    }

    /// Columns that are read.
    pub(crate) fn columns(&self) -> Vec<Column> {
        match self.from {
            AggregateKey::Column(column) | AggregateKey::Prefix { column, .. } => vec![column],
            AggregateKey::Network { column, mask } => vec![column, mask],
            AggregateKey::Element { .. } => vec![Column::Elements],
        }
    }

    /// Bits of a value, as far as it fits a number.
    fn bits(&self) -> u32 {
        match self.column().column_type() {
            ColumnType::U8 => 8,
            ColumnType::U16 => 16,
            ColumnType::U32 | ColumnType::Address => 32,
            ColumnType::Mac => 48,
            ColumnType::U64 | ColumnType::Time => 64,
            ColumnType::Octets | ColumnType::Text | ColumnType::Elements => BITS_MAX,
        }
    }

    /// Octets of a value that fits a number.
    fn octets(&self) -> Option<usize> {
        match self.column().column_type() {
            ColumnType::Address => Some(4),
            ColumnType::Mac => Some(6),
            _ => None,
        }
    }

    /// A test that the flows pass whose value is that of a row; `None` when there is no simple one.
    pub(crate) fn equals(&self, values: &ArrayRef, row: usize) -> Option<Predicate> {
        let AggregateKey::Column(column) = self.from else { return None };
        if values.is_null(row) {
            return None;
        }
        let number = |value| {
            Predicate::from(Test::Number { operand: Operand::Column(column), comparison: Comparison::Equal, value })
        };
        match column.column_type() {
            // the parser has an operand of its own for this one
            _ if column == Column::Flows => None,
            ColumnType::U8 => Some(number(u64::from(values.as_primitive::<UInt8Type>().value(row)))),
            ColumnType::U16 => Some(number(u64::from(values.as_primitive::<UInt16Type>().value(row)))),
            ColumnType::U32 => Some(number(u64::from(values.as_primitive::<UInt32Type>().value(row)))),
            ColumnType::Address => {
                let octets = values.as_binary::<i32>().value(row);
                let set = match (<[u8; 4]>::try_from(octets), <[u8; 16]>::try_from(octets)) {
                    (Ok(short), _) => AddressSet::from_ranges(
                        vec![(u32::from_be_bytes(short), u32::from_be_bytes(short))],
                        Vec::new(),
                    ),
                    (_, Ok(long)) => AddressSet::from_ranges(
                        Vec::new(),
                        vec![(u128::from_be_bytes(long), u128::from_be_bytes(long))],
                    ),
                    _ => return None,
                };
                Some(Predicate::from(Test::Address { column, set }))
            }
            ColumnType::Text => {
                let text = values.as_string::<i32>().value(row).to_owned();
                Some(Predicate::from(Test::Text { column, condition: TextCondition::Exactly(text) }))
            }
            _ => None,
        }
    }

    fn values(&self, batch: &FlowBatch) -> Option<ArrayRef> {
        match self.from {
            AggregateKey::Column(column) => batch.column(column).cloned(),
            AggregateKey::Prefix { column, v6, length } => {
                let addresses = batch.binary(column)?;
                let family = if v6 { 16 } else { 4 };
                let masked = masked(addresses, |_, address| (address.len() == family).then_some(length), true);
                Some(Arc::new(masked))
            }
            AggregateKey::Network { column, mask } => {
                let addresses = batch.binary(column)?;
                let masks = batch.primitive::<UInt8Type>(mask)?;
                let length = |row: usize, _: &[u8]| masks.is_valid(row).then(|| masks.value(row));
                Some(Arc::new(masked(addresses, length, false)))
            }
            // no grouping has such a key
            AggregateKey::Element { .. } => None,
        }
    }
}

/// Addresses of which only the first bits are kept; where there is no length, as they are or null.
fn masked(addresses: &BinaryArray, length: impl Fn(usize, &[u8]) -> Option<u8>, else_whole: bool) -> BinaryArray {
    let mut masked = BinaryBuilder::with_capacity(addresses.len(), addresses.value_data().len());
    for (row, address) in addresses.iter().enumerate() {
        let Some(address) = address else {
            masked.append_null();
            continue;
        };
        match length(row, address) {
            Some(bits) => {
                let mut kept = [0; 16];
                let octets = address.len().min(16);
                kept[..octets].copy_from_slice(&address[..octets]);
                keep_prefix(&mut kept[..octets], bits.into());
                masked.append_value(&kept[..octets]);
            }
            None if else_whole => masked.append_value(address),
            _ => masked.append_null(),
        }
    }
    masked.finish()
}

/// Keys of the rows of a batch.
pub(crate) struct Keys {
    /// One for each row, meaningless for rows that have a long one.
    pub(crate) short: Vec<u128>,
    /// Keys that do not fit a number, and which rows have them; none when all fit.
    pub(crate) long: Vec<(u32, Box<[u8]>)>,
}

/// How keys lie in a number.
#[derive(Debug, Clone)]
pub(crate) struct KeyLayout {
    parts: Vec<KeyPart>,
    fits: bool,
}

impl KeyLayout {
    pub(crate) fn new(parts: Vec<KeyPart>) -> Self {
        let bits: u32 = parts.iter().map(|part| part.bits() + 1).sum();
        Self { parts, fits: bits <= BITS_MAX }
    }

    pub(crate) fn parts(&self) -> &[KeyPart] {
        &self.parts
    }

    /// The keys of a batch.
    pub(crate) fn keys(&self, batch: &FlowBatch) -> Keys {
        let rows = batch.rows();
        let values: Vec<Option<ArrayRef>> = self.parts.iter().map(|part| part.values(batch)).collect();
        let mut short = vec![0; rows];
        let mut is_long = Vec::new();
        if self.fits {
            for (part, values) in self.parts.iter().zip(&values) {
                pack(part, values.as_ref(), &mut short, &mut is_long);
            }
            is_long.sort_unstable();
            is_long.dedup();
        } else {
            is_long.extend(0..rows as u32);
        }
        let long = is_long.into_iter().map(|row| (row, self.octets(&values, row as usize))).collect();
        Keys { short, long }
    }

    /// The long key of the same values as a short one: long keys are in the order of their columns.
    pub(crate) fn long_of(&self, short: u128) -> Box<[u8]> {
        let mut key = Vec::with_capacity(48);
        let mut shift: u32 = self.parts.iter().map(|part| part.bits() + 1).sum();
        for part in &self.parts {
            let bits = part.bits();
            shift -= bits + 1;
            let value = short >> shift;
            if value >> bits & 1 == 1 {
                key.push(NULL);
                continue;
            }
            let octets = (bits / 8) as usize;
            key.push(octets as u8);
            let value = value & ((1 << bits) - 1);
            key.extend_from_slice(&value.to_be_bytes()[16 - octets..]);
        }
        key.into_boxed_slice()
    }

    fn octets(&self, values: &[Option<ArrayRef>], row: usize) -> Box<[u8]> {
        let mut key = Vec::with_capacity(48);
        for (part, values) in self.parts.iter().zip(values) {
            let Some(values) = values.as_ref().filter(|values| values.is_valid(row)) else {
                key.push(NULL);
                continue;
            };
            match part.column().column_type() {
                ColumnType::U8 => push::<1>(&mut key, u64::from(values.as_primitive::<UInt8Type>().value(row))),
                ColumnType::U16 => push::<2>(&mut key, u64::from(values.as_primitive::<UInt16Type>().value(row))),
                ColumnType::U32 => push::<4>(&mut key, u64::from(values.as_primitive::<UInt32Type>().value(row))),
                ColumnType::U64 => push::<8>(&mut key, values.as_primitive::<UInt64Type>().value(row)),
                ColumnType::Time => {
                    push::<8>(&mut key, values.as_primitive::<TimestampMillisecondType>().value(row) as u64);
                }
                ColumnType::Text => {
                    // no text has such an octet, nor begins with that of a null
                    key.extend_from_slice(values.as_string::<i32>().value(row).as_bytes());
                    key.push(TEXT_END);
                }
                _ => {
                    // addresses and identifiers are far shorter than what one octet can tell
                    let value = values.as_binary::<i32>().value(row);
                    let value = &value[..value.len().min(usize::from(NULL) - 1)];
                    key.push(value.len() as u8);
                    key.extend_from_slice(value);
                }
            }
        }
        key.into_boxed_slice()
    }

    /// The columns of these keys: first the short ones, then the long ones.
    pub(crate) fn columns(&self, short: &[u128], long: &[&[u8]]) -> Vec<ArrayRef> {
        let mut shift = 0;
        let mut shifts: Vec<u32> = Vec::with_capacity(self.parts.len());
        for part in self.parts.iter().rev() {
            shifts.push(shift);
            shift += part.bits() + 1;
        }
        shifts.reverse();
        let mut rests: Vec<&[u8]> = long.to_vec();
        let columns = self.parts.iter().zip(shifts).map(|(part, shift)| {
            let shift = if self.fits { shift } else { 0 };
            column(part, shift, short, &mut rests)
        });
        columns.collect()
    }
}

fn push<const N: usize>(key: &mut Vec<u8>, value: u64) {
    key.push(N as u8);
    key.extend_from_slice(&value.to_be_bytes()[8 - N..]);
}

/// Appends a column to the keys of all rows.
fn pack(part: &KeyPart, values: Option<&ArrayRef>, keys: &mut [u128], long: &mut Vec<u32>) {
    let bits = part.bits();
    let null = 1_u128 << bits;
    let Some(values) = values else {
        for key in keys {
            *key = *key << (bits + 1) | null;
        }
        return;
    };
    match part.column().column_type() {
        ColumnType::U8 => pack_numbers::<UInt8Type>(values, bits, keys, u128::from),
        ColumnType::U16 => pack_numbers::<UInt16Type>(values, bits, keys, u128::from),
        ColumnType::U32 => pack_numbers::<UInt32Type>(values, bits, keys, u128::from),
        ColumnType::U64 => pack_numbers::<UInt64Type>(values, bits, keys, u128::from),
        ColumnType::Time => {
            pack_numbers::<TimestampMillisecondType>(values, bits, keys, |time| u128::from(time as u64));
        }
        _ => pack_octets(values.as_binary::<i32>(), bits, part.octets().unwrap_or(0), keys, long),
    }
}

fn pack_numbers<T: ArrowPrimitiveType>(
    values: &ArrayRef,
    bits: u32,
    keys: &mut [u128],
    number: impl Fn(T::Native) -> u128,
) {
    let values = values.as_primitive::<T>();
    let null = 1_u128 << bits;
    if values.null_count() == 0 {
        for (key, value) in keys.iter_mut().zip(values.values()) {
            *key = *key << (bits + 1) | number(*value);
        }
    } else {
        for (key, value) in keys.iter_mut().zip(values.iter()) {
            *key = *key << (bits + 1) | value.map_or(null, &number);
        }
    }
}

fn pack_octets(values: &BinaryArray, bits: u32, octets: usize, keys: &mut [u128], long: &mut Vec<u32>) {
    let offsets = values.value_offsets();
    let uniform = values.null_count() == 0 && octets == 4 && offsets.windows(2).all(|pair| pair[1] - pair[0] == 4);
    if uniform {
        let first = offsets.first().map_or(0, |first| *first as usize);
        let (addresses, _) = values.value_data()[first..first + 4 * values.len()].as_chunks::<4>();
        for (key, address) in keys.iter_mut().zip(addresses) {
            *key = *key << (bits + 1) | u128::from(u32::from_be_bytes(*address));
        }
        return;
    }
    for (row, (key, value)) in keys.iter_mut().zip(values.iter()).enumerate() {
        let number = match value {
            None => 1 << bits,
            Some(value) if value.len() == octets => {
                value.iter().fold(0, |number, octet| number << 8 | u128::from(*octet))
            }
            Some(_) => {
                long.push(row as u32);
                0
            }
        };
        *key = *key << (bits + 1) | number;
    }
}

/// One column of the answer; takes its part off the front of every long key.
fn column(part: &KeyPart, shift: u32, short: &[u128], long: &mut [&[u8]]) -> ArrayRef {
    let bits = part.bits();
    let values = short.iter().map(|key| {
        let part = key >> shift;
        (part >> bits & 1 == 0).then_some(part & ((1 << bits) - 1))
    });
    if part.column().column_type() == ColumnType::Text {
        let texts = long.iter_mut().map(|key| std::str::from_utf8(take_text(key)?).ok());
        // a key with a text is always long
        return Arc::new(short.iter().map(|_| None).chain(texts).collect::<StringArray>());
    }
    let taken: Vec<Option<&[u8]>> = long.iter_mut().map(take_part).collect();
    let all = values.map(Value::Number).chain(taken.into_iter().map(Value::Octets));
    match part.column().column_type() {
        ColumnType::U8 => numbers::<UInt8Type>(all, |number| number as u8),
        ColumnType::U16 => numbers::<UInt16Type>(all, |number| number as u16),
        ColumnType::U32 => numbers::<UInt32Type>(all, |number| number as u32),
        ColumnType::U64 => numbers::<UInt64Type>(all, |number| number),
        ColumnType::Time => {
            let times: TimestampMillisecondArray =
                all.map(|value| value.number().map(|number| number as i64)).collect();
            Arc::new(times.with_timezone("UTC"))
        }
        _ => {
            let octets = part.octets().unwrap_or(0);
            let mut builder = BinaryBuilder::with_capacity(short.len() + long.len(), 4 * short.len() + 16 * long.len());
            for value in all {
                match value {
                    Value::Number(Some(number)) => builder.append_value(&number.to_be_bytes()[16 - octets..]),
                    Value::Octets(Some(octets)) => builder.append_value(octets),
                    Value::Number(None) | Value::Octets(None) => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
    }
}

/// A value of a key.
enum Value<'a> {
    Number(Option<u128>),
    Octets(Option<&'a [u8]>),
}

impl Value<'_> {
    fn number(self) -> Option<u64> {
        match self {
            Self::Number(number) => number.map(|number| number as u64),
            Self::Octets(octets) => {
                octets.map(|octets| octets.iter().fold(0, |number, octet| number << 8 | u64::from(*octet)))
            }
        }
    }
}

fn numbers<'a, T: ArrowPrimitiveType>(
    values: impl Iterator<Item = Value<'a>>,
    native: impl Fn(u64) -> T::Native,
) -> ArrayRef {
    let numbers: PrimitiveArray<T> = values.map(|value| value.number().map(&native)).collect();
    Arc::new(numbers)
}

fn take_text<'a>(key: &mut &'a [u8]) -> Option<&'a [u8]> {
    if let Some((&NULL, rest)) = key.split_first() {
        *key = rest;
        return None;
    }
    let end = key.iter().position(|octet| *octet == TEXT_END)?;
    let (text, rest) = key.split_at(end);
    *key = &rest[1..];
    Some(text)
}

fn take_part<'a>(key: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (&length, rest) = key.split_first()?;
    if length == NULL {
        *key = rest;
        return None;
    }
    let (part, rest) = rest.split_at_checked(usize::from(length))?;
    *key = rest;
    Some(part)
}

/// The field of a part in the answer.
pub(crate) fn key_field(part: &KeyPart) -> arrow::datatypes::Field {
    field(part.column()).with_name(part.name.clone())
}
