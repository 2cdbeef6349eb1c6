//! Reading pages: the columns of the filter first, all others when a row passes.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::filter;
use weir_flow::{Column, FlowBatch};

use super::ScanSpec;
use super::filter::{PageColumns, RowMask};
use super::segment_plan::SegmentPlan;
use super::spec::flow_batch;
use crate::QueryError;
use crate::decode::PageDecoder;

/// When fewer than this part of a page's rows pass, only those are decoded.
const SELECTED_PART: usize = 4;

/// A column of a page.
#[derive(Debug, Clone)]
enum DecodedColumn {
    NotYet,
    /// Nothing but nulls.
    Absent,
    Values(ArrayRef),
}

/// Reads pages of a row group, one after the other.
pub(super) struct PagesReader<'a> {
    segment: &'a SegmentPlan,
    wanted: &'a ScanSpec,
    decoder: &'a mut PageDecoder,
    group: usize,
    page: usize,
    rows: usize,
    /// Columns of the page that were decoded, by their places in `wanted.columns`.
    decoded: Vec<DecodedColumn>,
}

impl<'a> PagesReader<'a> {
    pub(super) fn new(
        segment: &'a SegmentPlan,
        wanted: &'a ScanSpec,
        decoder: &'a mut PageDecoder,
        group: usize,
    ) -> Self {
        Self {
            segment,
            wanted,
            decoder,
            group,
            page: 0,
            rows: 0,
            decoded: vec![DecodedColumn::NotYet; wanted.columns.len()],
        }
    }

    /// The rows of a page that pass, with the columns of the answer; `None` when there is no such row.
    pub(super) fn read(&mut self, page: usize) -> Result<Option<FlowBatch>, QueryError> {
        let segment = self.segment;
        (self.page, self.rows) = (page, segment.file.page_rows(page));
        self.decoded.fill(DecodedColumn::NotYet);
        let bits = match segment.filter.mask(page, self)? {
            RowMask::None => return Ok(None),
            RowMask::All => None,
            RowMask::Some(bits) => Some(bits),
        };
        let rows = bits.as_ref().map_or(self.rows, BooleanBuffer::count_set_bits);
        let selected: Option<Vec<u32>> =
            bits.as_ref().filter(|_| rows < self.rows / SELECTED_PART).map(|bits| bits.set_indices_u32().collect());
        let mask = bits.map(BooleanArray::from);
        let mut kept = Vec::with_capacity(self.wanted.answered.len());
        for column in &self.wanted.answered {
            let Ok(place) = self.wanted.columns.binary_search(column) else { continue };
            if let (Some(selected), DecodedColumn::NotYet) = (&selected, &self.decoded[place]) {
                let values = segment.file.column(self.decoder, (self.group, page), place, Some(selected))?;
                kept.extend(values.map(|values| (*column, values)));
                continue;
            }
            let Some(values) = self.column(*column)? else { continue };
            let values = match &mask {
                Some(mask) => filter(&values, mask)?,
                None => values,
            };
            kept.push((*column, values));
        }
        flow_batch(rows, kept).map(Some)
    }
}

impl PageColumns for PagesReader<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn column(&mut self, column: Column) -> Result<Option<ArrayRef>, QueryError> {
        let Ok(place) = self.wanted.columns.binary_search(&column) else { return Ok(None) };
        match &self.decoded[place] {
            DecodedColumn::NotYet => {}
            DecodedColumn::Absent => return Ok(None),
            DecodedColumn::Values(values) => return Ok(Some(Arc::clone(values))),
        }
        let values = self.segment.file.column(self.decoder, (self.group, self.page), place, None)?;
        self.decoded[place] = values.clone().map_or(DecodedColumn::Absent, DecodedColumn::Values);
        Ok(values)
    }
}
