//! `weir query`: questions as nfdump asks them.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, bail};
use jiff::tz::TimeZone;
use weir_flow::books::{BooksSums, Completeness};
use weir_flow::{BooksBatch, Column};
use weir_query::output::{Format, OutputOptions, write_answer};
use weir_query::{
    AggregateKey, Direction, Engine, FlowQuery, Order, Select, Sorting, StatisticKey, TimeWindow, WindowRule,
};

use super::{ArchiveArgs, FormatArg};
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
    /// No header, and nothing else on standard error
    #[arg(long, short = 'q')]
    quiet: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let filter = args.filter.join(" ");
    let filter = weir_filter::parse(&filter).map_err(|error| anyhow::anyhow!("{}", error.render(&filter)))?;
    let window =
        args.window.unwrap_or(TimeWindow { from_ms: args.from, until_ms: args.until, rule: WindowRule::Overlaps });
    let selects = selects(args)?;
    let engine = args.archive.open()?;
    let options = OutputOptions {
        zone: if args.utc { TimeZone::UTC } else { TimeZone::system() },
        scaled: !args.plain_numbers,
        header: !args.quiet,
        labels: true,
    };
    let mut rows = 0;
    for (number, select) in selects.into_iter().enumerate() {
        if number > 0 && Format::from(args.output) == Format::Table && writeln!(io::stdout()).is_err() {
            // whoever read the answers has gone
            break;
        }
        let answer = engine.ask(&FlowQuery { filter: filter.clone(), window, select, scaled: args.scaled })?;
        rows += write_answer(answer, args.output.into(), &options, &mut io::stdout().lock())?;
    }
    let told = began.elapsed();
    if args.completeness || !args.quiet && io::stderr().is_terminal() {
        eprintln!("{}", completeness(&engine, &window)?);
    }
    if !args.quiet && io::stderr().is_terminal() {
        eprintln!("{rows} rows in {:.3} s", told.as_secs_f64());
    }
    Ok(ExitCode::SUCCESS)
}

/// What the books say about the time that was asked for.
fn completeness(engine: &Engine, window: &TimeWindow) -> anyhow::Result<Completeness> {
    let mut sums = BooksSums::default();
    let (from_ms, until_ms) = (window.from_ms.unwrap_or(i64::MIN), window.until_ms.unwrap_or(i64::MAX));
    for batch in engine.sql("SELECT * FROM exporter_books")? {
        if let Some(books) = BooksBatch::try_new(batch?) {
            sums.add(&books, from_ms, until_ms);
        }
    }
    Ok(sums.completeness())
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
        return Ok(vec![Select::Aggregate { keys, sorting, limit: limit(None) }]);
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
        return Ok(Select::Aggregate { keys: keys.to_vec(), sorting: Some(sorting), limit });
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
