//! The steps that rows are still counted into.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{TimestampMillisecondType, UInt32Type, UInt64Type};
use weir_chain::{ComponentError, Counter, Counters, State};
use weir_flow::Column;
use weir_rows::flow_columns::{number, numbers};
use weir_rows::gather::take;
use weir_rows::keys::{KeyColumns, NO_KEY};
use weir_series::{DistinctSketch, FamilyRows, Resolution, StatisticsWriter};

use super::families::{CountedFamily, OTHER};
use super::{LIVE_MS, SamplingScale, SeriesOptions};

/// The latest time that is believed: the end of the year 9999.
const TIME_MS_MAX: i64 = 253_402_300_799_000;

/// What is counted of a key: flows, packets, bytes, peers.
type Cell = [u64; 4];

/// The steps that are open.
pub(super) struct OpenSteps {
    resolution: Resolution,
    time: Column,
    lateness_ms: i64,
    scale: bool,
    keys_max: usize,
    open: BTreeMap<i64, StepCounts>,
    /// Counts of steps that were written, for the next ones.
    free: Vec<StepCounts>,
    /// The earliest step that may be written.
    floor_secs: i64,
    latest_ms: Option<i64>,
    is_live: bool,
    rows_counted: Counter,
    rows_late: Counter,
    rows_without_time: Counter,
    keys_refused: Counter,
}

/// What is counted in a step.
pub(super) struct StepCounts {
    pub(super) families: Vec<FamilyCounts>,
}

/// What is counted in a step for the keys of a family.
pub(super) struct FamilyCounts {
    keys: KeyColumns,
    /// Keys together with peers, where peers are counted.
    pairs: Option<KeyColumns>,
    /// Hashes of the distinct peers, each with the number of its key.
    peers: Vec<(u32, u32)>,
    /// By the number of the key.
    cells: Vec<Cell>,
    /// Rows whose key has no number.
    other: Cell,
}

impl OpenSteps {
    pub(super) fn new(
        options: &SeriesOptions,
        resolution: Resolution,
        last_secs: Option<i64>,
        counters: &Counters,
    ) -> Self {
        Self {
            resolution,
            time: options.time.column(),
            lateness_ms: options.lateness.duration().as_millis() as i64,
            scale: options.sampling == SamplingScale::Scale,
            keys_max: options.keys_max,
            open: BTreeMap::new(),
            free: Vec::new(),
            floor_secs: last_secs.unwrap_or(i64::MIN),
            latest_ms: None,
            is_live: false,
            rows_counted: counters.counter("rows_counted"),
            rows_late: counters.counter("rows_late"),
            rows_without_time: counters.counter("rows_without_time"),
            keys_refused: counters.counter("keys_refused"),
        }
    }

    /// Begins anew with the steps from this one on.
    pub(super) fn begin_again(&mut self, last_secs: Option<i64>) {
        self.floor_secs = last_secs.unwrap_or(i64::MIN);
        self.latest_ms = None;
    }

    /// The earliest step that rows can be counted in.
    pub(super) fn floor_secs(&self) -> i64 {
        self.floor_secs
    }

    /// Seconds of a step.
    pub(super) fn step_secs(&self) -> i64 {
        i64::from(self.resolution.step_secs)
    }

    /// Whether the rows are of now, so that time goes on without them.
    pub(super) fn is_live(&self) -> bool {
        self.is_live
    }

    /// The earliest step that is open.
    pub(super) fn earliest(&self) -> Option<i64> {
        self.open.keys().next().copied()
    }

    /// Steps that end at or before this time are over, in seconds.
    pub(super) fn edge_secs(&self) -> i64 {
        self.latest_ms.map_or(i64::MIN / 2_000, |latest| (latest - self.lateness_ms).div_euclid(1_000))
    }

    /// Moves time on to the clock's.
    pub(super) fn advance(&mut self, now_ms: i64) {
        self.latest_ms = self.latest_ms.max(Some(now_ms));
    }

    /// Takes the earliest open step if it is over at a time.
    pub(super) fn pop_before(&mut self, edge_secs: i64) -> Option<(i64, StepCounts)> {
        let earliest = self.earliest().filter(|time| time.saturating_add(self.step_secs()) <= edge_secs);
        let (time_secs, counts) = earliest.and_then(|time| self.open.remove_entry(&time))?;
        self.floor_secs = time_secs + self.step_secs();
        Some((time_secs, counts))
    }

    /// Has rows before a time counted in the step at that time.
    pub(super) fn close_before(&mut self, edge_secs: i64) {
        self.floor_secs = self.floor_secs.max(edge_secs);
    }

    /// Gives the memory of counts back.
    pub(super) fn recycle(&mut self, mut counts: StepCounts) {
        for family in &mut counts.families {
            family.keys.clear();
            if let Some(pairs) = &mut family.pairs {
                pairs.clear();
            }
            family.peers.clear();
            family.cells.clear();
            family.other = Cell::default();
        }
        if self.free.len() < 4 {
            self.free.push(counts);
        }
    }

    /// Counts rows into their steps.
    pub(super) fn take(
        &mut self,
        rows: &RecordBatch,
        families: &[CountedFamily],
        now_ms: i64,
    ) -> Result<(), ComponentError> {
        let steps = self.steps_of(rows, now_ms)?;
        self.rows_counted.add(rows.num_rows() as u64);
        let amounts = amounts(rows, self.scale)?;
        if let Some(&step) = steps.first().filter(|first| steps.iter().all(|step| step == *first)) {
            return self.count(step, rows, &amounts, families);
        }
        let mut parts: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
        for (row, step) in (0..).zip(steps) {
            parts.entry(step).or_default().push(row);
        }
        for (step, picked) in parts {
            let some = take(rows, &picked)?;
            let amounts: Vec<_> = picked.iter().map(|&row| amounts[row as usize]).collect();
            self.count(step, &some, &amounts, families)?;
        }
        Ok(())
    }

    /// The step of each row.
    fn steps_of(&mut self, rows: &RecordBatch, now_ms: i64) -> Result<Vec<i64>, ComponentError> {
        let time = numbers::<TimestampMillisecondType>(rows, self.time)?;
        let end = numbers::<TimestampMillisecondType>(rows, Column::End)?;
        let received = numbers::<TimestampMillisecondType>(rows, Column::Received)?;
        let (mut late, mut timeless) = (0, 0);
        let mut steps = Vec::with_capacity(rows.num_rows());
        for row in 0..rows.num_rows() {
            let known = number(time, row).or_else(|| number(end, row));
            timeless += u64::from(known.is_none());
            let time_ms = known.or(self.latest_ms).unwrap_or(now_ms).clamp(0, TIME_MS_MAX);
            // what an exporter dates after it was received would close every step before it
            let time_ms =
                number(received, row).map_or(time_ms, |received| time_ms.min(received.saturating_add(LIVE_MS)));
            self.latest_ms = self.latest_ms.max(Some(time_ms));
            let step = self.resolution.step_of(time_ms.div_euclid(1_000));
            late += u64::from(step < self.floor_secs);
            steps.push(step.max(self.floor_secs));
        }
        self.is_live |= self.latest_ms.is_some_and(|latest| (now_ms - latest).abs() < LIVE_MS);
        self.rows_late.add(late);
        self.rows_without_time.add(timeless);
        Ok(steps)
    }

    fn count(
        &mut self,
        step: i64,
        rows: &RecordBatch,
        amounts: &[[u64; 3]],
        families: &[CountedFamily],
    ) -> Result<(), ComponentError> {
        let fresh = || StepCounts { families: families.iter().map(FamilyCounts::new).collect() };
        let counts = self.open.entry(step).or_insert_with(|| self.free.pop().unwrap_or_else(fresh));
        for (counts, family) in counts.families.iter_mut().zip(families) {
            self.keys_refused.add(counts.count(rows, amounts, family, self.keys_max)?);
        }
        Ok(())
    }

    pub(super) fn state(&self) -> State {
        let families = self.open.values().flat_map(|step| &step.families);
        let pairs = |family: &FamilyCounts| family.pairs.as_ref().map_or(0, KeyColumns::octets);
        let octets = |family: &FamilyCounts| {
            family.keys.octets() + pairs(family) + family.peers.len() * 8 + family.cells.len() * size_of::<Cell>()
        };
        State {
            rows: families.clone().map(|family| family.cells.len() as u64).sum(),
            octets: families.map(|family| octets(family) as u64).sum(),
            edge_ms: self.latest_ms.map(|latest| latest - self.lateness_ms),
        }
    }
}

/// Flows, packets and bytes of each row.
fn amounts(rows: &RecordBatch, scale: bool) -> Result<Vec<[u64; 3]>, ComponentError> {
    let [flows, packets, bytes] =
        [Column::Flows, Column::Packets, Column::Bytes].map(|column| numbers::<UInt64Type>(rows, column));
    let (flows, packets, bytes) = (flows?, packets?, bytes?);
    let sampling = numbers::<UInt32Type>(rows, Column::SamplingInterval)?.filter(|_| scale);
    let of = |row| {
        let factor = number(sampling, row).map_or(1, u64::from).max(1);
        let scaled = |values| number::<UInt64Type>(values, row).unwrap_or(0).saturating_mul(factor);
        [number(flows, row).unwrap_or(1), scaled(packets), scaled(bytes)]
    };
    Ok((0..rows.num_rows()).map(of).collect())
}

impl FamilyCounts {
    fn new(family: &CountedFamily) -> Self {
        Self {
            keys: family.key_columns(),
            pairs: family.pair_columns(),
            peers: Vec::new(),
            cells: Vec::new(),
            other: Cell::default(),
        }
    }

    /// Counts rows. Returns how many keys were refused because there are too many.
    fn count(
        &mut self,
        rows: &RecordBatch,
        amounts: &[[u64; 3]],
        family: &CountedFamily,
        keys_max: usize,
    ) -> Result<u64, ComponentError> {
        let columns = family.columns(rows)?;
        let mut ids = Vec::new();
        self.keys.ids(&columns, keys_max, &mut ids)?;
        self.cells.resize(self.keys.len(), Cell::default());
        let mut refused = 0;
        for (&id, amounts) in ids.iter().zip(amounts) {
            let cell = if id == NO_KEY { &mut self.other } else { &mut self.cells[id as usize] };
            refused += u64::from(id == NO_KEY);
            for (sum, amount) in cell.iter_mut().zip(amounts) {
                *sum = sum.saturating_add(*amount);
            }
        }
        if let Some(pairs) = &mut self.pairs {
            let mut seen = pairs.len() as u32;
            let mut pair_ids = Vec::new();
            pairs.ids(&columns, keys_max, &mut pair_ids)?;
            let peers = family.peer.and_then(|peer| columns.column_by_name(peer.name()));
            let peers = peers.and_then(|peers| peers.as_binary_opt::<i32>());
            for (row, (&id, &pair)) in ids.iter().zip(&pair_ids).enumerate() {
                // numbers are given in the order of rows, so a new pair has the next one
                if pair == seen && id != NO_KEY {
                    self.cells[id as usize][3] += 1;
                    let peer = peers.filter(|peers| peers.is_valid(row)).map_or(&[][..], |peers| peers.value(row));
                    self.peers.push((id, DistinctSketch::hash(peer)));
                }
                seen += u32::from(pair == seen);
            }
        }
        Ok(refused)
    }

    /// Hashes of the peers of each of these keys.
    fn peers_of(&self, keys: &[u32]) -> Vec<Vec<u32>> {
        let mut found = vec![Vec::new(); if self.pairs.is_some() { keys.len() } else { 0 }];
        let mut places = vec![usize::MAX; self.cells.len()];
        (0..found.len()).zip(keys).for_each(|(place, &key)| places[key as usize] = place);
        for &(key, hash) in &self.peers {
            if let Some(hashes) = found.get_mut(places[key as usize]) {
                hashes.push(hash);
            }
        }
        found
    }

    /// The rows of the step: every key, or the `top` largest and the sum of the others.
    pub(super) fn rows(
        &self,
        family: &CountedFamily,
        top: usize,
        series_max: usize,
        writer: &mut StatisticsWriter,
    ) -> Result<(FamilyRows, u64), ComponentError> {
        let metrics = family.spec.metrics.len();
        let mut rows = FamilyRows::new(metrics);
        let Some(id) = writer.family(&family.spec.name) else { return Ok((rows, 0)) };
        let mut order: Vec<u32> = (0..self.cells.len() as u32).collect();
        let mut other = self.other;
        if family.spec.coverage == weir_series::Coverage::Largest && order.len() > top {
            let by_bytes = |key: &u32| std::cmp::Reverse(self.cells[*key as usize][2]);
            order.select_nth_unstable_by_key(top, by_bytes);
            order.drain(top..).for_each(|key| add_to(&mut other, &self.cells[key as usize]));
        }
        // the larger ones come first to what is left of series
        order.sort_unstable_by_key(|key| std::cmp::Reverse(self.cells[*key as usize][2]));
        let texts = family.texts(&self.keys, &order)?;
        let mut peers = self.peers_of(&order).into_iter();
        // the last of the metrics, of which the peers of others are not known
        let push = |rows: &mut FamilyRows, series, cell: &Cell, sketch: Option<DistinctSketch>| match self.pairs {
            Some(_) => {
                let octets = sketch.map(|sketch| sketch.encode()).unwrap_or_default();
                rows.push_sketched(series, &cell[..metrics], metrics - 1, octets);
            }
            None => rows.push(series, &cell[..metrics]),
        };
        let mut refused = 0;
        let is_new = |writer: &StatisticsWriter, text: &String| writer.catalogue().id(id, text).is_none();
        let new = texts.iter().filter(|text| is_new(writer, text)).count();
        let mut rank = 0;
        for (key, text) in order.iter().zip(&texts) {
            let sketch = peers.next().map(DistinctSketch::of_hashes);
            let cell = &self.cells[*key as usize];
            let is_new = is_new(writer, text);
            let series = writer.catalogue().len();
            let fits = match family.spec.coverage {
                weir_series::Coverage::Complete => series < series_max,
                weir_series::Coverage::Largest => has_room(rank, new, series, series_max),
            };
            rank += usize::from(is_new);
            if is_new && !fits {
                refused += 1;
                add_to(&mut other, cell);
            } else {
                push(&mut rows, writer.series(id, text), cell, sketch);
            }
        }
        if other != Cell::default() {
            push(&mut rows, writer.series(id, OTHER), &other, None);
        }
        Ok((rows.sorted(), refused))
    }
}

/// Whether a new key gets a series: any while half of them are free, then only the larger ones of a step. Otherwise keys that
/// come once would have all of them, and one that is heavy tomorrow none.
fn has_room(rank: usize, new: usize, series: usize, series_max: usize) -> bool {
    let free = series_max.saturating_sub(series);
    free > series_max / 2 || (rank as u128) * (series_max as u128) < (new as u128) * 2 * (free as u128)
}

/// Adds flows, packets and bytes of a key to those of the others; their peers are not known.
fn add_to(other: &mut Cell, cell: &Cell) {
    for (sum, more) in other.iter_mut().zip(cell).take(3) {
        *sum = sum.saturating_add(*more);
    }
}
