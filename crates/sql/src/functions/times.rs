//! Times in buckets and in local zones.
//!
//! The engine has `date_bin` and `AT TIME ZONE`. What it has not is a bucket that begins at a local midnight, at a
//! Monday or at the first of a month, and that gives back a moment rather than a local time.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringBuilder, TimestampMillisecondArray};
use arrow::datatypes::TimestampMillisecondType;
use datafusion::common::{DataFusionError, Result, plan_datafusion_err, plan_err};
use jiff::civil::Date;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use jiff::{SignedDuration, Span, Timestamp, Unit};

const DAY_MS: i64 = 86_400_000;
/// Days from a Monday to 1970-01-01, which was a Thursday.
const MONDAY_TO_EPOCH: i64 = 3;

/// How wide buckets are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Width {
    /// So many milliseconds of local time, which are counted from 1970.
    Millis(i64),
    /// So many local days.
    Days(i64),
    /// So many weeks, which begin on Mondays.
    Weeks(i64),
    /// So many months.
    Months(i64),
}

impl Width {
    fn parse(text: &str) -> Result<Self> {
        let refused = || -> DataFusionError {
            plan_datafusion_err!(
                "'{}' is no width of a bucket\nhint: write one number and one unit, such as '5 minutes', '1 hour', \
                 '1 day', '1 week' or '1 month'",
                text.escape_debug()
            )
        };
        let span: Span = text.trim().parse().map_err(|_| refused())?;
        let months = i64::from(span.get_years()) * 12 + i64::from(span.get_months());
        let (weeks, days) = (i64::from(span.get_weeks()), i64::from(span.get_days()));
        let shorter = span.years(0).months(0).weeks(0).days(0);
        let millis = shorter.total(Unit::Millisecond).map_err(|_| refused())?;
        let width = match (months, weeks, days, millis) {
            (months, 0, 0, 0.0) if months > 0 => Self::Months(months),
            (0, weeks, 0, 0.0) if weeks > 0 => Self::Weeks(weeks),
            (0, 0, days, 0.0) if days > 0 => Self::Days(days),
            (0, 0, 0, millis) if millis >= 1.0 && millis.fract() == 0.0 => Self::Millis(millis as i64),
            _ => return Err(refused()),
        };
        Ok(width)
    }
}

/// Buckets of one width in one zone, and the one that was met last.
pub(super) struct Buckets {
    width: Width,
    zone: TimeZone,
    /// First millisecond of the last bucket, and the first that may be in another one.
    last: (i64, i64),
}

impl Buckets {
    pub(super) fn new(width: Width, zone: TimeZone) -> Self {
        Self { width, zone, last: (0, 0) }
    }

    /// When the bucket of a time begins; `None` beyond the year 9999.
    pub(super) fn start(&mut self, ms: i64) -> Option<i64> {
        if (self.last.0..self.last.1).contains(&ms) {
            return Some(self.last.0);
        }
        let time = Timestamp::from_millisecond(ms).ok()?;
        let offset_ms = i64::from(self.zone.to_offset(time).seconds()) * 1000;
        let local_day = ms.checked_add(offset_ms)?.div_euclid(DAY_MS);
        match self.width {
            Width::Millis(width) => {
                let start = self.local_begin(ms, offset_ms, width)?;
                let next = start.checked_add(width)?;
                // where clocks change, a bucket is longer or shorter
                let is_plain = [start, next - 1].into_iter().all(|ms| self.offset_ms(ms) == Some(offset_ms));
                self.last = if is_plain && width <= DAY_MS { (start, next) } else { (0, 0) };
                return Some(start);
            }
            Width::Days(width) => {
                let first = local_day - local_day.rem_euclid(width);
                self.last = (self.midnight(first)?, self.midnight(first + width)?);
            }
            Width::Weeks(width) => {
                let since_monday = local_day + MONDAY_TO_EPOCH;
                let first = local_day - since_monday.rem_euclid(width * 7);
                self.last = (self.midnight(first)?, self.midnight(first + width * 7)?);
            }
            Width::Months(width) => {
                let date = self.zone.to_datetime(time).date();
                let month = i64::from(date.year()) * 12 + i64::from(date.month()) - 1;
                let first = month - month.rem_euclid(width);
                self.last = (self.first_of(first)?, self.first_of(first + width)?);
            }
        }
        Some(self.last.0)
    }

    fn offset_ms(&self, ms: i64) -> Option<i64> {
        Some(i64::from(self.zone.to_offset(Timestamp::from_millisecond(ms).ok()?).seconds()) * 1000)
    }

    /// When the bucket of local times begins that a moment is in, whose offset from UTC this is.
    fn local_begin(&self, ms: i64, offset_ms: i64, width: i64) -> Option<i64> {
        let local = ms.checked_add(offset_ms)?;
        let since_begin = local.rem_euclid(width);
        let begin = local.checked_sub(since_begin)?;
        let written = self.zone.to_datetime(Timestamp::from_millisecond(ms).ok()?);
        let written = written.checked_sub(SignedDuration::from_millis(since_begin)).ok()?;
        let at = |offset: Offset| begin.checked_sub(i64::from(offset.seconds()) * 1000);
        match self.zone.to_ambiguous_timestamp(written).offset() {
            AmbiguousOffset::Unambiguous { offset } => at(offset),
            // hours that are there twice are two buckets each, and longer buckets have both
            AmbiguousOffset::Fold { before, after } => {
                let repeated_ms = (i64::from(before.seconds()) - i64::from(after.seconds())) * 1000;
                if width <= repeated_ms { begin.checked_sub(offset_ms) } else { at(before) }
            }
            // clocks go over its begin: it begins when they do
            AmbiguousOffset::Gap { .. } => {
                let next = Timestamp::from_millisecond(ms.checked_add(1)?).ok()?;
                Some(self.zone.preceding(next).next()?.timestamp().as_millisecond())
            }
        }
    }

    /// The moment that a local day begins, days counted from 1970-01-01.
    fn midnight(&self, day: i64) -> Option<i64> {
        let date = Date::constant(1970, 1, 1).checked_add(Span::new().try_days(day).ok()?).ok()?;
        self.begin(date)
    }

    /// The moment that a local month begins, months counted from January of the year 0.
    fn first_of(&self, month: i64) -> Option<i64> {
        let year = i16::try_from(month.div_euclid(12)).ok()?;
        self.begin(Date::new(year, month.rem_euclid(12) as i8 + 1, 1).ok()?)
    }

    fn begin(&self, date: Date) -> Option<i64> {
        Some(date.to_zoned(self.zone.clone()).ok()?.timestamp().as_millisecond())
    }
}

fn zone(name: &str) -> Result<TimeZone> {
    if name.eq_ignore_ascii_case("local") {
        return Ok(TimeZone::system());
    }
    let Ok(zone) = TimeZone::get(name) else {
        return plan_err!(
            "'{}' is no time zone\nhint: write a name such as 'Europe/Zurich', 'UTC', or 'local' for the zone of this \
             machine",
            name.escape_debug()
        );
    };
    Ok(zone)
}

/// `time_bucket(width, time)` or `time_bucket(width, time, zone)`: when the bucket of the time begins.
pub(super) fn time_bucket(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let widths: &StringArray = arguments[0].as_string();
    let times = arguments[1].as_primitive::<TimestampMillisecondType>();
    let zones: Option<&StringArray> = arguments.get(2).map(arrow::array::AsArray::as_string);
    let mut known: Option<((&str, &str), Buckets)> = None;
    let mut starts = TimestampMillisecondArray::builder(times.len());
    for (row, time) in times.iter().enumerate() {
        let zone_name = zones.map_or(Some("UTC"), |zones| zones.is_valid(row).then(|| zones.value(row)));
        let width_text = widths.is_valid(row).then(|| widths.value(row));
        let (Some(time), Some(width_text), Some(zone_name)) = (time, width_text, zone_name) else {
            starts.append_null();
            continue;
        };
        let texts = (width_text, zone_name);
        let mut buckets = match known.take() {
            Some((of, buckets)) if of == texts => buckets,
            _ => Buckets::new(Width::parse(width_text)?, zone(zone_name)?),
        };
        starts.append_option(buckets.start(time));
        known = Some((texts, buckets));
    }
    Ok(Arc::new(starts.finish().with_timezone("UTC")))
}

/// `local_time(time, zone)`: the time as text in a zone, with its offset from UTC.
pub(super) fn local_time(arguments: &[ArrayRef]) -> Result<ArrayRef> {
    let times = arguments[0].as_primitive::<TimestampMillisecondType>();
    let zones: &StringArray = arguments[1].as_string();
    let mut known: Option<(&str, TimeZone)> = None;
    let mut texts = StringBuilder::with_capacity(times.len(), times.len() * 29);
    for (row, time) in times.iter().enumerate() {
        let time = time.and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let (Some(time), true) = (time, zones.is_valid(row)) else {
            texts.append_null();
            continue;
        };
        let name = zones.value(row);
        let of = match known.take() {
            Some((of, zone)) if of == name => zone,
            _ => zone(name)?,
        };
        texts.append_value(time.to_zoned(of.clone()).strftime("%Y-%m-%dT%H:%M:%S.%3f%:z").to_string());
        known = Some((name, of));
    }
    Ok(Arc::new(texts.finish()))
}
