//! Points of some series within a limit, and names by number.

use std::collections::HashMap;

use weir_chain::Counter;

/// Points of some series, at most so many together.
#[derive(Debug)]
pub(super) struct Points {
    series: Vec<Series>,
    len: usize,
    max: usize,
    thinned: Counter,
}

/// Every `stride`th point of a series, from the first on.
#[derive(Debug, Clone)]
struct Series {
    points: Vec<(f64, f64)>,
    stride: u64,
    seen: u64,
}

impl Points {
    pub(super) fn new(max: usize, thinned: Counter) -> Self {
        Self { series: Vec::new(), len: 0, max, thinned }
    }

    /// Points held.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a point to a series.
    pub(super) fn add(&mut self, number: usize, point: (f64, f64)) {
        if number >= self.series.len() {
            self.series.resize(number + 1, Series { points: Vec::new(), stride: 1, seen: 0 });
        }
        let series = &mut self.series[number];
        if series.seen.is_multiple_of(series.stride) {
            series.points.push(point);
            self.len += 1;
        } else {
            self.thinned.add(1);
        }
        series.seen += 1;
        if self.len > self.max {
            self.thin();
        }
    }

    /// Counts a point that has no place.
    pub(super) fn leave_out(&mut self) {
        self.thinned.add(1);
    }

    /// Every other point of the longest series goes.
    fn thin(&mut self) {
        let Some(longest) = self.series.iter_mut().max_by_key(|series| series.points.len()) else { return };
        let before = longest.points.len();
        let mut is_odd = true;
        longest.points.retain(|_| {
            is_odd = !is_odd;
            !is_odd
        });
        longest.stride *= 2;
        let gone = before - longest.points.len();
        self.len -= gone;
        self.thinned.add(gone as u64);
    }

    /// The points of each series.
    pub(super) fn into_series(self) -> impl Iterator<Item = Vec<(f64, f64)>> {
        self.series.into_iter().map(|series| series.points)
    }
}

/// Names by number, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct Names {
    names: Vec<String>,
    numbers: HashMap<Vec<u8>, usize, foldhash::fast::RandomState>,
}

impl Names {
    /// The number of a name; `None` for a new one when there are `max` already.
    pub(super) fn number(&mut self, name: &[u8], max: usize) -> Option<usize> {
        if let Some(number) = self.numbers.get(name) {
            return Some(*number);
        }
        let number = self.names.len();
        if number >= max {
            return None;
        }
        self.names.push(String::from_utf8_lossy(name).into_owned());
        self.numbers.insert(name.to_vec(), number);
        Some(number)
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    pub(super) fn into_vec(self) -> Vec<String> {
        self.names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_so_manyth_point_is_kept() {
        let thinned = Counter::default();
        let mut points = Points::new(100, thinned.clone());
        for row in 0..1000 {
            points.add(1, (f64::from(row), 0.0));
            if row < 10 {
                points.add(0, (f64::from(row), 0.0));
            }
        }
        let series: Vec<Vec<f64>> =
            points.into_series().map(|points| points.into_iter().map(|(x, _)| x).collect()).collect();
        // 1000 in steps of 16 are 63; in steps of 8 they were 125, too many beside the 10.
        let of_step = |step: usize, end| (0..end).step_by(step).map(f64::from).collect::<Vec<_>>();
        assert_eq!(series, [of_step(1, 10), of_step(16, 1000)]);
        assert_eq!(thinned.get(), 1000 - 63);
    }

    #[test]
    fn names_keep_their_numbers_up_to_the_limit() {
        let mut names = Names::default();
        let numbers = [b"a", b"b", b"a", b"c", b"b"].map(|name| names.number(name, 2));
        assert_eq!(numbers, [Some(0), Some(1), Some(0), None, Some(1)]);
        assert_eq!(names.names(), ["a", "b"]);
    }
}
