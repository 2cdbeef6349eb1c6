//! Parameters that several questions have, as parts of a question.

use jiff::tz::TimeZone;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_filter::{Predicate, Reader};
use weir_flow::{Column, ColumnType};
use weir_print::plot;
use weir_query::{AggregateKey, Direction, FlowQuery, KeyError, Order, Select, Sorting, StatisticKey, TimeWindow};

use super::question_text::{given, span};
use crate::moment::window;
use crate::problem::{Answered, Problem};

/// Columns that flows may be grouped by at a time.
const KEYS_MAX: usize = 12;

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MeasureParam {
    /// Flows.
    Flows,
    /// Packets.
    Packets,
    /// Octets.
    #[default]
    Bytes,
}

impl MeasureParam {
    /// The largest first.
    pub(crate) fn sorting(self) -> Sorting {
        Sorting::usual(match self {
            Self::Flows => Order::Flows,
            Self::Packets => Order::Packets,
            Self::Bytes => Order::Bytes,
        })
    }

    pub(crate) fn rate(self) -> plot::Measure {
        match self {
            Self::Flows => plot::Measure::Flows,
            Self::Packets => plot::Measure::Packets,
            Self::Bytes => plot::Measure::Bits,
        }
    }

    /// The column of an answer that has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Flows => "flows",
            Self::Packets => "packets",
            Self::Bytes => "bytes",
        }
    }
}

/// Which flows, of which time.
#[derive(Debug, Clone)]
pub(crate) struct WhichFlows {
    pub(crate) filter: Predicate,
    pub(crate) window: TimeWindow,
    is_scaled: bool,
    text: String,
}

impl WhichFlows {
    /// Reads a filter and two times. A filter from the network may name neither files nor hosts.
    pub(crate) fn of(filter: Option<&str>, from: Option<&str>, until: Option<&str>) -> Answered<Self> {
        let window = window(from, until)?;
        let text = filter.unwrap_or_default().trim();
        let predicate = match text {
            "" => Predicate::True,
            text => filter_reader().parse(text).map_err(|error| Problem::of_filter(&error))?,
        };
        let text = format!("{}{}", span(window.from_ms, window.until_ms), given("filter", Some(text)));
        Ok(Self { filter: predicate, window, is_scaled: false, text })
    }

    /// The same whose packets and octets are scaled by sampling, as with `weir query --scaled`; the filter is applied to the
    /// scaled ones.
    pub(crate) fn scaled(mut self, is_scaled: bool) -> Self {
        self.is_scaled = is_scaled;
        if is_scaled {
            self.text.push_str(" scaled");
        }
        self
    }

    /// The question that makes something of them.
    pub(crate) fn query(&self, select: Select) -> FlowQuery {
        FlowQuery { filter: self.filter.clone(), window: self.window, select, scaled: self.is_scaled }
    }

    /// A question as text: what it is, its other parameters, and which flows it is about.
    pub(crate) fn text(&self, question: &str) -> String {
        format!("{question} {}", self.text)
    }
}

/// Reads filters of requests.
pub(crate) fn filter_reader() -> Reader {
    Reader::new().in_zone(TimeZone::UTC)
}

/// Names between commas.
pub(crate) fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|name| !name.is_empty())
}

/// A column by its name.
pub(crate) fn column(name: &str) -> Answered<Column> {
    Column::by_name(name).ok_or_else(|| {
        Problem::request(format!("'{}' is not a column", name.escape_debug())).with_hint("/api/v1/columns lists them")
    })
}

/// A key to group by: nfdump's name for it, or that of a column.
pub(crate) fn key(name: &str) -> Answered<AggregateKey> {
    let is_value = |column: &Column| column.column_type() != ColumnType::Elements;
    let parsed = AggregateKey::parse(name);
    if let Some(key) = parsed.as_ref().ok().copied().filter(|key| is_value(&key.column())) {
        return Ok(key);
    }
    Column::by_name(name).filter(is_value).map(AggregateKey::Column).ok_or_else(|| {
        let problem = Problem::request(format!("flows cannot be grouped by '{}'", name.escape_debug()));
        let problem = match parsed {
            Err(KeyError::Unknown { hint, .. }) if hint.starts_with("did you mean") => problem.with_hint(hint),
            _ => problem,
        };
        // without one of its own
        problem
            .with_hint("name a column, or srcip, dstip, proto, srcport, dstport, srcip4/24, srcas, router and the like")
    })
}

/// The keys of a list.
pub(crate) fn keys(text: &str) -> Answered<Vec<AggregateKey>> {
    let keys = names(text).map(key).collect::<Answered<Vec<_>>>()?;
    if keys.is_empty() || keys.len() > KEYS_MAX {
        return Err(Problem::request(format!("'by' has {} columns, and 1 to {KEYS_MAX} are possible", keys.len())));
    }
    Ok(keys)
}

/// The values of a field that account for most: a statistic of nfdump, or any column.
pub(crate) fn ranking(by: &str, measure: MeasureParam, limit: usize) -> Answered<Select> {
    let (sorting, limit) = (measure.sorting(), Some(limit));
    if let Ok(key) = StatisticKey::parse(by) {
        return Ok(Select::Statistic { key, per_protocol: false, sorting, limit });
    }
    Ok(Select::Aggregate { keys: vec![key(by)?], more: Vec::new(), sorting: Some(sorting), limit })
}

/// The column that flows are told apart by in a picture, which counts each flow once.
pub(crate) fn single_column(by: &str) -> Answered<Column> {
    match StatisticKey::parse(by).map(StatisticKey::columns) {
        Ok([column]) => Ok(*column),
        Ok(_) => Err(Problem::request(format!("'{by}' has two sides, and a flow would be counted twice"))
            .with_hint(format!("write src{by} or dst{by}"))),
        Err(_) => match column(by)? {
            column if column.column_type() == ColumnType::Elements => {
                Err(Problem::request(format!("'{by}' is a list, and flows cannot be told apart by it"))
                    .with_hint("SQL unnests lists: SELECT unnest(elements) FROM flows"))
            }
            column => Ok(column),
        },
    }
}

/// The order of flows: a name, with `-` before it for the largest first.
pub(crate) fn sorting(text: &str) -> Answered<Sorting> {
    let (name, direction) = match text.strip_prefix('-') {
        Some(name) => (name, Direction::Descending),
        None => (text, Direction::Ascending),
    };
    let order = match name {
        "start" => Some(Order::Start),
        "end" => Some(Order::End),
        "packets_per_second" => Some(Order::PacketsPerSecond),
        "bits_per_second" => Some(Order::BitsPerSecond),
        "bytes_per_packet" => Some(Order::BytesPerPacket),
        name => Order::by_name(name),
    };
    let order = order.ok_or_else(|| {
        Problem::request(format!("flows cannot be sorted by '{}'", name.escape_debug())).with_hint(
            "start, end, duration, flows, packets, bytes, pps, bps or bpp, with - before it for the largest first",
        )
    })?;
    Ok(Sorting { order, direction })
}

/// A number of rows within its bounds.
pub(crate) fn limit(given: Option<usize>, default: usize, max: usize) -> Answered<usize> {
    number("limit", given, (default, max))
}

/// A number of a parameter, from one to the most.
pub(crate) fn number(name: &str, given: Option<usize>, (default, max): (usize, usize)) -> Answered<usize> {
    let number = given.unwrap_or(default);
    if (1..=max).contains(&number) {
        return Ok(number);
    }
    Err(Problem::request(format!("'{name}' is {number}, and 1 to {max} are possible")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_names_no_files_and_no_hosts() {
        for filter in ["@include /etc/passwd", "ip in /etc/passwd", "host localhost"] {
            let problem = WhichFlows::of(Some(filter), None, None).expect_err("refused");
            assert_eq!((problem.status, problem.place.is_some()), (400, true), "{filter}");
        }
    }

    #[test]
    fn the_text_of_a_question_has_times_as_numbers() {
        let which = WhichFlows::of(Some(" proto tcp "), Some("2026-01-01T00:00:00Z"), None).expect("flows");
        assert_eq!(which.text("rank by=srcip"), "rank by=srcip from=1767225600000 until=open filter=\"proto tcp\"");
        // answers are kept by this text: scaled ones are others
        assert_eq!(which.clone().scaled(false).text("rank"), which.text("rank"));
        assert_eq!(which.clone().scaled(true).text("rank"), format!("{} scaled", which.text("rank")));
    }

    #[test]
    fn orders_begin_with_the_smallest_unless_a_minus_says_otherwise() {
        let of =
            |text| sorting(text).map(|sorting| (sorting.order, sorting.direction)).map_err(|problem| problem.detail);
        assert_eq!(of("start"), Ok((Order::Start, Direction::Ascending)));
        assert_eq!(of("-bytes"), Ok((Order::Bytes, Direction::Descending)));
        assert_eq!(of("-size"), Err("flows cannot be sorted by 'size'".to_owned()));
    }

    #[test]
    fn keys_are_names_of_nfdump_or_columns() {
        assert_eq!(key("srcip").expect("a key"), AggregateKey::Column(Column::SrcAddr));
        assert_eq!(key("src_addr").expect("a key"), AggregateKey::Column(Column::SrcAddr));
        assert!(matches!(key("dstip4/24").expect("a key"), AggregateKey::Prefix { length: 24, .. }));
        let hint = |name: &str| key(name).expect_err("a mistake").hint.unwrap_or_default();
        assert_eq!(hint("srcp"), "did you mean 'srcip'?");
        assert!(hint("nothing of this").starts_with("name a column, or srcip"), "{}", hint("nothing of this"));
        assert!(key("colour").is_err() && keys("").is_err());
        assert!(key("elements").is_err() && single_column("elements").is_err());
        assert!(ranking("elements", MeasureParam::Bytes, 3).is_err());
        assert!(single_column("ip").is_err() && single_column("srcip").is_ok());
    }
}
