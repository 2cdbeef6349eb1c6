//! Where flows come from, and what is counted of them on the way.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use anyhow::Context;
use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::{filter_record_batch, max, min};
use arrow::datatypes::TimestampMillisecondType;
use weir_ask::{Archive, AskOptions, FlowQuery, Select, TimeWindow, ask_batches};
use weir_filter::{FileRecords, Predicate};
use weir_flow::{Column, FlowBatch};
use weir_foreign::nfcapd;
use weir_print::nfdump::{Effort, Totals};

use super::input::Input;

/// What was counted while flows were read.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    /// Of the flows that passed.
    pub(super) totals: Totals,
    pub(super) effort: Effort,
}

/// Where flows come from, with the filter that they must pass.
pub(super) struct Source {
    input: Opened,
    filter: Predicate,
    window: TimeWindow,
    /// At most so many flows.
    count_max: Option<u64>,
    options: AskOptions,
    counts: Rc<RefCell<Counts>>,
}

enum Opened {
    Files(Vec<PathBuf>),
    Archive(Box<Archive>),
}

impl Source {
    pub(super) fn open(
        input: Input,
        filter: Predicate,
        window: TimeWindow,
        count_max: Option<u64>,
        options: AskOptions,
    ) -> anyhow::Result<Self> {
        let input = match input {
            Input::Files(files) => Opened::Files(files),
            Input::Archive(path) => {
                if filter.reads_file_records() {
                    anyhow::bail!("an archive keeps neither the number nor the ident of a record\nhint: ask files");
                }
                Opened::Archive(Box::new(Archive::open(&path, options.clone())?))
            }
        };
        Ok(Self { input, filter, window, count_max, options, counts: Rc::default() })
    }

    /// What was counted while flows were read last.
    pub(super) fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// The flows that pass, with these columns, or all of them.
    pub(super) fn flows(
        &self,
        columns: &[Column],
    ) -> anyhow::Result<Box<dyn Iterator<Item = anyhow::Result<FlowBatch>>>> {
        *self.counts.borrow_mut() = Counts::default();
        let counts = Rc::clone(&self.counts);
        match &self.input {
            Opened::Files(files) => {
                let passing = Passing {
                    files: files.clone().into_iter(),
                    reader: None,
                    filter: self.filter.clone(),
                    window: self.window,
                    left: self.count_max,
                    counts,
                };
                Ok(Box::new(passing))
            }
            Opened::Archive(archive) => {
                let mut columns = columns.to_vec();
                if !columns.is_empty() {
                    columns.extend([Column::Start, Column::End, Column::Packets, Column::Bytes, Column::Flows]);
                    columns.sort_unstable();
                    columns.dedup();
                }
                let limit = self.count_max.map(|count| usize::try_from(count).unwrap_or(usize::MAX));
                let answer = archive.ask(&self.question(Select::List { columns, sorting: None, limit }))?;
                Ok(Box::new(answer.map(move |batch| {
                    let batch = FlowBatch::try_new(batch?)?;
                    let mut counts = counts.borrow_mut();
                    counts.effort.flows_processed += batch.rows() as u64;
                    count_passed(&batch, &mut counts);
                    Ok(batch)
                })))
            }
        }
    }

    /// Whether flows come from an archive, which groups them itself.
    pub(super) fn is_archive(&self) -> bool {
        matches!(self.input, Opened::Archive(_)) && self.count_max.is_none()
    }

    /// Answers a question about the flows that pass.
    pub(super) fn ask(&self, select: Select) -> anyhow::Result<Vec<RecordBatch>> {
        if let (Opened::Archive(archive), None) = (&self.input, self.count_max) {
            return Ok(archive.ask(&self.question(select))?.collect::<Result<_, _>>()?);
        }
        let question = FlowQuery { filter: Predicate::True, window: TimeWindow::default(), select, scaled: false };
        let flows = self.flows(&[])?.map(|flows| flows.map_err(|error| format!("{error:#}")));
        Ok(ask_batches(&question, flows, &self.options)?.collect::<Result<_, _>>()?)
    }

    /// What the flows that pass amount to. Costs nothing for files once all of them were read.
    pub(super) fn totals(&self) -> anyhow::Result<Counts> {
        if matches!(self.input, Opened::Archive(_)) || self.counts().effort.flows_processed == 0 {
            for flows in self.flows(&[Column::Start])? {
                flows?;
            }
        }
        Ok(self.counts())
    }

    fn question(&self, select: Select) -> FlowQuery {
        FlowQuery { filter: self.filter.clone(), window: self.window, select, scaled: false }
    }
}

/// The flows of files that pass.
struct Passing {
    files: std::vec::IntoIter<PathBuf>,
    reader: Option<(nfcapd::Reader, PathBuf)>,
    filter: Predicate,
    window: TimeWindow,
    left: Option<u64>,
    counts: Rc<RefCell<Counts>>,
}

impl Iterator for Passing {
    type Item = anyhow::Result<FlowBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if self.left == Some(0) {
                self.close();
                return None;
            }
            if self.reader.is_none() {
                let path = self.files.next()?;
                match nfcapd::Reader::open(&path) {
                    Ok(reader) => self.reader = Some((reader, path)),
                    Err(error) => return Some(Err(error.into())),
                }
            }
            let (reader, path) = self.reader.as_mut()?;
            match reader.next() {
                // what was read before the damage counts; nfdump goes on with the next file, too
                Some(Err(error)) => {
                    eprintln!("warning: {:#}", anyhow::Error::from(error));
                    self.close();
                }
                None => {
                    tell_damage(&reader.damage(), path);
                    self.close();
                }
                Some(Ok(batch)) => {
                    let passed = self.pass(&batch);
                    if !matches!(&passed, Ok(passed) if passed.rows() == 0) {
                        return Some(passed);
                    }
                }
            }
        }
    }
}

fn tell_damage(damage: &nfcapd::Damage, path: &Path) {
    if damage.is_damaged() {
        let (blocks, records) = (damage.blocks_damaged, damage.records_damaged);
        eprintln!("warning: {} has {blocks} damaged blocks and {records} damaged records", path.display());
    }
}

impl Passing {
    fn close(&mut self) {
        if let Some((reader, _)) = self.reader.take() {
            self.counts.borrow_mut().effort.bytes_read += reader.octets_read();
        }
    }

    /// The flows of a batch that pass.
    fn pass(&mut self, batch: &FlowBatch) -> anyhow::Result<FlowBatch> {
        let mut counts = self.counts.borrow_mut();
        let ident = self.reader.as_ref().map_or("", |(reader, _)| reader.info().ident.as_str());
        let file = FileRecords { before: counts.effort.flows_processed, ident };
        let mut mask = self.filter.mask_in_file(batch, file);
        if self.window != TimeWindow::default() {
            let inside = inside(batch, &self.window);
            mask = arrow::compute::and(&mask, &inside).context("cannot combine filter and window")?;
        }
        let (mut read, mut passed) = (batch.rows(), mask.true_count());
        if let Some(left) = &mut self.left {
            if passed as u64 > *left {
                (mask, read) = cut(&mask, *left as usize);
                passed = *left as usize;
            }
            *left -= passed as u64;
        }
        counts.effort.flows_processed += read as u64;
        let (first, last) = times(batch.record_batch());
        let effort = &mut counts.effort;
        effort.first_ms = effort.first_ms.into_iter().chain(first).min();
        effort.last_ms = effort.last_ms.into_iter().chain(last).max();
        let batch = if passed == batch.rows() {
            batch.clone()
        } else {
            FlowBatch::try_new(filter_record_batch(batch.record_batch(), &mask)?)?
        };
        count_passed(&batch, &mut counts);
        Ok(batch)
    }
}

/// The mask with no more than the first `left` values set, and the rows up to the last of them.
fn cut(mask: &BooleanArray, left: usize) -> (BooleanArray, usize) {
    let rows = mask.values().set_indices().nth(left.saturating_sub(1)).map_or(0, |row| row + 1);
    ((0..mask.len()).map(|row| Some(row < rows && mask.value(row))).collect(), rows)
}

/// Flows that lie strictly inside a window; those without times do not.
fn inside(batch: &FlowBatch, window: &TimeWindow) -> BooleanArray {
    let time = |column, row| {
        let times = batch.primitive::<TimestampMillisecondType>(column)?;
        times.is_valid(row).then(|| times.value(row))
    };
    (0..batch.rows())
        .map(|row| {
            let is_after = window.from_ms.is_none_or(|from| time(Column::Start, row).is_some_and(|start| start > from));
            let is_before = window.until_ms.is_none_or(|until| time(Column::End, row).is_some_and(|end| end < until));
            Some(is_after && is_before)
        })
        .collect()
}

fn times(batch: &RecordBatch) -> (Option<i64>, Option<i64>) {
    let column = |column: Column| {
        batch.column_by_name(column.name()).and_then(|times| times.as_primitive_opt::<TimestampMillisecondType>())
    };
    (column(Column::Start).and_then(min), column(Column::End).and_then(max))
}

fn count_passed(batch: &FlowBatch, counts: &mut Counts) {
    counts.effort.flows_passed += batch.rows() as u64;
    let flows = batch.column(Column::Flows);
    let ones = flows.map_or(batch.rows(), arrow::array::Array::null_count) as u64;
    let totals = &mut counts.totals;
    totals.flows += ones + batch.sum(Column::Flows);
    totals.packets += batch.sum(Column::Packets);
    totals.bytes += batch.sum(Column::Bytes);
    let (first, last) = times(batch.record_batch());
    totals.first_ms = totals.first_ms.into_iter().chain(first).min();
    totals.last_ms = totals.last_ms.into_iter().chain(last).max();
}
