//! Coarser steps, made of finer ones as these end.
//!
//! A coarser step has, for each series, how many finest steps have it, and for each metric their sum, smallest,
//! largest and last value: `count sum min max last sum min max last …`; and the sketches of metrics that have one. It is made of the resolution before it, so an
//! hour is twelve numbers of 5 minutes, and nothing is read back. It is written when the first step after it comes.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::resolution::Resolution;
use crate::sketch::OpenSketch;
use crate::{Family, FamilyId, FamilyRows, MetricKind, Sketch};

/// Columns of each metric in a coarser step.
pub(crate) const FOLDS: usize = 4;

/// Columns of a family in a coarser step.
pub(crate) fn coarse_columns(family: &Family) -> usize {
    1 + FOLDS * family.metrics.len()
}

/// The metrics that have sketches.
fn sketched(family: &Family) -> impl Iterator<Item = usize> {
    (0..).zip(&family.metrics).filter(|(_, metric)| metric.sketch != Sketch::None).map(|(place, _)| place)
}

/// What a coarser step keeps of a family: so many keys, the largest by a metric, and the sum of the others as another key.
///
/// Of that key the smallest and the largest value are bounds: in which finest step how much of it there was is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) keys_max: usize,
    pub(crate) metric: usize,
    pub(crate) other: u32,
}

/// A finished step: its time, how many finest steps are known of it, and its rows.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Consolidated {
    pub(crate) time_secs: i64,
    pub(crate) known: u32,
    pub(crate) groups: Vec<(FamilyId, FamilyRows)>,
}

/// The step of a coarser resolution that is not over.
#[derive(Debug)]
pub(crate) struct OpenStep {
    resolution: Resolution,
    /// When it began; `None` before the first step.
    time_secs: Option<i64>,
    known: u32,
    /// Finer steps that are in it.
    parts: u32,
    families: Vec<OpenFamily>,
    /// For each family what is kept of it; `None` for everything.
    cuts: Vec<Option<Cut>>,
}

/// What is known of a family in the step that is not over.
#[derive(Debug, Default)]
struct OpenFamily {
    /// The place of each series in `ids`. Numbers are never given twice, so they are no places themselves.
    places: HashMap<u32, usize, foldhash::fast::RandomState>,
    ids: Vec<u32>,
    counts: Vec<u32>,
    /// The number of the last finer step that has the series.
    last_parts: Vec<u32>,
    /// For each series and metric its folds.
    folds: Vec<[u64; FOLDS]>,
    /// For each series and metric with a sketch what is in it so far.
    sketches: Vec<OpenSketch>,
}

impl OpenStep {
    pub(crate) fn new(resolution: Resolution, cuts: Vec<Option<Cut>>) -> Self {
        Self { resolution, time_secs: None, known: 0, parts: 0, families: Vec::new(), cuts }
    }

    /// Takes a step of the finest resolution. The step that it ends, if any, is returned.
    pub(crate) fn take_finest(
        &mut self,
        time_secs: i64,
        rows: &[(FamilyId, FamilyRows)],
        families: &[Family],
    ) -> Option<Consolidated> {
        self.take(time_secs, 1, rows, families, true)
    }

    /// Takes a step of a resolution that is consolidated itself.
    pub(crate) fn take_coarser(&mut self, step: &Consolidated, families: &[Family]) -> Option<Consolidated> {
        self.take(step.time_secs, step.known, &step.groups, families, false)
    }

    /// Ends the step if it is over at a time.
    pub(crate) fn end_before(&mut self, time_secs: i64, families: &[Family]) -> Option<Consolidated> {
        let is_over = self.time_secs.is_some_and(|step| step < self.resolution.step_of(time_secs));
        is_over.then(|| self.end(families)).flatten()
    }

    fn take(
        &mut self,
        time_secs: i64,
        known: u32,
        groups: &[(FamilyId, FamilyRows)],
        families: &[Family],
        is_finest: bool,
    ) -> Option<Consolidated> {
        let step = self.resolution.step_of(time_secs);
        let ended = (self.time_secs != Some(step)).then(|| self.end(families)).flatten();
        self.time_secs = Some(step);
        self.known += known;
        self.parts += 1;
        self.families.resize_with(families.len(), OpenFamily::default);
        for (id, rows) in groups {
            let place = usize::from(id.0);
            if let (Some(open), Some(family)) = (self.families.get_mut(place), families.get(place)) {
                open.take(rows, family, self.parts, is_finest);
            }
        }
        ended
    }

    /// Ends the step.
    fn end(&mut self, families: &[Family]) -> Option<Consolidated> {
        let time_secs = self.time_secs.take()?;
        let (known, parts) = (self.known, self.parts);
        (self.known, self.parts) = (0, 0);
        let open = (0..).map(FamilyId).zip(self.families.iter_mut().zip(families));
        let groups = open.filter(|(_, (open, _))| !open.ids.is_empty());
        let groups = groups.map(|(id, (open, family))| {
            if let Some(cut) = self.cuts.get(usize::from(id.0)).copied().flatten() {
                open.cut(family, cut, known);
            }
            (id, open.end(family, known, parts))
        });
        let groups = groups.collect();
        Some(Consolidated { time_secs, known, groups })
    }
}

impl OpenFamily {
    fn take(&mut self, rows: &FamilyRows, family: &Family, part: u32, is_finest: bool) {
        let metrics = family.metrics.len();
        let sketched: Vec<usize> = sketched(family).collect();
        for (row, &id) in rows.ids.iter().enumerate() {
            let series = self.place(id, family);
            let count = if is_finest { 1 } else { rows.columns[0][row] as u32 };
            self.counts[series] += count;
            self.last_parts[series] = part;
            let folds = &mut self.folds[series * metrics..][..metrics];
            for (metric, [sum, min, max, last]) in folds.iter_mut().enumerate() {
                let more = if is_finest {
                    [rows.columns[metric][row]; FOLDS]
                } else {
                    [0, 1, 2, 3].map(|fold| rows.columns[1 + FOLDS * metric + fold][row])
                };
                *sum = sum.saturating_add(more[0]);
                *min = (*min).min(more[1]);
                *max = (*max).max(more[2]);
                *last = more[3];
            }
            let sketches = &mut self.sketches[series * sketched.len()..][..sketched.len()];
            for (sketch, &metric) in sketches.iter_mut().zip(&sketched) {
                let octets = rows.sketch(metric, row);
                if is_finest {
                    sketch.take_value(rows.columns[metric][row], octets);
                } else {
                    sketch.take_sketch(octets);
                }
            }
        }
    }

    /// The place of a series, a new one without values when it has none.
    fn place(&mut self, id: u32, family: &Family) -> usize {
        *self.places.entry(id).or_insert_with(|| {
            self.ids.push(id);
            self.counts.push(0);
            self.last_parts.push(0);
            self.folds.extend(std::iter::repeat_n([0, u64::MAX, 0, 0], family.metrics.len()));
            self.sketches.extend(family.metrics.iter().filter_map(OpenSketch::new));
            self.ids.len() - 1
        })
    }

    /// Leaves the largest series, and adds the counters of the others to another one.
    fn cut(&mut self, family: &Family, cut: Cut, known: u32) {
        let metrics = family.metrics.len();
        if self.ids.len() <= cut.keys_max.saturating_add(usize::from(self.places.contains_key(&cut.other))) {
            return;
        }
        let other = self.place(cut.other, family);
        let mut order: Vec<usize> = (0..self.ids.len()).filter(|series| *series != other).collect();
        order.select_nth_unstable_by_key(cut.keys_max, |series| Reverse(self.folds[series * metrics + cut.metric][0]));
        let rest = order.split_off(cut.keys_max);
        // the last values are of one finest step only where they are of the last of these
        let last_part = rest.iter().chain([&other]).map(|series| self.last_parts[*series]).max().unwrap_or(0);
        for (metric, spec) in family.metrics.iter().enumerate() {
            let [mut sum, mut min, mut max, mut last] = self.folds[other * metrics + metric];
            last = if self.last_parts[other] == last_part { last } else { 0 };
            if spec.kind == MetricKind::Gauge {
                // of a level, such as a number of peers, that of several keys together is not known
                min = if self.counts[other] == 0 { 0 } else { min };
            } else {
                for series in &rest {
                    let [more, smallest, largest, latest] = self.folds[series * metrics + metric];
                    (sum, min, max) = (sum.saturating_add(more), min.min(smallest), max.max(largest));
                    last = last.saturating_add(if self.last_parts[*series] == last_part { latest } else { 0 });
                }
                max = max.max(last);
            }
            self.folds[other * metrics + metric] = [sum, min, max, last];
        }
        let counts = rest.iter().map(|series| self.counts[*series]);
        // in as many finest steps, if no two of them are of the same one
        self.counts[other] = counts.fold(self.counts[other], u32::saturating_add).min(known);
        self.last_parts[other] = last_part;
        order.push(other);
        self.keep(&order, metrics);
    }

    /// Leaves the series at these places.
    fn keep(&mut self, order: &[usize], metrics: usize) {
        let sketches = self.sketches.len() / self.ids.len().max(1);
        self.folds = order.iter().flat_map(|series| &self.folds[series * metrics..][..metrics]).copied().collect();
        self.sketches =
            order.iter().flat_map(|series| &self.sketches[series * sketches..][..sketches]).cloned().collect();
        self.counts = order.iter().map(|series| self.counts[*series]).collect();
        self.last_parts = order.iter().map(|series| self.last_parts[*series]).collect();
        self.ids = order.iter().map(|series| self.ids[*series]).collect();
    }

    /// The rows of the step, and nothing for the next one.
    fn end(&mut self, family: &Family, known: u32, parts: u32) -> FamilyRows {
        let metrics = family.metrics.len();
        let mut order: Vec<u32> = (0..self.ids.len() as u32).collect();
        order.sort_unstable_by_key(|&series| self.ids[series as usize]);
        let mut rows = FamilyRows::new(coarse_columns(family));
        rows.ids = order.iter().map(|&series| self.ids[series as usize]).collect();
        rows.columns[0] = order.iter().map(|&series| u64::from(self.counts[series as usize])).collect();
        for metric in 0..metrics {
            let absent_is_zero = family.absent_is_zero(metric);
            for (fold, column) in rows.columns[1 + FOLDS * metric..][..FOLDS].iter_mut().enumerate() {
                column.extend(order.iter().map(|&series| {
                    let value = self.folds[series as usize * metrics + metric][fold];
                    let was_absent = match fold {
                        1 => self.counts[series as usize] < known,
                        3 => self.last_parts[series as usize] < parts,
                        _ => false,
                    };
                    if absent_is_zero && was_absent { 0 } else { value }
                }));
            }
        }
        if family.has_sketches() {
            rows.sketches = vec![vec![Box::default(); order.len()]; metrics];
            let sketched: Vec<usize> = sketched(family).collect();
            for (row, &series) in order.iter().enumerate() {
                let sketches = &self.sketches[series as usize * sketched.len()..][..sketched.len()];
                for (sketch, &metric) in sketches.iter().zip(&sketched) {
                    rows.sketches[metric][row] = sketch.encode();
                }
            }
        }
        self.places.clear();
        self.ids.clear();
        self.counts.clear();
        self.last_parts.clear();
        self.folds.clear();
        self.sketches.clear();
        rows
    }
}
