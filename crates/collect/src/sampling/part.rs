//! Parts of an exporter for which a sampling rate may hold: what the scopes of options name (RFC 7011 section 3.4.2.1,
//! RFC 3954 section 6.1).

use weir_wire::value::be_uint;

/// A kind of part; which one of its kind is meant is a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// An interface, whichever way packets pass it: a scope of NetFlow v9.
    Interface,
    /// The interface that packets come in by.
    IngressInterface,
    /// The interface that packets go out by.
    EgressInterface,
    /// A template of the same Observation Domain.
    Template,
    /// A Selection Sequence (RFC 5476 section 3).
    SelectionSequence,
    ObservationPoint,
    LineCard,
    /// A port of a line card.
    Port,
    IngressVrf,
    EgressVrf,
    /// An Observation Domain other than the one that reports it.
    Domain,
    MeteringProcess,
    ExportingProcess,
    /// The exporter, by its address.
    Exporter,
    /// What a collector receives, by its address.
    Collector,
}

impl Part {
    /// Every kind. Remembered state has their positions, so new ones come last.
    pub(crate) const ALL: [Self; 15] = [
        Self::Interface,
        Self::IngressInterface,
        Self::EgressInterface,
        Self::Template,
        Self::SelectionSequence,
        Self::ObservationPoint,
        Self::LineCard,
        Self::Port,
        Self::IngressVrf,
        Self::EgressVrf,
        Self::Domain,
        Self::MeteringProcess,
        Self::ExportingProcess,
        Self::Exporter,
        Self::Collector,
    ];

    /// What an Information Element of IANA names.
    pub(crate) fn of_element(id: u16) -> Option<Self> {
        Some(match id {
            // and the physical ones
            10 | 252 => Self::IngressInterface,
            14 | 253 => Self::EgressInterface,
            145 => Self::Template,
            301 => Self::SelectionSequence,
            138 => Self::ObservationPoint,
            141 => Self::LineCard,
            142 => Self::Port,
            234 => Self::IngressVrf,
            235 => Self::EgressVrf,
            149 => Self::Domain,
            143 => Self::MeteringProcess,
            144 => Self::ExportingProcess,
            130 | 131 => Self::Exporter,
            211 | 212 => Self::Collector,
            _ => return None,
        })
    }

    /// Whether it is all of an exporter, as far as exporters have one of it as a rule.
    pub(crate) fn is_whole(self) -> bool {
        matches!(self, Self::MeteringProcess | Self::ExportingProcess | Self::Exporter | Self::Collector)
    }

    /// Whether it is less than what an Observation Domain reports about itself.
    pub(crate) fn is_narrow(self) -> bool {
        !self.is_whole() && self != Self::Domain
    }

    pub(crate) fn is_interface(self) -> bool {
        matches!(self, Self::Interface | Self::IngressInterface | Self::EgressInterface)
    }

    /// Whether it is where packets come in, or where they go out: a flow is measured at one of the two.
    pub(crate) fn has_sides(self) -> bool {
        self.is_interface() || matches!(self, Self::IngressVrf | Self::EgressVrf)
    }

    /// Whether an element in a record of flows says of which one the flow is.
    pub(crate) fn has_flow_element(self) -> bool {
        !matches!(self, Self::Template | Self::Domain | Self::Collector)
    }

    /// Whether its numbers mean something in one Observation Domain only.
    pub(crate) fn is_of_one_domain(self) -> bool {
        matches!(self, Self::Template | Self::SelectionSequence | Self::ObservationPoint | Self::Port)
    }

    /// Which one of its kind a value says: a number, or an address as one.
    pub(crate) fn number(octets: &[u8]) -> Option<u64> {
        match octets.split_first_chunk::<8>() {
            // of addresses of IPv6 those that make up the same number are those of an exporter that wants it so
            Some((high, low)) if low.len() == 8 => Some(u64::from_be_bytes(*high) ^ be_uint(low)?),
            _ => be_uint(octets),
        }
    }
}

/// Which sampler of an Observation Domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Sampler {
    /// The one that is meant when none is named.
    Any,
    /// One with a number of its own.
    Numbered(u64),
    /// That of a part of the exporter.
    Of(Part, u64),
}

/// Some kinds of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Parts(u16);

impl Parts {
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn has(self, part: Part) -> bool {
        self.0 & 1 << part as u16 != 0
    }

    #[must_use]
    pub(crate) fn with(self, part: Part) -> Self {
        Self(self.0 | 1 << part as u16)
    }

    #[must_use]
    pub(crate) fn without(self, part: Part) -> Self {
        Self(self.0 & !(1 << part as u16))
    }

    /// Those in either.
    #[must_use]
    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those in both.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_position_and_its_bit() {
        for (position, part) in Part::ALL.into_iter().enumerate() {
            assert_eq!(part as usize, position);
            let others = Part::ALL.into_iter().filter(|other| *other != part);
            let all_others = others.fold(Parts::default(), Parts::with);
            assert!(!all_others.has(part) && all_others.with(part).has(part), "{part:?}");
        }
    }

    #[test]
    fn addresses_are_numbers() {
        assert_eq!(Part::number(&[192, 0, 2, 1]), Some(0xc000_0201));
        let address = |last: u8| [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
        assert_ne!(Part::number(&address(1)), Part::number(&address(2)));
        assert_eq!(Part::number(&[0; 9]), None);
    }
}
