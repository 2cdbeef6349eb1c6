//! `weir query`: queries as nfdump has them.

mod listed;
mod names;
mod plot;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::bail;
use jiff::tz::TimeZone;
use weir_flow::Column;
use weir_nfdump::times::window as nfdump_window;
use weir_print::{Bars, OutputOptions, write_batches};
use weir_query::Archive;
use weir_sql::{
    AggregateKey, FlowAnswers, FlowQuery, Order, Progress, Select, Sorting, TimeWindow, Totals, WindowRule,
};

use self::listed::ListedColumns;
use self::names::NameArgs;
use super::answer_format::{FormatArg, texts};
use super::archive_args::ArchiveArgs;
use super::no_rows;
use super::report::counted;
use crate::foreground_query::{CLOSING_MAX, ForegroundArgs, ForegroundQuery, When, parse_filter, terminal};
use crate::time_args::TimeArgs;

/// Rows of a ranking unless --limit asks for another number.
const TOP_DEFAULT: usize = 10;

/// The order of a list that is not sorted.
const UNSORTED: &str = "none";

/// Examples at the end of the long help.
const EXAMPLES: &str = "\
Examples:
  weir query -R flows 'dst port 22 and bytes > 1k'
  weir query -R flows --statistic srcip/bytes --limit 10 'proto tcp'
  weir query -R flows --aggregate srcip,dstport --order bytes 'net 192.0.2.0/24'
  weir query -R flows --last 15m 'proto udp'
  weir query -R flows --from 'yesterday 08:00' --until 'yesterday 09:00' --format csv 'port 53'
  weir query -R flows --statistic inif/bytes --interfaces interfaces.csv
  weir query -R flows --plot day.svg --plot-by dstport 'proto tcp'";

/// List, rank or group flows, with nfdump's filter language
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    archive: ArchiveArgs,
    /// Take only the flows that pass this filter; several words are joined
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    #[command(flatten)]
    selection: SelectionArgs,
    #[command(flatten)]
    window: WindowArgs,
    /// Multiply bytes and packets by the sampling interval that was in force, as before sampling
    #[arg(long)]
    scaled: bool,
    /// Include expired flows from their summaries
    ///
    /// For rankings (--statistic) and groupings (--aggregate) by one field without a filter, and for --plot. Each row shows by
    /// how much it may be too small at most; totals of whole days are exact.
    #[arg(long, conflicts_with_all = ["scaled", "plot_by"])]
    approximate: bool,
    #[command(flatten)]
    names: NameArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    plot: plot::PlotArgs,
    #[command(flatten)]
    foreground: ForegroundArgs,
}

/// What to make of the flows that pass.
#[derive(Debug, clap::Args)]
struct SelectionArgs {
    /// Rank the values of a field: STAT[:p][/ORDER[:a|d]], such as srcip/bytes or dstport:p/packets
    ///
    /// :p ranks the values of each protocol apart; record ranks whole flows; 'element NAME' ranks an Information Element. The
    /// option may be repeated.
    #[arg(long, short = 's', value_name = "STAT")]
    statistic: Vec<String>,
    /// Group by these fields: a list of proto, srcip, dstip, srcport, dstport, srcip4/24, srcas, 'element NAME' …
    #[arg(long, short = 'A', value_name = "KEYS", value_delimiter = ',')]
    aggregate: Vec<String>,
    /// Group by protocol, addresses and ports
    #[arg(long, short = 'a')]
    aggregate_five_tuple: bool,
    /// Sort by flows, packets, bytes, pps, bps, bpp, tstart, tend or duration, with :a or :d for the direction; or none
    ///
    /// Lists are sorted by tstart when they are tables or have a --limit, and else come in the order of the archive, as
    /// with none.
    #[arg(long, short = 'O', value_name = "ORDER")]
    order: Option<String>,
    /// Print at most this many rows; 0 for all [default: 10 of a ranking, all of a grouping or a listing]
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,
    /// List these columns of the table flows, and Information Elements by name; * for all columns [default: those that people look at]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    columns: Vec<String>,
}

/// The time of the flows.
#[derive(Debug, clap::Args)]
struct WindowArgs {
    /// Take only flows strictly within YYYY/MM/DD.hh:mm:ss-YYYY/MM/DD.hh:mm:ss, in the local zone, as nfdump does
    #[arg(long = "time", short = 't', value_name = "WINDOW", value_parser = nfdump_window, conflicts_with_all = ["from", "until", "last"])]
    window: Option<TimeWindow>,
    #[command(flatten)]
    times: TimeArgs,
}

impl WindowArgs {
    /// The flows that were active at some time of the window.
    fn window(&self) -> anyhow::Result<TimeWindow> {
        let [from_ms, until_ms] = self.times.range()?;
        Ok(self.window.unwrap_or(TimeWindow { from_ms, until_ms, rule: WindowRule::Overlaps }))
    }
}

/// How the answer is written.
#[derive(Debug, clap::Args)]
struct OutputArgs {
    /// Write the answer in this format
    #[arg(long, short = 'o', value_enum, value_name = "FORMAT", default_value_t = FormatArg::Table, help_heading = "Output")]
    format: FormatArg,
    /// Write texts in CSV as they came, control characters and what a spreadsheet computes included
    #[arg(long, help_heading = "Output")]
    raw: bool,
    /// Print plain numbers in tables rather than 1.2 M
    #[arg(long, short = 'N', help_heading = "Output")]
    plain_numbers: bool,
    /// Draw each row's share of all flows that pass as a bar rather than as a number; never leaves out shares and total
    ///
    /// In tables of rankings and groupings that are sorted by flows, packets or bytes. Shares need a second look at the flows.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t = When::Auto, help_heading = "Output")]
    bars: When,
    /// Report on standard error how complete the answer is, by the books; on terminals that is the default
    #[arg(long, help_heading = "Output")]
    completeness: bool,
    /// Print no header, and report nothing else on standard error
    #[arg(long, short = 'q', help_heading = "Output")]
    quiet: bool,
}

impl Args {
    /// Zone of times for people.
    fn zone(&self) -> TimeZone {
        self.window.times.zone()
    }

    fn is_quiet(&self) -> bool {
        self.output.quiet
    }

    fn is_table(&self) -> bool {
        self.output.format == FormatArg::Table
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let began = Instant::now();
    let filter = parse_filter(&args.filter.join(" "))?;
    let window = args.window.window()?;
    let selects = args.selection.selects(args.is_table())?;
    refuse_several_documents(args.output.format, selects.len())?;
    let foreground = ForegroundQuery::new(&args.foreground)?;
    let answers = args.archive.flow_answers(foreground.control(), args.scaled, args.approximate)?;
    let question = |select| FlowQuery { filter: filter.clone(), window, select, scaled: args.scaled };
    let first = selects.first().cloned().map(question);
    let result = if args.plot.is_asked() {
        plot::draw(args, &question, &answers, &foreground).map(|()| 0)
    } else {
        write(args, selects.into_iter().map(question), &answers, &foreground)
    };
    foreground.clear_progress();
    if let Ok(rows) = result {
        report_saturated(&foreground.control().progress);
        let seconds = began.elapsed().as_secs_f64();
        let is_shown = !args.is_quiet() && io::stderr().is_terminal();
        let is_explained = rows == 0 && !args.is_quiet() && no_rows::is_looked_at(args.output.format);
        if let Some(question) = first.filter(|_| is_explained && !args.plot.is_asked() && !args.approximate) {
            // the answer is whole without it
            if let Ok(line) = no_rows::of_question(&answers, &question, &args.zone()) {
                eprintln!("{line}");
            }
        }
        if let Some(archive) = answers.archive().filter(|_| args.output.completeness || is_shown) {
            eprintln!("{}", archive.completeness(&window)?);
            report_expired(args, archive, &window, &foreground)?;
        }
        if is_shown {
            eprintln!("{} in {seconds:.3} s", counted(rows, "row"));
        }
    }
    if result.is_err() {
        answers.close(CLOSING_MAX);
    }
    foreground.exit_code(result.map(drop))
}

/// CSV has one header and JSON one array, so programs could not read several answers after one another.
fn refuse_several_documents(format: FormatArg, answers: usize) -> anyhow::Result<()> {
    let name = match format {
        FormatArg::Csv => "csv",
        FormatArg::Json => "json",
        FormatArg::Table | FormatArg::Ndjson | FormatArg::Null => return Ok(()),
    };
    if answers > 1 {
        bail!(
            "--format {name} has one answer, and each of {answers} --statistic is an answer\nhint: ask for one at a time, \
             or write them with --format ndjson"
        );
    }
    Ok(())
}

/// Writes the answers; gives the number of their rows.
fn write(
    args: &Args,
    questions: impl Iterator<Item = FlowQuery>,
    answers: &FlowAnswers,
    foreground: &ForegroundQuery,
) -> anyhow::Result<u64> {
    let scaled = !args.output.plain_numbers;
    let (listed, hidden) = args.selection.listed(args.is_table())?;
    let options = OutputOptions {
        zone: args.zone(),
        scaled,
        header: !args.is_quiet(),
        labels: true,
        hidden: Vec::new(),
        texts: texts(args.output.raw),
        ..OutputOptions::default()
    };
    let listed = listed.filter(ListedColumns::has_elements);
    let mut rows = 0;
    for (number, question) in questions.enumerate() {
        if number > 0 && args.is_table() && writeln!(foreground.output()).is_err() {
            // the reader of the answers has gone
            break;
        }
        let totals = totals(args, &question, answers)?;
        let bars = totals.map(|(order, totals)| bars(args, order, totals));
        let hidden = if matches!(question.select, Select::List { .. }) { hidden.clone() } else { Vec::new() };
        let options = OutputOptions { bars, hidden, ..options.clone() };
        let format = args.output.format.into();
        if let (Some(listed), Select::List { .. }) = (&listed, &question.select) {
            let answer = answers.ask(&question)?;
            let schema = listed.schema(answer.schema());
            let made = answer.map(|batch| batch.map(|batch| listed.rows(&batch)));
            rows += write_batches(made, &schema, format, &options, &mut foreground.output())?;
            continue;
        }
        let written = if args.is_table() && !args.names.numeric {
            args.names.write(args.archive.versions(), answers, &question, &options, &mut foreground.output())?
        } else {
            answers.write(&question, format, &options, &mut foreground.output())?
        };
        if let Some(most) = written.unlisted_max.filter(|most| *most != [0; 3] && !args.is_quiet()) {
            let [flows, packets, bytes] = most;
            eprintln!("a value that is not listed may have {flows} flows, {packets} packets and {bytes} bytes at most");
        }
        if let Some((_, Totals { flows, packets, bytes })) = totals {
            // a reader that has gone needs no total
            let _ = writeln!(foreground.output(), "total: {flows} flows, {packets} packets, {bytes} bytes");
        }
        rows += written.rows;
    }
    Ok(rows)
}

/// What all flows carried together of which a ranking or grouping shows a part; `None` where no shares are printed.
fn totals(args: &Args, question: &FlowQuery, answers: &FlowAnswers) -> anyhow::Result<Option<(Order, Totals)>> {
    let sorting = match &question.select {
        Select::Statistic { sorting, .. } => Some(*sorting),
        Select::Aggregate { sorting, .. } => *sorting,
        Select::List { .. } => None,
    };
    let is_shown = args.is_table() && args.output.bars != When::Never && !args.is_quiet();
    let order = sorting.map(|sorting| sorting.order).filter(|_| is_shown);
    let Some(order) = order.filter(|order| matches!(order, Order::Flows | Order::Packets | Order::Bytes)) else {
        return Ok(None);
    };
    Ok(Some((order, answers.totals(question)?)))
}

/// Shares next to the rows, and bars where people look.
fn bars(args: &Args, order: Order, totals: Totals) -> Bars {
    let total = match order {
        Order::Flows => totals.flows,
        Order::Packets => totals.packets,
        _ => totals.bytes,
    };
    let is_drawn = args.output.bars.holds(io::stdout().is_terminal());
    let terminal_width = if is_drawn { terminal::width() } else { Some(0) };
    Bars { column: order.column_name().to_owned(), total, terminal_width }
}

/// Reports on standard error that sums do not fit, with `--quiet` too: the answer is wrong without it.
fn report_saturated(progress: &Progress) {
    let rows = progress.counts().rows_saturated;
    if rows > 0 {
        eprintln!("{rows} rows have a sum larger than {max}, and {max} stands for it", max = u64::MAX);
    } else if progress.saturation().is_set() {
        // by the engine of SQL, which counts no rows
        eprintln!("there are sums larger than {max}, and {max} stands for them", max = u64::MAX);
    }
}

/// Reports on standard error how many flows of the window have expired and are not in the answer.
fn report_expired(
    args: &Args,
    archive: &Archive,
    window: &TimeWindow,
    foreground: &ForegroundQuery,
) -> anyhow::Result<()> {
    if args.approximate {
        let flows = foreground.control().progress.counts().rows_unsummed;
        if flows > 0 {
            eprintln!("{flows} flows have expired and could not be summed up; they are not in the answer");
        }
        return Ok(());
    }
    let flows = archive.rows_expired(window)?;
    if flows > 0 {
        eprintln!("{flows} flows of this time have expired\nhint: --approximate counts what is kept of them");
    }
    Ok(())
}

impl SelectionArgs {
    /// What the options ask for; several rankings make several answers. Flows are listed in the order of time where people
    /// look or only the first are wanted: who reads all of them as CSV need not wait for a sort.
    fn selects(&self, is_for_people: bool) -> anyhow::Result<Vec<Select>> {
        let is_unsorted = self.order.as_deref() == Some(UNSORTED);
        let sorting = self.order.as_deref().filter(|_| !is_unsorted).map(Sorting::parse).transpose()?;
        let limit = |default: Option<usize>| match self.limit {
            Some(0) => None,
            Some(limit) => Some(limit),
            None => default,
        };
        let keys = self.aggregate.iter().map(|key| AggregateKey::parse(key)).collect::<Result<Vec<_>, _>>()?;
        if !self.statistic.is_empty() {
            let is_grouped = self.aggregate_five_tuple || !keys.is_empty();
            if let Some(other) = self.statistic.iter().find(|text| is_grouped && !text.starts_with("record")) {
                bail!(
                    "--statistic {other} ranks one field, and --aggregate groups by others\nhint: rank groups with \
                     --statistic record, or leave out one of both"
                );
            }
            let ranking = |text: &String| Select::parse_ranking(text, &keys, limit(Some(TOP_DEFAULT)));
            return Ok(self.statistic.iter().map(ranking).collect::<Result<_, _>>()?);
        }
        if self.aggregate_five_tuple || !keys.is_empty() {
            return Ok(vec![Select::Aggregate { keys, more: Vec::new(), sorting, limit: limit(None) }]);
        }
        let limit = limit(None);
        let is_in_time = sorting.is_none() && !is_unsorted && (is_for_people || limit.is_some());
        let sorting = if is_in_time { Some(Sorting::usual(Order::Start)) } else { sorting };
        let (listed, _) = self.listed(is_for_people)?;
        let columns = listed.map_or_else(Vec::new, |listed| listed.columns());
        Ok(vec![Select::List { columns, sorting, limit }])
    }

    /// The columns of a listing, `None` for all of them, and those of them that tables do not show.
    fn listed(&self, is_for_people: bool) -> anyhow::Result<(Option<ListedColumns>, Vec<Column>)> {
        let listed = ListedColumns::parse(&self.columns)?;
        let hidden = listed.as_ref().filter(|_| is_for_people).map_or_else(Vec::new, ListedColumns::hidden);
        Ok((listed.map(|listed| listed.with(&hidden)), hidden))
    }
}
