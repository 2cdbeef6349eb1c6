//! `weir archive ls`: what an archive has.

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampMillisecondArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use weir_archive::{Inventory, Segment, SegmentSummary, inventory};
use weir_print::{Format, OutputOptions, write_batches};

use crate::command::answer_format::FormatArg;
use crate::command::archive_args::ArchiveArg;
use crate::command::report::{counted, noun_of};

/// List days, segments, summaries and tails, with their rows and sizes
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  weir archive ls --archive /var/lib/weir\n  weir archive ls --archive /var/lib/weir -l --format json"
)]
pub(super) struct LsArgs {
    #[command(flatten)]
    place: ArchiveArg,
    /// One line for each segment instead of each day
    #[arg(long, short = 'l')]
    long: bool,
    /// Write the list in this format
    #[arg(long, short = 'o', value_enum, value_name = "FORMAT", default_value_t = FormatArg::Table)]
    format: FormatArg,
}

/// One line.
#[derive(Debug, Default)]
struct Line {
    table: String,
    day: String,
    segments: u64,
    rows: u64,
    octets: u64,
    times_ms: Option<(i64, i64)>,
    file: Option<String>,
}

impl Line {
    fn new(table: &str, day: &str, rows: u64, octets: u64, times_ms: Option<(i64, i64)>) -> Self {
        Self { table: table.to_owned(), day: day.to_owned(), segments: 1, rows, octets, times_ms, file: None }
    }

    fn of(segment: &Segment) -> Self {
        let Segment { table, rows, octets, time_range_ms, .. } = segment;
        let line = Self::new(table.name(), &segment.day_text(), *rows, *octets, *time_range_ms);
        Self { file: segment.path().file_name().map(|name| name.to_string_lossy().into_owned()), ..line }
    }

    fn of_summary(summary: &SegmentSummary) -> Self {
        let (rows, octets) = (summary.rows(), summary.octets());
        let line = Self::new("summaries", &summary.day_text(), rows, octets, summary.time_range_ms());
        Self { file: summary.path().file_name().map(|name| name.to_string_lossy().into_owned()), ..line }
    }

    fn add(&mut self, other: &Self) {
        self.segments += other.segments;
        self.rows += other.rows;
        self.octets += other.octets;
        self.times_ms = match (self.times_ms, other.times_ms) {
            (Some(a), Some(b)) => Some((a.0.min(b.0), a.1.max(b.1))),
            (one, other) => one.or(other),
        };
    }
}

pub(super) fn run(args: &LsArgs) -> anyhow::Result<ExitCode> {
    let found = inventory(&args.place.archive)?;
    let lines = lines(&found, args.long);
    let format = Format::from(args.format);
    let batch = if format == Format::Table { for_people(&lines)? } else { for_programs(&lines)? };
    let schema = batch.schema();
    let batches = std::iter::once(Ok::<_, std::convert::Infallible>(batch));
    let options = OutputOptions { zone: jiff::tz::TimeZone::system(), ..OutputOptions::default() };
    write_batches(batches, &schema, format, &options, &mut io::stdout().lock())?;
    tell_rest(&found);
    Ok(ExitCode::SUCCESS)
}

/// Segments or days, and summaries and tails as tables of their own. The rows of summaries are those that have expired.
fn lines(found: &Inventory, long: bool) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    let segments = found.segments.iter().map(Line::of);
    for line in segments.chain(found.summaries.iter().map(Line::of_summary)) {
        match lines.last_mut() {
            Some(last) if !long && (&last.table, &last.day) == (&line.table, &line.day) => last.add(&line),
            _ => lines.push(Line { file: line.file.clone().filter(|_| long), ..line }),
        }
    }
    for tail in &found.tails {
        let name = tail.path.file_name().map(|name| name.to_string_lossy().into_owned());
        lines.push(Line { file: name.filter(|_| long), ..Line::new("tail", "", tail.rows, tail.octets, None) });
    }
    lines
}

/// What the table does not say, on standard error.
fn tell_rest(found: &Inventory) {
    let mut total = Line::default();
    found.segments.iter().for_each(|segment| total.add(&Line::of(segment)));
    eprintln!(
        "{} {} with {} {} and {}, position {}, {} free",
        places(total.segments),
        noun_of(total.segments, "segment"),
        places(total.rows),
        noun_of(total.rows, "row"),
        amount(total.octets),
        places(found.position.get()),
        amount(found.free_octets)
    );
    if !found.summaries.is_empty() {
        let (mut rows, mut octets) = (0, 0);
        for summary in &found.summaries {
            rows += summary.rows();
            octets += summary.octets();
        }
        eprintln!(
            "{} with {} of {} expired {}",
            counted(found.summaries.len(), "summary"),
            amount(octets),
            places(rows),
            noun_of(rows, "row")
        );
    }
    if !found.pending.is_empty() {
        let octets = amount(found.pending_octets);
        eprintln!("{} files with {octets} count no more and wait for being removed", found.pending.len());
    }
    for path in &found.damaged_tails {
        eprintln!("damaged tail set aside: {}", path.display());
    }
}

fn times(lines: &[Line], of: impl Fn((i64, i64)) -> i64) -> ArrayRef {
    let times = lines.iter().map(|line| line.times_ms.map(&of)).collect::<TimestampMillisecondArray>();
    Arc::new(times.with_timezone("UTC"))
}

fn texts(lines: &[Line], of: impl Fn(&Line) -> String) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(lines.iter().map(of)))
}

fn octets_per_row(line: &Line) -> Option<f64> {
    (line.rows > 0).then(|| line.octets as f64 / line.rows as f64)
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> anyhow::Result<RecordBatch> {
    let field = |(name, column): &(&str, ArrayRef)| Field::new(*name, column.data_type().clone(), true);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    Ok(RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, column)| column).collect())?)
}

/// Whole numbers, and times in UTC.
fn for_programs(lines: &[Line]) -> anyhow::Result<RecordBatch> {
    let numbers = |of: fn(&Line) -> u64| -> ArrayRef { Arc::new(lines.iter().map(of).collect::<UInt64Array>()) };
    let files: StringArray = lines.iter().map(|line| line.file.as_deref()).collect();
    batch(vec![
        ("table", texts(lines, |line| line.table.clone())),
        ("day", texts(lines, |line| line.day.clone())),
        ("segments", numbers(|line| line.segments)),
        ("rows", numbers(|line| line.rows)),
        ("bytes", numbers(|line| line.octets)),
        ("bytes_per_row", Arc::new(lines.iter().map(octets_per_row).collect::<Float64Array>())),
        ("first", times(lines, |times| times.0)),
        ("last", times(lines, |times| times.1)),
        ("file", Arc::new(files)),
    ])
}

/// Amounts with units, at the right of their columns.
fn for_people(lines: &[Line]) -> anyhow::Result<RecordBatch> {
    let right = |of: &dyn Fn(&Line) -> String| {
        let all: Vec<_> = lines.iter().map(of).collect();
        let width = all.iter().map(|text| text.chars().count()).max().unwrap_or(0);
        Arc::new(StringArray::from_iter_values(all.iter().map(|text| format!("{text:>width$}")))) as ArrayRef
    };
    let per_row = |line: &Line| octets_per_row(line).map_or("-".to_owned(), |octets| format!("{octets:.1}"));
    let mut columns = vec![
        ("table", texts(lines, |line| line.table.clone())),
        ("day", texts(lines, |line| line.day.clone())),
        ("segments", right(&|line| places(line.segments))),
        ("rows", right(&|line| places(line.rows))),
        ("bytes", right(&|line| amount(line.octets))),
        ("per row", right(&per_row)),
        ("first", times(lines, |times| times.0)),
        ("last", times(lines, |times| times.1)),
    ];
    if lines.iter().any(|line| line.file.is_some()) {
        columns.push(("file", texts(lines, |line| line.file.clone().unwrap_or_default())));
    }
    debug_assert!(columns.iter().all(|(_, column)| {
        matches!(column.data_type(), DataType::Utf8 | DataType::Timestamp(TimeUnit::Millisecond, _))
    }));
    batch(columns)
}

/// Octets with a unit of 1024.
pub(super) fn amount(octets: u64) -> String {
    let mut scaled = octets as f64;
    for unit in ["bytes", "KiB", "MiB", "GiB"] {
        if scaled < 1024.0 {
            return if unit == "bytes" { format!("{octets} bytes") } else { format!("{scaled:.1} {unit}") };
        }
        scaled /= 1024.0;
    }
    format!("{scaled:.1} TiB")
}

/// A number with a comma before every three digits.
pub(super) fn places(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!([0, 999, 1000, 1_234_567].map(places), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0, 1023, 1024, 1536 << 20].map(amount), ["0 bytes", "1023 bytes", "1.0 KiB", "1.5 GiB"]);
        assert_eq!(amount(u64::MAX), "16777216.0 TiB");
    }
}
