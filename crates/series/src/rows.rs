//! The values of one step.

use crate::sketch::{DistinctSketch, OpenSketch};
use crate::{Family, FamilyId, Metric, MetricKind, SeriesId, Sketch};

/// Values of some series of a family in one step: the numbers of the series, ascending, and a column for each metric.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FamilyRows {
    /// Numbers of the series, ascending and without repeats.
    pub ids: Vec<u32>,
    /// For each metric the values, in the order of the numbers.
    pub columns: Vec<Vec<u64>>,
    /// For each metric its sketches, in the same order, with no octets where nothing is known; or nothing for a family without
    /// sketches.
    pub sketches: Vec<Vec<Box<[u8]>>>,
}

/// Values of one step, family by family.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StepRows {
    /// Families that have values, in ascending order.
    pub families: Vec<(FamilyId, FamilyRows)>,
}

impl FamilyRows {
    /// No rows of this many metrics.
    pub fn new(metrics: usize) -> Self {
        Self { ids: Vec::new(), columns: vec![Vec::new(); metrics], sketches: Vec::new() }
    }

    /// Appends the values of a series, one for each metric.
    pub fn push(&mut self, id: SeriesId, values: &[u64]) {
        self.ids.push(id.0);
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(*value);
        }
    }

    /// Appends the values of a series with the sketch of one metric. All rows are appended so, or none.
    pub fn push_sketched(&mut self, id: SeriesId, values: &[u64], metric: usize, sketch: Box<[u8]>) {
        self.push(id, values);
        self.sketches.resize_with(self.columns.len(), Vec::new);
        self.sketches.iter_mut().for_each(|sketches| sketches.push(Box::default()));
        if let Some(last) = self.sketches.get_mut(metric).and_then(|sketches| sketches.last_mut()) {
            *last = sketch;
        }
    }

    /// The sketch of a metric in a row, when it is known.
    pub(crate) fn sketch(&self, metric: usize, row: usize) -> Option<&[u8]> {
        self.sketches.get(metric).map(|sketches| &*sketches[row]).filter(|octets| !octets.is_empty())
    }

    /// Sorts the rows by the numbers of their series.
    #[must_use]
    pub fn sorted(self) -> Self {
        if self.ids.is_sorted() {
            return self;
        }
        let mut order: Vec<u32> = (0..self.ids.len() as u32).collect();
        order.sort_unstable_by_key(|&row| self.ids[row as usize]);
        let sketches = |values: &Vec<Box<[u8]>>| order.iter().map(|&row| values[row as usize].clone()).collect();
        let column = |values: &Vec<u64>| order.iter().map(|&row| values[row as usize]).collect();
        Self {
            ids: order.iter().map(|&row| self.ids[row as usize]).collect(),
            columns: self.columns.iter().map(column).collect(),
            sketches: self.sketches.iter().map(sketches).collect(),
        }
    }

    /// Puts more values of the same step in: counters are added up, of gauges the largest counts, and sketches are merged.
    fn amend(&mut self, more: &Self, family: &Family) {
        let mut merged = Self::new(self.columns.len());
        merged.sketches = vec![Vec::new(); self.sketches.len().max(more.sketches.len())];
        let (mut own, mut other) = (0, 0);
        while own < self.ids.len() || other < more.ids.len() {
            let [id, other_id] = [self.ids.get(own), more.ids.get(other)].map(|id| id.copied().unwrap_or(u32::MAX));
            let take_own = own < self.ids.len() && (other >= more.ids.len() || id <= other_id);
            let take_other = other < more.ids.len() && (own >= self.ids.len() || other_id <= id);
            merged.ids.push(if take_own { id } else { other_id });
            for (metric, values) in merged.columns.iter_mut().enumerate() {
                let [old, new] = [(take_own, &*self, own), (take_other, more, other)]
                    .map(|(taken, rows, at)| taken.then(|| rows.columns[metric][at]));
                values.push(match (family.metrics[metric].kind, old, new) {
                    (MetricKind::Counter, old, new) => old.unwrap_or(0).saturating_add(new.unwrap_or(0)),
                    (MetricKind::Gauge, old, new) => old.max(new).unwrap_or(0),
                });
            }
            for metric in 0..merged.sketches.len() {
                let parts = [(take_own, &*self, own), (take_other, more, other)];
                let parts = parts.into_iter().filter(|(taken, ..)| *taken);
                let octets = merged_sketch(&family.metrics[metric], parts.map(|(_, rows, at)| rows.sketch(metric, at)));
                if let Some((value, count)) = merged.columns[metric].last_mut().zip(distinct(&octets)) {
                    *value = count;
                }
                merged.sketches[metric].push(octets);
            }
            own += usize::from(take_own);
            other += usize::from(take_other);
        }
        *self = merged;
    }
}

/// The sketch of a finest step that came in parts.
pub(crate) fn merged_sketch<'a>(metric: &Metric, parts: impl Iterator<Item = Option<&'a [u8]>>) -> Box<[u8]> {
    // the distribution of finest values is made in coarser steps only
    let Some(mut sketch) = OpenSketch::new(metric).filter(|_| metric.sketch == Sketch::Distinct) else {
        return Box::default();
    };
    parts.for_each(|octets| sketch.take_sketch(octets));
    sketch.encode()
}

/// How many distinct things a sketch of a finest step has.
pub(crate) fn distinct(octets: &[u8]) -> Option<u64> {
    DistinctSketch::decode(octets).map(|sketch| sketch.estimate())
}

impl StepRows {
    /// Puts more values of the same step in.
    pub(crate) fn amend(&mut self, more: Self, families: &[Family]) {
        for (id, rows) in more.families {
            match self.families.binary_search_by_key(&id, |(id, _)| *id) {
                Ok(at) => self.families[at].1.amend(&rows, &families[usize::from(id.0)]),
                Err(at) => self.families.insert(at, (id, rows)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_added_and_the_largest_gauge_counts() {
        let mut family = Family::counters("host", &["bytes", "peers"]);
        family.metrics[1].kind = MetricKind::Gauge;
        let of = |ids, columns| FamilyRows { ids, columns, sketches: Vec::new() };
        let mut rows = of(vec![1, 3], vec![vec![10, 30], vec![4, 6]]);
        rows.amend(&of(vec![0, 3, 9], vec![vec![1, 2, 3], vec![7, 8, 9]]), &family);
        assert_eq!(rows, of(vec![0, 1, 3, 9], vec![vec![1, 10, 32, 3], vec![7, 4, 8, 9]]));
    }

    #[test]
    fn distinct_things_of_two_parts_are_counted_once() {
        let mut family = Family::counters("host", &["bytes", "peers"]);
        family.metrics[1] = Metric::gauge("peers").with(Sketch::Distinct);
        let rows = |peers: std::ops::Range<u32>| {
            let mut rows = FamilyRows::new(2);
            let count = u64::from(peers.end - peers.start);
            rows.push_sketched(SeriesId(4), &[1, count], 1, DistinctSketch::of_hashes(peers.collect()).encode());
            rows
        };
        let mut both = rows(0..7);
        both.amend(&rows(5..9), &family);
        assert_eq!(both.columns, [[2], [9]]);
        // of one part it is not known which they were
        let mut unknown = FamilyRows::new(2);
        unknown.push(SeriesId(4), &[1, 3]);
        both.amend(&unknown, &family);
        assert_eq!((both.columns[1][0], both.sketch(1, 0)), (9, None));
    }
}
