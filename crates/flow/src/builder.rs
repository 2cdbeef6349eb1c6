//! Flow batches built column by column.
//!
//! A decoder knows what a whole set of records has in common, so it appends to one column after another, all
//! records of the set at once. A column that the set does not have costs nothing: it is filled with nulls when it
//! is next touched, or at the end.

use std::sync::Arc;

use arrow::array::NullBufferBuilder;
use arrow::array::{ArrayRef, BinaryArray, PrimitiveArray, StringArray};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer};
use arrow::datatypes::{ArrowPrimitiveType, TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type};

use crate::elements::ElementsColumn;
use crate::repeating::repeat_last;
use crate::run_ends::{RunEnds, fitted};
use crate::{Column, ColumnType, FlowBatch, text};

/// Nulls, in as little memory as [`fitted`] leaves; `None` when there are none.
fn finished(mut nulls: NullBufferBuilder) -> Option<NullBuffer> {
    let nulls = nulls.finish()?;
    let length = nulls.len();
    if length.div_ceil(8) > nulls.buffer().capacity() / 2 {
        return Some(nulls);
    }
    let bits = Buffer::from(nulls.buffer().as_slice());
    Some(NullBuffer::new(BooleanBuffer::new(bits, nulls.offset(), length)))
}

/// Values of a column of numbers or times, and which of them are null.
#[derive(Debug)]
pub struct NumberColumn<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    nulls: NullBufferBuilder,
}

impl<T: ArrowPrimitiveType> Default for NumberColumn<T> {
    fn default() -> Self {
        Self::new(0)
    }
}

impl<T: ArrowPrimitiveType> NumberColumn<T> {
    fn new(capacity: usize) -> Self {
        Self { values: Vec::with_capacity(capacity), nulls: NullBufferBuilder::new(capacity) }
    }

    /// Appends values, none of them null.
    #[inline]
    pub fn extend(&mut self, values: impl ExactSizeIterator<Item = T::Native>) {
        self.nulls.append_n_non_nulls(values.len());
        self.values.extend(values);
    }

    /// Appends the same value `rows` times.
    #[inline]
    pub fn repeat(&mut self, value: T::Native, rows: usize) {
        self.nulls.append_n_non_nulls(rows);
        self.values.resize(self.values.len() + rows, value);
    }

    /// Appends a value or a null.
    #[inline]
    pub fn push(&mut self, value: Option<T::Native>) {
        self.nulls.append(value.is_some());
        self.values.push(value.unwrap_or_default());
    }

    /// Puts a value into a row; rows before it that have none are null.
    #[inline]
    pub(crate) fn put(&mut self, row: usize, value: T::Native) {
        self.pad_to(row);
        self.push(Some(value));
    }

    pub(crate) fn pad_to(&mut self, rows: usize) {
        let missing = rows.saturating_sub(self.values.len());
        if missing > 0 {
            self.nulls.append_n_nulls(missing);
            self.values.resize(rows, T::Native::default());
        }
    }

    pub(crate) fn finish(self) -> PrimitiveArray<T> {
        PrimitiveArray::new(fitted(self.values).into(), finished(self.nulls))
    }
}

/// The times that a group of rows has in a column.
#[derive(Debug, Clone, Copy)]
pub struct GroupTimes<'b> {
    column: &'b NumberColumn<TimestampMillisecondType>,
    start: usize,
}

impl GroupTimes<'_> {
    /// All values, milliseconds since the epoch; 0 where they are null.
    pub fn values(&self) -> &[i64] {
        &self.column.values[self.start..]
    }

    /// The value of a row of the group, `None` when it is null.
    pub fn get(&self, row: usize) -> Option<i64> {
        let at = self.start + row;
        self.column.values.get(at).copied().filter(|_| self.column.nulls.is_valid(at))
    }
}

/// Values of a column of addresses or other octets, and which of them are null.
#[derive(Debug)]
pub struct OctetsColumn {
    ends: RunEnds,
    octets: Vec<u8>,
    nulls: NullBufferBuilder,
}

impl Default for OctetsColumn {
    fn default() -> Self {
        Self::new(0)
    }
}

impl OctetsColumn {
    fn new(capacity: usize) -> Self {
        Self {
            ends: RunEnds::with_capacity(capacity),
            octets: Vec::with_capacity(capacity * 4),
            nulls: NullBufferBuilder::new(capacity),
        }
    }

    /// Appends values of the same length, none of them null.
    #[inline]
    pub fn extend_fixed<const N: usize>(&mut self, values: impl ExactSizeIterator<Item = [u8; N]>) {
        let rows = values.len();
        let mut end = self.octets.len() as i32;
        self.nulls.append_n_non_nulls(rows);
        self.ends.extend((0..rows).map(|_| {
            end += N as i32;
            end
        }));
        self.octets.reserve(rows * N);
        values.for_each(|value| self.octets.extend_from_slice(&value));
    }

    /// Appends the same value `rows` times.
    #[inline]
    pub fn repeat(&mut self, value: &[u8], rows: usize) {
        self.nulls.append_n_non_nulls(rows);
        if rows == 0 {
            return;
        }
        let begin = self.octets.len();
        self.ends.extend((1..=rows).map(|row| (begin + row * value.len()) as i32));
        self.octets.extend_from_slice(value);
        repeat_last(&mut self.octets, value.len(), rows);
    }

    /// Appends values of any lengths, none of them null.
    #[inline]
    pub fn extend<'a>(&mut self, values: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.nulls.append_n_non_nulls(values.len());
        for value in values {
            self.octets.extend_from_slice(value);
            self.ends.push(self.octets.len() as i32);
        }
    }

    /// Appends a value or a null.
    #[inline]
    pub fn push(&mut self, value: Option<&[u8]>) {
        self.nulls.append(value.is_some());
        self.octets.extend_from_slice(value.unwrap_or_default());
        self.ends.push(self.octets.len() as i32);
    }

    /// Puts a value into a row; rows before it that have none are null.
    #[inline]
    pub(crate) fn put(&mut self, row: usize, value: &[u8]) {
        self.pad_to(row);
        self.push(Some(value));
    }

    pub(crate) fn pad_to(&mut self, rows: usize) {
        let missing = rows.saturating_sub(self.ends.len());
        if missing > 0 {
            self.nulls.append_n_nulls(missing);
            self.ends.pad_to(rows);
        }
    }

    pub(crate) fn finish(self) -> ArrayRef {
        let octets = fitted(self.octets).into();
        Arc::new(BinaryArray::new(self.ends.finish(), octets, finished(self.nulls)))
    }

    /// The column as one of texts, which its values have to be.
    pub(crate) fn finish_texts(self) -> ArrayRef {
        let octets = fitted(self.octets).into();
        Arc::new(StringArray::new(self.ends.finish(), octets, finished(self.nulls)))
    }
}

/// Values of a column of text, and which of them are null. What is appended is cleaned, see [`crate::text`].
#[derive(Debug)]
pub struct TextColumn {
    ends: RunEnds,
    text: String,
    nulls: NullBufferBuilder,
}

impl TextColumn {
    fn new(capacity: usize) -> Self {
        Self { ends: RunEnds::with_capacity(capacity), text: String::new(), nulls: NullBufferBuilder::new(capacity) }
    }

    /// Appends a text, or a null when there is none or nothing is left of it.
    #[inline]
    pub fn push(&mut self, octets: Option<&[u8]>) {
        let start = self.text.len();
        text::push_clean(octets.unwrap_or_default(), &mut self.text);
        self.nulls.append(self.text.len() > start);
        self.ends.push(self.text.len() as i32);
    }

    fn pad_to(&mut self, rows: usize) {
        let missing = rows.saturating_sub(self.ends.len());
        if missing > 0 {
            self.nulls.append_n_nulls(missing);
            self.ends.pad_to(rows);
        }
    }

    fn finish(self) -> ArrayRef {
        let text = fitted(self.text.into_bytes()).into();
        Arc::new(StringArray::new(self.ends.finish(), text, finished(self.nulls)))
    }
}

#[derive(Debug)]
enum ColumnBuffer {
    U8(NumberColumn<UInt8Type>),
    U16(NumberColumn<UInt16Type>),
    U32(NumberColumn<UInt32Type>),
    U64(NumberColumn<UInt64Type>),
    Time(NumberColumn<TimestampMillisecondType>),
    Octets(OctetsColumn),
    Text(TextColumn),
    Elements(ElementsColumn),
}

impl ColumnBuffer {
    fn new(column_type: ColumnType, capacity: usize) -> Self {
        match column_type {
            ColumnType::U8 => Self::U8(NumberColumn::new(capacity)),
            ColumnType::U16 => Self::U16(NumberColumn::new(capacity)),
            ColumnType::U32 => Self::U32(NumberColumn::new(capacity)),
            ColumnType::U64 => Self::U64(NumberColumn::new(capacity)),
            ColumnType::Time => Self::Time(NumberColumn::new(capacity)),
            ColumnType::Address | ColumnType::Mac | ColumnType::Octets => Self::Octets(OctetsColumn::new(capacity)),
            ColumnType::Text => Self::Text(TextColumn::new(capacity)),
            ColumnType::Elements => Self::Elements(ElementsColumn::default()),
        }
    }

    fn rows(&self) -> usize {
        match self {
            Self::U8(column) => column.values.len(),
            Self::U16(column) => column.values.len(),
            Self::U32(column) => column.values.len(),
            Self::U64(column) => column.values.len(),
            Self::Time(column) => column.values.len(),
            Self::Octets(column) => column.ends.len(),
            Self::Text(column) => column.ends.len(),
            Self::Elements(column) => column.rows(),
        }
    }

    fn pad_to(&mut self, rows: usize) {
        match self {
            Self::U8(column) => column.pad_to(rows),
            Self::U16(column) => column.pad_to(rows),
            Self::U32(column) => column.pad_to(rows),
            Self::U64(column) => column.pad_to(rows),
            Self::Time(column) => column.pad_to(rows),
            Self::Octets(column) => column.pad_to(rows),
            Self::Text(column) => column.pad_to(rows),
            Self::Elements(column) => column.pad_to(rows),
        }
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::U8(column) => Arc::new(column.finish()),
            Self::U16(column) => Arc::new(column.finish()),
            Self::U32(column) => Arc::new(column.finish()),
            Self::U64(column) => Arc::new(column.finish()),
            Self::Time(column) => Arc::new(column.finish().with_timezone("UTC")),
            Self::Octets(column) => column.finish(),
            Self::Text(column) => column.finish(),
            Self::Elements(column) => column.finish(),
        }
    }
}

/// Builds a [`FlowBatch`] from groups of rows, column by column.
///
/// ```
/// use weir_flow::{Column, FlowBatchBuilder};
/// let mut builder = FlowBatchBuilder::new(16);
/// builder.begin_rows(2);
/// builder.u16(Column::SrcPort).extend([53, 443].into_iter());
/// builder.address(Column::SrcAddr).repeat(&[10, 0, 0, 1], 2);
/// let batch = builder.finish();
/// assert_eq!(batch.rows(), 2);
/// assert!(batch.column(Column::DstPort).is_none());
/// ```
#[derive(Debug)]
pub struct FlowBatchBuilder {
    /// Rows of all groups begun.
    rows: usize,
    /// Rows before the group that is open.
    group_start: usize,
    /// Rows at the end of each group, in debug builds.
    group_ends: Vec<usize>,
    capacity: usize,
    columns: Vec<Option<ColumnBuffer>>,
}

/// Whether so many rows end with a group.
fn is_end(group_ends: &[usize], rows: usize) -> bool {
    rows == 0 || group_ends.binary_search(&rows).is_ok()
}

macro_rules! typed_column {
    ($(#[doc = $doc:literal] $name:ident $variant:ident -> $column:ty;)*) => {$(
        #[doc = $doc]
        ///
        /// # Panics
        /// When the column is of another type: which type a column has is known when code is written.
        #[inline]
        pub fn $name(&mut self, column: Column) -> &mut $column {
            match self.buffer(column) {
                ColumnBuffer::$variant(buffer) => buffer,
                _ => wrong_type(column),
            }
        }
    )*};
}

#[cold]
fn wrong_type(column: Column) -> ! {
    panic!("column {column} has type {:?}", column.column_type())
}

impl FlowBatchBuilder {
    /// A builder that expects about `capacity` rows in a batch.
    pub fn new(capacity: usize) -> Self {
        Self {
            rows: 0,
            group_start: 0,
            group_ends: Vec::new(),
            capacity,
            columns: (0..Column::COUNT).map(|_| None).collect(),
        }
    }

    /// Rows of all groups begun since the last batch.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Begins a group of rows. Every column that the group has must then get exactly `rows` values; columns that
    /// get none are null for the whole group.
    pub fn begin_rows(&mut self, rows: usize) {
        self.group_start = self.rows;
        self.rows += rows;
        if cfg!(debug_assertions) {
            self.group_ends.push(self.rows);
        }
    }

    typed_column! {
        #[doc = "A column of 8-bit integers, to append this group's values."]
        u8 U8 -> NumberColumn<UInt8Type>;
        #[doc = "A column of 16-bit integers, to append this group's values."]
        u16 U16 -> NumberColumn<UInt16Type>;
        #[doc = "A column of 32-bit integers, to append this group's values."]
        u32 U32 -> NumberColumn<UInt32Type>;
        #[doc = "A column of 64-bit integers, to append this group's values."]
        u64 U64 -> NumberColumn<UInt64Type>;
        #[doc = "A column of times in milliseconds since the epoch, to append this group's values."]
        time Time -> NumberColumn<TimestampMillisecondType>;
        #[doc = "A column of addresses, MAC addresses or octets, to append this group's values."]
        address Octets -> OctetsColumn;
        #[doc = "A column of text, to append this group's values."]
        text Text -> TextColumn;
        #[doc = "The column of elements without a column of their own."]
        elements_of Elements -> ElementsColumn;
    }

    /// The column of elements without a column of their own, to append this group's rows.
    pub fn elements(&mut self) -> &mut ElementsColumn {
        self.elements_of(Column::Elements)
    }

    /// The values of this group in a column of times; `None` when the group has none yet.
    pub fn times_of_group(&self, column: Column) -> Option<GroupTimes<'_>> {
        match &self.columns[column as usize] {
            Some(ColumnBuffer::Time(times)) if times.values.len() == self.rows => {
                Some(GroupTimes { column: times, start: self.group_start })
            }
            _ => None,
        }
    }

    #[inline]
    fn buffer(&mut self, column: Column) -> &mut ColumnBuffer {
        let (start, capacity) = (self.group_start, self.capacity);
        let buffer =
            self.columns[column as usize].get_or_insert_with(|| ColumnBuffer::new(column.column_type(), capacity));
        if buffer.rows() < start {
            // what a group lacks in the middle would move behind it
            debug_assert!(is_end(&self.group_ends, buffer.rows()), "column {column} has too few values of a group");
            buffer.pad_to(start);
        }
        buffer
    }

    /// Hands the rows out as a batch and starts the next one.
    ///
    /// # Panics
    /// When a column got more values than there are rows. In debug builds also when it got fewer than a group has rows;
    /// release builds fill it up with nulls.
    pub fn finish(&mut self) -> FlowBatch {
        let rows = std::mem::take(&mut self.rows);
        self.group_start = 0;
        let group_ends = std::mem::take(&mut self.group_ends);
        let mut columns = Vec::new();
        for &column in Column::ALL {
            let Some(mut buffer) = self.columns[column as usize].take() else { continue };
            debug_assert!(is_end(&group_ends, buffer.rows()), "column {column} has too few values of a group");
            buffer.pad_to(rows);
            assert_eq!(buffer.rows(), rows, "column {column} has more values than the batch has rows");
            columns.push((column, buffer.finish()));
        }
        match FlowBatch::from_columns(rows, columns) {
            Ok(batch) => batch,
            Err(error) => unreachable!("columns come from the table, in its order: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::UInt32Type;

    use super::*;
    use crate::elements::elements_of_row;

    /// A delivery at low rates has a few rows, and whoever keeps it keeps its memory.
    #[test]
    fn a_few_rows_take_little_memory_whatever_there_was_room_for() {
        let mut builder = FlowBatchBuilder::new(32_768);
        builder.begin_rows(3);
        builder.time(Column::Received).extend([1, 2, 3].into_iter());
        builder.u64(Column::Bytes).extend([10, 20, 30].into_iter());
        builder.address(Column::SrcAddr).extend_fixed([[10, 0, 0, 1]; 3].into_iter());
        builder.text(Column::ServerName).push(None);
        builder.text(Column::ServerName).push(Some(b"weir.example"));
        builder.text(Column::ServerName).push(None);
        builder.begin_rows(1);
        builder.time(Column::Received).push(Some(4));
        builder.address(Column::SrcAddr).push(Some(&[0x20; 16]));
        let batch = builder.finish();
        let octets = batch.record_batch().get_array_memory_size();
        assert!(octets < 2_000, "{octets} octets of 4 rows");
        let bytes = batch.primitive::<UInt64Type>(Column::Bytes).expect("octets");
        assert_eq!(bytes.iter().collect::<Vec<_>>(), [Some(10), Some(20), Some(30), None]);
        let names = batch.column(Column::ServerName).expect("names").as_string::<i32>();
        assert_eq!(names.iter().collect::<Vec<_>>(), [None, Some("weir.example"), None, None]);
    }

    #[test]
    fn columns_that_a_group_lacks_are_null() {
        let mut builder = FlowBatchBuilder::new(4);
        builder.begin_rows(2);
        builder.u16(Column::SrcPort).extend([1, 2].into_iter());
        builder.begin_rows(3);
        builder.u32(Column::SrcAs).repeat(7, 3);
        builder.begin_rows(1);
        builder.u16(Column::SrcPort).push(Some(9));
        let batch = builder.finish();
        let ports = batch.primitive::<UInt16Type>(Column::SrcPort).expect("ports");
        assert_eq!(ports.iter().collect::<Vec<_>>(), [Some(1), Some(2), None, None, None, Some(9)]);
        let systems = batch.primitive::<UInt32Type>(Column::SrcAs).expect("systems");
        assert_eq!(systems.iter().collect::<Vec<_>>(), [None, None, Some(7), Some(7), Some(7), None]);
        assert_eq!(builder.rows(), 0);
        assert_eq!(builder.finish().rows(), 0);
    }

    #[test]
    #[should_panic(expected = "too few values of a group")]
    #[cfg(debug_assertions)]
    fn a_group_that_lacks_a_value_is_a_defect() {
        let mut builder = FlowBatchBuilder::new(4);
        builder.begin_rows(2);
        builder.u16(Column::SrcPort).push(Some(1));
        builder.begin_rows(1);
        builder.u16(Column::SrcPort).push(Some(2));
    }

    #[test]
    fn addresses_of_both_families_share_a_column() {
        let mut builder = FlowBatchBuilder::new(4);
        builder.begin_rows(2);
        builder.address(Column::SrcAddr).extend_fixed([[10, 0, 0, 1], [10, 0, 0, 2]].into_iter());
        builder.begin_rows(1);
        builder.address(Column::SrcAddr).extend_fixed([[0x20; 16]].into_iter());
        builder.begin_rows(1);
        let batch = builder.finish();
        let addresses = batch.binary(Column::SrcAddr).expect("addresses");
        assert_eq!(addresses.value(1), [10, 0, 0, 2]);
        assert_eq!(addresses.value(2), [0x20; 16]);
        assert!(addresses.is_null(3));
    }

    #[test]
    fn texts_are_cleaned_and_empty_ones_are_null() {
        let mut builder = FlowBatchBuilder::new(4);
        builder.begin_rows(1);
        builder.begin_rows(3);
        let column = builder.text(Column::ServerName);
        column.push(Some(b"www.example.org\0\0"));
        column.push(Some(b"\0"));
        column.push(Some(b"a\x1b[2J"));
        builder.begin_rows(1);
        let batch = builder.finish();
        let names = batch.text(Column::ServerName).expect("names");
        let expected = [None, Some("www.example.org"), None, Some("a\u{fffd}[2J"), None];
        assert_eq!(names.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn elements_keep_their_numbers_and_octets() {
        let mut builder = FlowBatchBuilder::new(4);
        builder.begin_rows(1);
        builder.begin_rows(2);
        builder.elements().push(9, 12235, b"example");
        builder.elements().push(0, 999, &[]);
        builder.elements().end_row();
        builder.elements().end_row();
        let batch = builder.finish();
        let column = batch.column(Column::Elements).expect("elements");
        assert!(elements_of_row(column, 0).is_empty());
        let row = elements_of_row(column, 1);
        assert_eq!(row.iter().map(|value| value.place).collect::<Vec<_>>(), [None, None]);
        assert_eq!((row.len(), row[0].enterprise, row[0].id, row[0].octets), (2, 9, 12235, b"example".as_slice()));
        assert!(elements_of_row(column, 2).is_empty());
    }

    #[test]
    fn a_full_batch_has_every_column() {
        let mut builder = FlowBatchBuilder::new(4);
        builder.begin_rows(2);
        builder.u64(Column::Bytes).repeat(100, 2);
        builder.time(Column::Received).repeat(5, 2);
        let batch = builder.finish();
        let full = batch.to_full();
        assert_eq!((full.num_columns(), full.num_rows()), (Column::COUNT, 2));
        assert_eq!(batch.sum(Column::Bytes), 200);
        assert_eq!(batch.sum(Column::Packets), 0);
        assert_eq!(FlowBatch::try_new(full).expect("flows").rows(), 2);
    }
}
