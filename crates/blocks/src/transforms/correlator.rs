//! Finds the same flow in two streams, and measures how the two differ.
//!
//! The reference correlator of Kögel and Scholz: two routers saw the same packets, and what differs between their
//! joined flows is loss, delay and inaccuracy. Both inputs are sorted by time; rows are taken from them merged, so the
//! answer is the same whichever input comes first. A row waits in a flat table for its partner until the merged time has
//! passed it by the window.
//!
//! What speaks against matching in one pass is that the first fitting partner is taken, not the best: with equal keys
//! closer together than the window, a missing row can shift partners. The joiner before it makes one row of records
//! that close.

mod output;
mod pending;
mod rows;

use std::collections::VecDeque;

use arrow::array::RecordBatch;
use weir_chain::{
    Built, ColumnRule, ComponentContext, ComponentError, ComponentKind, Counter, FlowColumnRule, KindWithColumns,
    Opener, OptionError, Outlet, Role, State, TimeSpan, Transform, choices, options,
};

use output::Output;
use pending::Pending;
use rows::{Row, Times};

/// Compares two streams of flows.
pub const KIND: ComponentKind<CorrelatorOptions> = ComponentKind {
    name: "correlator",
    role: Role::Transform,
    inputs: &["first", "second"],
    doc: "Finds the same flow in two streams and measures how they differ: loss, delay, bytes counted differently. Both \
          inputs are sorted by the same time; rows are the same flow when source and destination address, ports and \
          protocol are equal and their times differ by no more than `window`. Each row is matched once, with the \
          oldest that fits. For each match it hands on one row: the key, `start`, `end`, `packets` and `bytes` of the \
          first input, `start_second`, `end_second`, `packets_second` and `bytes_second`, and the differences \
          `start_difference_ms` and `end_difference_ms` (second minus first: the delay), `packets_difference` and \
          `bytes_difference` (first minus second: the loss). Rows come in the order in which their partner was found. \
          Packets and bytes that are null count as 0. Rows without a time are counted in `rows_without_time` and \
          dropped, rows that come behind the merged time (their input was not sorted) in `rows_late_dropped`. Rows \
          without a partner are counted in `rows_unmatched_first` and `rows_unmatched_second`. While one input has \
          nothing, rows of the other are kept, where the chain cannot hold them back, see `ahead_rows_max`.",
    configure,
};

/// The same, with what it does to columns.
pub const KIND_WITH_COLUMNS: KindWithColumns<CorrelatorOptions> = KindWithColumns {
    kind: KIND,
    columns: |_| ColumnRule::Replaced(vec!["start_second", "packets_second"]),
    flow_columns: |_| FlowColumnRule::Unknown,
};

options! {
    /// Options of `correlator`.
    pub struct CorrelatorOptions {
        /// Compare rows by this time, by which both inputs are sorted.
        time: MatchTime = MatchTime::End,
        /// Let the times of the same flow differ by this much.
        window: TimeSpan = TimeSpan::from_secs(2),
        /// Hand on only these of the columns named above; without it, all of them. What is not needed costs time.
        columns: Option<Vec<String>>,
        /// What happens to rows without a partner.
        unmatched: Unmatched = Unmatched::Drop,
        /// Let at most this many rows wait for their partner, about 100 bytes each. Over the limit the oldest row
        /// leaves without a partner and is counted in `rows_shed`.
        window_rows_max: usize = 4_000_000 => 1..=1 << 32,
        /// Keep at most this many rows of one input while the other has nothing. Over the limit they are taken as if
        /// the other input had nothing older, counted in `rows_taken_early`, and the answer then depends on how fast
        /// the inputs come.
        ahead_rows_max: usize = 4_000_000 => 1..=1 << 32,
    }
}

choices! {
    /// The time by which rows are compared.
    pub enum MatchTime {
        /// The start of the flow.
        Start = "start",
        /// The end of the flow.
        End = "end",
    }
}

choices! {
    /// What happens to rows without a partner.
    pub enum Unmatched {
        /// They are dropped.
        Drop = "drop",
        /// They are handed on when their window is over, with nulls for the side that is missing.
        Pass = "pass",
    }
}

fn configure(options: CorrelatorOptions) -> Result<Opener, OptionError> {
    let times = match options.time {
        MatchTime::Start => Times::Start,
        MatchTime::End => Times::End,
    };
    if options.columns.as_ref().is_some_and(Vec::is_empty) {
        let error = OptionError::new("columns", "'columns' names no column");
        return Err(error.with_hint("without 'columns', all columns are handed on"));
    }
    let columns = options.columns.unwrap_or_default();
    if let Some(name) = columns.iter().find(|name| !output::is_column(name)) {
        return Err(OptionError::new("columns", format!("matches have no column '{name}'")));
    }
    let passes = options.unmatched == Unmatched::Pass;
    let (window_ms, rows_max, ahead_max) = (options.window.millis(), options.window_rows_max, options.ahead_rows_max);
    Ok(Box::new(move |context| {
        Ok(Built::Transform(Box::new(Correlator {
            times,
            window_ms,
            rows_max,
            ahead_max,
            ahead: Default::default(),
            ended: [false; 2],
            now: i64::MIN,
            pending: [Pending::new(), Pending::new()],
            output: Output::new(passes, columns),
            counters: Counters::new(context),
        })))
    }))
}

struct Correlator {
    times: Times,
    window_ms: i64,
    rows_max: usize,
    ahead_max: usize,
    /// Rows of each input that were not merged yet.
    ahead: [VecDeque<Row>; 2],
    ended: [bool; 2],
    /// The merged time: that of the last row taken.
    now: i64,
    /// Rows of each input that wait for a partner.
    pending: [Pending; 2],
    output: Output,
    counters: Counters,
}

struct Counters {
    unmatched: [Counter; 2],
    late: Counter,
    without_time: Counter,
    shed: Counter,
    early: Counter,
}

impl Counters {
    fn new(context: &ComponentContext) -> Self {
        let counter = |name| context.counters.counter(name);
        Self {
            unmatched: [counter("rows_unmatched_first"), counter("rows_unmatched_second")],
            late: counter("rows_late_dropped"),
            without_time: counter("rows_without_time"),
            shed: counter("rows_shed"),
            early: counter("rows_taken_early"),
        }
    }
}

impl Correlator {
    /// Takes rows of both inputs in the order of their times, as far as both are known.
    fn merge(&mut self) {
        loop {
            let [first, second] = &self.ahead;
            let input = match [first.front(), second.front()] {
                // rows of the first input go before those of the second of the same time
                [Some(first), Some(second)] => usize::from(second.time < first.time),
                [Some(_), None] if self.ended[1] => 0,
                [None, Some(_)] if self.ended[0] => 1,
                [Some(_), None] if first.len() > self.ahead_max => self.early(0),
                [None, Some(_)] if second.len() > self.ahead_max => self.early(1),
                _ => return,
            };
            if let Some(row) = self.ahead[input].pop_front() {
                self.take_row(input, row);
            }
        }
    }

    fn early(&self, input: usize) -> usize {
        self.counters.early.add(1);
        input
    }

    fn take_row(&mut self, input: usize, row: Row) {
        if row.time < self.now {
            self.counters.late.add(1);
            return;
        }
        if row.time > self.now {
            self.now = row.time;
            self.expire(row.time.saturating_sub(self.window_ms));
        }
        if let Some(partner) = self.pending[1 - input].take(&row) {
            let (first, second) = if input == 0 { (&row, &partner) } else { (&partner, &row) };
            self.output.matched(first, second);
            return;
        }
        self.pending[input].put(row);
        if self.pending[0].len() + self.pending[1].len() > self.rows_max {
            self.counters.shed.add(1);
            self.leave(self.oldest());
        }
    }

    /// The input whose oldest waiting row is older than that of the other.
    fn oldest(&self) -> usize {
        match [self.pending[0].oldest(), self.pending[1].oldest()] {
            [Some(first), Some(second)] => usize::from(second < first),
            [first, _] => usize::from(first.is_none()),
        }
    }

    /// The oldest row of an input leaves without a partner.
    fn leave(&mut self, input: usize) {
        if let Some(row) = self.pending[input].pop() {
            self.counters.unmatched[input].add(1);
            self.output.unmatched(input, &row);
        }
    }

    /// Rows older than the edge leave, oldest first.
    fn expire(&mut self, edge: i64) {
        loop {
            let input = self.oldest();
            match self.pending[input].oldest() {
                Some(time) if time < edge => self.leave(input),
                _ => return,
            }
        }
    }

    fn hand_on(&mut self, out: &mut Outlet) -> Result<(), ComponentError> {
        if let Some(rows) = self.output.finish()? {
            out.rows(rows);
        }
        Ok(())
    }
}

impl Transform for Correlator {
    fn take(&mut self, input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError> {
        let without_time = rows::read(&rows, self.times, &mut self.ahead[input])?;
        self.counters.without_time.add(without_time);
        self.merge();
        self.hand_on(out)
    }

    fn end(&mut self, input: usize, out: &mut Outlet) -> Result<(), ComponentError> {
        self.ended[input] = true;
        self.merge();
        self.hand_on(out)
    }

    fn finish(&mut self, out: &mut Outlet) -> Result<(), ComponentError> {
        self.expire(i64::MAX);
        self.hand_on(out)
    }

    fn wanted(&self) -> Option<usize> {
        (0..2).find(|&input| self.ahead[input].is_empty() && !self.ended[input])
    }

    fn state(&self) -> State {
        let rows = self.ahead.iter().map(VecDeque::len).chain(self.pending.iter().map(Pending::len)).sum::<usize>();
        let ahead = self.ahead.iter().map(|rows| rows.capacity() * size_of::<Row>());
        let octets = ahead.chain(self.pending.iter().map(Pending::octets)).sum::<usize>();
        let edge_ms = (self.now > i64::MIN).then(|| self.now.saturating_sub(self.window_ms));
        State { rows: rows as u64, octets: octets as u64, edge_ms }
    }
}

#[cfg(test)]
mod tests;
