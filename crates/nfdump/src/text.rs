//! Answers as nfdump writes them, octet for octet.
//!
//! nfdump's users have scripts that cut its lines at columns and scrape its footer, so widths, blanks and roundings
//! are part of the format. A flow here is what nfdump makes of it: every field has a value, mostly 0 when the exporter
//! did not send it; that is why these formats do not share [`weir_print::Format`], which distinguishes null from 0.
//!
//! One table ([`tags`](self)) has every tag; lines and comma-separated values are made of it. A tag that no column of
//! ours can fill prints what nfdump prints when a record lacks the field, since a script that asks for it wants its
//! column to be there.

mod cells;
mod elements;
mod footer;
mod json;
mod layout;
mod lines;
mod protocols;
mod raw;
mod release;
mod rows;
mod scale;
mod statistic;
mod tags;

use std::io::Write;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use jiff::tz::TimeZone;
use weir_flow::Column;

pub use footer::{QueryCost, Totals, push_csv_footer, push_footer};
pub use layout::FormatError;
pub use release::Release;
pub use statistic::Ranking;

use cells::Style;
use layout::{Layout, Names, Piece};
use lines::Lines;
use tags::{Field, Tag};
use weir_print::digits::ZonedClock;
use weir_print::ordered;
use weir_print::printer::{PrintError, RowFormat};

/// How answers are written, whatever the format.
// Switches of a command line are bools.
#[allow(clippy::struct_excessive_bools)]
#[derive(Debug, Clone)]
pub struct Options {
    /// Numbers in full rather than as `1.2 M`.
    pub plain_numbers: bool,
    /// Addresses of IPv6 in full rather than without their middle.
    pub long_ipv6: bool,
    /// A Control-A before each address, for the hooks of `NfSen`.
    pub tag_addresses: bool,
    /// Neither headings nor anything below.
    pub quiet: bool,
    /// Zone of the times.
    pub zone: TimeZone,
    /// Whose layouts are written.
    pub release: Release,
}

impl Default for Options {
    fn default() -> Self {
        let zone = TimeZone::UTC;
        Self {
            plain_numbers: false,
            long_ipv6: false,
            tag_addresses: false,
            quiet: false,
            zone,
            release: Release::default(),
        }
    }
}

/// A format of nfdump.
#[derive(Debug, Clone, PartialEq)]
pub struct Format(Kind);

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// The text after `fmt:`, with all formats by name that it may contain.
    Lines(String, Vec<(String, String)>, Release),
    /// The layout, and whether it has a footer.
    Csv(Layout, bool),
    /// Numbers with strokes between them, without heading and footer.
    Pipe(Layout),
    Json,
    Ndjson,
    Raw,
    Null,
}

/// Octets that an address of IPv6 in full is longer than one without its middle.
const LONG_BY: usize = 23;

/// Octets of an address without its middle.
const ADDRESS_WIDTH: usize = 16;

/// Formats that are not made of tags, and those that are comma-separated.
static OTHER_NAMES: &[&str] = &["csv", "csv-fast", "pipe", "json", "ndjson", "raw", "null"];

impl Format {
    /// The format that nfdump's `-o` names: a name, `fmt:…` or `csv:…`. `own` are the formats of a configuration file,
    /// which come before nfdump's. A 6 at the end of a name asks for addresses of IPv6 in full, which is set in
    /// `options`.
    ///
    /// ```
    /// use weir_nfdump::text::{Format, Options};
    /// let mut options = Options::default();
    /// assert!(Format::parse("long6", &[], &mut options).is_ok() && options.long_ipv6);
    /// assert!(Format::parse("fmt:%ts %foo", &[], &mut options).is_err());
    /// ```
    pub fn parse(text: &str, own: &[(String, String)], options: &mut Options) -> Result<Self, FormatError> {
        let names = Names { own, release: options.release };
        if let Some(format) = text.strip_prefix("fmt:") {
            return Self::of_lines(format, names);
        }
        if let Some(format) = text.strip_prefix("csv:") {
            return Ok(Self(Kind::Csv(layout::csv(format, options.release)?, false)));
        }
        if let Some(format) = Self::by_name(text, names) {
            return format;
        }
        let unknown = || {
            let known: Vec<_> = named_formats(options.release).chain(["fmt:…", "csv:…"]).collect();
            FormatError::UnknownFormat { name: text.to_owned(), known: known.join(", ") }
        };
        let format = text.strip_suffix('6').and_then(|short| Self::by_name(short, names)).ok_or_else(unknown)?;
        options.long_ipv6 = true;
        format
    }

    fn of_lines(format: &str, names: Names<'_>) -> Result<Self, FormatError> {
        layout::lines(format, names, 0)?;
        Ok(Self(Kind::Lines(format.to_owned(), names.own.to_vec(), names.release)))
    }

    fn by_name(name: &str, names: Names<'_>) -> Option<Result<Self, FormatError>> {
        let release = names.release;
        let csv = |text| layout::csv(text, release).map(|layout| Self(Kind::Csv(layout, false)));
        if let Some(format) = names.find(name) {
            let format = format.strip_prefix("fmt:").unwrap_or(format);
            return Some(format.strip_prefix("csv:").map_or_else(|| Self::of_lines(format, names), csv));
        }
        match name {
            "csv" if release.is_last() => Some(csv(layout::CSV)),
            "csv" => Some(Ok(Self(Kind::Csv(layout::csv_of_1_7_1(), true)))),
            "csv-fast" => Some(Ok(Self(Kind::Csv(layout::csv_fast(), false)))),
            "pipe" if release.is_last() => None,
            "pipe" => Some(Ok(Self(Kind::Pipe(layout::pipe())))),
            "json" => Some(Ok(Self(Kind::Json))),
            "ndjson" => Some(Ok(Self(Kind::Ndjson))),
            "raw" => Some(Ok(Self(Kind::Raw))),
            "null" => Some(Ok(Self(Kind::Null))),
            _ => None,
        }
    }

    /// The columns of flows that the format writes.
    pub fn columns(&self) -> Vec<Column> {
        match &self.0 {
            Kind::Null => vec![Column::Flows],
            Kind::Json | Kind::Ndjson => json::columns(),
            Kind::Raw => Vec::new(),
            Kind::Csv(layout, _) | Kind::Pipe(layout) => cells::columns_of(fields(layout)),
            Kind::Lines(text, own, release) => layout::lines(text, Names { own, release: *release }, 0)
                .map_or_else(|_| Vec::new(), |layout| cells::columns_of(fields(&layout))),
        }
    }

    /// Whether the rows are comma-separated values.
    pub fn is_csv(&self) -> bool {
        matches!(self.0, Kind::Csv(..))
    }

    /// Whether something is written that only the header of a record in a file says.
    pub fn needs_headers(&self) -> bool {
        let needs = |layout: &Layout| fields(layout).any(|field| matches!(field, Field::ExporterNumber | Field::Ident));
        match &self.0 {
            Kind::Json | Kind::Ndjson | Kind::Raw => true,
            Kind::Null => false,
            Kind::Csv(layout, _) | Kind::Pipe(layout) => needs(layout),
            Kind::Lines(text, own, release) => {
                layout::lines(text, Names { own, release: *release }, 0).is_ok_and(|layout| needs(&layout))
            }
        }
    }

    /// Whether an answer is JSON.
    pub fn is_json(&self) -> bool {
        matches!(self.0, Kind::Json | Kind::Ndjson)
    }

    /// Whether flows are printed with all their fields.
    pub fn is_raw(&self) -> bool {
        matches!(self.0, Kind::Raw)
    }

    /// Whether the rows are numbers with strokes between them.
    pub fn is_pipe(&self) -> bool {
        matches!(self.0, Kind::Pipe(_))
    }

    /// Whether groups can be printed, which have their keys and counters only.
    pub fn prints_groups(&self) -> bool {
        matches!(self.0, Kind::Lines(..) | Kind::Csv(..) | Kind::Pipe(_) | Kind::Null)
    }

    /// Whether a list of flows has a footer.
    pub fn has_footer(&self) -> bool {
        !matches!(self.0, Kind::Json | Kind::Ndjson | Kind::Pipe(_) | Kind::Csv(_, false))
    }

    /// Whether the rows are lines of text with a heading.
    pub fn is_lines(&self) -> bool {
        matches!(self.0, Kind::Lines(..))
    }

    fn lines(&self, options: &Options) -> Option<Lines> {
        let long_by = if options.long_ipv6 { LONG_BY } else { 0 };
        let (layout, csv) = match &self.0 {
            Kind::Csv(layout, _) | Kind::Pipe(layout) => (layout.clone(), true),
            Kind::Lines(text, own, release) => {
                (layout::lines(text, Names { own, release: *release }, long_by).ok()?, false)
            }
            _ => return None,
        };
        let style = Style {
            csv,
            plain: options.plain_numbers,
            address_width: ADDRESS_WIDTH + long_by,
            tagged: options.tag_addresses,
        };
        let clock = ZonedClock::new(options.zone.clone());
        Some(Lines { layout, style, clock, header: !options.quiet && !matches!(self.0, Kind::Pipe(_)), rows: 0 })
    }

    fn rows(&self, options: &Options) -> Box<dyn RowFormat + Send> {
        let clock = ZonedClock::new(options.zone.clone());
        match &self.0 {
            Kind::Json => Box::new(json::Objects::new(false, clock, options.release)),
            Kind::Ndjson => Box::new(json::Objects::new(true, clock, options.release)),
            Kind::Raw => Box::new(raw::Records { clock, release: options.release, rows: 0 }),
            Kind::Null => Box::new(weir_print::printer::NullFormat),
            Kind::Csv(..) | Kind::Pipe(_) | Kind::Lines(..) => match self.lines(options) {
                Some(lines) => Box::new(lines),
                // the text was parsed when the format was made
                None => Box::new(weir_print::printer::NullFormat),
            },
        }
    }
}

fn fields(layout: &Layout) -> impl Iterator<Item = Field> {
    layout.pieces.iter().filter_map(|piece| match piece {
        Piece::Field(field) => Some(*field),
        Piece::Literal(_) => None,
    })
}

/// Writes batches of rows with a heading before them, and returns how many rows there were. `threads` of them make the
/// text; rows keep their order.
pub fn write_rows<E>(
    batches: impl Iterator<Item = Result<RecordBatch, E>>,
    format: &Format,
    options: &Options,
    threads: usize,
    to: &mut dyn Write,
) -> Result<u64, PrintError<E>> {
    let mut text = Vec::new();
    let mut rows = format.rows(options);
    rows.begin(&Schema::empty(), &mut text);
    let written = if let Some(lines) = format.lines(options) {
        let place = |lines: &mut Lines, rows_before| lines.rows = rows_before;
        ordered::write(batches, threads, to, text, || lines.clone(), place)?
    } else {
        to.write_all(&text).map_err(PrintError::Write)?;
        ordered::write_alone(batches, rows.as_mut(), to)?
    };
    text = Vec::new();
    rows.end(&mut text);
    to.write_all(&text).map_err(PrintError::Write)?;
    Ok(written)
}

/// Writes a ranking.
pub fn write_ranking(
    ranking: &Ranking,
    batches: &[RecordBatch],
    totals: &Totals,
    format: &Format,
    options: &Options,
    to: &mut dyn Write,
) -> std::io::Result<()> {
    let mut text = Vec::new();
    let push = match format.0 {
        Kind::Csv(..) => statistic::push_csv,
        Kind::Json | Kind::Ndjson => statistic::push_json,
        _ => statistic::push_table,
    };
    push(&mut text, ranking, batches, totals, options);
    to.write_all(&text)
}

/// The formats that have a name.
pub fn named_formats(release: Release) -> impl Iterator<Item = &'static str> {
    let others = OTHER_NAMES.iter().copied().filter(move |name| !release.is_last() || *name != "pipe");
    layout::named(release).map(|(name, _)| name).chain(others)
}

/// The tags of nfdump, each with its heading, and whether only nfdump's own empty value is written.
pub fn tags(release: Release) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
    Tag::all(release).map(|Tag { name, heading, field, .. }| (*name, heading.trim(), matches!(field, Field::Empty(..))))
}
