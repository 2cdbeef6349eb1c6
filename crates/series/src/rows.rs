//! The values of one step.

use crate::{Family, FamilyId, MetricKind, SeriesId};

/// Values of some series of a family in one step: the numbers of the series, ascending, and a column for each metric.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FamilyRows {
    /// Numbers of the series, ascending and without repeats.
    pub ids: Vec<u32>,
    /// For each metric the values, in the order of the numbers.
    pub columns: Vec<Vec<u64>>,
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
        Self { ids: Vec::new(), columns: vec![Vec::new(); metrics] }
    }

    /// Appends the values of a series, one for each metric.
    pub fn push(&mut self, id: SeriesId, values: &[u64]) {
        self.ids.push(id.0);
        for (column, value) in self.columns.iter_mut().zip(values) {
            column.push(*value);
        }
    }

    /// Sorts the rows by the numbers of their series.
    #[must_use]
    pub fn sorted(self) -> Self {
        if self.ids.is_sorted() {
            return self;
        }
        let mut order: Vec<u32> = (0..self.ids.len() as u32).collect();
        order.sort_unstable_by_key(|&row| self.ids[row as usize]);
        let column = |values: &Vec<u64>| order.iter().map(|&row| values[row as usize]).collect();
        Self {
            ids: order.iter().map(|&row| self.ids[row as usize]).collect(),
            columns: self.columns.iter().map(column).collect(),
        }
    }

    /// Puts more values of the same step in: counters are added up, of gauges the largest counts.
    fn amend(&mut self, more: &Self, family: &Family) {
        let mut merged = Self::new(self.columns.len());
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
            own += usize::from(take_own);
            other += usize::from(take_other);
        }
        *self = merged;
    }
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
        let mut rows = FamilyRows { ids: vec![1, 3], columns: vec![vec![10, 30], vec![4, 6]] };
        rows.amend(&FamilyRows { ids: vec![0, 3, 9], columns: vec![vec![1, 2, 3], vec![7, 8, 9]] }, &family);
        assert_eq!(rows, FamilyRows { ids: vec![0, 1, 3, 9], columns: vec![vec![1, 10, 32, 3], vec![7, 4, 8, 9]] });
    }
}
