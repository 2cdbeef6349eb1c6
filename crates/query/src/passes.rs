//! Groups of flows, read as often as memory makes necessary.

use std::sync::{Arc, Mutex, PoisonError};

use crate::decode::PageDecoder;
use crate::flows::FlowSources;
use crate::group::{Collected, Count, Grouping, KeySet, Part, Pieces, Sums, parts_of};
use crate::options::go_on;
use crate::run::{share_out, share_out_from};
use crate::scan::{FlowScan, ScanSpec};
use crate::{QueryError, QueryOptions};

/// Times that flows are read for one question, at most, when their groups do not fit memory at once.
pub(crate) const PASSES_MAX: usize = 64;
/// The same for an answer that has all groups: reading in passes only helps as far as keys repeat.
const PASSES_OF_ALL_MAX: usize = 4;
/// Rows that are tried to see whether they have few groups, and how many that is: their counters stay near the processor.
const TRIED_ROWS: usize = 50_000;
/// Rows that are looked at for them, at most, where few pass.
const LOOKED_AT_MAX: usize = 5 * TRIED_ROWS;
const FEW_GROUPS: usize = 1 << 10;

/// A decoder of pages for one thread.
pub(crate) fn decoder() -> Result<PageDecoder, QueryError> {
    PageDecoder::new().map_err(|source| QueryError::Source(source.into()))
}

/// Whether to read the flows more often after this error; then says so to the grouping.
pub(crate) fn is_worth_more_passes(error: &QueryError, grouping: &mut Grouping) -> bool {
    let has_few = grouping.sorting.is_some() && grouping.limit.is_some();
    let passes_max = if has_few { PASSES_MAX } else { PASSES_OF_ALL_MAX };
    let is_worth = matches!(error, QueryError::Memory(_)) && grouping.counting.passes < passes_max;
    if is_worth {
        grouping.counting.passes *= 4;
    }
    is_worth
}

/// Whether flows have few groups, as far as some tell that lie in the middle. Then everything is counted at once: reading them
/// twice takes longer than counting for groups that are not in the answer.
pub(crate) fn has_few_groups(
    flows: &FlowSources,
    wanted: &ScanSpec,
    grouping: &Grouping,
    options: &QueryOptions,
) -> Result<bool, QueryError> {
    let Some(segment) = flows.segments.get(flows.segments.len() / 2) else { return Ok(false) };
    // rows that are tried are no progress
    let scan = FlowScan::of(&flows.of_segment(segment), wanted.clone(), &Arc::default());
    let (mut decoder, counting) = (decoder()?, &grouping.counting);
    let (mut collected, mut tried, mut looked_at) = (Collected::<Sums>::new(counting, options), 0, 0);
    let is_few = |collected: &Collected<Sums>| collected.groups().is_some_and(|groups| groups <= FEW_GROUPS);
    while tried < TRIED_ROWS && looked_at < LOOKED_AT_MAX && is_few(&collected) {
        go_on(options)?;
        let Ok(Some(unit)) = scan.next_unit() else { break };
        looked_at += unit.rows();
        let read = unit.read(&mut decoder, |batch| {
            tried += batch.rows();
            Ok(collected.add(counting, &(), None, &batch)?)
        });
        if read.is_err() {
            // what fails here fails again where it is told
            return Ok(false);
        }
    }
    Ok(tried >= TRIED_ROWS && is_few(&collected))
}

/// The groups of all parts, reading the flows as often as memory makes necessary.
pub(crate) fn parts<S: Count>(
    flows: &FlowSources,
    wanted: &ScanSpec,
    grouping: &mut Grouping,
    how: &S::How,
    only: Option<&KeySet>,
    options: &QueryOptions,
) -> Result<Vec<Part<S>>, QueryError> {
    loop {
        match all_passes(flows, wanted, grouping, how, only, options) {
            Err(error) if is_worth_more_passes(&error, grouping) => {}
            other => return other,
        }
    }
}

/// The groups of all parts, pass by pass.
pub(crate) fn all_passes<S: Count>(
    flows: &FlowSources,
    wanted: &ScanSpec,
    grouping: &mut Grouping,
    how: &S::How,
    only: Option<&KeySet>,
    options: &QueryOptions,
) -> Result<Vec<Part<S>>, QueryError> {
    let mut parts = Vec::new();
    for pass in 0..grouping.counting.passes {
        grouping.counting.pass = pass;
        let counting = &grouping.counting;
        let scan = flows.scan(wanted, options);
        let threads = options.threads.min(scan.units_max());
        let make = || {
            let decoded = options.memory.reservation("pages that are decoded");
            Ok((decoder()?, Collected::new(counting, options), decoded))
        };
        let next = || scan.next_unit();
        let collected = share_out_from(threads, next, make, |(decoder, collected, decoded), unit| {
            unit.read(decoder, |batch| {
                decoded.resize(batch.record_batch().get_array_memory_size());
                collected.add(counting, how, only, &batch)?;
                Ok(())
            })?;
            go_on(options)
        })?;
        let collected = collected.into_iter().map(|(_, collected, _)| collected).collect();
        parts.extend(grouped(collected, grouping, options)?);
    }
    Ok(parts)
}

/// The groups of several groupings, all counted in one pass; `wanted` has the columns of all.
pub(crate) fn parts_of_several(
    flows: &FlowSources,
    wanted: &ScanSpec,
    groupings: &[Grouping],
    options: &QueryOptions,
) -> Result<Vec<Vec<Part<Sums>>>, QueryError> {
    // tables of all together take what those of one may
    let shared = QueryOptions { threads: options.threads.max(1) * groupings.len(), ..options.clone() };
    let scan = flows.scan(wanted, options);
    let threads = options.threads.min(scan.units_max());
    let make = || {
        let empty = |grouping: &Grouping| Collected::<Sums>::new(&grouping.counting, &shared);
        let collected: Vec<Collected<Sums>> = groupings.iter().map(empty).collect();
        Ok((decoder()?, collected, options.memory.reservation("pages that are decoded")))
    };
    let next = || scan.next_unit();
    let of_threads = share_out_from(threads, next, make, |(decoder, collected, decoded), unit| {
        unit.read(decoder, |batch| {
            decoded.resize(batch.record_batch().get_array_memory_size());
            for (collected, grouping) in collected.iter_mut().zip(groupings) {
                collected.add(&grouping.counting, &(), None, &batch)?;
            }
            Ok(())
        })?;
        go_on(options)
    })?;
    let mut of_groupings: Vec<Vec<Collected<Sums>>> = groupings.iter().map(|_| Vec::new()).collect();
    for (_, collected, _) in of_threads {
        for (all, one) in of_groupings.iter_mut().zip(collected) {
            all.push(one);
        }
    }
    of_groupings.into_iter().zip(groupings).map(|(collected, grouping)| grouped(collected, grouping, options)).collect()
}

/// The groups of what all threads have collected in one pass.
pub(crate) fn grouped<S: Count>(
    collected: Vec<Collected<S>>,
    grouping: &Grouping,
    options: &QueryOptions,
) -> Result<Vec<Part<S>>, QueryError> {
    let counting = &grouping.counting;
    let memory = options.memory.reservation("groups");
    let many = match Collected::join_few(collected, counting)? {
        Ok(joined) => return Ok(vec![grouping.whole(joined, &memory)?]),
        Err(many) => many,
    };
    let pieces = many.into_iter().map(|collected| collected.into_parts(counting)).reduce(|mut all, more| {
        all.iter_mut().zip(more).for_each(|(all, more)| all.join(more));
        all
    });
    // each is taken by the thread that groups it, which returns its memory
    let pieces: Vec<Mutex<Option<Pieces<S>>>> =
        pieces.into_iter().flatten().map(|pieces| Mutex::new(Some(pieces))).collect();
    let wanted = parts_of(counting);
    let grouped = share_out(
        options.threads,
        wanted.len(),
        || Ok(Vec::new()),
        |grouped: &mut Vec<_>, number| {
            let pieces = pieces.get(wanted[number]);
            let pieces = pieces.and_then(|pieces| pieces.lock().unwrap_or_else(PoisonError::into_inner).take());
            if let Some(pieces) = pieces {
                grouped.push((number, grouping.part(pieces, &memory)?));
            }
            go_on(options)
        },
    )?;
    let mut grouped: Vec<(usize, Part<S>)> = grouped.into_iter().flatten().collect();
    grouped.sort_unstable_by_key(|(number, _)| *number);
    Ok(grouped.into_iter().map(|(_, part)| part).collect())
}
