//! Sequence numbers: what is missing, what came late.
//!
//! What is counted differs: NetFlow v5 counts flows, NetFlow v9 datagrams (RFC 3954 section 5.1), IPFIX data records
//! (RFC 7011 section 3.1). In all three the number in a header lets the next one be predicted.

/// A jump ahead by more than this is taken for a restart of the exporter, not for loss.
const GAP_MAX: u32 = 1 << 20;
/// What lies farther behind is not late: the exporter has started again. Units are records or datagrams.
const LATE_MAX: u32 = 1 << 15;
/// So many late ones without one in order between them are not late either.
const LATE_RUN_MAX: u32 = 16;

/// What a header's sequence number says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// As expected, or nothing to compare with.
    InOrder,
    /// This many units are missing before it.
    Lost(u32),
    /// It belongs before what was already seen.
    Late,
    /// A jump too large for loss.
    Reset,
}

/// The sequence of one Observation Domain.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sequence {
    expected: Option<u32>,
    /// Late ones since the last that was not.
    late_run: u32,
}

impl Sequence {
    /// Takes the sequence number of a header and how many units the datagram carries. `None` when the number of
    /// units is not known, because records wait for their template: the next datagram then cannot be judged.
    pub(crate) fn observe(&mut self, sequence: u32, units: Option<u32>) -> Verdict {
        let next = units.map(|units| sequence.wrapping_add(units));
        let Some(expected) = self.expected else {
            self.expected = next;
            return Verdict::InOrder;
        };
        let ahead = sequence.wrapping_sub(expected);
        let behind = expected.wrapping_sub(sequence);
        if (1..=LATE_MAX).contains(&behind) && self.late_run < LATE_RUN_MAX {
            self.late_run += 1;
            return Verdict::Late;
        }
        self.late_run = 0;
        self.expected = next;
        match ahead {
            0 => Verdict::InOrder,
            1..=GAP_MAX => Verdict::Lost(ahead),
            _ => Verdict::Reset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(observations: &[(u32, u32, Verdict)]) {
        let mut sequence = Sequence::default();
        for &(number, units, expected) in observations {
            assert_eq!(sequence.observe(number, Some(units)), expected, "at {number}");
        }
    }

    #[test]
    fn gaps_reorder_and_resets() {
        use Verdict::{InOrder, Late, Lost, Reset};
        check(&[(100, 30, InOrder), (130, 30, InOrder), (190, 30, Lost(30)), (160, 30, Late), (220, 30, InOrder)]);
        check(&[(u32::MAX - 9, 10, InOrder), (0, 10, InOrder)]);
        check(&[(5_000_000, 1, InOrder), (0, 1, Reset), (1, 1, InOrder)]);
    }

    #[test]
    fn an_exporter_that_starts_again_is_not_late() {
        let mut sequence = Sequence::default();
        assert_eq!(sequence.observe(30_000, Some(30)), Verdict::InOrder);
        let verdicts: Vec<_> = (0..40).map(|number| sequence.observe(number * 60, Some(30))).collect();
        assert_eq!(verdicts[..16], [Verdict::Late; 16]);
        assert_eq!(verdicts[16], Verdict::Reset);
        assert!(verdicts[17..].iter().all(|verdict| *verdict == Verdict::Lost(30)), "{verdicts:?}");
        let mut far = Sequence::default();
        assert_eq!(far.observe(1_000_000, Some(30)), Verdict::InOrder);
        assert_eq!(far.observe(0, Some(30)), Verdict::Reset);
    }

    #[test]
    fn unknown_units_leave_the_next_unjudged() {
        let mut sequence = Sequence::default();
        assert_eq!(sequence.observe(10, None), Verdict::InOrder);
        assert_eq!(sequence.observe(500, Some(5)), Verdict::InOrder);
        assert_eq!(sequence.observe(505, Some(5)), Verdict::InOrder);
    }
}
