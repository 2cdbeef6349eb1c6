//! The question that the options make, and its answer.

use std::io::{self, BufWriter, Write};
use std::time::Instant;

use anyhow::{Context, bail};
use arrow::array::RecordBatch;
use arrow::compute::filter_record_batch;
use jiff::tz::TimeZone;
use weir_filter::Predicate;
use weir_flow::{Column, FlowBatch};
use weir_formats::nfcapd;
use weir_print::PrintError;
use weir_print::nfdump::{Format, Options, Ranking, push_csv_footer, push_footer, write_ranking, write_rows};
use weir_query::{AggregateKey, Conversation, Conversations, Measure, QueryOptions, Select, Sorting, TimeWindow};

use super::input::Input;
use super::keys::{Statistic, columns_of, format_of_groups, keys, sorting, statistics};
use super::source::{Counts, Passage, Rows, Source, asked_of};
use super::view::{View, Way, with_other_address};
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
    /// The counters that the order is about.
    way: Way,
    post_filter: Predicate,
    ask: QueryOptions,
}

pub(super) fn answer(args: &Args, input: Input, filter: Predicate) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut ask = QueryOptions::default();
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
    if !keys.is_empty() && !format.is_lines() && !format.is_csv() {
        bail!("-A is printed in lines or with -o csv\nhint: without -o the format is '{}'", format_of_groups(&tags));
    }
    let order = args.order.as_deref().or(args.by_start.then_some("tstart")).map(sorting).transpose()?;
    // decoding files takes most of the time and one thread: more of them would mostly wait for each other
    let threads = if matches!(input, Input::Files(_)) { args.threads.unwrap_or(1).max(1) } else { ask.threads };
    let reading = QueryOptions { threads, ..ask.clone() };
    let passage = Passage { filter, window: args.window.unwrap_or_default(), count_max: args.count };
    let answering = Answering {
        source: Source::open(input, passage, reading)?,
        options,
        format,
        keys,
        sorting: order.map(|(sorting, _)| sorting),
        way: order.map_or(Way::In, |(_, way)| way),
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
        if !self.format.has_footer() && self.args.statistic.is_empty() {
            return Ok(());
        }
        if self.format.is_csv() {
            push_csv_footer(&mut text, &counts.totals);
        } else {
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
        if let Some(rows) = self.made(self.sorting, self.way, self.limit(None))? {
            self.put(rows, output)?;
        } else if self.sorting.is_some() {
            can_sort(self.way, self.source.is_archive())?;
            let select = Select::List { columns: self.columns(), sorting: self.sorting, limit: self.limit(None) };
            let rows = self.source.ask(select, View { way: self.way, zeros: Vec::new() })?;
            self.put(self.after(rows, None), output)?;
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
    fn made(
        &self,
        sorting: Option<Sorting>,
        way: Way,
        limit: Option<usize>,
    ) -> anyhow::Result<Option<Box<dyn Iterator<Item = anyhow::Result<RecordBatch>> + '_>>> {
        let has_post_filter = self.post_filter != Predicate::True;
        let limit_before = limit.filter(|_| !has_post_filter);
        let rows: Rows = if !self.keys.is_empty() {
            let more = vec![Measure::Sum(Column::PacketsOut), Measure::Sum(Column::BytesOut)];
            can_sort(way, true)?;
            let zeros = self.keys.iter().flat_map(|key| columns_of(*key)).collect();
            let select = Select::Aggregate { keys: self.keys.clone(), more, sorting, limit: limit_before };
            let rows = self.source.ask(select, View { way: Way::In, zeros })?;
            Box::new(rows.map(|rows| Ok(with_other_address(rows?))))
        } else if self.is_grouped_by_archive() {
            let sums = [Column::PacketsOut, Column::BytesOut].map(Measure::Sum);
            let more = sums.into_iter().chain([Measure::Or(Column::TcpFlags)]).collect();
            can_sort(way, true)?;
            let select = Select::Aggregate { keys: Vec::new(), more, sorting, limit: limit_before };
            self.source.ask(select, View::default())?
        } else if let Some(conversation) = self.conversation() {
            let mut conversations = Conversations::new(conversation);
            for flows in self.source.flows(&[])? {
                conversations.add(&flows?);
            }
            let select = Select::List { columns: Vec::new(), sorting, limit: limit_before };
            asked_of(conversations.finish(), select, View { way, zeros: Vec::new() }, &self.ask)
        } else {
            return Ok(None);
        };
        Ok(Some(Box::new(self.after(rows, limit))))
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
    fn after(&self, rows: Rows, limit: Option<usize>) -> impl Iterator<Item = anyhow::Result<RecordBatch>> + use<'_> {
        let mut left = limit.unwrap_or(usize::MAX);
        rows.map(move |batch| {
            let batch = self.after_one(&batch?)?;
            let rows = batch.num_rows().min(left);
            left -= rows;
            Ok(batch.slice(0, rows))
        })
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
        if is_empty && !self.options.quiet && (self.format.is_lines() || self.format.is_raw()) {
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
            can_sort(statistic.way, self.source.is_archive())?;
            let select = Select::Statistic { key, per_protocol, sorting, limit: limit_before };
            let rows = self.source.ask(select, View { way: statistic.way, zeros: key.columns().to_vec() })?;
            let rows: Vec<RecordBatch> = self.after(rows, limit).collect::<Result<_, _>>()?;
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
        if !self.options.quiet && self.args.write.is_none() && self.format.is_lines() {
            let limit = limit.map_or_else(String::new, |limit| format!(" {limit}"));
            writeln!(output, "Top{limit} flows ordered by {}:", statistic.order)?;
        }
        match self.made(Some(statistic.sorting), statistic.way, limit)? {
            Some(rows) => self.put(rows, output),
            None => Ok(()),
        }
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

/// Whether rows can be sorted by what goes out: groups and archives are not.
fn can_sort(way: Way, is_grouped: bool) -> anyhow::Result<()> {
    if way == Way::Out && is_grouped {
        bail!(
            "archives and groups of -A are not sorted by what goes out\nhint: sort by bytes and print %opkt and %obyt"
        );
    }
    Ok(())
}
