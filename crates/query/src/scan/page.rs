//! Reading pages: the columns of the filter first, all others when a row passes.

use arrow::array::{ArrayRef, BooleanArray};
use arrow::compute::filter;
use weir_flow::{Column, FlowBatch};

use super::Wanted;
use super::filter::{PageColumns, RowMask};
use super::plan::SegmentPlan;
use super::wanted::flow_batch;
use crate::QueryError;
use crate::decode::PageDecoder;

/// Reads pages of a row group, one after the other.
pub(super) struct PagesReader<'a> {
    segment: &'a SegmentPlan,
    wanted: &'a Wanted,
    decoder: &'a mut PageDecoder,
    group: usize,
    page: usize,
    rows: usize,
    /// Columns of the page that were decoded, by their places in `wanted.columns`.
    decoded: Vec<Option<Option<ArrayRef>>>,
}

impl<'a> PagesReader<'a> {
    pub(super) fn new(
        segment: &'a SegmentPlan,
        wanted: &'a Wanted,
        decoder: &'a mut PageDecoder,
        group: usize,
    ) -> Self {
        Self { segment, wanted, decoder, group, page: 0, rows: 0, decoded: vec![None; wanted.columns.len()] }
    }

    /// The rows of a page that pass, with the columns of the answer; `None` when there is no such row.
    pub(super) fn read(&mut self, page: usize) -> Result<Option<FlowBatch>, QueryError> {
        let segment = self.segment;
        (self.page, self.rows) = (page, segment.file.page_rows(page));
        self.decoded.fill(None);
        let mask = match segment.filter.mask(page, self)? {
            RowMask::None => return Ok(None),
            RowMask::All => None,
            RowMask::Some(bits) => Some(BooleanArray::from(bits)),
        };
        let mut kept = Vec::with_capacity(self.wanted.answered.len());
        for column in &self.wanted.answered {
            let Some(values) = self.column(*column)? else { continue };
            let values = match &mask {
                Some(mask) => filter(&values, mask)?,
                None => values,
            };
            kept.push((*column, values));
        }
        let rows = mask.as_ref().map_or(self.rows, BooleanArray::true_count);
        flow_batch(rows, kept).map(Some)
    }
}

impl PageColumns for PagesReader<'_> {
    fn rows(&self) -> usize {
        self.rows
    }

    fn column(&mut self, column: Column) -> Result<Option<ArrayRef>, QueryError> {
        let Ok(place) = self.wanted.columns.binary_search(&column) else { return Ok(None) };
        if let Some(values) = &self.decoded[place] {
            return Ok(values.clone());
        }
        let values = self.segment.file.column(self.decoder, self.group, self.page, place)?;
        self.decoded[place] = Some(values.clone());
        Ok(values)
    }
}
