//! The books must balance, whatever came in.

use weir_collect::DecoderStatistics;
use weir_flow::Counter;

use crate::outcome::Case;
use crate::walk::SetSeen;

/// Checks the books of one input against what `weir_wire` found. Yields what does not balance.
pub(crate) fn check(case: &Case) -> Vec<String> {
    let statistics = &case.decoded.statistics;
    let total = |counter| statistics.total(counter);
    let count = |number: usize| number as u64;
    let sets = || case.messages.iter().flat_map(|message| &message.sets);
    let waiting = sets().filter(|set| matches!(set, SetSeen::Data { waits: true, .. })).count();
    let reserved = sets().filter(|set| matches!(set, SetSeen::Reserved)).count();
    let undecodable = case.messages.iter().filter(|message| message.undecodable).count();
    let problems: usize = case.messages.iter().map(|message| message.problems.len()).sum();
    let templates: usize = case.messages.iter().map(|message| message.templates().count()).sum();
    let records: usize = case.messages.iter().map(|message| message.records().count()).sum();
    let flows: usize = case.decoded.rows.iter().map(Vec::len).sum();
    let octets: usize = case.input.datagrams.iter().map(|datagram| datagram.payload.len()).sum();
    let mut wanted = vec![
        ("datagrams", total(Counter::Datagrams), count(case.input.datagrams.len())),
        ("octets", total(Counter::Octets), count(octets)),
        ("datagrams undecodable", total(Counter::DatagramsUndecodable), count(undecodable)),
        ("templates", total(Counter::Templates), count(templates)),
        ("reserved sets", total(Counter::SetsReserved), count(reserved)),
        ("sets waiting in", total(Counter::SetsWaitingIn), count(waiting)),
        ("flows", total(Counter::RecordsStored), count(flows)),
    ];
    if total(Counter::SetsWaitingOut) == 0 {
        wanted.push(("records", total(Counter::RecordsStored) + total(Counter::RecordsOptions), count(records)));
        let spoiled = total(Counter::DatagramsUndecodable) + total(Counter::SetsUndecodable);
        wanted.push(("problems", spoiled, count(problems)));
    }
    let wrong = wanted.into_iter().filter(|(_, ours, seen)| ours != seen);
    let mut complaints: Vec<_> = wrong.map(|(name, ours, seen)| format!("{name}: books {ours}, seen {seen}")).collect();
    complaints.extend(balance(statistics));
    for &counter in Counter::ALL {
        if case.decoded.books[counter as usize] != total(counter) {
            complaints.push(format!("{}: the lines do not add up to the total", counter.name()));
        }
    }
    complaints
}

/// What must hold of any decoder at any time.
pub(crate) fn balance(statistics: &DecoderStatistics) -> Option<String> {
    if let Err(imbalance) = weir_flow::books::balance(&statistics.totals) {
        return Some(imbalance.to_string());
    }
    let (books, seen) = (weir_flow::books::sets_waiting(&statistics.totals), statistics.sets_waiting as u64);
    (books != seen).then(|| format!("{books} sets wait by the books, {seen} are there"))
}
