//! Data before its template: the same datagrams in reverse must yield the same flows.

use crate::expected::Verdict;
use crate::inputs::{Datagram, Input, RECEIVED_MS};
use crate::placement::in_a_list;
use crate::rows::{self, Decoded, Row};

/// Decodes the datagrams backwards and compares the flows, whatever their order.
pub(crate) fn check(input: &Input, forwards: &Decoded) -> Verdict {
    let mut verdict = Verdict::default();
    // All at one moment, so that nothing waits too long.
    let backwards: Vec<Datagram> = input
        .datagrams
        .iter()
        .rev()
        .map(|datagram| Datagram { received_ms: RECEIVED_MS, ..datagram.clone() })
        .collect();
    let backwards = rows::decode(&backwards);
    let (ours, theirs) = (comparable(forwards), comparable(&backwards));
    verdict.records = ours.len();
    verdict.expect("flows", theirs.len(), ours.len());
    let missing = ours.iter().filter(|row| theirs.binary_search(row).is_err());
    for row in missing {
        verdict.differ("flow", format!("missing backwards: {row:?}"));
    }
    verdict
}

/// Flows without what depends on the order: when they were received (and how far off their times are by
/// that), what is in lists, whose Templates may come later, and what options had told before (the sampling interval, and the start of the exporter that uptimes in IPFIX count from).
fn comparable(decoded: &Decoded) -> Vec<Row> {
    use weir_flow::Column::{End, Received, SamplingInterval, Start, TimeFlags};
    let mut rows: Vec<Row> = decoded.rows.iter().flatten().cloned().collect();
    for row in &mut rows {
        let counts_from_start = |id| row.elements.iter().any(|element| (element.0, element.1) == (0, id));
        let (start, end) = (counts_from_start(22), counts_from_start(21));
        let of_lists: Vec<_> = row.cells.keys().copied().filter(|&column| in_a_list(column, row).is_some()).collect();
        row.nested.clear();
        row.cells.retain(|column, _| match column {
            column if of_lists.contains(column) => false,
            Received | SamplingInterval | TimeFlags => false,
            Start => !start,
            End => !end,
            _ => true,
        });
    }
    rows.sort();
    rows
}
