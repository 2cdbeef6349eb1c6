//! The question that the options make, and its answer.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use crate::text::{Format, Options, Ranking, Release, push_csv_footer, push_footer, write_ranking, write_rows};
use anyhow::{Context, bail};
use arrow::array::RecordBatch;
use arrow::compute::filter_record_batch;
use jiff::tz::TimeZone;
use weir_filter::Predicate;
use weir_flow::{Column, ColumnType, FlowBatch};
use weir_formats::nfcapd;
use weir_print::PrintError;
use weir_query::{AggregateKey, Conversation, Conversations, Measure, QueryOptions, Select, Sorting};
use weir_routes::{Database, PrefixMap};

use crate::input::Input;
use crate::keys::{Statistic, columns_of, csv_of_groups, format_of_groups, keys, sorting, statistics};
use crate::run::parse_filter;
use crate::source::{Counts, FlowSelection, Rows, Source, asked_of};
use crate::view::{CounterDirection, View, with_other_address};
use crate::{Arguments, files, format_file};

/// Values of a ranking unless `-n` says how many.
const TOP_DEFAULT: usize = 10;

/// nfdump takes no more statistics than these at once.
const STATISTICS_MAX: usize = 8;

/// What is printed when no flow passes the filter.
const NO_FLOWS: &[u8] = b"No matching flows\n";

/// Everything that an answer is made with.
struct AnswerWriter<'a> {
    args: &'a Arguments,
    source: Source,
    options: Options,
    format: Format,
    keys: Vec<AggregateKey>,
    sorting: Option<Sorting>,
    /// The counters that the order is about.
    direction: CounterDirection,
    post_filter: Predicate,
    ask: QueryOptions,
}

pub(crate) fn answer(args: &Arguments, input: Input, filter: Predicate, output: &mut dyn Write) -> anyhow::Result<()> {
    let began = Instant::now();
    let mut ask = QueryOptions::default();
    ask.threads = args.threads.unwrap_or(ask.threads).max(1);
    let (keys, tags) = args.grouping.keys.as_deref().map(keys).transpose()?.unwrap_or_default();
    let mut options = Options {
        plain_numbers: args.output.plain_numbers,
        long_ipv6: args.output.long_ipv6,
        tag_addresses: args.output.tag_addresses,
        quiet: args.output.quiet,
        zone: TimeZone::system(),
        release: args.output.release,
    };
    let format = format(args, &keys, &tags, &mut options)?;
    let order =
        args.grouping.order.as_deref().or(args.grouping.by_start.then_some("tstart")).map(sorting).transpose()?;
    // decoding files takes most of the time and one thread: more of them would mostly wait for each other
    let threads = if matches!(input, Input::Files(_)) { args.threads.unwrap_or(1).max(1) } else { ask.threads };
    let reading = QueryOptions { threads, ..ask.clone() };
    let selection = FlowSelection {
        filter,
        window: args.flows.window.unwrap_or_default(),
        count_max: args.flows.count,
        release: options.release,
        has_headers: format.needs_headers() && args.file.write.is_none(),
        left_out: Arc::default(),
        countries: args.input.countries().map(countries).transpose()?,
    };
    let writer = AnswerWriter {
        source: Source::open(input, selection, reading)?,
        options,
        format,
        keys,
        sorting: order.map(|(sorting, _)| sorting),
        direction: order.map_or(CounterDirection::In, |(_, direction)| direction),
        post_filter: args.grouping.post_filter.as_deref().map(parse_filter).transpose()?.unwrap_or(Predicate::True),
        ask,
        args,
    };
    writer.write(began, output)
}

/// The countries of addresses, by a `MaxMind` DB file.
fn countries(path: &Path) -> anyhow::Result<Arc<PrefixMap<String>>> {
    Ok(Arc::new(Database::open(path)?.countries()?))
}

/// The format of the answer.
fn format(args: &Arguments, keys: &[AggregateKey], tags: &str, options: &mut Options) -> anyhow::Result<Format> {
    let release = args.output.release;
    let usual = match (args.grouping.both_ways || args.grouping.guess, keys.is_empty()) {
        (true, _) => "biline".to_owned(),
        (false, true) if args.input.countries().is_some() => "gline".to_owned(),
        (false, true) => "line".to_owned(),
        (false, false) => format_of_groups(tags),
    };
    let own = format_file::formats(args.output.config.as_deref())?;
    let named = args.output.output.as_deref();
    if keys.is_empty() || release == Release::V1_7_1 {
        let format = Format::parse(named.unwrap_or(&usual), &own, options)?;
        if !keys.is_empty() && !format.prints_groups() {
            bail!("-A is printed in lines or with -o csv, pipe or null\nhint: without -o the format is '{usual}'");
        }
        return Ok(format);
    }
    let csv = csv_of_groups(tags);
    let text: &str = match named {
        None => &usual,
        Some("csv") => &csv,
        Some(text) if text.starts_with("fmt:") || text.starts_with("csv:") => text,
        Some(other) => {
            bail!("-A is not printed as '{other}' by nfdump 1.7.8\nhint: leave -o out, or use csv or '{usual}'")
        }
    };
    Ok(Format::parse(text, &own, options)?)
}

impl AnswerWriter<'_> {
    fn write(&self, began: Instant, output: &mut dyn Write) -> anyhow::Result<()> {
        let counts = if self.args.grouping.statistic.is_empty() { self.flows(output)? } else { self.rankings(output)? };
        if self.args.file.write.is_some() || self.options.quiet {
            return Ok(());
        }
        let mut text = Vec::new();
        let is_ranking = self.counts_fields()?;
        let is_silent = self.format.is_json() || (self.format.is_csv() && self.options.release.is_last());
        if is_silent || (!self.format.has_footer() && !is_ranking) {
            return Ok(());
        }
        if self.format.is_csv() {
            push_csv_footer(&mut text, &counts.totals);
        } else {
            let mut cost = counts.cost;
            cost.wall_seconds = began.elapsed().as_secs_f64();
            (cost.user_seconds, cost.system_seconds) = files::processor_seconds();
            if let (Some(window), Release::V1_7_1) = (self.args.flows.window, self.options.release) {
                // what of the files' times lies in the window of -t
                cost.first_ms = cost.first_ms.map(|first| window.from_ms.map_or(first, |from| first.max(from)));
                cost.last_ms = cost.last_ms.map(|last| window.until_ms.map_or(last, |until| last.min(until)));
            }
            push_footer(&mut text, &counts.totals, &cost, &self.options);
        }
        output.write_all(&text)?;
        Ok(())
    }

    /// Whether the values of a field are ranked.
    fn counts_fields(&self) -> anyhow::Result<bool> {
        let mut all = self.args.grouping.statistic.iter().map(|text| statistics(text));
        all.try_fold(false, |any, asked| Ok(any || asked?.iter().any(|statistic| statistic.key.is_some())))
    }

    /// A listing, or what is made of whole flows.
    fn flows(&self, output: &mut dyn Write) -> anyhow::Result<Counts> {
        if let Some(rows) = self.made(self.sorting, self.direction, self.limit(None))? {
            self.put(rows, output)?;
        } else if self.sorting.is_some() {
            can_sort(self.direction, self.source.is_archive())?;
            let select = Select::List { columns: self.columns(), sorting: self.sorting, limit: self.limit(None) };
            let rows = self.source.ask(select, View { direction: self.direction, zeros: Vec::new() })?;
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
        if self.args.file.write.is_some() || self.post_filter != Predicate::True {
            return Vec::new();
        }
        self.format.columns()
    }

    /// Flows that are made of several; nothing when flows are to stay what they are.
    fn made(
        &self,
        sorting: Option<Sorting>,
        direction: CounterDirection,
        limit: Option<usize>,
    ) -> anyhow::Result<Option<Box<dyn Iterator<Item = anyhow::Result<RecordBatch>> + '_>>> {
        let has_post_filter = self.post_filter != Predicate::True;
        let limit_before = limit.filter(|_| !has_post_filter);
        let rows: Rows = if !self.keys.is_empty() {
            let more = vec![Measure::Sum(Column::PacketsOut), Measure::Sum(Column::BytesOut)];
            can_sort(direction, true)?;
            let zeros = self.keys.iter().flat_map(|key| columns_of(*key)).collect();
            let select = Select::Aggregate { keys: self.keys.clone(), more, sorting, limit: limit_before };
            let rows = self.source.ask(select, View { direction: CounterDirection::In, zeros })?;
            Box::new(rows.map(|rows| Ok(with_other_address(rows?))))
        } else if self.is_grouped_by_archive() {
            let sums = [Column::PacketsOut, Column::BytesOut].map(Measure::Sum);
            let more = sums.into_iter().chain([Measure::Or(Column::TcpFlags)]).collect();
            can_sort(direction, true)?;
            let select = Select::Aggregate { keys: Vec::new(), more, sorting, limit: limit_before };
            self.source.ask(select, View::default())?
        } else if let Some(conversation) = self.conversation() {
            let mut conversations = Conversations::new(conversation);
            for flows in self.source.flows(&[])? {
                conversations.add(&flows?);
            }
            let select = Select::List { columns: Vec::new(), sorting, limit: limit_before };
            asked_of(conversations.finish(), select, View { direction, zeros: Vec::new() }, &self.ask)
        } else {
            return Ok(None);
        };
        Ok(Some(Box::new(self.after(rows, limit))))
    }

    /// Whether an archive can make the flows of one direction: nothing is printed but what it sums up.
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
        let has_record =
            args.grouping.statistic.iter().any(|statistic| statistic.split(['/', ':']).next() == Some("record"));
        match (args.grouping.guess, args.grouping.both_ways, args.grouping.aggregate || has_record) {
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
        if let Some(path) = &self.args.file.write {
            return self.write_file(path, rows);
        }
        let mut is_empty = true;
        let rows = rows.inspect(|rows| is_empty &= !rows.as_ref().is_ok_and(|rows| rows.num_rows() > 0));
        let written = write_rows(rows, &self.format, &self.options, self.ask.threads, output);
        written.map_err(|error| match error {
            PrintError::Batches(error) => error,
            PrintError::Write(error) => error.into(),
        })?;
        if is_empty && (self.format.is_lines() || self.format.is_raw() || self.format.is_pipe()) {
            output.write_all(NO_FLOWS)?;
        }
        Ok(())
    }

    fn write_file(&self, path: &str, rows: impl Iterator<Item = anyhow::Result<RecordBatch>>) -> anyhow::Result<()> {
        let args = self.args;
        let name = match (args.file.lz4, args.file.bzip2) {
            (true, _) => Some("lz4"),
            (_, true) => Some("bz2"),
            _ => args.file.compress.as_deref().map(|codec| codec.split(':').next().unwrap_or(codec)),
        };
        let known = nfcapd::Compression::ALL.iter().copied();
        let compression = match name {
            None => nfcapd::Compression::None,
            Some(name) => known.clone().find(|codec| codec.name() == name).with_context(|| {
                let known: Vec<_> = known.map(nfcapd::Compression::name).collect();
                format!("'{name}' is no compression\nhint: use {}", known.join(", "))
            })?,
        };
        let ident = args.file.ident.clone().unwrap_or_default();
        let mut writer = nfcapd::Writer::create(path, nfcapd::WriterOptions { compression, ident })?;
        for batch in rows {
            writer.write(&as_flows(&batch?)?)?;
        }
        writer.finish()?;
        Ok(())
    }

    fn limit(&self, usual: Option<usize>) -> Option<usize> {
        self.args.grouping.top.map_or(usual, |top| (top > 0).then_some(top))
    }

    fn rankings(&self, output: &mut dyn Write) -> anyhow::Result<Counts> {
        if self.args.file.write.is_some() && self.args.grouping.statistic.len() > 1 {
            bail!("-w takes one -s record");
        }
        let mut asked: Vec<Statistic> = Vec::new();
        for text in &self.args.grouping.statistic {
            asked.extend(statistics(text)?);
        }
        if self.args.grouping.statistic.len() > STATISTICS_MAX {
            bail!("more than {STATISTICS_MAX} statistics at once");
        }
        let limit = self.limit(Some(TOP_DEFAULT));
        let (fields, records): (Vec<_>, Vec<_>) = asked.into_iter().partition(|statistic| statistic.key.is_some());
        let mut is_told = !self.tells_of_no_flows_first();
        for statistic in &records {
            self.record(statistic, limit, &mut is_told, output)?;
        }
        let mut counts = None;
        for statistic in fields {
            let Some(key) = statistic.key else { continue };
            let (per_protocol, sorting) = (statistic.per_protocol, statistic.sorting);
            let limit_before = limit.filter(|_| self.post_filter == Predicate::True);
            can_sort(statistic.direction, self.source.is_archive())?;
            let select = Select::Statistic { key, per_protocol, sorting, limit: limit_before };
            let zeros = zeros_of(key.columns(), self.options.release);
            let rows = self.source.ask(select, View { direction: statistic.direction, zeros })?;
            let rows: Vec<RecordBatch> = self.after(rows, limit).collect::<Result<_, _>>()?;
            let totals = match counts {
                Some(counts) => counts,
                None => *counts.insert(self.source.totals()?),
            };
            let ranking = Ranking {
                statistic: key.nfdump_name().to_owned(),
                column: key.name().to_owned(),
                of_addresses: key.columns().iter().all(|column| column.column_type() == ColumnType::Address),
                per_protocol,
                order: statistic.order,
                limit,
            };
            if !is_told && totals.cost.flows_passed == 0 {
                output.write_all(NO_FLOWS)?;
            }
            is_told = true;
            write_ranking(&ranking, &rows, &totals.totals, &self.format, &self.options, output)?;
        }
        counts.map_or_else(|| self.source.totals(), Ok)
    }

    /// Whether it is said once and before all rankings that no flow passes: 1.7.1 does, where people read the answer.
    fn tells_of_no_flows_first(&self) -> bool {
        let is_for_people = !self.format.is_csv() && !self.format.is_json() && self.args.file.write.is_none();
        self.options.release == Release::V1_7_1 && is_for_people
    }

    /// The first of whole flows.
    fn record(
        &self,
        statistic: &Statistic,
        limit: Option<usize>,
        is_told: &mut bool,
        output: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let Some(rows) = self.made(Some(statistic.sorting), statistic.direction, limit)? else { return Ok(()) };
        let mut rows = rows.filter(|rows| !rows.as_ref().is_ok_and(|rows| rows.num_rows() == 0)).peekable();
        if self.tells_of_no_flows_first() && rows.peek().is_none() {
            if !*is_told {
                output.write_all(NO_FLOWS)?;
            }
            *is_told = true;
            return Ok(());
        }
        if !self.options.quiet && self.args.file.write.is_none() && self.format.is_lines() {
            let limit = limit.map_or_else(String::new, |limit| format!(" {limit}"));
            writeln!(output, "Top{limit} flows ordered by {}:", statistic.order)?;
        }
        self.put(rows, output)
    }
}

/// The columns of a key that count as 0 where a record lacks them: in 1.7.8 numbers, but not those of observation and
/// events.
fn zeros_of(columns: &[Column], release: Release) -> Vec<Column> {
    const LEFT_OUT: [Column; 4] =
        [Column::ObservationDomain, Column::ObservationPoint, Column::NatEvent, Column::FirewallEvent];
    let is_octets = |column: &Column| matches!(column.column_type(), ColumnType::Address | ColumnType::Mac);
    let is_zero = |column: &&Column| !release.is_last() || !(is_octets(column) || LEFT_OUT.contains(column));
    columns.iter().filter(is_zero).copied().collect()
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
fn can_sort(direction: CounterDirection, is_grouped: bool) -> anyhow::Result<()> {
    if direction == CounterDirection::Out && is_grouped {
        bail!(
            "archives and groups of -A are not sorted by what goes out\nhint: sort by bytes and print %opkt and %obyt"
        );
    }
    Ok(())
}
