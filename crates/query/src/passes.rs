//! Groups of flows, read as often as memory makes necessary.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::decode::PageDecoder;
use crate::group::{Collected, Count, Grouping, KeySet, Part, parts_of};
use crate::options::go_on;
use crate::run::share_out;
use crate::scan::{Morsel, Wanted};
use crate::{QueryError, QueryOptions};

/// Times that flows are read for one question, at most, when their groups do not fit memory at once.
pub(crate) const PASSES_MAX: usize = 64;

/// A decoder of pages for one thread.
pub(crate) fn decoder() -> Result<PageDecoder, QueryError> {
    PageDecoder::new().map_err(|source| QueryError::Source(source.into()))
}

/// Puts what a thread holds now in place of what it held before; returns what all hold.
pub(crate) fn recount(all: &AtomicUsize, before: &mut usize, now: usize) -> usize {
    all.fetch_add(now, Ordering::Relaxed);
    let total = all.fetch_sub(*before, Ordering::Relaxed) - *before;
    *before = now;
    total
}

/// The groups of all parts, reading the flows as often as memory makes necessary.
pub(crate) fn parts<S: Count>(
    morsels: &[Morsel],
    wanted: &Wanted,
    grouping: &mut Grouping,
    how: &S::How,
    only: Option<&KeySet>,
    options: &QueryOptions,
) -> Result<Vec<Part<S>>, QueryError> {
    loop {
        match all_passes(morsels, wanted, grouping, how, only, options) {
            Err(QueryError::Memory(_)) if grouping.counting.passes < PASSES_MAX => grouping.counting.passes *= 4,
            other => return other,
        }
    }
}

/// The groups of all parts, pass by pass.
pub(crate) fn all_passes<S: Count>(
    morsels: &[Morsel],
    wanted: &Wanted,
    grouping: &mut Grouping,
    how: &S::How,
    only: Option<&KeySet>,
    options: &QueryOptions,
) -> Result<Vec<Part<S>>, QueryError> {
    let mut parts = Vec::new();
    for pass in 0..grouping.counting.passes {
        grouping.counting.pass = pass;
        let counting = &grouping.counting;
        let held = AtomicUsize::new(parts.iter().map(Part::octets).sum());
        let rows = morsels.iter().map(Morsel::rows).sum::<usize>() / options.threads.max(1);
        let make = || Ok((decoder()?, Collected::new(rows), 0));
        let collected = share_out(options.threads, morsels.len(), make, |(decoder, collected, before), number| {
            morsels[number].read(wanted, decoder, |batch| {
                collected.add(counting, how, only, &batch);
                Ok(())
            })?;
            morsels[number].count_read(&options.progress);
            go_on(options, recount(&held, before, collected.octets()))
        })?;
        let collected = collected.into_iter().map(|(_, collected, _)| collected).collect();
        let collected: Vec<Collected<S>> = match Collected::join_few(collected, counting) {
            Ok(joined) => {
                parts.push(grouping.whole(joined));
                continue;
            }
            Err(many) => many.into_iter().map(|collected| collected.finish(counting)).collect(),
        };
        let wanted_parts = parts_of(counting);
        let grouping = &*grouping;
        let grouped = share_out(
            options.threads,
            wanted_parts.len(),
            || Ok(Vec::new()),
            |grouped: &mut Vec<_>, number| {
                grouped.push((number, grouping.part(wanted_parts[number], &collected)));
                Ok(())
            },
        )?;
        let mut grouped: Vec<(usize, Part<S>)> = grouped.into_iter().flatten().collect();
        grouped.sort_unstable_by_key(|(number, _)| *number);
        parts.extend(grouped.into_iter().map(|(_, part)| part));
    }
    Ok(parts)
}
