//! Whether the books balance.

use super::Counter;

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
    /// More was filtered than there were records.
    #[error("{filtered} records were filtered of {stored}")]
    Filtered {
        /// `records_stored`.
        stored: u64,
        /// `records_filtered`.
        filtered: u64,
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
    let accounted = decoded + of(Counter::DatagramsUndecodable) + of(Counter::DatagramsDuplicate);
    if received != accounted {
        return Err(Imbalance::Datagrams { received, accounted });
    }
    let (came, left) = (of(Counter::SetsWaitingIn), of(Counter::SetsWaitingOut) + of(Counter::SetsExpired));
    if left > came {
        return Err(Imbalance::Waiting { came, left });
    }
    let undecodable = of(Counter::DatagramsUndecodable) + of(Counter::SetsUndecodable);
    let reasons = Counter::REASONS.iter().map(|reason| of(*reason)).sum();
    if undecodable != reasons {
        return Err(Imbalance::Reasons { undecodable, reasons });
    }
    let (stored, filtered) = (of(Counter::RecordsStored), of(Counter::RecordsFiltered));
    if filtered > stored {
        return Err(Imbalance::Filtered { stored, filtered });
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

/// Data Sets that still wait for their Template.
pub fn sets_waiting(counts: &Counts) -> u64 {
    let of = |counter: Counter| counts[counter as usize];
    of(Counter::SetsWaitingIn).saturating_sub(of(Counter::SetsWaitingOut) + of(Counter::SetsExpired))
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
            ],
            None,
        );
    }

    #[test]
    fn every_equation_can_fail() {
        let told = Some("2 datagrams were received, 1 are decoded, undecodable or duplicates");
        check(&[(Counter::Datagrams, 2), (Counter::DatagramsDecoded, 1)], told);
        check(&[(Counter::SetsExpired, 1)], Some("0 sets were put aside, 1 of them decoded later or given up"));
        check(&[(Counter::ErrorsLength, 1)], Some("0 datagrams and sets were undecodable, for 1 reasons"));
        check(&[(Counter::RecordsFiltered, 1)], Some("1 records were filtered of 0"));
        check(&[(Counter::RecordsLate, 1)], Some("1 records came late of 0 that were missing"));
        check(&[(Counter::DatagramsLate, 1)], Some("1 datagrams came late of 0 that were missing"));
        check(&[(Counter::DatagramsReordered, 1)], Some("datagrams_reordered is 1 of 0 datagrams decoded"));
    }
}
