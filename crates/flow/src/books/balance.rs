//! Whether the books balance.

use super::Counter;

/// Records that are counted as stored and are not in the archive.
pub(super) const LEFT_OUT: [Counter; 2] = [Counter::RecordsFiltered, Counter::RecordsNotStored];

/// Sums of all counters, by [`Counter`].
pub type Counts = [u64; Counter::COUNT];

/// An equation of the books that does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Imbalance {
    /// Datagrams went another way than the ones there are.
    #[error("{received} datagrams were received, {accounted} are decoded, undecodable or duplicates")]
    Datagrams {
        /// `datagrams`.
        received: u64,
        /// `datagrams_decoded` + `datagrams_undecodable` + `datagrams_duplicate`.
        accounted: u64,
    },
    /// More sets have left the waiting room than came.
    #[error("{came} sets were put aside, {left} of them decoded later or given up")]
    Waiting {
        /// `sets_waiting_in`.
        came: u64,
        /// `sets_waiting_out` + `sets_expired`.
        left: u64,
    },
    /// Errors without a reason, or reasons without an error.
    #[error("{undecodable} datagrams and sets were undecodable, for {reasons} reasons")]
    Reasons {
        /// `datagrams_undecodable` + `sets_undecodable`.
        undecodable: u64,
        /// The sum of the counters `errors_*`.
        reasons: u64,
    },
    /// More was left out than there were records.
    #[error("{left_out} records were filtered or not written, of {stored}")]
    LeftOut {
        /// `records_stored`.
        stored: u64,
        /// `records_filtered` + `records_not_stored`.
        left_out: u64,
    },
    /// More was made by transforms than there were records.
    #[error("{made} records were made of others, of {stored}")]
    Made {
        /// `records_stored`.
        stored: u64,
        /// `records_made`.
        made: u64,
    },
    /// The archive has other flows than were stored.
    #[error(
        "{stored} records were stored and {left_out} of them filtered or not written, but {rows} are in the archive and {rows_expired} \
         have expired"
    )]
    Rows {
        /// `records_stored`.
        stored: u64,
        /// `records_filtered` + `records_not_stored`.
        left_out: u64,
        /// Flows in the archive.
        rows: u64,
        /// Flows that have expired.
        rows_expired: u64,
    },
    /// More came late than had been missed.
    #[error("{late} {unit} came late of {lost} that were missing")]
    Late {
        /// Records or datagrams.
        unit: &'static str,
        /// What was counted as lost.
        lost: u64,
        /// What came late.
        late: u64,
    },
    /// More datagrams have a property than there are.
    #[error("{counter} is {some} of {decoded} datagrams decoded")]
    Share {
        /// Which counter.
        counter: &'static str,
        /// Its value.
        some: u64,
        /// `datagrams_decoded`.
        decoded: u64,
    },
}

/// Checks sums of the books, those of one exporter or of all, against the equations that [the module](super) states.
///
/// # Errors
///
/// The first equation that does not hold.
pub fn balance(counts: &Counts) -> Result<(), Imbalance> {
    let of = |counter: Counter| counts[counter as usize];
    let received = of(Counter::Datagrams);
    let decoded = of(Counter::DatagramsDecoded);
    let accounted =
        sum(counts, &[Counter::DatagramsDecoded, Counter::DatagramsUndecodable, Counter::DatagramsDuplicate]);
    if received != accounted {
        return Err(Imbalance::Datagrams { received, accounted });
    }
    let (came, left) = (of(Counter::SetsWaitingIn), sum(counts, &[Counter::SetsWaitingOut, Counter::SetsExpired]));
    if left > came {
        return Err(Imbalance::Waiting { came, left });
    }
    let undecodable = sum(counts, &[Counter::DatagramsUndecodable, Counter::SetsUndecodable]);
    let reasons = sum(counts, &Counter::REASONS);
    if undecodable != reasons {
        return Err(Imbalance::Reasons { undecodable, reasons });
    }
    let (stored, left_out) = (of(Counter::RecordsStored), sum(counts, &LEFT_OUT));
    if left_out > stored {
        return Err(Imbalance::LeftOut { stored, left_out });
    }
    let made = of(Counter::RecordsMade);
    if made > stored {
        return Err(Imbalance::Made { stored, made });
    }
    let pairs = [
        ("records", Counter::RecordsLost, Counter::RecordsLate),
        ("datagrams", Counter::DatagramsLost, Counter::DatagramsLate),
    ];
    for (unit, lost, late) in pairs.map(|(unit, lost, late)| (unit, of(lost), of(late))) {
        if late > lost {
            return Err(Imbalance::Late { unit, lost, late });
        }
    }
    for share in [Counter::DatagramsReordered, Counter::DatagramsUnsequenced, Counter::SequenceResets] {
        if of(share) > decoded {
            return Err(Imbalance::Share { counter: share.name(), some: of(share), decoded });
        }
    }
    Ok(())
}

/// Checks the sum of all books of an archive against its flows: what was stored and not left out is there, in `rows`, or
/// has expired, in `rows_expired`.
///
/// # Errors
///
/// [`Imbalance::Rows`], when that is not so.
pub fn balance_rows(counts: &Counts, rows: u64, rows_expired: u64) -> Result<(), Imbalance> {
    let of = |counter: Counter| counts[counter as usize];
    let (stored, left_out) = (of(Counter::RecordsStored), sum(counts, &LEFT_OUT));
    if stored.checked_sub(left_out) == rows.checked_add(rows_expired) && left_out <= stored {
        return Ok(());
    }
    Err(Imbalance::Rows { stored, left_out, rows, rows_expired })
}

/// Data Sets that still wait for their Template.
pub fn sets_waiting(counts: &Counts) -> u64 {
    let of = |counter: Counter| counts[counter as usize];
    of(Counter::SetsWaitingIn).saturating_sub(sum(counts, &[Counter::SetsWaitingOut, Counter::SetsExpired]))
}

/// Some counters together; what does not fit is the largest number there is, which no counter reaches.
pub(super) fn sum(counts: &Counts, counters: &[Counter]) -> u64 {
    counters.iter().fold(0, |sum: u64, counter| sum.saturating_add(counts[*counter as usize]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counters with these values, and no others.
    fn check(values: &[(Counter, u64)], expected: Option<&str>) {
        let mut counts = [0; Counter::COUNT];
        for (counter, value) in values {
            counts[*counter as usize] = *value;
        }
        let found = balance(&counts).err().map(|imbalance| imbalance.to_string());
        assert_eq!(found.as_deref(), expected);
    }

    #[test]
    fn what_balances() {
        check(&[], None);
        check(
            &[
                (Counter::Datagrams, 10),
                (Counter::DatagramsDecoded, 7),
                (Counter::DatagramsUndecodable, 2),
                (Counter::DatagramsDuplicate, 1),
                (Counter::SetsUndecodable, 3),
                (Counter::ErrorsHeader, 2),
                (Counter::ErrorsRecord, 3),
                (Counter::SetsWaitingIn, 4),
                (Counter::SetsWaitingOut, 2),
                (Counter::RecordsLost, 5),
                (Counter::RecordsLate, 5),
                (Counter::RecordsStored, 30),
                (Counter::RecordsFiltered, 30),
                (Counter::RecordsMade, 30),
            ],
            None,
        );
    }

    #[test]
    fn flows_are_there_or_have_expired() {
        let mut counts = [0; Counter::COUNT];
        counts[Counter::RecordsStored as usize] = 10;
        counts[Counter::RecordsFiltered as usize] = 3;
        assert_eq!(balance_rows(&counts, 7, 0), Ok(()));
        assert_eq!(balance_rows(&counts, 2, 5), Ok(()));
        for (rows, rows_expired) in [(7, 1), (0, 6), (u64::MAX, 8)] {
            let found = balance_rows(&counts, rows, rows_expired);
            assert_eq!(found, Err(Imbalance::Rows { stored: 10, left_out: 3, rows, rows_expired }));
        }
        counts[Counter::RecordsNotStored as usize] = 2;
        assert_eq!(balance_rows(&counts, 5, 0), Ok(()));
        counts[Counter::RecordsFiltered as usize] = 11;
        assert!(balance_rows(&counts, u64::MAX, u64::MAX).is_err(), "neither sum is a number");
    }

    #[test]
    fn every_equation_can_fail() {
        let told = Some("2 datagrams were received, 1 are decoded, undecodable or duplicates");
        check(&[(Counter::Datagrams, 2), (Counter::DatagramsDecoded, 1)], told);
        check(&[(Counter::SetsExpired, 1)], Some("0 sets were put aside, 1 of them decoded later or given up"));
        check(&[(Counter::ErrorsLength, 1)], Some("0 datagrams and sets were undecodable, for 1 reasons"));
        check(&[(Counter::RecordsFiltered, 1)], Some("1 records were filtered or not written, of 0"));
        check(&[(Counter::RecordsMade, 1)], Some("1 records were made of others, of 0"));
        check(&[(Counter::RecordsLate, 1)], Some("1 records came late of 0 that were missing"));
        check(&[(Counter::DatagramsLate, 1)], Some("1 datagrams came late of 0 that were missing"));
        check(&[(Counter::DatagramsReordered, 1)], Some("datagrams_reordered is 1 of 0 datagrams decoded"));
    }
}
