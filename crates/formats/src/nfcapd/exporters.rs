//! What a file has besides flows: exporters, samplers, and names of interfaces, VRFs and applications.

use weir_flow::{OptionsKind, OptionsRow, OptionsRows, TableBatch};

use super::octets::{address, le_u16, le_u32, le_u64, text};
use super::shape::version;

/// The exporter of flows for which the file names none.
const UNSPECIFIED: [u8; 4] = [0; 4];

/// What stands before an address of IPv4 that is written as one of IPv6.
const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

/// An exporter that the file names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exporter {
    /// Address, 4 or 16 octets.
    pub address: Vec<u8>,
    /// Observation Domain ID, Source ID, or engine.
    pub domain: u32,
    /// Version of the export protocol, where it is one that we know.
    pub version: Option<u8>,
}

/// Exporters by the number that they have in the file.
#[derive(Debug, Default)]
pub struct Exporters {
    known: Vec<Option<Exporter>>,
}

impl Exporters {
    /// The exporter with this number.
    #[inline]
    pub(super) fn get(&self, number: u64) -> Option<&Exporter> {
        self.known.get(number as usize)?.as_ref()
    }

    /// Every exporter with its number.
    pub fn iter(&self) -> impl Iterator<Item = (u16, &Exporter)> {
        self.known.iter().enumerate().filter_map(|(number, known)| Some((number as u16, known.as_ref()?)))
    }

    /// Number and content of a record about an exporter; `None` when it is cut short or of no known family.
    pub(super) fn read(record: &[u8]) -> Option<(u16, Exporter)> {
        let octets = record.get(8..24)?;
        let address = match le_u16(record, 24) {
            // 1.7.8 writes no family, and the address as in a datagram, with IPv4 mapped into IPv6 (RFC 4291 section 2.5.5.2)
            0 => octets.strip_prefix(&MAPPED).unwrap_or(octets).to_vec(),
            family => address(octets, family)?,
        };
        record.get(..32)?;
        let version = version(le_u32(record, 4).into());
        Some((le_u16(record, 26), Exporter { address, domain: le_u32(record, 28), version }))
    }

    pub(super) fn set(&mut self, number: u16, exporter: Exporter) {
        let number = usize::from(number);
        if number >= self.known.len() {
            self.known.resize(number + 1, None);
        }
        self.known[number] = Some(exporter);
    }

    /// The only exporter, when there is one alone.
    fn only(&self) -> Option<&Exporter> {
        let mut known = self.known.iter().flatten();
        known.next().filter(|_| known.next().is_none())
    }
}

/// Rows for `exporter_options`.
#[derive(Debug, Default)]
pub(super) struct ReportedOptions {
    rows: OptionsRows,
}

/// Numbers of records about samplers and names.
pub(super) mod kind {
    pub(in super::super) const EXPORTER: u16 = 7;
    pub(in super::super) const EXPORTER_STATISTICS: u16 = 8;
    pub(in super::super) const SAMPLER_1: u16 = 9;
    pub(in super::super) const APPLICATIONS: u16 = 12;
    pub(in super::super) const INTERFACES: u16 = 13;
    pub(in super::super) const VRFS: u16 = 14;
    pub(in super::super) const SAMPLER_2: u16 = 15;
}

impl ReportedOptions {
    pub(super) fn take(&mut self) -> Option<TableBatch> {
        self.rows.take()
    }

    /// A sampler, of either kind of record; false when it is cut short.
    pub(super) fn sampler(&mut self, record: &[u8], exporters: &Exporters, received_ms: i64) -> bool {
        let (exporter, id, selected, observed) = if le_u16(record, 0) == kind::SAMPLER_2 {
            if record.len() < 24 {
                return false;
            }
            let (packets, space) = (u64::from(le_u32(record, 16)), u64::from(le_u32(record, 20)));
            (le_u16(record, 4), le_u64(record, 8) as i64, packets, packets + space)
        } else {
            if record.len() < 16 {
                return false;
            }
            (le_u16(record, 14), i64::from(le_u32(record, 4) as i32), 1, le_u32(record, 8).into())
        };
        let row = OptionsRow {
            kind: OptionsKind::Sampler,
            // numbers below 0 are the collector's own: defaults that no exporter reported
            key: u64::try_from(id).ok(),
            packets_selected: Some(selected),
            packets_observed: Some(observed),
            sampling_interval: observed.checked_div(selected).and_then(|interval| u32::try_from(interval).ok()),
            ..blank(exporters.get(exporter.into()), received_ms)
        };
        self.rows.push(&row, std::iter::empty());
        true
    }

    /// Names of interfaces, VRFs or applications, all of the same length; false when the record is cut short.
    pub(super) fn names(&mut self, record: &[u8], exporters: &Exporters, received_ms: i64) -> bool {
        let (what, count, octets) = (le_u16(record, 0), le_u16(record, 4), usize::from(le_u16(record, 6)));
        let Some(entries) = record.get(8..).filter(|rest| octets > 4 && rest.len() >= octets * usize::from(count))
        else {
            return false;
        };
        for entry in entries.chunks_exact(octets).take(usize::from(count)) {
            let (id, name) = entry.split_at(4);
            let name = text(name);
            let key = Some(le_u32(id, 0).into());
            let row = OptionsRow { name: Some(&name), ..blank(exporters.only(), received_ms) };
            let row = match what {
                kind::INTERFACES => OptionsRow { kind: OptionsKind::Interface, key, ..row },
                kind::VRFS => OptionsRow { kind: OptionsKind::Vrf, key, ..row },
                _ => OptionsRow { kind: OptionsKind::Application, key_octets: Some(id), ..row },
            };
            self.rows.push(&row, std::iter::empty());
        }
        true
    }
}

/// A row of this exporter that says nothing yet.
fn blank(exporter: Option<&Exporter>, received_ms: i64) -> OptionsRow<'_> {
    OptionsRow::blank(
        received_ms,
        exporter.map_or(&UNSPECIFIED, |known| known.address.as_slice()),
        exporter.map_or(0, |known| known.domain),
        exporter.and_then(|known| known.version).unwrap_or(0),
    )
}
