//! What files lack until the step at hand, as the statistics have it.

use std::cell::OnceCell;

use weir_forward::{StatisticsStep, StoreError};
use weir_series::{
    Catalogue, Coverage, Family, Fetched, FetchedSeries, Resolution, SeriesError, SeriesId, SeriesStore,
};

use crate::files::reading;

/// Readings that are in memory at once.
const READINGS_MAX: usize = 1_000_000;

/// The steps before one, as far as they are kept.
pub(crate) struct History<'a> {
    series: &'a SeriesStore,
    resolution: Resolution,
    oldest_secs: i64,
    until_secs: i64,
    newest_end_secs: i64,
    /// Keys are there before the steps that have them, and the steps are there already.
    catalogue: OnceCell<Catalogue>,
    /// Steps that cannot be read, the first of them that were found.
    damage: Option<String>,
}

impl<'a> History<'a> {
    pub(crate) fn new(series: &'a SeriesStore, step: &StatisticsStep) -> Result<Self, StoreError> {
        let found = series.resolutions().iter().find(|resolution| resolution.step_secs == step.step_secs);
        let Some(&resolution) = found else {
            return Err(StoreError::Refused(format!("the statistics have no steps of {} s", step.step_secs)));
        };
        let extent = series.extent(resolution).map_err(|error| unreadable(&error))?;
        let kept_secs = i64::try_from(resolution.keep_secs).unwrap_or(i64::MAX);
        let oldest_secs = step.time_secs.saturating_sub(kept_secs);
        let oldest_secs = extent.map_or(step.time_secs, |(first_secs, _)| first_secs.max(oldest_secs));
        let newest_secs = extent.map_or(step.time_secs, |(_, last_secs)| last_secs.max(step.time_secs));
        Ok(Self {
            series,
            resolution,
            oldest_secs,
            until_secs: step.time_secs,
            newest_end_secs: newest_secs.saturating_add(i64::from(step.step_secs)),
            catalogue: OnceCell::new(),
            damage: None,
        })
    }

    /// How many steps a file keeps.
    pub(crate) fn rows(&self) -> u64 {
        self.resolution.keep_secs / u64::from(self.resolution.step_secs.max(1))
    }

    /// When the newest step ends that the statistics have: a file that was updated later is ahead of them.
    pub(crate) fn newest_end_secs(&self) -> i64 {
        self.newest_end_secs
    }

    /// From when on a file lacks steps that was updated last at a time, or never.
    pub(crate) fn first_secs(&self, last_update_secs: Option<i64>) -> i64 {
        // a step that begins before the last update may end after it
        let step_secs = i64::from(self.resolution.step_secs);
        let first_secs = last_update_secs.map_or(self.oldest_secs, |last| last.saturating_sub(step_secs - 1));
        first_secs.clamp(self.oldest_secs.min(self.until_secs), self.until_secs)
    }

    /// Until when readings of N series that begin at a time may be in memory at once; not beyond the step at hand.
    pub(crate) fn slice_end_secs(&self, from_secs: i64, series: usize) -> i64 {
        let steps = (READINGS_MAX / series.max(1)).max(1) as i64;
        from_secs.saturating_add(steps.saturating_mul(i64::from(self.resolution.step_secs))).min(self.until_secs)
    }

    /// For each of some keys of a family the known steps that begin from one time until another: when each begins, and what a
    /// file gets of it.
    pub(crate) fn readings(
        &mut self,
        by: &str,
        keys: &[&str],
        (from_secs, until_secs): (i64, i64),
    ) -> Result<Vec<Vec<(i64, String)>>, StoreError> {
        let series = self.series;
        let Some((id, family)) = series.family(by) else { return Ok(vec![Vec::new(); keys.len()]) };
        let catalogue = self.catalogue()?;
        let ids: Vec<Option<SeriesId>> = keys.iter().map(|key| catalogue.id(id, key)).collect();
        let listed: Vec<SeriesId> = ids.iter().flatten().copied().collect();
        let fetched = series.fetch(id, Some(&listed), self.resolution, from_secs, until_secs);
        let mut fetched = fetched.map_err(|error| unreadable(&error))?;
        if family.coverage == Coverage::Complete {
            fetched.add_silent(listed.iter().copied());
        }
        let known = |number: Option<SeriesId>| {
            let place = fetched.series.binary_search_by_key(&number?, |one| one.id).ok()?;
            Some(known_steps(&fetched, family, &fetched.series[place]))
        };
        let readings = ids.into_iter().map(|number| known(number).unwrap_or_default()).collect();
        if self.damage.is_none() {
            self.damage = fetched.damaged.first().map(ToString::to_string);
        }
        Ok(readings)
    }

    /// What could not be read of the steps that files lacked.
    pub(crate) fn damage(&self) -> Option<&str> {
        self.damage.as_deref()
    }

    fn catalogue(&self) -> Result<&Catalogue, StoreError> {
        if let Some(catalogue) = self.catalogue.get() {
            return Ok(catalogue);
        }
        let catalogue = self.series.catalogue().map_err(|error| unreadable(&error))?;
        Ok(self.catalogue.get_or_init(|| catalogue))
    }
}

/// The steps of a series in which something is known of it.
fn known_steps(fetched: &Fetched, family: &Family, series: &FetchedSeries) -> Vec<(i64, String)> {
    let metrics: Vec<Vec<Option<u64>>> =
        (0..family.metrics.len()).map(|metric| fetched.totals(family, series, metric).collect()).collect();
    let step = |at: usize| {
        let begin_secs = fetched.time_secs(at);
        let values = metrics.iter().map(|totals| totals[at]);
        let is_known = values.clone().any(|value| value.is_some());
        is_known.then(|| (begin_secs, reading(begin_secs + i64::from(fetched.step_secs), values)))
    };
    (0..fetched.known.len()).filter_map(step).collect()
}

/// An error of the statistics as one of the store: it may pass, or trying again is of no use.
pub(crate) fn unreadable(error: &SeriesError) -> StoreError {
    let text = match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    };
    if error.may_pass() { StoreError::Unavailable(text) } else { StoreError::Refused(text) }
}
