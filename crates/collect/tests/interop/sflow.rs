//! sFlow: every datagram of the corpus decoded, with what becomes of it when it is spoiled.

use std::sync::OnceLock;

use arrow::array::{Array, RecordBatch};
use weir_collect::{Decoder, DecoderStatistics, Limits};
use weir_flow::{Counter, Table};

use crate::expected::Verdict;
use crate::inputs::{self, Datagram, RECEIVED_MS};
use crate::rows::{self, Row};
use crate::{books, sflow_telegraf, sflow_tshark};

/// What became of one datagram.
#[derive(Debug, Clone, Default)]
pub(crate) struct Decoded {
    /// Flow samples.
    pub rows: Vec<Row>,
    /// Rows of the tables of counters.
    pub counters: Vec<(Table, RecordBatch)>,
}

impl Decoded {
    /// Rows of a table of counters: one batch of one row each.
    pub(crate) fn counters(&self, table: Table) -> Vec<RecordBatch> {
        let batches = self.counters.iter().filter(|(of, _)| *of == table);
        batches.flat_map(|(_, batch)| (0..batch.num_rows()).map(|row| batch.slice(row, 1))).collect()
    }
}

/// The sFlow datagrams of an input.
pub(crate) struct Case {
    pub project: String,
    pub name: String,
    pub datagrams: Vec<Datagram>,
    /// For each datagram.
    pub decoded: Vec<Decoded>,
    pub statistics: DecoderStatistics,
    pub telegraf: Option<Verdict>,
}

impl Case {
    pub(crate) fn label(&self) -> String {
        format!("{}/{}", self.project, self.name)
    }
}

/// Every input with sFlow, `None` without a corpus.
pub(crate) fn cases() -> Option<&'static [Case]> {
    static CASES: OnceLock<Option<Vec<Case>>> = OnceLock::new();
    let cases = CASES.get_or_init(|| {
        let corpus = weir_testkit::corpus()?;
        let with_sflow = inputs::all(&corpus).into_iter().filter(|input| !input.sflow.is_empty());
        Some(with_sflow.map(|input| case(&corpus, input)).collect())
    });
    cases.as_deref()
}

/// Verdicts of `tshark` in the order of the cases, `None` without a corpus or without the program.
pub(crate) fn tshark() -> Option<&'static [Verdict]> {
    static VERDICTS: OnceLock<Option<Vec<Verdict>>> = OnceLock::new();
    let check = || Some(sflow_tshark::check(&weir_testkit::program("tshark")?, cases()?));
    VERDICTS.get_or_init(check).as_deref()
}

fn case(corpus: &std::path::Path, input: inputs::Input) -> Case {
    let (decoded, statistics) = decode(&input.sflow);
    let telegraf = sflow_telegraf::check(corpus, &input.files, &decoded);
    let inputs::Input { project, name, sflow: datagrams, .. } = input;
    Case { project, name, datagrams, decoded, statistics, telegraf }
}

fn decode(datagrams: &[Datagram]) -> (Vec<Decoded>, DecoderStatistics) {
    let mut decoder = Decoder::new(Limits::default());
    let one = |datagram: &Datagram| {
        decoder.datagram(datagram.source, datagram.received_ms, &datagram.payload);
        let delivery = decoder.take_delivery();
        let others = delivery.side_tables.others.iter().map(|other| (other.table(), other.record_batch().clone()));
        Decoded { counters: others.collect(), rows: delivery.flows.map(|f| rows::rows_of(&f)).unwrap_or_default() }
    };
    let decoded = datagrams.iter().map(one).collect();
    (decoded, decoder.statistics())
}

/// The value of a counter, as a number.
pub(crate) fn counter(row: &RecordBatch, column: &str) -> Option<u64> {
    use arrow::array::AsArray;
    use arrow::datatypes::{DataType, UInt32Type, UInt64Type};
    let values = row.column_by_name(column).unwrap_or_else(|| panic!("column {column}"));
    if values.is_null(0) {
        return None;
    }
    match values.data_type() {
        DataType::UInt32 => Some(values.as_primitive::<UInt32Type>().value(0).into()),
        DataType::UInt64 => Some(values.as_primitive::<UInt64Type>().value(0)),
        _ => None,
    }
}

/// What does not balance.
pub(crate) fn unbalanced(case: &Case) -> Vec<String> {
    let total = |counter| case.statistics.total(counter);
    let rows: usize = case.decoded.iter().map(|decoded| decoded.rows.len()).sum();
    let mut complaints = Vec::new();
    if total(Counter::Datagrams) != case.datagrams.len() as u64 {
        complaints.push(format!("{}: {} datagrams", case.label(), total(Counter::Datagrams)));
    }
    if total(Counter::RecordsStored) != rows as u64 {
        complaints.push(format!("{}: {rows} rows, {} stored", case.label(), total(Counter::RecordsStored)));
    }
    complaints
}

/// Cuts the longest datagram of a case at every octet, and overwrites every word of four octets. Yields how many were fed.
pub(crate) fn spoil(case: &Case) -> usize {
    let Some(longest) = case.datagrams.iter().max_by_key(|datagram| datagram.payload.len()) else { return 0 };
    let mut decoder = Decoder::new(Limits { sources_max: 100, domains_max: 50, ..Limits::default() });
    let mut fed = 0;
    let mut rows = 0;
    let mut feed = |payload: &[u8]| {
        decoder.datagram(longest.source, RECEIVED_MS + fed as i64, payload);
        fed += 1;
        rows += decoder.take_delivery().rows();
        decoder.statistics()
    };
    let whole = feed(&longest.payload).total(Counter::RecordsStored);
    let mut before = whole;
    for end in 0..longest.payload.len() {
        let after = feed(&longest.payload[..end]).total(Counter::RecordsStored);
        assert!(after - before <= whole, "cut at {end}, {} flows of {whole}", after - before);
        before = after;
    }
    for at in (0..longest.payload.len().saturating_sub(3)).step_by(4) {
        for word in [0_u32, 1, 0xffff_ffff, 2000] {
            let mut payload = longest.payload.clone();
            payload[at..at + 4].copy_from_slice(&word.to_be_bytes());
            feed(&payload);
        }
    }
    let statistics = decoder.statistics();
    assert_eq!(statistics.total(Counter::RecordsStored), rows as u64, "{}", case.label());
    assert!(books::balance(&statistics).is_none(), "{}: {:?}", case.label(), books::balance(&statistics));
    fed
}
