//! Columns of a batch, read from the records of a block.

use weir_flow::builder::OctetsColumn;
use weir_flow::{Column, ColumnType, FlowBatch, FlowBatchBuilder};

use super::exporters::Exporters;
use super::shape::{HEADER_IDENT, RECORD_HEADER, Read, Shape};

/// A flow record: where it begins in the block, and its shape.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) at: u32,
    pub(super) octets: u16,
    pub(super) shape: u16,
}

/// Records of one block, and what is needed to read them.
pub(super) struct Records<'a> {
    pub(super) block: &'a [u8],
    pub(super) rows: &'a [Row],
    pub(super) shapes: &'a [Shape],
    pub(super) exporters: &'a Exporters,
    /// Added to the elements of every flow.
    pub(super) ident: Option<&'a str>,
}

impl Records<'_> {
    /// All columns of the records as a batch.
    pub(super) fn batch(&self, builder: &mut FlowBatchBuilder) -> FlowBatch {
        builder.begin_rows(self.rows.len());
        let mut seen = vec![false; self.shapes.len()];
        self.rows.iter().for_each(|row| seen[usize::from(row.shape)] = true);
        let used: Vec<usize> = (0..seen.len()).filter(|shape| seen[*shape]).collect();
        let shapes = || used.iter().map(|shape| &self.shapes[*shape]);
        let mut reads = Vec::with_capacity(self.shapes.len());
        for &column in Column::ALL {
            if column != Column::Elements && shapes().any(|shape| shape.has(column)) {
                reads.clear();
                reads.extend(self.shapes.iter().map(|shape| shape.read(column)));
                self.column(column, &reads, &used, builder);
            }
        }
        if self.ident.is_some() || shapes().any(|shape| !shape.elements.is_empty()) {
            self.elements(builder);
        }
        builder.finish()
    }

    #[inline]
    fn record(&self, row: Row) -> &[u8] {
        let at = row.at as usize;
        self.block.get(at..at + usize::from(row.octets)).unwrap_or_default()
    }

    fn column(&self, column: Column, reads: &[Option<Read>], used: &[usize], builder: &mut FlowBatchBuilder) {
        let only = only(reads, used);
        let always = used.iter().all(|shape| reads[*shape].is_some_and(Read::is_always));
        macro_rules! numbers {
            ($method:ident, $native:ty) => {{
                let values = builder.$method(column);
                match only {
                    Some(Read::Number(at, width)) if usize::from(width) <= size_of::<$native>() => {
                        let number = |row: &Row| super::shape::number(self.record(*row), at, width) as $native;
                        values.extend(self.rows.iter().map(number));
                    }
                    _ if always && reads.iter().flatten().all(|read| read.fits(size_of::<$native>())) => {
                        let number = |row: &Row| self.number(reads, *row).unwrap_or(0) as $native;
                        values.extend(self.rows.iter().map(number));
                    }
                    _ => self.rows.iter().for_each(|row| {
                        let value = self.number(reads, *row);
                        values.push(value.and_then(|value| <$native>::try_from(value).ok()));
                    }),
                }
            }};
        }
        match column.column_type() {
            ColumnType::U8 => numbers!(u8, u8),
            ColumnType::U16 => numbers!(u16, u16),
            ColumnType::U32 => numbers!(u32, u32),
            ColumnType::U64 => numbers!(u64, u64),
            ColumnType::Time => numbers!(time, i64),
            _ => self.octets(reads, only, builder.address(column)),
        }
    }

    #[inline]
    fn number(&self, reads: &[Option<Read>], row: Row) -> Option<u64> {
        reads[usize::from(row.shape)]?.as_number(self.record(row), self.exporters)
    }

    fn octets(&self, reads: &[Option<Read>], only: Option<Read>, values: &mut OctetsColumn) {
        if let Some(Read::V4(at)) = only {
            let address = |row: &Row| (super::shape::number(self.record(*row), at, 4) as u32).to_be_bytes();
            values.extend_fixed(self.rows.iter().map(address));
            return;
        }
        let mut place = [0; 16];
        for row in self.rows {
            let read = reads[usize::from(row.shape)];
            values.push(read.and_then(|read| read.as_octets(self.record(*row), self.exporters, &mut place)));
        }
    }

    fn elements(&self, builder: &mut FlowBatchBuilder) {
        let values = builder.elements();
        let mut place = [0; 16];
        for row in self.rows {
            let record = self.record(*row);
            for (enterprise, id, read) in &self.shapes[usize::from(row.shape)].elements {
                if let Some(octets) = read.octets(record, &mut place) {
                    values.push(*enterprise, *id, octets);
                }
            }
            if let Some(ident) = self.ident {
                values.push(RECORD_HEADER, HEADER_IDENT, ident.as_bytes());
            }
            values.end_row();
        }
    }
}

/// Where every record has the value, when that is the same place in all shapes that are used.
fn only(reads: &[Option<Read>], used: &[usize]) -> Option<Read> {
    let first = reads[*used.first()?]?;
    used.iter().all(|shape| reads[*shape] == Some(first)).then_some(first)
}
