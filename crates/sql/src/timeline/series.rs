//! Which series a flow is of, by its value in a column.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray, RecordBatch, new_null_array};
use arrow::datatypes::{FieldRef, UInt8Type, UInt16Type, UInt32Type};
use weir_flow::Column;
use weir_flow::schema::field;
use weir_print::ColumnText;

/// The numbers of the series of the values of a column: one for each value that has a label, and one for all others.
#[derive(Debug, Clone)]
pub(super) struct SeriesNumbers {
    column: Column,
    /// By the text of a value.
    numbers: HashMap<Vec<u8>, u32>,
    known: KnownSeries,
}

impl SeriesNumbers {
    pub(super) fn new(column: Column, labels: &[String]) -> Self {
        let numbers = labels.iter().zip(0_u32..).map(|(label, number)| (label.clone().into_bytes(), number)).collect();
        Self { column, numbers, known: KnownSeries::default() }
    }

    pub(super) fn column(&self) -> Column {
        self.column
    }

    /// What the values that are remembered take.
    pub(super) const fn known_octets() -> usize {
        size_of::<(u32, u32)>() << KnownSeries::BITS
    }

    /// The number of the series of each row. A column that is absent is null throughout.
    pub(super) fn of_rows(&mut self, batch: &RecordBatch) -> Vec<u32> {
        let absent: (FieldRef, ArrayRef);
        let (field, values) = if let Ok(position) = batch.schema_ref().index_of(self.column.name()) {
            (&batch.schema_ref().fields()[position], batch.column(position))
        } else {
            let field = FieldRef::new(field(self.column));
            let nulls = new_null_array(field.data_type(), batch.num_rows());
            absent = (field, nulls);
            (&absent.0, &absent.1)
        };
        let (numbers, other) = (&self.numbers, self.numbers.len() as u32);
        let mut texts = ColumnText::new(field, values);
        let mut text = Vec::new();
        let read = |row: usize| {
            text.clear();
            texts.push(row, &mut text);
            numbers.get(&text).copied().unwrap_or(other)
        };
        if let Some(values) = values.as_primitive_opt::<UInt16Type>() {
            return self.known.of_numbers(values, read);
        }
        if let Some(values) = values.as_primitive_opt::<UInt8Type>() {
            return self.known.of_numbers(values, read);
        }
        if let Some(values) = values.as_primitive_opt::<UInt32Type>() {
            return self.known.of_numbers(values, read);
        }
        let short = values.as_binary_opt::<i32>();
        let address = |row: usize| {
            let octets = short.filter(|values| values.is_valid(row))?.value(row);
            <[u8; 4]>::try_from(octets).ok().map(u32::from_be_bytes)
        };
        self.known.of_rows((0..batch.num_rows()).map(address), read)
    }
}

/// The numbers of the series of values that fit a number: most come again and again, and writing them is slow. Each has one
/// place, which it shares with others; the last one is remembered.
#[derive(Debug, Clone, Default)]
struct KnownSeries {
    /// The value and its series, or [`UNKNOWN`](Self::UNKNOWN), in `1 << KnownSeries::BITS` places; none before the first value.
    places: Vec<(u32, u32)>,
}

impl KnownSeries {
    /// As many places as there are ports.
    const BITS: u32 = 16;
    /// No series has this number.
    const UNKNOWN: u32 = u32::MAX;

    /// The series of numbers of at most 32 bits; `read` gives those that are not known.
    fn of_numbers<T: ArrowPrimitiveType>(
        &mut self,
        values: &PrimitiveArray<T>,
        mut read: impl FnMut(usize) -> u32,
    ) -> Vec<u32>
    where
        u32: From<T::Native>,
    {
        self.make_places();
        if values.null_count() > 0 {
            // all nulls are alike
            let mut of_null = None;
            let series = values.iter().enumerate().map(|(row, value)| match value {
                Some(value) => self.get_or(u32::from(value), || read(row)),
                None => *of_null.get_or_insert_with(|| read(row)),
            });
            return series.collect();
        }
        let numbers = values.values().iter().map(|value| u32::from(*value)).enumerate();
        numbers.map(|(row, value)| self.get_or(value, || read(row))).collect()
    }

    /// The series of rows whose values fit a number, and of others.
    fn of_rows(&mut self, values: impl Iterator<Item = Option<u32>>, mut read: impl FnMut(usize) -> u32) -> Vec<u32> {
        self.make_places();
        let series = values.enumerate().map(|(row, value)| match value {
            Some(value) => self.get_or(value, || read(row)),
            None => read(row),
        });
        series.collect()
    }

    fn make_places(&mut self) {
        if self.places.is_empty() {
            self.places.resize(1 << Self::BITS, (0, Self::UNKNOWN));
        }
    }

    /// The series of a value, `read` when it is not known.
    #[inline]
    fn get_or(&mut self, value: u32, read: impl FnOnce() -> u32) -> u32 {
        // multiples of the golden ratio: values that follow each other have places of their own
        let place = value.wrapping_mul(0x9E37_79B1) >> (u32::BITS - Self::BITS);
        let (known, series) = &mut self.places[place as usize];
        if *known != value || *series == Self::UNKNOWN {
            (*known, *series) = (value, read());
        }
        *series
    }
}
