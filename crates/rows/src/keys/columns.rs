//! Distinct keys of any columns, numbered in the order in which they are first seen.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, PrimitiveArray, RecordBatch, StringArray, UInt8Array, UInt16Array,
    UInt32Array, UInt64Array, make_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field, FieldRef, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use weir_chain::ComponentError;
use weir_flow::Column;
use weir_flow::schema::field;

use super::{IdTable, Seed};

/// What a row has in place of a number when its key is new and the table is full.
pub const NO_KEY: u32 = u32::MAX;

/// Numbers the distinct keys of some columns: 0 for the first one seen, 1 for the second, and so on.
///
/// A null is a value of its own, equal to other nulls only; so is an absent column of flows. Numbers of floating point
/// are equal when their bits are. A column must keep its type.
///
/// ```
/// # use weir_flow::{Column, FlowBatchBuilder};
/// use weir_rows::keys::KeyColumns;
/// let mut builder = FlowBatchBuilder::new(3);
/// builder.begin_rows(3);
/// builder.u16(Column::DstPort).extend([443, 53, 443].into_iter());
/// let flows = builder.finish();
///
/// let mut keys = KeyColumns::new(["dst_port", "protocol"]);
/// let mut ids = Vec::new();
/// keys.ids(flows.record_batch(), usize::MAX, &mut ids)?;
/// assert_eq!(ids, [0, 1, 0]);
/// let (field, values) = &keys.columns(&[1])?[0];
/// assert_eq!((field.name().as_str(), values.len()), ("dst_port", 1));
/// # Ok::<_, weir_chain::ComponentError>(())
/// ```
#[derive(Debug)]
pub struct KeyColumns {
    names: Vec<String>,
    /// How each column is kept; known with the first batch.
    plans: Vec<Plan>,
    /// Words of a key.
    stride: usize,
    /// The words of all keys, `stride` for each.
    words: Vec<u64>,
    table: IdTable,
    seed: Seed,
    long: LongOctets,
    /// Words and hashes of the rows of one batch.
    rows: Vec<u64>,
    hashes: Vec<u64>,
}

/// Where a column is in the words of a key. What kind of value is there stands in six bits of the first words: 0 for
/// null, 1 for a number, 1 and the length for up to 16 octets, [`LONG`] for more.
#[derive(Debug, Clone)]
struct Plan {
    field: FieldRef,
    kind: Kind,
    /// Index of the first word of the value.
    word: usize,
    /// Index of the word with the six bits, and where in it they are.
    code_word: usize,
    code_shift: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One word; the number of octets that the value has in Arrow.
    Number(usize),
    /// One word, 0 or 1.
    Boolean,
    /// Two words.
    Octets,
}

const CODE_BITS: usize = 6;
const CODES: usize = 10;
const NUMBER: u64 = 1;
const INLINE_MAX: usize = 16;
const LONG: u64 = INLINE_MAX as u64 + 2;

/// Values of more than 16 octets, numbered.
#[derive(Debug, Default)]
struct LongOctets {
    ids: HashMap<Box<[u8]>, u64>,
    values: Vec<Box<[u8]>>,
}

impl LongOctets {
    fn id(&mut self, octets: &[u8]) -> u64 {
        if let Some(id) = self.ids.get(octets) {
            return *id;
        }
        let id = self.values.len() as u64;
        self.ids.insert(octets.into(), id);
        self.values.push(octets.into());
        id
    }
}

impl KeyColumns {
    /// No keys yet, of columns with these names.
    pub fn new<T: Into<String>>(names: impl IntoIterator<Item = T>) -> Self {
        Self {
            names: names.into_iter().map(Into::into).collect(),
            plans: Vec::new(),
            stride: 0,
            words: Vec::new(),
            table: IdTable::new(),
            seed: Seed::random(),
            long: LongOctets::default(),
            rows: Vec::new(),
            hashes: Vec::new(),
        }
    }

    /// Names of the columns.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// How many distinct keys were seen.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// True when no key was seen.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Octets of memory, about.
    pub fn octets(&self) -> usize {
        let long: usize = self.long.values.iter().map(|octets| 2 * octets.len() + 64).sum();
        self.table.octets() + (self.words.capacity() + self.rows.capacity() + self.hashes.capacity()) * 8 + long
    }

    /// Puts the number of each row's key into `ids`, which is emptied first. A key that is new when there are
    /// `keys_max` already gets no number, and its rows [`NO_KEY`]. Fails when a column that is none of flows is absent,
    /// when a column changes its type, or when it has a type that cannot be a key (lists, say).
    pub fn ids(&mut self, rows: &RecordBatch, keys_max: usize, ids: &mut Vec<u32>) -> Result<(), ComponentError> {
        if self.plans.is_empty() {
            self.plan(rows)?;
        }
        self.encode(rows)?;
        ids.clear();
        ids.reserve(rows.num_rows());
        self.hashes.clear();
        let (stride, seed) = (self.stride, self.seed);
        if stride == 0 {
            // without columns all rows have the same key
            self.rows.resize(rows.num_rows(), 0);
        }
        self.hashes.extend(self.rows.chunks_exact(stride.max(1)).map(|words| seed.hash(words)));
        for from in (0..self.hashes.len()).step_by(BLOCK) {
            self.look_up(from..self.hashes.len().min(from + BLOCK), keys_max, ids);
        }
        Ok(())
    }

    fn look_up(&mut self, range: std::ops::Range<usize>, keys_max: usize, ids: &mut Vec<u32>) {
        let stride = self.stride;
        let near = self.hashes[range.clone()].iter().filter_map(|hash| self.table.touch(*hash));
        let touched = near.fold(0, |sum, id| sum ^ self.words.get(id as usize * stride).copied().unwrap_or_default());
        std::hint::black_box(touched);
        for row in range {
            let (hash, words) = (self.hashes[row], &self.rows[row * stride..(row + 1) * stride]);
            let is_it = |id: u32| self.words[id as usize * stride..(id as usize + 1) * stride] == *words;
            let id = self.table.find(hash, is_it).unwrap_or_else(|| {
                let id = self.table.len();
                if id >= keys_max || id >= NO_KEY as usize {
                    return NO_KEY;
                }
                self.words.extend_from_slice(words);
                self.table.insert(hash, id as u32);
                id as u32
            });
            ids.push(id);
        }
    }

    /// The columns of the keys that have these numbers, in this order; none when no row was seen yet.
    ///
    /// # Panics
    /// When there is no key of a number.
    pub fn columns(&self, ids: &[u32]) -> Result<Vec<(FieldRef, ArrayRef)>, ComponentError> {
        self.plans.iter().map(|plan| Ok((Arc::clone(&plan.field), self.column(plan, ids)?))).collect()
    }

    /// Forgets the keys that are not to be kept, and numbers the others anew in the same order. Returns the new number
    /// of each old one, [`NO_KEY`] for what was forgotten.
    pub fn retain(&mut self, mut keep: impl FnMut(u32) -> bool) -> Vec<u32> {
        let mut renumbered = Vec::with_capacity(self.len());
        let mut kept = 0;
        let stride = self.stride;
        let len = self.len();
        self.table.clear();
        for id in 0..len {
            if !keep(id as u32) {
                renumbered.push(NO_KEY);
                continue;
            }
            self.words.copy_within(id * stride..(id + 1) * stride, kept * stride);
            let hash = self.hash_of(kept);
            self.table.insert(hash, kept as u32);
            renumbered.push(kept as u32);
            kept += 1;
        }
        self.words.truncate(kept * stride);
        renumbered
    }

    fn hash_of(&self, id: usize) -> u64 {
        match self.stride {
            0 => self.seed.hash(&[0]),
            stride => self.seed.hash(&self.words[id * stride..(id + 1) * stride]),
        }
    }

    /// Forgets all keys and keeps the memory; numbers begin at 0 again.
    pub fn clear(&mut self) {
        self.table.clear();
        self.words.clear();
        self.long = LongOctets::default();
    }

    fn plan(&mut self, rows: &RecordBatch) -> Result<(), ComponentError> {
        let codes = self.names.len().div_ceil(CODES);
        let mut word = codes;
        let mut plans = Vec::with_capacity(self.names.len());
        for (position, name) in self.names.iter().enumerate() {
            let field: FieldRef = match (rows.schema_ref().field_with_name(name), Column::by_name(name)) {
                (Ok(found), _) => {
                    Arc::new(Field::new(name, found.data_type().clone(), true).with_metadata(found.metadata().clone()))
                }
                (Err(_), Some(column)) => Arc::new(field(column)),
                (Err(_), None) => return Err(ComponentError::missing_column(name, rows)),
            };
            let kind = match field.data_type() {
                DataType::Boolean => Kind::Boolean,
                DataType::Binary | DataType::Utf8 => Kind::Octets,
                other => match other.primitive_width() {
                    Some(octets @ (1 | 2 | 4 | 8)) => Kind::Number(octets),
                    _ => return Err(ComponentError::new(format!("column '{name}' of type {other} cannot be a key"))),
                },
            };
            let (code_word, code_shift) = (position / CODES, position % CODES * CODE_BITS);
            plans.push(Plan { field, kind, word, code_word, code_shift });
            word += if kind == Kind::Octets { 2 } else { 1 };
        }
        (self.plans, self.stride) = (plans, word);
        Ok(())
    }

    /// Fills `self.rows` with the words of the keys.
    fn encode(&mut self, rows: &RecordBatch) -> Result<(), ComponentError> {
        self.rows.clear();
        self.rows.resize(rows.num_rows() * self.stride, 0);
        for plan in &self.plans {
            let Some(column) = rows.column_by_name(plan.field.name()) else {
                if Column::by_name(plan.field.name()).is_none() {
                    return Err(ComponentError::missing_column(plan.field.name(), rows));
                }
                continue; // all zero is null
            };
            if column.data_type() != plan.field.data_type() {
                let (name, first, second) = (plan.field.name(), plan.field.data_type(), column.data_type());
                return Err(ComponentError::new(format!(
                    "column '{name}' is {first} in some rows and {second} in others"
                )));
            }
            let mut target = Target { words: &mut self.rows, stride: self.stride, plan };
            match (plan.kind, column.data_type()) {
                (Kind::Number(octets), _) => target.numbers(column, octets)?,
                (Kind::Boolean, _) => target.numbers(&cast(column, &DataType::UInt8).map_err(cannot_read)?, 1)?,
                (Kind::Octets, DataType::Utf8) => {
                    target.octets(&BinaryArray::from(column.as_string::<i32>().clone()), &mut self.long);
                }
                (Kind::Octets, _) => target.octets(column.as_binary(), &mut self.long),
            }
        }
        Ok(())
    }

    fn code(&self, plan: &Plan, id: u32) -> u64 {
        self.words[id as usize * self.stride + plan.code_word] >> plan.code_shift & ((1 << CODE_BITS) - 1)
    }

    fn column(&self, plan: &Plan, ids: &[u32]) -> Result<ArrayRef, ComponentError> {
        let data_type = plan.field.data_type();
        if plan.kind == Kind::Octets {
            let values = ids.iter().map(|&id| self.octets_of(plan, id));
            return Ok(match data_type {
                DataType::Utf8 => Arc::new(
                    values
                        .map(|octets| octets.map(|o| String::from_utf8_lossy(&o).into_owned()))
                        .collect::<StringArray>(),
                ),
                _ => Arc::new(values.collect::<BinaryArray>()),
            });
        }
        let nulls: NullBuffer = ids.iter().map(|&id| self.code(plan, id) != 0).collect();
        let nulls = Some(nulls).filter(|nulls| nulls.null_count() > 0);
        let words = ids.iter().map(|&id| self.words[id as usize * self.stride + plan.word]);
        let numbers: ArrayRef = match plan.kind {
            Kind::Number(8) => Arc::new(UInt64Array::new(words.collect::<Vec<_>>().into(), nulls)),
            Kind::Number(4) => Arc::new(UInt32Array::new(words.map(|w| w as u32).collect::<Vec<_>>().into(), nulls)),
            Kind::Number(2) => Arc::new(UInt16Array::new(words.map(|w| w as u16).collect::<Vec<_>>().into(), nulls)),
            _ => Arc::new(UInt8Array::new(words.map(|w| w as u8).collect::<Vec<_>>().into(), nulls)),
        };
        match plan.kind {
            Kind::Boolean => cast(&numbers, data_type).map_err(cannot_read),
            _ => reinterpreted(&numbers, data_type.clone()),
        }
    }

    fn octets_of(&self, plan: &Plan, id: u32) -> Option<Vec<u8>> {
        let at = id as usize * self.stride + plan.word;
        match self.code(plan, id) {
            0 => None,
            LONG => Some(self.long.values[self.words[at] as usize].to_vec()),
            code => {
                let mut octets = Vec::with_capacity(INLINE_MAX);
                octets.extend(self.words[at..at + 2].iter().flat_map(|word| word.to_le_bytes()));
                octets.truncate(code as usize - 1);
                Some(octets)
            }
        }
    }
}

/// How many rows are looked up together, see [`IdTable::touch`].
const BLOCK: usize = 32;

fn cannot_read(error: arrow::error::ArrowError) -> ComponentError {
    ComponentError::caused("cannot read a column of the key", error)
}

/// The same memory as another type of the same width.
fn reinterpreted(column: &ArrayRef, data_type: DataType) -> Result<ArrayRef, ComponentError> {
    let data = column.to_data().into_builder().data_type(data_type).build();
    data.map(make_array).map_err(cannot_read)
}

/// The words of one column, in those of all keys of a batch.
struct Target<'a> {
    words: &'a mut [u64],
    stride: usize,
    plan: &'a Plan,
}

impl Target<'_> {
    fn numbers(&mut self, column: &ArrayRef, octets: usize) -> Result<(), ComponentError> {
        match octets {
            1 => self.words_of::<UInt8Type>(&reinterpreted(column, DataType::UInt8)?),
            2 => self.words_of::<UInt16Type>(&reinterpreted(column, DataType::UInt16)?),
            4 => self.words_of::<UInt32Type>(&reinterpreted(column, DataType::UInt32)?),
            _ => self.words_of::<UInt64Type>(&reinterpreted(column, DataType::UInt64)?),
        }
        Ok(())
    }

    fn words_of<T: ArrowPrimitiveType<Native: Into<u64>>>(&mut self, column: &ArrayRef) {
        let column: &PrimitiveArray<T> = column.as_primitive();
        let (word, code_word, shift) = (self.plan.word, self.plan.code_word, self.plan.code_shift);
        for (row, (words, value)) in self.words.chunks_exact_mut(self.stride).zip(column.values()).enumerate() {
            if column.is_valid(row) {
                words[word] = (*value).into();
                words[code_word] |= NUMBER << shift;
            }
        }
    }

    fn octets(&mut self, column: &BinaryArray, long: &mut LongOctets) {
        let (word, code_word, shift) = (self.plan.word, self.plan.code_word, self.plan.code_shift);
        for (row, words) in self.words.chunks_exact_mut(self.stride).enumerate() {
            if column.is_null(row) {
                continue;
            }
            let value = column.value(row);
            let code = match value.len() {
                4 => {
                    words[word] = value.first_chunk().map_or(0, |octets| u64::from(u32::from_le_bytes(*octets)));
                    5
                }
                length if length > INLINE_MAX => {
                    words[word] = long.id(value);
                    LONG
                }
                length => {
                    let mut octets = [0; INLINE_MAX];
                    octets[..length].copy_from_slice(value);
                    let octets = u128::from_le_bytes(octets);
                    (words[word], words[word + 1]) = (octets as u64, (octets >> 64) as u64);
                    length as u64 + 1
                }
            };
            words[code_word] |= code << shift;
        }
    }
}

#[cfg(test)]
mod tests;
