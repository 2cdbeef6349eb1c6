//! `weir query`: questions as nfdump asks them.

mod plot;

use std::cell::OnceCell;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use jiff::tz::TimeZone;
use weir_archive::Snapshot;
use weir_flow::books::{BooksSums, Completeness};
use weir_flow::{BooksBatch, Column, Table};
use weir_print::{Bars, CsvPieces, PrintError, write_batches};
use weir_query::{Answer, Archive, QueryError};
use weir_sql::output::{Format, OutputOptions, write_answer};
use weir_sql::{
    AggregateKey, Direction, Engine, EngineError, FlowQuery, Order, Select, Sorting, StatisticKey, TimeWindow,
    WindowRule,
};

use super::{ArchiveArgs, FormatArg};
use crate::asking::{self, Asking, AskingArgs, When, terminal};
use crate::picture::PictureFile;
use crate::time_range;

/// Columns of a plain listing.
const LIST_COLUMNS: &[Column] = &[
    Column::Start,
    Column::End,
    Column::Protocol,
    Column::SrcAddr,
    Column::SrcPort,
    Column::DstAddr,
    Column::DstPort,
    Column::TcpFlags,
    Column::Packets,
    Column::Bytes,
];

/// List, rank or group flows, with nfdump's filter language
///
/// Examples:
///   weir query 'dst port 22 and bytes > 1k'
///   weir query -s srcip/bytes -n 10 'proto tcp'
///   weir query -A srcip,dstport -O bytes 'net 192.0.2.0/24'
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(flatten)]
    archive: ArchiveArgs,
    /// Filter; several words are joined
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    /// Rank the values of a field: STAT[:p][/ORDER[:a|d]], such as srcip/bytes or dstport:p/packets
    #[arg(short = 's', value_name = "STAT")]
    statistic: Vec<String>,
    /// Group by these fields: a list of proto, srcip, dstip, srcport, dstport, srcip4/24, srcas …
    #[arg(short = 'A', value_name = "KEYS", value_delimiter = ',')]
    aggregate: Vec<String>,
    /// Group by the five-tuple
    #[arg(short = 'a')]
    aggregate_five_tuple: bool,
    /// Sort by flows, packets, bytes, pps, bps, bpp, tstart, tend or duration, with :a or :d for the direction
    #[arg(short = 'O', value_name = "ORDER")]
    order: Option<String>,
    /// Most rows of a ranking (10 unless told), a grouping or a listing (all unless told); 0 for all
    #[arg(short = 'n', value_name = "N")]
    limit: Option<usize>,
    /// Flows that lie strictly within YYYY/MM/DD.hh:mm:ss-YYYY/MM/DD.hh:mm:ss, in the local zone
    #[arg(short = 't', value_name = "WINDOW", value_parser = time_range::nfdump_window, conflicts_with_all = ["from", "until"])]
    window: Option<TimeWindow>,
    /// Flows that were active at this time or later, such as 2026-11-21T08:30 or 2026-11-21T08:30:00Z
    #[arg(long, value_name = "TIME", value_parser = time_range::moment, allow_hyphen_values = true)]
    from: Option<i64>,
    /// Flows that were active at this time or before
    #[arg(long, value_name = "TIME", value_parser = time_range::moment, allow_hyphen_values = true)]
    until: Option<i64>,
    /// Bytes and packets as before sampling: multiplied by the sampling interval that was in force
    #[arg(long)]
    scaled: bool,
    /// Count flows that have expired, too, by what is kept of them: rankings (-s) and groupings (-A) by one field without a
    /// filter, and --plot. Rows tell how much they may be too small; totals of whole days are exact
    #[arg(long, conflicts_with_all = ["scaled", "plot_by"])]
    approximate: bool,
    /// Columns of a listing, as in the table flows; * for all [default: those that people look at]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
    /// How the answer is written
    #[arg(long, short = 'o', value_enum, default_value_t = FormatArg::Table)]
    output: FormatArg,
    /// Plain numbers in tables rather than 1.2 M
    #[arg(short = 'N', long)]
    plain_numbers: bool,
    /// Times of tables in UTC rather than in the local zone
    #[arg(long)]
    utc: bool,
    /// Say on standard error how complete the answer is, by the books; a terminal is always told
    #[arg(long)]
    completeness: bool,
    /// Draw rates over time instead of listing flows: in the terminal, or into a file that ends in .svg or .png
    ///
    /// What a flow carried is spread evenly over its duration.
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = ["statistic", "aggregate", "aggregate_five_tuple"])]
    #[expect(clippy::option_option, reason = "not given, given without a file, given with one")]
    plot: Option<Option<PictureFile>>,
    /// What is drawn per second
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = plot::MeasureArg::Bits, requires = "plot")]
    plot_of: plot::MeasureArg,
    /// Tell the most frequent values of a field apart, as proto, srcip, dstport, srcas, router, inif; -n says how many
    #[arg(long, value_name = "FIELD", requires = "plot")]
    plot_by: Option<String>,
    /// Bars beside rankings and groupings that are sorted by flows, packets or bytes: each row's share of all flows
    /// that pass; auto is on terminals only. They need a second look at the flows
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::Auto)]
    bars: When,
    #[command(flatten)]
    asking: AskingArgs,
    /// No header, and nothing else on standard error
    #[arg(long, short = 'q')]
    quiet: bool,
}

impl Args {
    /// Zone of times for people.
    fn zone(&self) -> TimeZone {
        if self.utc { TimeZone::UTC } else { TimeZone::system() }
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let filter = args.filter.join(" ");
    let filter = asking::parse_filter(&asking::filter_reader(), &filter)?;
    let window =
        args.window.unwrap_or(TimeWindow { from_ms: args.from, until_ms: args.until, rule: WindowRule::Overlaps });
    let selects = selects(args)?;
    let asking = Asking::new(&args.asking)?;
    let asked = Asked::open(args, &asking)?;
    let questions = selects.into_iter().map(|select| {
        let filter = filter.clone();
        FlowQuery { filter, window, select, scaled: args.scaled }
    });
    let result = match &args.plot {
        Some(file) if args.approximate => {
            plot::draw_approximately(args, file.as_ref(), (&filter, window), &asked.archive, &asking).map(|()| 0)
        }
        Some(file) => asked
            .engine()
            .and_then(|engine| plot::draw(args, file.as_ref(), &filter, window, engine, &asking).map(|()| 0)),
        None => answered(args, questions, &asked),
    };
    asking.told();
    if let Ok(rows) = result {
        let told = began.elapsed();
        if args.completeness || !args.quiet && io::stderr().is_terminal() {
            eprintln!("{}", completeness(asked.archive.snapshot(), &window)?);
            tell_expired(&asked, &window)?;
        }
        if !args.quiet && io::stderr().is_terminal() {
            eprintln!("{rows} rows in {:.3} s", told.as_secs_f64());
        }
    }
    let engine = asked.engine.into_inner();
    asking.close(engine, result.map(drop))
}

/// The archive, and the engine for what needs one: starting it takes longer than most questions.
struct Asked<'a> {
    args: &'a Args,
    asking: &'a Asking,
    archive: Archive,
    engine: OnceCell<Engine>,
}

impl<'a> Asked<'a> {
    fn open(args: &'a Args, asking: &'a Asking) -> anyhow::Result<Self> {
        let archive = args.archive.direct(Arc::clone(&asking.terms().progress), args.approximate)?;
        Ok(Self { args, asking, archive, engine: OnceCell::new() })
    }

    fn engine(&self) -> anyhow::Result<&Engine> {
        if let Some(engine) = self.engine.get() {
            return Ok(engine);
        }
        let engine = self.args.archive.open()?;
        Ok(self.engine.get_or_init(|| engine))
    }

    /// Asks and writes the answer; gives the number of its rows.
    fn write(&self, question: &FlowQuery, options: &OutputOptions) -> anyhow::Result<u64> {
        let format = Format::from(self.args.output);
        let written = match format {
            Format::Csv => self.write_csv(question, options),
            _ => self.archive.ask(question).map(|answer| {
                self.tell_unlisted(&answer);
                let schema = Arc::clone(answer.schema());
                write_batches(answer, &schema, format, options, &mut self.asking.output())
            }),
        };
        match written {
            Ok(written) => written.map_err(|error| match error {
                PrintError::Batches(error) => error.into(),
                PrintError::Write(error) => EngineError::Write(error).into(),
            }),
            // the engine scales by sampling intervals, and writes to disk what memory does not hold
            Err(QueryError::NeedsEngine(_) | QueryError::Memory { .. }) if !self.args.approximate => {
                let answer = self.engine()?.ask_on(question, self.asking.terms())?;
                Ok(write_answer(answer, format, options, &mut self.asking.output())?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Says on standard error what an approximate answer may lack beside what its rows tell.
    fn tell_unlisted<T>(&self, answer: &Answer<T>) {
        let Some(most) = answer.unlisted_max().filter(|most| *most != [0; 3] && !self.args.quiet) else { return };
        let [flows, packets, bytes] = most;
        eprintln!("a value that is not listed may have {flows} flows, {packets} packets and {bytes} bytes at most");
    }

    /// Has the threads that make the answer make its text as well.
    fn write_csv(
        &self,
        question: &FlowQuery,
        options: &OutputOptions,
    ) -> Result<Result<u64, PrintError<QueryError>>, QueryError> {
        let pieces = Arc::new(CsvPieces::new(options));
        let maker = Arc::clone(&pieces);
        let answer = self.archive.ask_each(question, move |batch| maker.piece(&batch))?;
        self.tell_unlisted(&answer);
        let schema = Arc::clone(answer.schema());
        Ok(pieces.write(answer, &schema, &mut self.asking.output()))
    }
}

/// Asks and writes the answers; gives the number of their rows.
fn answered(args: &Args, questions: impl Iterator<Item = FlowQuery>, asked: &Asked<'_>) -> anyhow::Result<u64> {
    let options =
        OutputOptions { zone: args.zone(), scaled: !args.plain_numbers, header: !args.quiet, labels: true, bars: None };
    let mut rows = 0;
    for (number, question) in questions.enumerate() {
        if number > 0 && Format::from(args.output) == Format::Table && writeln!(asked.asking.output()).is_err() {
            // whoever read the answers has gone
            break;
        }
        let options = OutputOptions { bars: bars(args, &question, asked)?, ..options.clone() };
        rows += asked.write(&question, &options)?;
    }
    Ok(rows)
}

/// The bars of an answer, if it has any.
fn bars(args: &Args, question: &FlowQuery, asked: &Asked<'_>) -> anyhow::Result<Option<Bars>> {
    let sorting = match &question.select {
        Select::Statistic { sorting, .. } => Some(*sorting),
        Select::Aggregate { sorting, .. } => *sorting,
        Select::List { .. } => None,
    };
    let is_table = Format::from(args.output) == Format::Table;
    let Some(sorting) = sorting.filter(|_| is_table && args.bars.holds(io::stdout().is_terminal())) else {
        return Ok(None);
    };
    if !matches!(sorting.order, Order::Flows | Order::Packets | Order::Bytes) {
        return Ok(None);
    }
    let (flows, packets, bytes) = if question.scaled {
        let total = asked.engine()?.totals_on(question, asked.asking.terms())?;
        (total.flows, total.packets, total.bytes)
    } else {
        let total = asked.archive.totals(&question.filter, &question.window)?;
        (total.flows, total.packets.unwrap_or(0), total.bytes.unwrap_or(0))
    };
    let total = match sorting.order {
        Order::Flows => flows,
        Order::Packets => packets,
        _ => bytes,
    };
    let column = sorting.order.column_name().to_owned();
    Ok(Some(Bars { column, total, terminal_width: terminal::width() }))
}

/// What the books say about the time that was asked for.
fn completeness(snapshot: &Snapshot, window: &TimeWindow) -> anyhow::Result<Completeness> {
    let mut sums = BooksSums::default();
    let (from_ms, until_ms) = (window.from_ms.unwrap_or(i64::MIN), window.until_ms.unwrap_or(i64::MAX));
    let mut batches = snapshot.tail(Table::ExporterBooks).to_vec();
    for segment in snapshot.segments(Table::ExporterBooks) {
        batches.extend(segment.read()?);
    }
    for books in batches.into_iter().filter_map(BooksBatch::try_new) {
        sums.add(&books, from_ms, until_ms);
    }
    Ok(sums.completeness())
}

/// Says on standard error what became of flows of the time asked for that have expired.
fn tell_expired(asked: &Asked<'_>, window: &TimeWindow) -> anyhow::Result<()> {
    if asked.args.approximate {
        let seen = asked.asking.terms().progress.counts();
        if seen.rows_unsummed > 0 {
            eprintln!(
                "{} flows have expired and could not be summed up; they are not in the answer",
                seen.rows_unsummed
            );
        }
        return Ok(());
    }
    let rows = asked.archive.rows_expired(window)?;
    if rows > 0 {
        eprintln!("{rows} flows of this time have expired\nhint: --approximate counts what is kept of them");
    }
    Ok(())
}

/// What the options ask for; several rankings make several answers.
fn selects(args: &Args) -> anyhow::Result<Vec<Select>> {
    let sorting = args.order.as_deref().map(sorting).transpose()?;
    let limit = |usual: Option<usize>| match args.limit {
        Some(0) => None,
        Some(limit) => Some(limit),
        None => usual,
    };
    let keys = args.aggregate.iter().map(|key| AggregateKey::parse(key)).collect::<Result<Vec<_>, _>>()?;
    if !args.statistic.is_empty() {
        return args.statistic.iter().map(|text| statistic(text, &keys, limit(Some(10)))).collect();
    }
    if args.aggregate_five_tuple || !keys.is_empty() {
        return Ok(vec![Select::Aggregate { keys, more: Vec::new(), sorting, limit: limit(None) }]);
    }
    Ok(vec![Select::List { columns: list_columns(&args.columns)?, sorting, limit: limit(None) }])
}

fn list_columns(names: &[String]) -> anyhow::Result<Vec<Column>> {
    match names {
        [] => Ok(LIST_COLUMNS.to_vec()),
        [all] if all == "*" => Ok(Vec::new()),
        names => names
            .iter()
            .map(|name| {
                Column::by_name(name).with_context(|| {
                    let known: Vec<_> = Column::ALL.iter().map(|column| column.name()).collect();
                    format!("'{name}' is not a column\nhint: the columns are {}", known.join(", "))
                })
            })
            .collect(),
    }
}

/// Reads `STAT[:p][/ORDER[:a|d]]`; `record` ranks whole flows, grouped by the keys of `-A` or by the five-tuple.
fn statistic(text: &str, keys: &[AggregateKey], limit: Option<usize>) -> anyhow::Result<Select> {
    let (key, order) = text.split_once('/').map_or((text, None), |(key, order)| (key, Some(order)));
    let sorting = order.map_or(Ok(Sorting::usual(Order::Flows)), sorting)?;
    let (key, per_protocol) = key.strip_suffix(":p").map_or((key, false), |key| (key, true));
    if key == "record" {
        return Ok(Select::Aggregate { keys: keys.to_vec(), more: Vec::new(), sorting: Some(sorting), limit });
    }
    Ok(Select::Statistic { key: StatisticKey::parse(key)?, per_protocol, sorting, limit })
}

fn sorting(text: &str) -> anyhow::Result<Sorting> {
    let (name, direction) = text.split_once(':').map_or((text, None), |(name, way)| (name, Some(way)));
    let Some(order) = Order::by_name(name) else {
        bail!("'{name}' is not an order\nhint: use flows, packets, bytes, pps, bps, bpp, tstart, tend or duration");
    };
    let direction = match direction {
        None => order.usual_direction(),
        Some("a") => Direction::Ascending,
        Some("d") => Direction::Descending,
        Some(other) => bail!("'{other}' is not a direction\nhint: use a for ascending or d for descending"),
    };
    Ok(Sorting { order, direction })
}
