//! Shapes: where in records of one kind the value of each column is.
//!
//! Records that have the same extensions have everything at the same places. So a shape is worked out once, and
//! columns are then read straight from the block, one column over all records, without a structure of a flow in
//! between.

use weir_flow::Column;

use super::exporters::Exporters;
use super::octets::{le_u16, le_u32, le_u64, until_zero};

/// How a value is written in a record, at an offset from the record's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// A number of this many octets.
    Number(u16, u8),
    /// The same, where 0 means that nothing is known.
    NotZero(u16, u8),
    /// Two numbers of 64 bits: the first, or where that is 0 the second.
    Either(u16, u16),
    /// Seconds, 32 bits, and milliseconds, 16 bits.
    SecsMs(u16, u16),
    /// An IPv4 address, one word.
    V4(u16),
    /// An IPv6 address, two words of 64 bits.
    V6(u16),
    /// An IPv4 address, or where that is 0 an IPv6 address: exporters that have fields for both fill one.
    V4OrV6(u16, u16),
    /// A MAC address, the lower six octets of 64 bits.
    Mac(u16),
    /// Octets as they are, and how many.
    Octets(u16, u16),
    /// Address of the exporter whose number is there, in this many octets.
    ExporterAddress(u16, u8),
    /// Its Observation Domain.
    ExporterDomain(u16, u8),
    /// Its version of the export protocol.
    ExporterVersion(u16, u8),
    /// The version of the export protocol in the header of a record.
    Version(u16),
}

/// A number of `width` octets.
#[inline]
pub(super) fn number(record: &[u8], at: u16, width: u8) -> u64 {
    let at = usize::from(at);
    match width {
        1 => record.get(at).copied().unwrap_or(0).into(),
        2 => le_u16(record, at).into(),
        4 => le_u32(record, at).into(),
        _ => le_u64(record, at),
    }
}

impl Read {
    /// Whether every record has a value there.
    pub(super) fn is_always(self) -> bool {
        matches!(self, Self::Number(..) | Self::Either(..) | Self::SecsMs(..))
    }

    /// Whether every value fits into a number of `width` octets.
    pub(super) fn fits(self, octets: usize) -> bool {
        match self {
            Self::Number(_, width) => usize::from(width) <= octets,
            _ => octets == 8,
        }
    }

    /// The value as a number.
    #[inline]
    pub(super) fn as_number(self, record: &[u8], exporters: &Exporters) -> Option<u64> {
        match self {
            Self::Number(at, width) => Some(number(record, at, width)),
            Self::NotZero(at, width) => Some(number(record, at, width)).filter(|value| *value != 0),
            Self::Either(first, second) => {
                Some([first, second].map(|at| number(record, at, 8))).map(|[a, b]| if a == 0 { b } else { a })
            }
            Self::SecsMs(secs, ms) => Some(number(record, secs, 4) * 1000 + number(record, ms, 2)),
            Self::ExporterDomain(at, width) => {
                exporters.get(number(record, at, width)).map(|known| known.domain.into())
            }
            Self::ExporterVersion(at, width) => {
                exporters.get(number(record, at, width)).and_then(|known| known.version).map(u64::from)
            }
            Self::Version(at) => version(number(record, at, 1)).map(u64::from),
            _ => None,
        }
    }

    /// The value as octets, of which there is a copy in `place` where they are turned round.
    #[inline]
    pub(super) fn as_octets<'a>(
        self,
        record: &'a [u8],
        exporters: &'a Exporters,
        place: &'a mut [u8; 16],
    ) -> Option<&'a [u8]> {
        match self {
            Self::V4(at) => {
                place[..4].copy_from_slice(&le_u32(record, at.into()).to_be_bytes());
                Some(&place[..4])
            }
            Self::V6(at) => {
                let at = usize::from(at);
                place[..8].copy_from_slice(&le_u64(record, at).to_be_bytes());
                place[8..].copy_from_slice(&le_u64(record, at + 8).to_be_bytes());
                Some(&place[..])
            }
            Self::V4OrV6(at, _) if le_u32(record, at.into()) != 0 => Self::V4(at).as_octets(record, exporters, place),
            Self::V4OrV6(_, at) => Self::V6(at).as_octets(record, exporters, place),
            Self::Mac(at) => {
                place[..8].copy_from_slice(&le_u64(record, at.into()).to_be_bytes());
                Some(&place[2..8])
            }
            Self::Octets(at, length) => record.get(usize::from(at)..usize::from(at) + usize::from(length)),
            Self::ExporterAddress(at, width) => {
                exporters.get(number(record, at, width)).map(|known| known.address.as_slice())
            }
            _ => None,
        }
    }
}

/// What the number of a version in a record or an exporter means to us; sFlow and what nfpcapd makes have numbers of
/// their own.
pub(super) fn version(number: u64) -> Option<u8> {
    match number {
        1 | 5 | 7 | 9 | 10 => Some(number as u8),
        9999 | 0x85 => Some(weir_flow::EXPORT_VERSION_SFLOW5),
        _ => None,
    }
}

/// What stands for an enterprise of elements that are no Information Elements: what the header of a record says. IANA
/// reserves this number.
pub const RECORD_HEADER: u32 = u32::MAX;
/// The number of the exporter in the file, 16 bits.
pub const HEADER_EXPORTER: u16 = 1;
/// Set when the counters were scaled by the sampling.
pub const HEADER_IS_SAMPLED: u16 = 2;
/// The ident of the file.
pub const HEADER_IDENT: u16 = 3;
/// As [`HEADER_IS_SAMPLED`], of a file of nfdump 1.6: nfdump 1.7.1 takes it over, and 1.7.8 does not.
pub const HEADER_IS_SAMPLED_OF_1_6: u16 = 4;
/// The octets of the record, 16 bits; records of layout 1 have none.
pub const HEADER_SIZE: u16 = 5;
/// The extensions of the record, 64 bits of which each stands for the extension of its number; records of layout 1 have none.
pub const HEADER_EXTENSIONS: u16 = 6;

/// How a value becomes the octets of an Information Element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementRead {
    /// A number of this many octets, of which this many are used, in network order; 0 means that nothing is known.
    Number(u16, u8, u8),
    /// Octets as they are.
    Octets(u16, u16),
    /// Octets up to the first zero.
    Text(u16, u16),
    /// Three numbers of 32 bits.
    Triple(u16),
    /// One octet of which only this bit counts.
    Bit(u16, u8),
    /// This number, 64 bits, which is the same in all records of the shape.
    Fixed(u64),
}

impl ElementRead {
    /// The octets, `None` when there is nothing to write.
    pub(super) fn octets<'a>(self, record: &'a [u8], place: &'a mut [u8; 16]) -> Option<&'a [u8]> {
        match self {
            Self::Number(at, width, told) => {
                let value = number(record, at, width);
                place[..8].copy_from_slice(&value.to_be_bytes());
                (value != 0).then_some(&place[8 - usize::from(told)..8])
            }
            Self::Bit(at, bit) => {
                place[0] = 1;
                (number(record, at, 1) as u8 & bit != 0).then_some(&place[..1])
            }
            Self::Fixed(value) => {
                place[..8].copy_from_slice(&value.to_be_bytes());
                Some(&place[..8])
            }
            Self::Octets(at, length) => record.get(usize::from(at)..usize::from(at) + usize::from(length)),
            Self::Text(at, length) => {
                let found = record.get(usize::from(at)..usize::from(at) + usize::from(length))?;
                Some(until_zero(found)).filter(|text| !text.is_empty())
            }
            Self::Triple(at) => {
                // nfcapd keeps these, and only these, as they stood in the datagram
                let octets = record.get(usize::from(at)..usize::from(at) + 12)?;
                octets.iter().any(|octet| *octet != 0).then_some(octets)
            }
        }
    }
}

/// Where the value of a field of a record goes.
#[derive(Debug, Clone, Copy)]
pub(super) enum To {
    Column(Column),
    /// An Information Element: enterprise, number, octets that are used of a number.
    Element(u32, u16, u8),
}

/// How a field is written in an extension.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// A number of this many octets.
    Number(u8),
    /// The same, where 0 means that nothing is known.
    NotZero(u8),
    V4,
    V6,
    Mac,
    /// The rest of the extension.
    Rest,
    /// Text in this many octets.
    Text(u16),
}

impl Kind {
    /// Octets that the field takes; 0 when it takes what there is.
    pub(super) const fn octets(self) -> u16 {
        match self {
            Self::Number(width) | Self::NotZero(width) => width as u16,
            Self::V4 => 4,
            Self::V6 => 16,
            Self::Mac => 8,
            Self::Rest => 0,
            Self::Text(length) => length,
        }
    }
}

/// A field of an extension: which extension, at which offset, how, and where it goes.
pub(super) type Field = (u16, u16, Kind, To);

/// Where the values of all columns are in records of one kind.
#[derive(Debug, Clone, Default)]
pub(super) struct Shape {
    /// By column.
    pub(super) columns: Vec<(Column, Read)>,
    /// What has no column: enterprise, number, place.
    pub(super) elements: Vec<(u32, u16, ElementRead)>,
    /// Extensions that go nowhere.
    pub(super) extensions_unknown: u64,
    /// Octets that a record must have.
    pub(super) octets_min: usize,
}

impl Shape {
    /// Takes up what the table says about an extension whose `length` octets begin at `at`.
    pub(super) fn extension(&mut self, table: &[Field], extension: u16, at: usize, length: usize) {
        let mut known = false;
        for (_, offset, kind, to) in table.iter().filter(|field| field.0 == extension) {
            known = true;
            if usize::from(offset + kind.octets()) <= length {
                self.field((at + usize::from(*offset)) as u16, length as u16 - offset, *kind, *to);
            }
        }
        self.extensions_unknown += u64::from(!known);
        self.octets_min = self.octets_min.max(at + length);
    }

    fn field(&mut self, at: u16, rest: u16, kind: Kind, to: To) {
        match to {
            To::Column(column) => {
                let read = match kind {
                    Kind::Number(width) => Read::Number(at, width),
                    Kind::NotZero(width) => Read::NotZero(at, width),
                    Kind::V4 => Read::V4(at),
                    Kind::V6 => Read::V6(at),
                    Kind::Mac => Read::Mac(at),
                    Kind::Rest => Read::Octets(at, rest),
                    Kind::Text(length) => Read::Octets(at, length),
                };
                match (self.read(column), read) {
                    (None, read) => self.set(column, read),
                    (Some(Read::V4(four)), Read::V6(six)) | (Some(Read::V6(six)), Read::V4(four)) => {
                        self.set(column, Read::V4OrV6(four, six));
                    }
                    // where two extensions have the same, the first does
                    _ => {}
                }
            }
            To::Element(enterprise, id, told) => {
                let read = match kind {
                    Kind::Number(width) | Kind::NotZero(width) => ElementRead::Number(at, width, told),
                    Kind::Rest => ElementRead::Octets(at, rest),
                    Kind::Text(length) => ElementRead::Text(at, length),
                    other => ElementRead::Octets(at, other.octets()),
                };
                self.elements.push((enterprise, id, read));
            }
        }
    }

    /// Ten labels of MPLS, of which each is an element of three octets.
    pub(super) fn labels(&mut self, at: u16) {
        let labels = (0..10).map(|label| (0, 70 + label, ElementRead::Number(at + label * 4, 4, 3)));
        self.elements.extend(labels);
        self.octets_min = self.octets_min.max(usize::from(at) + 40);
    }

    /// The access lists of a firewall: one for each way, each three numbers.
    pub(super) fn access_lists(&mut self, at: u16) {
        self.elements.extend([(0, 33000, ElementRead::Triple(at)), (0, 33001, ElementRead::Triple(at + 12))]);
        self.octets_min = self.octets_min.max(usize::from(at) + 24);
    }

    /// Sets where a column is read from; what comes later wins.
    pub(super) fn set(&mut self, column: Column, read: Read) {
        match self.columns.iter_mut().find(|(known, _)| *known == column) {
            Some((_, place)) => *place = read,
            None => self.columns.push((column, read)),
        }
    }

    /// Where a column is read from.
    pub(super) fn read(&self, column: Column) -> Option<Read> {
        self.columns.iter().find(|(known, _)| *known == column).map(|(_, read)| *read)
    }

    pub(super) fn has(&self, column: Column) -> bool {
        self.read(column).is_some()
    }

    /// Moves what one column has to another.
    pub(super) fn rename(&mut self, from: Column, to: Column) {
        for (column, _) in &mut self.columns {
            if *column == from {
                *column = to;
            }
        }
    }
}
