//! Deliveries that are in no segment yet.

use weir_archive::{FrameDigest, TailFrame};
use weir_filter::{AddressSet, Predicate, Test};
use weir_flow::{Column, FlowBatch};

use super::ScanSpec;
use crate::QueryError;

/// Hosts of a set that are looked up one by one; of larger sets every frame may have one.
const HOSTS_MAX: u128 = 64;

/// Whether a flow of the frame may be wanted, by what the frame says about them.
pub(crate) fn may_have(frame: &TailFrame, wanted: &ScanSpec) -> bool {
    if frame.flows() == 0 {
        return false;
    }
    let Some(digest) = frame.digest() else { return true };
    let in_window = wanted.window.iter().all(|end| has_time(digest, end.column, (end.first_ms, end.last_ms)));
    in_window && may_pass(digest, &wanted.predicate) && may_pass(digest, &wanted.hint)
}

/// Reads the wanted columns of a frame; `None` when it has no flows.
pub(super) fn read(frame: &TailFrame, wanted: &ScanSpec) -> Result<Option<FlowBatch>, QueryError> {
    let flows = frame.read_flows(&wanted.columns)?;
    flows.map(FlowBatch::try_new).transpose().map_err(|error| QueryError::Source(error.into()))
}

fn has_time(digest: &FrameDigest, column: Column, (first, last): (i64, i64)) -> bool {
    digest.times(column).is_none_or(|(min, max)| min <= last && first <= max)
}

fn may_pass(digest: &FrameDigest, predicate: &Predicate) -> bool {
    match predicate {
        Predicate::False => false,
        Predicate::And(parts) => parts.iter().all(|part| may_pass(digest, part)),
        Predicate::Or(parts) => parts.iter().any(|part| may_pass(digest, part)),
        Predicate::Test(Test::Time { column, comparison, ms }) => {
            comparison.time_range(*ms).is_some_and(|range| has_time(digest, *column, range))
        }
        Predicate::Test(Test::Address { column: Column::SrcAddr | Column::DstAddr, set }) => may_have_host(digest, set),
        Predicate::True | Predicate::Not(_) | Predicate::Test(_) => true,
    }
}

fn may_have_host(digest: &FrameDigest, set: &AddressSet) -> bool {
    let sizes_v4 = set.ranges_v4().iter().map(|(first, last)| u128::from(last - first));
    let sizes_v6 = set.ranges_v6().iter().map(|(first, last)| last - first);
    let hosts = sizes_v4.chain(sizes_v6).fold(0_u128, |sum, more| sum.saturating_add(more).saturating_add(1));
    if hosts > HOSTS_MAX {
        return true;
    }
    let mut v4 = set.ranges_v4().iter().flat_map(|(first, last)| *first..=*last);
    let mut v6 = set.ranges_v6().iter().flat_map(|(first, last)| *first..=*last);
    v4.any(|host| digest.may_have_host(&host.to_be_bytes())) || v6.any(|host| digest.may_have_host(&host.to_be_bytes()))
}
