//! A unit of work.

use std::sync::{Arc, Mutex, PoisonError};

use weir_archive::TailFrame;
use weir_flow::FlowBatch;

use super::ScanSpec;
use super::frame;
use super::page::PagesReader;
use super::segment_plan::SegmentPlan;
use crate::decode::PageDecoder;
use crate::{Progress, QueryError};

/// Some pages of a segment, or a batch of the tail.
#[derive(Debug)]
pub struct ScanUnit {
    pub(super) number: u64,
    pub(super) content: UnitContent,
    pub(super) wanted: Arc<ScanSpec>,
    pub(super) progress: Arc<Progress>,
}

#[derive(Debug)]
pub(super) enum UnitContent {
    /// Pages of a row group, by their numbers in the segment.
    Pages { segment: Arc<SegmentPlan>, group: usize, pages: Vec<usize> },
    /// A row group whose pages cannot be read one by one.
    Group { segment: Arc<SegmentPlan>, group: usize },
    /// A delivery that is in no segment.
    Frame(TailFrame),
    /// A batch of wherever flows come from.
    Batch(FlowBatch),
    /// The segment cannot be read: the first reader gets the reason.
    Failed(Mutex<Option<QueryError>>),
}

impl ScanUnit {
    /// Its number among all units of the scan, from 0 in the order that they are given out in: that of the archive, unless the
    /// scan is [in random order](super::FlowScan::in_random_order).
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Rows that reading it looks at.
    pub fn rows(&self) -> usize {
        match &self.content {
            UnitContent::Frame(frame) => frame.flows(),
            UnitContent::Batch(batch) => batch.rows(),
            UnitContent::Pages { segment, pages, .. } => pages.iter().map(|page| segment.file.page_rows(*page)).sum(),
            UnitContent::Group { segment, group } => segment.file.group_rows(*group),
            UnitContent::Failed(_) => 0,
        }
    }

    /// Gives the rows that pass to `each`, batch by batch in the order of the archive. Batches have the wanted columns in
    /// the order of the table; a column that is missing from a batch is null in all of its rows. No batch is empty.
    pub fn read(
        &self,
        decoder: &mut PageDecoder,
        mut each: impl FnMut(FlowBatch) -> Result<(), QueryError>,
    ) -> Result<(), QueryError> {
        let go_on = || if self.progress.is_stopped() { Err(QueryError::Cancelled) } else { Ok(()) };
        go_on()?;
        match &self.content {
            UnitContent::Frame(frame) => {
                self.progress.add_octets_read(frame.octets());
                let batch = frame::read(frame, &self.wanted)?;
                let passed = batch.map(|batch| self.wanted.of_batch(&batch)).transpose()?.flatten();
                if let Some(batch) = passed.filter(|batch| batch.rows() > 0) {
                    each(batch)?;
                }
            }
            UnitContent::Batch(batch) => {
                if let Some(batch) = self.wanted.of_batch(batch)?.filter(|batch| batch.rows() > 0) {
                    each(batch)?;
                }
            }
            UnitContent::Group { segment, group } => {
                for batch in segment.file.row_group(*group)? {
                    go_on()?;
                    if let Some(batch) = self.wanted.of_batch(&batch?)? {
                        each(batch)?;
                    }
                }
            }
            UnitContent::Pages { segment, group, pages } => {
                let mut reader = PagesReader::new(segment, &self.wanted, decoder, *group);
                for page in pages {
                    go_on()?;
                    if let Some(batch) = reader.read(*page)? {
                        each(batch)?;
                    }
                }
            }
            UnitContent::Failed(error) => {
                let error = error.lock().unwrap_or_else(PoisonError::into_inner).take();
                return Err(error.unwrap_or(QueryError::Cancelled));
            }
        }
        self.progress.add_rows_done(self.rows() as u64);
        Ok(())
    }
}
