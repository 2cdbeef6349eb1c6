//! What is grouped, ranked and sorted, as nfdump writes it.

use std::collections::HashSet;

use anyhow::{Context, bail};
use weir_flow::Column;
use weir_query::{AggregateKey, Order, SelectError, Sorting, StatisticKey};

use crate::view::CounterDirection;

/// One `-s`, for one of its orders.
#[derive(Debug, Clone)]
pub(crate) struct Statistic {
    /// The field; nothing for whole flows.
    pub(crate) key: Option<StatisticKey>,
    pub(crate) per_protocol: bool,
    /// nfdump's name of the order.
    pub(crate) order: String,
    pub(crate) sorting: Sorting,
    /// The counters that the order is about.
    pub(crate) direction: CounterDirection,
}

/// Orders of rankings, in the order in which nfdump prints them.
const RANKING_ORDERS: [&str; 16] = [
    "flows", "packets", "ipkg", "opkg", "bytes", "ibyte", "obyte", "pps", "ipps", "opps", "bps", "ibps", "obps", "bpp",
    "ibpp", "obpp",
];

/// Reads `STAT[:p][/ORDER[:a|d]]…`, with the orders as nfdump prints them: each once, whatever order they are written in.
pub(crate) fn statistics(text: &str) -> anyhow::Result<Vec<Statistic>> {
    let mut parts = text.split('/');
    let key = parts.next().unwrap_or_default();
    let (key, per_protocol) = key.strip_suffix(":p").map_or((key, false), |key| (key, true));
    let key = if key == "record" { None } else { Some(StatisticKey::parse(key)?) };
    let mut orders: Vec<&str> = parts.collect();
    if orders.is_empty() {
        orders.push("flows");
    }
    let name = |text: &str| text.split(':').next().unwrap_or_default().to_owned();
    orders.sort_by_key(|text| RANKING_ORDERS.iter().position(|known| **known == name(text)));
    orders.dedup_by_key(|text| name(text));
    let statistic = |text: &str| {
        let (sorting, direction) = sorting(text)?;
        if matches!(sorting.order, Order::Start | Order::End | Order::Duration) {
            bail!("'{text}' is not an order of a ranking\nhint: use flows, packets, bytes, pps, bps or bpp");
        }
        Ok(Statistic { key, per_protocol, order: name(text), sorting, direction })
    };
    orders.into_iter().map(statistic).collect()
}

/// Reads `ORDER[:a|d]`: how rows are sorted, and the counters that the order is about.
pub(crate) fn sorting(text: &str) -> anyhow::Result<(Sorting, CounterDirection)> {
    // what 1.7.8 calls them in -O
    const LONG: [(&str, &str); 4] =
        [("ipackets", "ipkg"), ("opackets", "opkg"), ("ibytes", "ibyte"), ("obytes", "obyte")];
    let name = text.split(':').next().unwrap_or_default();
    let short = LONG.iter().find(|(long, _)| *long == name).map(|(long, short)| text.replacen(long, short, 1));
    let text = short.as_deref().unwrap_or(text);
    // orders of what goes out are named as those of what comes in
    let order_in = text.strip_prefix('o').map(|order| format!("i{order}"));
    let sorting = Sorting::parse(order_in.as_deref().unwrap_or(text)).map_err(|error| match error {
        SelectError::Order(_) => SelectError::Order(name.to_owned()),
        other => other,
    })?;
    Ok((sorting, CounterDirection::of_order(name)))
}

/// Reads the list of `-A`: the keys, and the tags that they are printed with.
pub(crate) fn keys(text: &str) -> anyhow::Result<(Vec<AggregateKey>, String)> {
    let mut tags = Vec::new();
    let mut keys = Vec::new();
    let mut names = HashSet::new();
    for name in text.split(',').map(str::trim) {
        let key = AggregateKey::parse(name)?;
        let is_prefix = matches!(key, AggregateKey::Prefix { .. });
        if !names.insert(name.split('/').next().filter(|_| is_prefix).unwrap_or(name)) {
            bail!("'{name}' is grouped by twice");
        }
        if matches!(key, AggregateKey::Prefix { length: 0, .. }) {
            bail!("'{name}' keeps no bit of an address\nhint: leave it out");
        }
        let tag = tag(name, key).with_context(|| format!("'{name}' has no tag of its own\nhint: add -o fmt:…"))?;
        tags.push(tag);
        keys.push(key);
    }
    Ok((keys, tags.join(" ")))
}

/// The columns that a key is made of.
pub(crate) fn columns_of(key: AggregateKey) -> Vec<Column> {
    match key {
        AggregateKey::Network { column, mask } => vec![column, mask],
        key => vec![key.column()],
    }
}

/// The format of groups when none is asked for.
pub(crate) fn format_of_groups(tags: &str) -> String {
    format!("fmt:%ts %td  {tags}  %pkt %byt %bps %bpp %fl")
}

/// Comma-separated values of groups: 1.7.8 prints the keys alone, 1.7.1 all of its columns.
pub(crate) fn csv_of_groups(tags: &str) -> String {
    format!("csv:%ts,%td,{},%pkt,%byt,%bps,%bpp,%fl", tags.replace(' ', ","))
}

fn tag(name: &str, key: AggregateKey) -> Option<&'static str> {
    use Column as C;
    let column = match key {
        AggregateKey::Network { column: C::SrcAddr, .. } => return Some("%sn"),
        AggregateKey::Network { .. } => return Some("%dn"),
        // an element without a column has no tag
        key => key.column(),
    };
    Some(match (name, column) {
        ("srctos", _) => "%stos",
        (_, C::Protocol) => "%pr",
        (_, C::SrcAddr) => "%sa",
        (_, C::DstAddr) => "%da",
        (_, C::SrcPort) => "%sp",
        (_, C::DstPort) => "%dp",
        (_, C::SrcMask) => "%smk",
        (_, C::DstMask) => "%dmk",
        (_, C::SrcVlan) => "%svln",
        (_, C::DstVlan) => "%dvln",
        (_, C::SrcAs) => "%sas",
        (_, C::DstAs) => "%das",
        (_, C::NextAs) => "%nas",
        (_, C::PrevAs) => "%pas",
        (_, C::InIf) => "%in",
        (_, C::OutIf) => "%out",
        (_, C::NextHop) => "%nh",
        (_, C::BgpNextHop) => "%nhb",
        (_, C::SrcMac) => "%ismc",
        (_, C::PostDstMac) => "%odmc",
        (_, C::DstMac) => "%idmc",
        (_, C::PostSrcMac) => "%osmc",
        (_, C::Tos) => "%tos",
        (_, C::DstTos) => "%dtos",
        (_, C::Ethertype) => "%eth",
        (_, C::MinTtl) => "%minttl",
        (_, C::MaxTtl) => "%maxttl",
        (_, C::TcpFlags) => "%flg",
        (_, C::Exporter) => "%ra",
        (_, C::ObservationDomain) => "%odid",
        (_, C::ObservationPoint) => "%opid",
        (_, C::SrcCountry) => "%sc",
        (_, C::DstCountry) => "%dc",
        (_, C::NatSrcAddr) => "%xsa",
        (_, C::NatDstAddr) => "%xda",
        (_, C::NatSrcPort) => "%xsp",
        (_, C::NatDstPort) => "%xdp",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statistic_may_have_several_orders() {
        let found = statistics("ip:p/flows/bps:a").expect("a statistic");
        let orders: Vec<_> = found.iter().map(|found| (found.order.as_str(), found.sorting.order)).collect();
        assert_eq!(orders, [("flows", Order::Flows), ("bps", Order::BitsPerSecond)]);
        assert!(found[1].sorting.is_ascending() && found.iter().all(|found| found.per_protocol));
        let found = statistics("srcip/bpp/ibyte/bytes/flows/packets/bytes").expect("a statistic");
        let orders: Vec<_> = found.iter().map(|found| found.order.as_str()).collect();
        assert_eq!(orders, ["flows", "packets", "bytes", "ibyte", "bpp"]);
        assert!(statistics("record").expect("a statistic")[0].key.is_none());
        assert_eq!(statistics("srcip/obyte").expect("a statistic")[0].direction, CounterDirection::Out);
        let (long, short) = (sorting("obytes:a").expect("an order"), sorting("obyte:a").expect("an order"));
        assert_eq!((long.0.order, long.0.is_ascending(), long.1), (short.0.order, short.0.is_ascending(), short.1));
        assert!(statistics("srcip/tstart").is_err() && statistics("nothing").is_err());
    }

    #[test]
    fn keys_have_their_tags() {
        let (keys, tags) = keys("proto,srcip4/24,dstnet,srctos").expect("keys");
        assert_eq!((keys.len(), tags.as_str()), (4, "%pr %sa %dn %stos"));
    }

    #[test]
    fn keys_that_nfdump_refuses() {
        for text in ["srcip,srcip", "proto,srcip4/32,srcip4/24", "srcip4/0", "dstip6/0"] {
            assert!(keys(text).is_err(), "{text}");
        }
        for text in ["srcip,srcip4/24", "srcip4/24,srcip6/64", "tos,srctos", "srcnet,srcip"] {
            assert!(keys(text).is_ok(), "{text}");
        }
    }
}
