//! Steps of time, and what flows carried in each of them.

use super::columns::{WholeColumns, last_ms};

/// Most steps that are kept before they are merged.
pub(super) const STEPS_MAX: i64 = 4096;

/// Lengths of steps in milliseconds. Each divides the next, so that steps merge without a rest; after the last they
/// double.
pub(super) const STEPS_MS: &[i64] = &[
    1, 5, 10, 50, 100, 500, 1000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000, 10_800_000,
    21_600_000, 43_200_000, 86_400_000,
];

/// The step after one.
fn wider(step_ms: i64) -> i64 {
    STEPS_MS.iter().copied().find(|step| *step > step_ms).unwrap_or(step_ms.saturating_mul(2))
}

/// What flows carried, step by step.
///
/// Which steps there are depends on the first and the last moment of the flows alone: the shortest ones of which
/// [`STEPS_MAX`] reach from one to the other. So flows may come in any order, and in several parts that are joined.
#[derive(Debug, Clone)]
pub(super) struct Steps {
    pub(super) step_ms: i64,
    /// Steps in a millisecond, about.
    pub(super) per_ms: f64,
    /// Number of the first step.
    pub(super) first: i64,
    /// Per series.
    pub(super) amounts: Vec<Amounts>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Amounts {
    /// What is in a step.
    own: Vec<f64>,
    /// What steps from here on get more than the one before: a long flow costs two entries, not one per step.
    rises: Vec<f64>,
}

/// Finds the steps of moments that are within steps.
#[derive(Debug, Clone, Copy)]
struct StepFinder {
    /// When the first step begins.
    first_ms: i64,
    step_ms: u64,
    /// 2^64 by the length of a step, rounded up.
    factor: u64,
}

impl Steps {
    /// No steps, for this many series.
    pub(super) fn of_series(series: usize) -> Self {
        Self { step_ms: STEPS_MS[0], per_ms: 1.0, first: 0, amounts: vec![Amounts::default(); series] }
    }

    /// What they take at most, however many flows are added.
    pub(super) fn octets_max(&self) -> usize {
        // they grow by doubling, and while those of a series are merged they are there twice
        let series = self.amounts.len() + 1;
        series.saturating_mul(2 * 2 * STEPS_MAX as usize * size_of::<f64>())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    pub(super) fn count(&self) -> i64 {
        self.amounts.first().map_or(0, |amounts| amounts.own.len() as i64)
    }

    fn step_of(&self, ms: i64) -> i64 {
        ms.div_euclid(self.step_ms)
    }

    /// Adds steps from one moment to another.
    pub(super) fn reach(&mut self, from_ms: i64, until_ms: i64) {
        while !self.has_grown(self.step_of(from_ms), self.step_of(until_ms)) {
            self.widen();
        }
    }

    /// Adds steps up to these numbers; `false` when there would be too many of them.
    fn has_grown(&mut self, from: i64, until: i64) -> bool {
        if !self.is_empty() && from >= self.first && until < self.first + self.count() {
            return true;
        }
        let (first, last) = if self.is_empty() {
            (from, until)
        } else {
            (from.min(self.first), until.max(self.first + self.count() - 1))
        };
        // differences of steps of a millisecond may not fit
        let count = last.saturating_sub(first).saturating_add(1);
        if count > STEPS_MAX {
            return false;
        }
        let before = if self.is_empty() { 0 } else { (self.first - first) as usize };
        self.amounts.iter_mut().for_each(|amounts| amounts.grow(before, count as usize));
        self.first = first;
        true
    }

    /// Merges steps to the next length.
    pub(super) fn widen(&mut self) {
        let step_ms = wider(self.step_ms);
        let times = step_ms / self.step_ms;
        let (old_first, first) = (self.first, self.first.div_euclid(times));
        for amounts in &mut self.amounts {
            let flat = std::mem::take(amounts).flat();
            let Some(last) = (flat.len() as i64).checked_sub(1).filter(|last| *last >= 0) else { continue };
            let count = (old_first + last).div_euclid(times) - first + 1;
            amounts.grow(0, count as usize);
            for (position, amount) in flat.into_iter().enumerate() {
                let step = (old_first + position as i64).div_euclid(times) - first;
                amounts.own[step as usize] += amount;
            }
        }
        (self.step_ms, self.per_ms, self.first) = (step_ms, 1.0 / step_ms as f64, first);
    }

    /// Adds what other steps have, of the same series.
    pub(super) fn join(&mut self, mut other: Self) {
        if other.is_empty() {
            return;
        }
        if self.is_empty() {
            *self = other;
            return;
        }
        while self.step_ms < other.step_ms {
            self.widen();
        }
        while other.step_ms < self.step_ms {
            other.widen();
        }
        while !self.has_grown(other.first, other.first + other.count() - 1) {
            self.widen();
            other.widen();
        }
        let before = (other.first - self.first) as usize;
        for (amounts, more) in self.amounts.iter_mut().zip(other.amounts) {
            amounts.join(before, &more);
        }
    }

    /// The place of the step that a moment is in, and how long it has been going on then; `None` outside of all steps. Without
    /// a division, which would take longer than everything else that is done for a flow.
    pub(super) fn place(&self, ms: i64) -> Option<(usize, i64)> {
        // steps that begin before all times that fit are those of a clock that was never set
        let after_ms = self.first.checked_mul(self.step_ms).and_then(|first_ms| ms.checked_sub(first_ms));
        let (mut place, mut rest);
        if let Some(after_ms) = after_ms.filter(|after_ms| (0..1 << f64::MANTISSA_DIGITS).contains(after_ms)) {
            place = (after_ms as f64 * self.per_ms) as i64;
            rest = after_ms - place * self.step_ms;
            // the product is rounded
            if rest < 0 {
                (place, rest) = (place - 1, rest + self.step_ms);
            } else if rest >= self.step_ms {
                (place, rest) = (place + 1, rest - self.step_ms);
            }
        } else {
            (place, rest) = (self.step_of(ms).saturating_sub(self.first), ms.rem_euclid(self.step_ms));
        }
        (0..self.count()).contains(&place).then_some((place as usize, rest))
    }

    /// The places of two moments, of steps that are made to reach to both.
    fn reached(&mut self, from_ms: i64, last_ms: i64) -> Option<[(usize, i64); 2]> {
        if let (Some(from), Some(last)) = (self.place(from_ms), self.place(last_ms)) {
            return Some([from, last]);
        }
        self.reach(from_ms, last_ms);
        Some([self.place(from_ms)?, self.place(last_ms)?])
    }

    pub(super) fn add(&mut self, series: usize, from_ms: i64, until_ms: i64, amount: f64) {
        let Some([from, last]) = self.reached(from_ms, last_ms(from_ms, until_ms)) else { return };
        let step_ms = self.step_ms;
        let Some(amounts) = self.amounts.get_mut(series) else { return };
        if from.0 == last.0 {
            amounts.own[from.0] += amount;
        } else {
            amounts.spread(from, last, amount / until_ms.abs_diff(from_ms) as f64, step_ms);
        }
    }

    /// Adds flows that have everything, `offset_ms` later, each with `unit` times its count; `range_ms` is that of all. Adds none
    /// where their steps cannot be found that way, and returns whether they could.
    pub(super) fn add_whole(
        &mut self,
        flows: &WholeColumns<'_>,
        range_ms: (i64, i64),
        offset_ms: i64,
        series: &[u32],
        unit: f64,
    ) -> bool {
        let local = |ms: i64| ms.checked_add(offset_ms);
        let (Some(first_ms), Some(last_of_all_ms)) = (local(range_ms.0), local(range_ms.1)) else { return false };
        self.reach(first_ms, last_of_all_ms);
        if self.place(first_ms).is_none() || self.place(last_of_all_ms).is_none() {
            return false;
        }
        let Some(finder) = self.finder(offset_ms) else { return false };
        for (row, (start_ms, end_ms)) in flows.times().enumerate() {
            let number = series.get(row).map_or(0, |number| *number as usize);
            let Some(amounts) = self.amounts.get_mut(number) else { continue };
            let amount = flows.count(row) as f64 * unit;
            let last_ms = last_ms(start_ms, end_ms);
            let (from, last) = (finder.place(start_ms), finder.place(last_ms));
            if from == last {
                amounts.own[from] += amount;
                continue;
            }
            let (from, last) = ((from, finder.rest(start_ms, from)), (last, finder.rest(last_ms, last)));
            amounts.spread(from, last, amount / end_ms.abs_diff(start_ms) as f64, self.step_ms);
        }
        true
    }

    /// The place of a moment within the steps as [`StepFinder`] has it, where it can be used.
    #[cfg(test)]
    pub(super) fn place_by_product(&self, ms: i64) -> Option<(usize, i64)> {
        let finder = self.finder(0)?;
        let place = finder.place(ms);
        Some((place, finder.rest(ms, place)))
    }

    /// Finds the steps of moments that are all within them, `offset_ms` later. `None` for steps that are too long, or as short as can
    /// be.
    fn finder(&self, offset_ms: i64) -> Option<StepFinder> {
        let first_ms = self.first.checked_mul(self.step_ms)?.checked_sub(offset_ms)?;
        let step_ms = self.step_ms.unsigned_abs();
        let factor = (u64::MAX / step_ms).checked_add(1)?;
        // Products are exact as long as what the factor is too large by stays below one step of the largest (Granlund and
        // Montgomery, Division by Invariant Integers using Multiplication, 1994).
        let excess = factor.wrapping_mul(step_ms);
        self.count().unsigned_abs().checked_mul(step_ms)?.checked_mul(excess)?;
        Some(StepFinder { first_ms, step_ms, factor })
    }
}

impl StepFinder {
    #[inline]
    fn after_ms(&self, ms: i64) -> u64 {
        ms.wrapping_sub(self.first_ms).cast_unsigned()
    }

    /// The place of the step that a moment is in.
    #[inline]
    fn place(&self, ms: i64) -> usize {
        ((u128::from(self.after_ms(ms)) * u128::from(self.factor)) >> u64::BITS) as usize
    }

    /// How long the step has been going on then.
    #[inline]
    fn rest(&self, ms: i64, place: usize) -> i64 {
        self.after_ms(ms).wrapping_sub((place as u64).wrapping_mul(self.step_ms)).cast_signed()
    }
}

impl Amounts {
    /// Puts empty steps before, and after up to `count` of them.
    pub(super) fn grow(&mut self, before: usize, count: usize) {
        for steps in [&mut self.own, &mut self.rises] {
            steps.splice(0..0, std::iter::repeat_n(0.0, before));
            steps.resize(count, 0.0);
        }
    }

    #[cfg(test)]
    pub(super) fn octets(&self) -> usize {
        (self.own.capacity() + self.rises.capacity()) * size_of::<f64>()
    }

    /// Adds an amount for each millisecond, from within one step to within a later one: their places, and how long they have been
    /// going on.
    #[inline]
    fn spread(&mut self, (from, before_ms): (usize, i64), (last, in_last_ms): (usize, i64), per_ms: f64, step_ms: i64) {
        self.own[from] += per_ms * (step_ms - before_ms) as f64;
        self.own[last] += per_ms * (in_last_ms + 1) as f64;
        self.rises[from + 1] += per_ms * step_ms as f64;
        self.rises[last] -= per_ms * step_ms as f64;
    }

    /// Adds those of steps of the same length, of which the first has this place.
    fn join(&mut self, before: usize, other: &Self) {
        for (steps, more) in [(&mut self.own, &other.own), (&mut self.rises, &other.rises)] {
            steps.iter_mut().skip(before).zip(more).for_each(|(step, more)| *step += more);
        }
    }

    /// What is in each step.
    pub(super) fn flat(self) -> Vec<f64> {
        let mut level = 0.0;
        let amounts = self.own.into_iter().zip(self.rises).map(|(own, rise)| {
            level += rise;
            // sums and differences of fractions may end a little below nothing
            let amount: f64 = own + level;
            amount.max(0.0)
        });
        amounts.collect()
    }
}
