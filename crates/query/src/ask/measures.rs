//! What is counted for a group of flows, and by what answers are sorted.

use datafusion::common::Result;
use datafusion::functions_aggregate::expr_fn::{max, min, sum};
use datafusion::logical_expr::{Expr, ident};
use datafusion::prelude::DataFrame;
use weir_flow::Column;

use super::flow_count;
use super::keys::{AggregateKey, StatisticKey};
use crate::functions::call;

/// By what answers are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// Number of flows.
    Flows,
    /// Number of packets.
    Packets,
    /// Number of octets.
    Bytes,
    /// Packets per second.
    PacketsPerSecond,
    /// Bits per second.
    BitsPerSecond,
    /// Octets per packet.
    BytesPerPacket,
    /// Start of the first flow.
    Start,
    /// End of the last flow.
    End,
    /// Time from start to end.
    Duration,
}

/// Which way answers are sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The smallest first.
    Ascending,
    /// The largest first.
    Descending,
}

/// By what answers are sorted, and which way. What is null comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sorting {
    /// By what.
    pub order: Order,
    /// Which way.
    pub direction: Direction,
}

impl Order {
    /// The order of nfdump's name for it: `flows`, `packets`, `bytes`, `pps`, `bps`, `bpp`, `tstart`, `tend`,
    /// `duration`. The names for one direction (`ibyte`, `ibps`, …) mean the plain counters, which are those.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "flows" => Self::Flows,
            "packets" | "ipkg" | "ipackets" => Self::Packets,
            "bytes" | "ibyte" | "ibytes" => Self::Bytes,
            "pps" | "ipps" => Self::PacketsPerSecond,
            "bps" | "ibps" => Self::BitsPerSecond,
            "bpp" | "ibpp" => Self::BytesPerPacket,
            "tstart" => Self::Start,
            "tend" => Self::End,
            "duration" => Self::Duration,
            _ => return None,
        })
    }

    /// The way nfdump sorts when it is not told: times ascending, the rest descending.
    pub fn usual_direction(self) -> Direction {
        match self {
            Self::Start | Self::End => Direction::Ascending,
            _ => Direction::Descending,
        }
    }

    /// Column of an aggregated answer.
    fn column(self) -> &'static str {
        match self {
            Self::Flows => "flows",
            Self::Packets => "packets",
            Self::Bytes => "bytes",
            Self::PacketsPerSecond => "packets_per_second",
            Self::BitsPerSecond => "bits_per_second",
            Self::BytesPerPacket => "bytes_per_packet",
            Self::Start => "start",
            Self::End => "end",
            Self::Duration => "duration_ms",
        }
    }
}

impl Sorting {
    /// By `order`, the usual way.
    pub fn usual(order: Order) -> Self {
        Self { order, direction: order.usual_direction() }
    }

    pub(super) fn is_ascending(self) -> bool {
        self.direction == Direction::Ascending
    }

    /// Sorts an aggregated answer.
    pub(super) fn apply(self, answer: DataFrame) -> Result<DataFrame> {
        answer.sort(vec![ident(self.order.column()).sort(self.is_ascending(), false)])
    }
}

fn rate_of(name: &str, count: Column) -> Expr {
    call(name, vec![ident("start"), ident("end"), ident(count.name())])
}

/// The measure of a single flow, or of a row of an aggregated answer: both have the columns.
pub(super) fn flow_measure(order: Order) -> Expr {
    match order {
        Order::Flows => flow_count(),
        Order::Packets | Order::Bytes | Order::Start | Order::End => ident(order.column()),
        Order::PacketsPerSecond => rate_of(order.column(), Column::Packets),
        Order::BitsPerSecond => rate_of(order.column(), Column::Bytes),
        Order::BytesPerPacket => call(order.column(), vec![ident("bytes"), ident("packets")]),
        Order::Duration => call(order.column(), vec![ident("start"), ident("end")]),
    }
}

/// Groups flows and counts: keys, flows, packets, bytes, start, end, duration and rates.
fn grouped(flows: DataFrame, keys: Vec<Expr>) -> Result<DataFrame> {
    let names: Vec<String> = keys.iter().map(|key| key.schema_name().to_string()).collect();
    let counts = vec![
        sum(flow_count()).alias("flows"),
        sum(ident("packets")).alias("packets"),
        sum(ident("bytes")).alias("bytes"),
        min(ident("start")).alias("start"),
        max(ident("end")).alias("end"),
    ];
    let counted = flows.aggregate(keys, counts)?;
    let mut columns: Vec<Expr> = names.into_iter().map(ident).collect();
    columns.extend(["flows", "packets", "bytes", "start", "end"].map(ident));
    let rates = [Order::Duration, Order::PacketsPerSecond, Order::BitsPerSecond, Order::BytesPerPacket];
    columns.extend(rates.map(|order| flow_measure(order).alias(order.column())));
    counted.select(columns)
}

/// Columns that [`grouped`] counts.
const COUNTED: [Column; 5] = [Column::Flows, Column::Packets, Column::Bytes, Column::Start, Column::End];

pub(super) fn statistic(flows: DataFrame, key: StatisticKey, per_protocol: bool) -> Result<DataFrame> {
    let name = key.name();
    let protocol = (per_protocol && name != Column::Protocol.name()).then(|| ident(Column::Protocol.name()));
    let mut sides = key.columns().iter().map(|side| {
        let mut columns = vec![ident(side.name()).alias(name)];
        columns.extend(protocol.clone());
        columns.extend(COUNTED.map(|column| ident(column.name())));
        flows.clone().filter(ident(side.name()).is_not_null())?.select(columns)
    });
    let Some(first) = sides.next() else { return Ok(flows) };
    let united = sides.try_fold(first?, |united, side| united.union(side?))?;
    grouped(united, std::iter::once(ident(name)).chain(protocol).collect())
}

pub(super) fn aggregate(flows: DataFrame, keys: &[AggregateKey]) -> Result<DataFrame> {
    let keys: Vec<Expr> = match keys {
        [] => AggregateKey::FIVE_TUPLE.into_iter().map(AggregateKey::expr).collect(),
        keys => keys.iter().copied().map(AggregateKey::expr).collect(),
    };
    grouped(flows, keys)
}
