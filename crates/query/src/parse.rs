//! Rankings and orders as people write them: `srcip/bytes`, `dstport:p/packets:a`.

use crate::keys::ELEMENT;
use crate::{AggregateKey, Direction, KeyError, Order, Select, Sorting, StatisticKey};

/// Why a text is no ranking or no order.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    /// The field of a ranking is not known.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// What rows are to be sorted by is not known.
    #[error("'{}' is not an order\nhint: {}", .0.escape_debug(), order_hint(.0))]
    Order(String),
    /// The direction is neither of the two.
    #[error("'{}' is not a direction\nhint: use a for ascending or d for descending", .0.escape_debug())]
    Direction(String),
}

/// What to write instead of a name that is no order.
fn order_hint(name: &str) -> String {
    match weir_filter::meant(name, Order::NAMES.into_iter()) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None => "use flows, packets, bytes, pps, bps, bpp, tstart, tend or duration".to_owned(),
    }
}

impl Sorting {
    /// Reads `ORDER[:a|d]`.
    ///
    /// ```
    /// use weir_query::{Order, Sorting};
    /// assert_eq!(Sorting::parse("bytes"), Ok(Sorting::usual(Order::Bytes)));
    /// assert!(Sorting::parse("bytes:a").is_ok_and(Sorting::is_ascending));
    /// ```
    pub fn parse(text: &str) -> Result<Self, SelectError> {
        let (name, direction) = text.split_once(':').map_or((text, None), |(name, way)| (name, Some(way)));
        let order = Order::by_name(name).ok_or_else(|| SelectError::Order(name.to_owned()))?;
        let direction = match direction {
            None => order.usual_direction(),
            Some("a") => Direction::Ascending,
            Some("d") => Direction::Descending,
            Some(other) => return Err(SelectError::Direction(other.to_owned())),
        };
        Ok(Self { order, direction })
    }
}

impl Select {
    /// Reads a ranking, `STAT[:p][/ORDER[:a|d]]`. `record` ranks whole flows, grouped by `keys`, or by the five-tuple when
    /// there are none. `element NAME[/ORDER[:a|d]]` ranks the values of an Information Element; one without a column has a
    /// row for the flows that lack it.
    pub fn parse_ranking(text: &str, keys: &[AggregateKey], limit: Option<usize>) -> Result<Self, SelectError> {
        if text.starts_with(ELEMENT) {
            return Self::element_ranking(text, limit);
        }
        let (key, order) = text.split_once('/').map_or((text, None), |(key, order)| (key, Some(order)));
        let sorting = order.map_or(Ok(Sorting::usual(Order::Flows)), Sorting::parse)?;
        let (key, per_protocol) = key.strip_suffix(":p").map_or((key, false), |key| (key, true));
        if key == "record" {
            return Ok(Self::Aggregate { keys: keys.to_vec(), more: Vec::new(), sorting: Some(sorting), limit });
        }
        Ok(Self::Statistic { key: StatisticKey::parse(key)?, per_protocol, sorting, limit })
    }

    /// The number of an element may have a stroke in it, so the whole is tried first.
    fn element_ranking(text: &str, limit: Option<usize>) -> Result<Self, SelectError> {
        let (key, order) = match (AggregateKey::parse(text), text.rsplit_once('/')) {
            (Err(_), Some((name, order))) => (AggregateKey::parse(name)?, Some(order)),
            (key, _) => (key?, None),
        };
        let sorting = order.map_or(Ok(Sorting::usual(Order::Flows)), Sorting::parse)?;
        Ok(match key {
            AggregateKey::Column(column) => {
                Self::Statistic { key: StatisticKey::parse(column.name())?, per_protocol: false, sorting, limit }
            }
            key => Self::Aggregate { keys: vec![key], more: Vec::new(), sorting: Some(sorting), limit },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rankings() {
        let read = |text: &str| Select::parse_ranking(text, &[], Some(3));
        let key = StatisticKey::parse("dstport").expect("a key");
        let sorting = Sorting { order: Order::Packets, direction: Direction::Ascending };
        let expected = Select::Statistic { key, per_protocol: true, sorting, limit: Some(3) };
        assert_eq!(read("dstport:p/packets:a"), Ok(expected));
        let by_flows = Some(Sorting::usual(Order::Flows));
        let records = Select::Aggregate { keys: Vec::new(), more: Vec::new(), sorting: by_flows, limit: Some(3) };
        assert_eq!(read("record"), Ok(records));
        assert!(matches!(read("nothing"), Err(SelectError::Key(_))));
        assert_eq!(read("srcip/size"), Err(SelectError::Order("size".to_owned())));
        let hint = |text: &str| {
            read(text).expect_err("a mistake").to_string().split_once("hint: ").map(|parts| parts.1.to_owned())
        };
        for (text, meant) in [
            ("scrip", "srcip"),
            ("src_ip", "src_addr"),
            ("applicaton", "application"),
            ("srcip/byts", "bytes"),
            ("srcip/octets", "bytes"),
        ] {
            assert_eq!(hint(text), Some(format!("did you mean '{meant}'?")), "{text}");
        }
        let by_bytes = Some(Sorting::usual(Order::Bytes));
        let element = AggregateKey::Element { enterprise: 0, id: 12235 };
        let by_element = |sorting| Select::Aggregate { keys: vec![element], more: Vec::new(), sorting, limit: Some(3) };
        assert_eq!(read("element 0/12235"), Ok(by_element(by_flows)));
        assert_eq!(read("element 0/12235/bytes"), Ok(by_element(by_bytes)));
        assert_eq!(read("element destinationTransportPort"), read("dst_port"));
        assert!(matches!(read("element nonsense/bytes"), Err(SelectError::Key(_))));
        assert!(hint("nothing").is_some_and(|hint| hint.starts_with("the keys are srcip, ")));
        let error = AggregateKey::parse("dstprt").expect_err("a mistake").to_string();
        assert!(error.ends_with("hint: did you mean 'dstport'?"), "{error}");
        assert_eq!(read("srcip/bytes:up"), Err(SelectError::Direction("up".to_owned())));
    }
}
