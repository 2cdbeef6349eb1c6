//! The question that the options make, and its answer.

use std::io::{self, BufWriter, Write};
use std::time::Instant;

use anyhow::{Context, bail};
use arrow::array::RecordBatch;
use arrow::compute::filter_record_batch;
use jiff::tz::TimeZone;
use weir_ask::{
    AggregateKey, AskOptions, Conversation, Conversations, FlowQuery, Measure, Select, Sorting, TimeWindow, ask_batches,
};
use weir_filter::Predicate;
use weir_flow::{Column, FlowBatch};
use weir_foreign::nfcapd;
use weir_print::PrintError;
use weir_print::nfdump::{Format, Options, Ranking, push_csv_footer, push_footer, write_ranking, write_rows};

use super::input::Input;
use super::keys::{Statistic, format_of_groups, keys, sorting, statistics};
use super::source::{Counts, Source};
use super::{Args, config, parse_filter};

/// Values of a ranking unless `-n` says how many.
const TOP_USUAL: usize = 10;

/// nfdump takes no more statistics than these at once.
const STATISTICS_MAX: usize = 8;

/// Everything that an answer is made with.
struct Answering<'a> {
    args: &'a Args,
    source: Source,
    options: Options,
    format: Format,
    keys: Vec<AggregateKey>,
    sorting: Option<Sorting>,
    post_filter: Predicate,
    ask: AskOptions,
}

pub(super) fn answer(args: &Args, input: Input, filter: Predicate) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut ask = AskOptions::default();
    ask.threads = args.threads.unwrap_or(ask.threads).max(1);
    let (keys, tags) = args.keys.as_deref().map(keys).transpose()?.unwrap_or_default();
    let mut options = Options {
        plain_numbers: args.plain_numbers,
        long_ipv6: args.long_ipv6,
        tag_addresses: args.tag_addresses,
        quiet: args.quiet,
        zone: TimeZone::system(),
    };
    let usual = match (args.both_ways || args.guess, keys.is_empty()) {
        (true, _) => "biline".to_owned(),
        (false, true) => "line".to_owned(),
        (false, false) => format_of_groups(&tags),
    };
    let own = config::formats(args.config.as_deref())?;
    let format = Format::parse(args.output.as_deref().unwrap_or(&usual), &own, &mut options)?;
    let has_own_format = args.output.as_deref().is_none_or(|output| output.starts_with("fmt:"));
    if !keys.is_empty() && !has_own_format && !format.is_csv() {
        bail!(
            "-A is printed with -o fmt:…, csv or csv:… only\nhint: without -o the format is '{}'",
            format_of_groups(&tags)
        );
    }
    let order = args.order.as_deref().or(args.by_start.then_some("tstart"));
    let answering = Answering {
        source: Source::open(input, filter, args.window.unwrap_or_default(), args.count, ask.clone())?,
        options,
        format,
        keys,
        sorting: order.map(sorting).transpose()?,
        post_filter: args.post_filter.as_deref().map(parse_filter).transpose()?.unwrap_or(Predicate::True),
        ask,
        args,
    };
    let mut output = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    match answering.write(began, &mut output).and_then(|()| Ok(output.flush()?)) {
        Err(error) if is_closed_pipe(&error) => Ok(()),
        other => other,
    }
}

/// Whoever reads the answer may go away.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe))
}

impl Answering<'_> {
    fn write(&self, began: Instant, output: &mut dyn Write) -> anyhow::Result<()> {
        let counts = if self.args.statistic.is_empty() { self.flows(output)? } else { self.rankings(output)? };
        if self.args.write.is_some() || self.options.quiet {
            return Ok(());
        }
        let mut text = Vec::new();
        if self.format.is_csv() {
            push_csv_footer(&mut text, &counts.totals);
        } else if !self.format.is_json() || !self.args.statistic.is_empty() {
            let mut effort = counts.effort;
            effort.wall_seconds = began.elapsed().as_secs_f64();
            (effort.user_seconds, effort.system_seconds) = super::about::processor_seconds();
            if let Some(TimeWindow { from_ms: Some(from), until_ms: Some(until), .. }) = self.args.window {
                (effort.first_ms, effort.last_ms) = (Some(from), Some(until));
            }
            push_footer(&mut text, &counts.totals, &effort, &self.options);
        }
        output.write_all(&text)?;
        Ok(())
    }

    /// A listing, or what is made of whole flows.
    fn flows(&self, output: &mut dyn Write) -> anyhow::Result<Counts> {
        if let Some(rows) = self.made(self.sorting, self.limit(None))? {
            self.put(rows.into_iter().map(Ok), output)?;
        } else if self.sorting.is_some() {
            let columns = self.columns();
            let rows = self.source.ask(Select::List { columns, sorting: self.sorting, limit: self.limit(None) })?;
            self.put(self.after(rows, None)?.into_iter().map(Ok), output)?;
        } else {
            let flows = self.source.flows(&self.columns())?;
            let rows = flows.map(|flows| self.after_one(flows?.record_batch()));
            self.put(rows, output)?;
        }
        self.source.totals()
    }

    /// Columns that a listing needs; none for all of them.
    fn columns(&self) -> Vec<Column> {
        if self.args.write.is_some() || self.post_filter != Predicate::True {
            return Vec::new();
        }
        self.format.columns()
    }

    /// Flows that are made of several; nothing when flows are to stay what they are.
    fn made(&self, sorting: Option<Sorting>, limit: Option<usize>) -> anyhow::Result<Option<Vec<RecordBatch>>> {
        let has_post_filter = self.post_filter != Predicate::True;
        let limit_before = limit.filter(|_| !has_post_filter);
        let rows = if !self.keys.is_empty() {
            let more = vec![Measure::Sum(Column::PacketsOut), Measure::Sum(Column::BytesOut)];
            self.source.ask(Select::Aggregate { keys: self.keys.clone(), more, sorting, limit: limit_before })?
        } else if self.is_grouped_by_archive() {
            let sums = [Column::PacketsOut, Column::BytesOut].map(Measure::Sum);
            let more = sums.into_iter().chain([Measure::Or(Column::TcpFlags)]).collect();
            self.source.ask(Select::Aggregate { keys: Vec::new(), more, sorting, limit: limit_before })?
        } else if let Some(conversation) = self.conversation() {
            let mut conversations = Conversations::new(conversation);
            for flows in self.source.flows(&[])? {
                conversations.add(&flows?);
            }
            let made = conversations.finish().into_iter().map(Ok::<_, String>);
            let question = FlowQuery {
                filter: Predicate::True,
                window: TimeWindow::default(),
                select: Select::List { columns: Vec::new(), sorting, limit: limit_before },
                scaled: false,
            };
            ask_batches(&question, made, &self.ask)?.collect::<Result<_, _>>()?
        } else {
            return Ok(None);
        };
        Ok(Some(self.after(rows, limit)?))
    }

    /// Whether an archive can make the flows of one direction: nothing is told but what it sums up.
    fn is_grouped_by_archive(&self) -> bool {
        const SUMMED_UP: [Column; 13] = [
            Column::Protocol,
            Column::SrcAddr,
            Column::DstAddr,
            Column::SrcPort,
            Column::DstPort,
            Column::Start,
            Column::End,
            Column::Packets,
            Column::Bytes,
            Column::Flows,
            Column::PacketsOut,
            Column::BytesOut,
            Column::TcpFlags,
        ];
        let columns = self.columns();
        self.source.is_archive()
            && self.conversation() == Some(Conversation::OneWay)
            && !columns.is_empty()
            && columns.iter().all(|column| SUMMED_UP.contains(column))
    }

    fn conversation(&self) -> Option<Conversation> {
        let args = self.args;
        let has_record = args.statistic.iter().any(|statistic| statistic.split(['/', ':']).next() == Some("record"));
        match (args.guess, args.both_ways, args.aggregate || has_record) {
            (true, ..) => Some(Conversation::BothWaysGuessed),
            (_, true, _) => Some(Conversation::BothWays),
            (_, _, true) => Some(Conversation::OneWay),
            _ => None,
        }
    }

    /// The rows that the filter of `-P` takes.
    fn after(&self, rows: Vec<RecordBatch>, limit: Option<usize>) -> anyhow::Result<Vec<RecordBatch>> {
        let mut left = limit.unwrap_or(usize::MAX);
        let mut taken = Vec::new();
        for batch in rows {
            let batch = self.after_one(&batch)?;
            let rows = batch.num_rows().min(left);
            taken.push(batch.slice(0, rows));
            left -= rows;
        }
        Ok(taken)
    }

    fn after_one(&self, batch: &RecordBatch) -> anyhow::Result<RecordBatch> {
        if self.post_filter == Predicate::True {
            return Ok(batch.clone());
        }
        let mask = self.post_filter.mask(&as_flows(batch)?);
        filter_record_batch(batch, &mask).context("cannot filter the rows of the answer")
    }

    fn put(
        &self,
        rows: impl Iterator<Item = anyhow::Result<RecordBatch>>,
        output: &mut dyn Write,
    ) -> anyhow::Result<()> {
        if let Some(path) = &self.args.write {
            return self.write_file(path, rows);
        }
        let mut is_empty = true;
        let rows = rows.inspect(|rows| is_empty &= !rows.as_ref().is_ok_and(|rows| rows.num_rows() > 0));
        let written = write_rows(rows, &self.format, &self.options, self.ask.threads, output);
        written.map_err(|error| match error {
            PrintError::Batches(error) => error,
            PrintError::Write(error) => error.into(),
        })?;
        if is_empty && !self.options.quiet && self.format.is_lines() {
            output.write_all(b"No matching flows\n")?;
        }
        Ok(())
    }

    fn write_file(&self, path: &str, rows: impl Iterator<Item = anyhow::Result<RecordBatch>>) -> anyhow::Result<()> {
        let args = self.args;
        let name = match (args.lz4, args.bzip2) {
            (true, _) => Some("lz4"),
            (_, true) => Some("bz2"),
            _ => args.compress.as_deref().map(|codec| codec.split(':').next().unwrap_or(codec)),
        };
        let known = nfcapd::Compression::ALL.iter().copied();
        let compression = match name {
            None => nfcapd::Compression::None,
            Some(name) => known.clone().find(|codec| codec.name() == name).with_context(|| {
                let known: Vec<_> = known.map(nfcapd::Compression::name).collect();
                format!("'{name}' is no compression\nhint: use {}", known.join(", "))
            })?,
        };
        let ident = args.ident.clone().unwrap_or_default();
        let mut writer = nfcapd::Writer::create(path, nfcapd::WriterOptions { compression, ident })?;
        for batch in rows {
            writer.write(&as_flows(&batch?)?)?;
        }
        writer.finish()?;
        Ok(())
    }

    fn limit(&self, usual: Option<usize>) -> Option<usize> {
        self.args.top.map_or(usual, |top| (top > 0).then_some(top))
    }

    fn rankings(&self, output: &mut dyn Write) -> anyhow::Result<Counts> {
        if self.args.write.is_some() && self.args.statistic.len() > 1 {
            bail!("-w takes one -s record");
        }
        if self.format.is_json() {
            bail!("-s is printed as text or with -o csv\nhint: weir query -s … -o json");
        }
        let mut asked: Vec<Statistic> = Vec::new();
        for text in &self.args.statistic {
            asked.extend(statistics(text)?);
        }
        if self.args.statistic.len() > STATISTICS_MAX {
            bail!("more than {STATISTICS_MAX} statistics at once");
        }
        let limit = self.limit(Some(TOP_USUAL));
        let (fields, records): (Vec<_>, Vec<_>) = asked.into_iter().partition(|statistic| statistic.key.is_some());
        for statistic in &records {
            self.record(statistic, limit, output)?;
        }
        let mut counts = None;
        for statistic in fields {
            let Some(key) = statistic.key else { continue };
            let (per_protocol, sorting) = (statistic.per_protocol, statistic.sorting);
            let limit_before = limit.filter(|_| self.post_filter == Predicate::True);
            let rows = self.source.ask(Select::Statistic { key, per_protocol, sorting, limit: limit_before })?;
            let rows = self.after(rows, limit)?;
            let totals = match counts {
                Some(counts) => counts,
                None => *counts.insert(self.source.totals()?),
            };
            let ranking = Ranking {
                statistic: key.nfdump_name().to_owned(),
                column: key.name().to_owned(),
                per_protocol,
                order: statistic.order,
                limit,
            };
            write_ranking(&ranking, &rows, &totals.totals, &self.format, &self.options, output)?;
        }
        counts.map_or_else(|| self.source.totals(), Ok)
    }

    /// The first of whole flows.
    fn record(&self, statistic: &Statistic, limit: Option<usize>, output: &mut dyn Write) -> anyhow::Result<()> {
        let rows = self.made(Some(statistic.sorting), limit)?.unwrap_or_default();
        if !self.options.quiet && self.args.write.is_none() && self.format.is_lines() {
            let limit = limit.map_or_else(String::new, |limit| format!(" {limit}"));
            writeln!(output, "Top{limit} flows ordered by {}:", statistic.order)?;
        }
        self.put(rows.into_iter().map(Ok), output)
    }
}

/// The columns of flows of an answer.
fn as_flows(batch: &RecordBatch) -> anyhow::Result<FlowBatch> {
    let fields = batch.schema_ref().fields();
    let column = |at: usize| fields.get(at).and_then(|field| Column::by_name(field.name()));
    let mut columns: Vec<_> = (0..fields.len()).filter_map(|at| Some((column(at)?, at))).collect();
    columns.sort_unstable();
    columns.dedup_by_key(|(column, _)| *column);
    let columns = columns.into_iter().map(|(column, at)| (column, batch.column(at).clone())).collect();
    FlowBatch::from_columns(batch.num_rows(), columns).context("the rows of the answer are no flows")
}
