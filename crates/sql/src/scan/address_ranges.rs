//! Addresses as SQL compares them: octet by octet, the shorter before the longer that begins with it.

use datafusion::logical_expr::Operator;
use weir_filter::{AddressSet, Predicate, Test};
use weir_flow::Column;

/// Ranges of addresses of both families, sorted; neighbours may touch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AddressRanges {
    v4: Vec<(u32, u32)>,
    v6: Vec<(u128, u128)>,
}

impl AddressRanges {
    pub(super) fn of(set: &AddressSet) -> Self {
        Self { v4: set.ranges_v4().to_vec(), v6: set.ranges_v6().to_vec() }
    }

    pub(super) fn all() -> Self {
        Self { v4: vec![(0, u32::MAX)], v6: vec![(0, u128::MAX)] }
    }

    pub(super) fn all_v4() -> Self {
        Self { v6: Vec::new(), ..Self::all() }
    }

    pub(super) fn all_v6() -> Self {
        Self { v4: Vec::new(), ..Self::all() }
    }

    /// The addresses for which `address operator octets` is true; `None` when the octets are no address.
    pub(super) fn compared(operator: Operator, octets: &[u8]) -> Option<Self> {
        let below = Self::below(octets)?;
        Some(match operator {
            Operator::Lt => below,
            Operator::GtEq => below.complement(),
            Operator::Eq => Self::one(octets),
            Operator::LtEq => below.joined(&Self::one(octets)),
            _ => below.joined(&Self::one(octets)).complement(),
        })
    }

    fn one(octets: &[u8]) -> Self {
        let v4 = <[u8; 4]>::try_from(octets).map(u32::from_be_bytes);
        let v6 = <[u8; 16]>::try_from(octets).map(u128::from_be_bytes);
        Self {
            v4: v4.into_iter().map(|address| (address, address)).collect(),
            v6: v6.into_iter().map(|address| (address, address)).collect(),
        }
    }

    /// The addresses before these octets.
    fn below(octets: &[u8]) -> Option<Self> {
        let upto = |end: Option<u32>| end.map(|last| (0, last)).into_iter().collect();
        if let Ok(octets) = <[u8; 4]>::try_from(octets) {
            let address = u32::from_be_bytes(octets);
            // of the longer ones, those that begin with smaller octets
            let v6 = (u128::from(address) << 96).checked_sub(1);
            return Some(Self { v4: upto(address.checked_sub(1)), v6: v6.map(|last| (0, last)).into_iter().collect() });
        }
        let address = u128::from_be_bytes(octets.try_into().ok()?);
        let v6 = address.checked_sub(1).map(|last| (0, last));
        // of the shorter ones, that which it begins with too
        Some(Self { v4: upto(Some((address >> 96) as u32)), v6: v6.into_iter().collect() })
    }

    pub(super) fn complement(&self) -> Self {
        Self {
            v4: gaps(&self.v4, u32::MAX, 0, |n| n.checked_add(1), |n| n - 1),
            v6: gaps(&self.v6, u128::MAX, 0, |n| n.checked_add(1), |n| n - 1),
        }
    }

    pub(super) fn common(&self, other: &Self) -> Self {
        Self { v4: common(&self.v4, &other.v4), v6: common(&self.v6, &other.v6) }
    }

    pub(super) fn joined(&self, other: &Self) -> Self {
        Self::of(&AddressSet::from_ranges([&*self.v4, &*other.v4].concat(), [&*self.v6, &*other.v6].concat()))
    }

    /// Whether a column is one of them.
    pub(super) fn test(self, column: Column) -> Predicate {
        if self.v4.is_empty() && self.v6.is_empty() {
            return Predicate::False;
        }
        Predicate::Test(Test::Address { column, set: AddressSet::from_ranges(self.v4, self.v6) })
    }
}

/// What lies between sorted ranges.
fn gaps<T: Copy + Ord>(
    ranges: &[(T, T)],
    max: T,
    min: T,
    after: impl Fn(T) -> Option<T>,
    before: impl Fn(T) -> T,
) -> Vec<(T, T)> {
    let mut gaps = Vec::with_capacity(ranges.len() + 1);
    let mut next = Some(min);
    for &(first, last) in ranges {
        if let Some(start) = next.filter(|start| *start < first) {
            gaps.push((start, before(first)));
        }
        next = after(last);
    }
    gaps.extend(next.map(|start| (start, max)));
    gaps
}

/// What two lists of ranges have in common; both are sorted, and their ranges do not touch.
pub(super) fn common<T: Copy + Ord>(one: &[(T, T)], other: &[(T, T)]) -> Vec<(T, T)> {
    let (mut i, mut j) = (0, 0);
    let mut both = Vec::new();
    while let (Some(a), Some(b)) = (one.get(i), other.get(j)) {
        let (first, last) = (a.0.max(b.0), a.1.min(b.1));
        if first <= last {
            both.push((first, last));
        }
        if a.1 < b.1 { i += 1 } else { j += 1 }
    }
    both
}

#[cfg(test)]
mod tests {
    use weir_flow::parse_address;

    use super::*;

    /// Every operator between addresses of all kinds, against the order of their octets.
    #[test]
    fn ranges_are_what_comparing_octets_gives() {
        let texts = ["0.0.0.0", "10.0.0.1", "32.1.13.184", "255.255.255.255", "::", "2001:db8::", "2001:db8::1"];
        let texts = texts.into_iter().chain(["ffff:ffff::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]);
        let addresses: Vec<Vec<u8>> = texts.map(|text| parse_address(text).expect("an address")).collect();
        for literal in &addresses {
            for (operator, holds) in [
                (Operator::Eq, (|a, b| a == b) as fn(&[u8], &[u8]) -> bool),
                (Operator::Lt, |a, b| a < b),
                (Operator::LtEq, |a, b| a <= b),
                (Operator::Gt, |a, b| a > b),
                (Operator::GtEq, |a, b| a >= b),
            ] {
                let ranges = AddressRanges::compared(operator, literal).expect("an address");
                let others = ranges.complement();
                let set = AddressSet::from_ranges(ranges.v4, ranges.v6);
                let complement = AddressSet::from_ranges(others.v4, others.v6);
                for value in &addresses {
                    let expected = holds(value, literal);
                    assert_eq!(set.contains(value), expected, "{value:?} {operator} {literal:?}");
                    assert_eq!(complement.contains(value), !expected, "not {value:?} {operator} {literal:?}");
                }
            }
        }
        assert_eq!(AddressRanges::compared(Operator::Eq, &[1, 2, 3]), None);
    }
}
