//! Octets that come in pieces, put together again within a limit.

/// Most octets that are put together for one handshake.
pub(super) const ASSEMBLY_OCTETS_MAX: usize = 4096;
/// Most gaps between pieces that are kept; a piece that would make one more is left out.
const GAPS_MAX: usize = 16;

/// The pieces so far, from offset 0.
#[derive(Debug)]
pub(super) struct Assembly {
    octets: Vec<u8>,
    /// What is there, as ranges in order that do not touch.
    ranges: Vec<(u16, u16)>,
}

/// What became of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placed {
    /// All of it is there.
    Whole,
    /// What is beyond the limit, or all of it, was left out.
    Cut,
}

impl Assembly {
    /// An empty one with the capacity for this many octets.
    pub(super) fn with_capacity(octets: usize) -> Self {
        Self { octets: Vec::with_capacity(octets.min(ASSEMBLY_OCTETS_MAX)), ranges: Vec::new() }
    }

    /// Adds a piece behind all that is there.
    pub(super) fn append(&mut self, piece: &[u8]) -> Placed {
        self.insert(self.octets.len() as u64, piece)
    }

    /// Adds a piece at an offset; where pieces overlap the later one counts.
    pub(super) fn insert(&mut self, offset: u64, piece: &[u8]) -> Placed {
        let Some(start) = usize::try_from(offset).ok().filter(|start| *start < ASSEMBLY_OCTETS_MAX) else {
            return if piece.is_empty() { Placed::Whole } else { Placed::Cut };
        };
        let kept = &piece[..piece.len().min(ASSEMBLY_OCTETS_MAX - start)];
        let end = start + kept.len();
        if !self.cover(start as u16, end as u16) {
            return Placed::Cut;
        }
        if self.octets.len() < end {
            self.octets.resize(end, 0);
        }
        self.octets[start..end].copy_from_slice(kept);
        if kept.len() == piece.len() { Placed::Whole } else { Placed::Cut }
    }

    /// Notes that a range is there; `false` when there would be too many gaps.
    fn cover(&mut self, start: u16, end: u16) -> bool {
        let first = self.ranges.partition_point(|range| range.1 < start);
        let behind = first + self.ranges[first..].partition_point(|range| range.0 <= end);
        let merged = self.ranges[first..behind]
            .iter()
            .fold((start, end), |(low, high), range| (low.min(range.0), high.max(range.1)));
        if first == behind && self.ranges.len() > GAPS_MAX {
            return false;
        }
        self.ranges.splice(first..behind, [merged]);
        true
    }

    /// The octets from offset 0 up to the first gap.
    pub(super) fn start(&self) -> &[u8] {
        match self.ranges.first() {
            Some(&(0, end)) => self.octets.get(..end.into()).unwrap_or_default(),
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pieces_come_in_any_order() {
        let mut assembly = Assembly::with_capacity(10);
        assert_eq!(assembly.insert(6, b"gh"), Placed::Whole);
        assert_eq!(assembly.start(), b"");
        assert_eq!(assembly.insert(0, b"abc"), Placed::Whole);
        assert_eq!(assembly.start(), b"abc");
        assert_eq!(assembly.insert(2, b"cdef"), Placed::Whole);
        assert_eq!(assembly.start(), b"abcdefgh");
        assert_eq!(assembly.append(b"i"), Placed::Whole);
        assert_eq!(assembly.start(), b"abcdefghi");
    }

    #[test]
    fn nothing_lies_beyond_the_limit() {
        let mut assembly = Assembly::with_capacity(usize::MAX);
        assert_eq!(assembly.insert(u64::MAX, b"x"), Placed::Cut);
        assert_eq!(assembly.insert(ASSEMBLY_OCTETS_MAX as u64 - 1, b"xy"), Placed::Cut);
        assert_eq!(assembly.append(&[7; ASSEMBLY_OCTETS_MAX]), Placed::Cut);
        assert_eq!(assembly.insert(0, &[7; ASSEMBLY_OCTETS_MAX]), Placed::Whole);
        assert_eq!(assembly.start().len(), ASSEMBLY_OCTETS_MAX);
    }

    #[test]
    fn gaps_are_bounded() {
        let mut assembly = Assembly::with_capacity(0);
        let cut = (0..100).filter(|number| assembly.insert(number * 2, b"x") == Placed::Cut).count();
        assert_eq!(cut, 100 - GAPS_MAX - 1);
        assert_eq!(assembly.insert(1, b"y"), Placed::Whole, "a piece that fills a gap has its place");
        assert_eq!(assembly.start(), b"xyx");
    }

    proptest! {
        /// The same as a list of octets that are there or not.
        #[test]
        fn pieces_are_where_they_belong(pieces in prop::collection::vec((0_u16..60, 1_u8..20), 0..15)) {
            let mut assembly = Assembly::with_capacity(0);
            let mut there = [false; 100];
            for (offset, length) in pieces {
                let piece: Vec<u8> = (offset as u8..).take(length.into()).collect();
                prop_assert_eq!(assembly.insert(offset.into(), &piece), Placed::Whole);
                there[usize::from(offset)..usize::from(offset) + usize::from(length)].fill(true);
            }
            let expected: Vec<u8> = (0..).zip(there).take_while(|(_, there)| *there).map(|(octet, _)| octet).collect();
            prop_assert_eq!(assembly.start(), &expected[..]);
        }
    }
}
