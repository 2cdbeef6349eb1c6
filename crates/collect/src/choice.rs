//! Numbers that exporters have in several fields, of which a record means one and fills the others with zeros.

use crate::records::{Records, is_set};

/// Protocol numbers.
const ICMP: u64 = 1;
const ICMP_OF_IPV6: u64 = 58;

/// How the field that a record means is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChoiceRule {
    /// The first that is not 0; where all are, the first.
    FirstSet,
    /// That of the version of ICMP, of one field for each, by the field of the protocol; of other protocols none. `types`
    /// are the fields of the types, of a template with both: 0 is no type of ICMPv6, and where the other field is set
    /// instead, type and code of the record are those of the other fields.
    IcmpVersion { protocol: usize, types: Option<(usize, usize)> },
    /// That of the family of the flow's addresses, of one field for each: IPv4, IPv6.
    Family(FamilyFields),
}

/// Fields with the source and the destination of a flow in a template with addresses of both families: the pairs of
/// those that it has both of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FamilyFields(pub(crate) [Option<(usize, usize)>; 2]);

impl FamilyFields {
    /// Whether a flow is of IPv6. Its source may be `::` or 0.0.0.0, and then its destination decides.
    pub(crate) fn is_ipv6(self, records: Records<'_>, record: usize) -> bool {
        let octets = |field| records.octets_of(field, record);
        let mut pairs = self.0.into_iter().flatten();
        let address = pairs.find_map(|(first, second)| set_address(octets(first), octets(second)));
        address.is_some_and(|address| address.len() == 16)
    }
}

/// Of addresses of both families the one that is set, the later one when both are.
pub(crate) fn set_address<'a>(first: &'a [u8], second: &'a [u8]) -> Option<&'a [u8]> {
    [second, first].into_iter().find(|octets| is_set(octets))
}

/// Fields that one column is filled from, none of them wider than it, those of the preferred elements first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) rule: ChoiceRule,
    pub(crate) fields: Box<[usize]>,
}

impl Choice {
    /// The field that a record means.
    fn field(&self, records: Records<'_>, record: usize) -> Option<usize> {
        match self.rule {
            ChoiceRule::FirstSet => {
                let set = self.fields.iter().find(|field| is_set(records.octets_of(**field, record)));
                set.or(self.fields.first()).copied()
            }
            ChoiceRule::IcmpVersion { protocol, types } => {
                let is_set = |field| is_set(records.octets_of(field, record));
                let version = match records.number(protocol, record)? {
                    ICMP => 0,
                    ICMP_OF_IPV6 if types.is_some_and(|(first, second)| is_set(first) && !is_set(second)) => 0,
                    ICMP_OF_IPV6 => 1,
                    _ => return None,
                };
                self.fields.get(version).copied()
            }
            ChoiceRule::Family(family) => self.fields.get(usize::from(family.is_ipv6(records, record))).copied(),
        }
    }

    /// The number that a record means.
    pub(crate) fn number(&self, records: Records<'_>, record: usize) -> Option<u64> {
        records.number(self.field(records, record)?, record)
    }

    /// Whether the column shows all that one of the fields says: a 0 next to what is meant says nothing.
    pub(crate) fn shows(&self, field: usize, records: Records<'_>, record: usize) -> bool {
        !is_set(records.octets_of(field, record)) || self.field(records, record) == Some(field)
    }
}
