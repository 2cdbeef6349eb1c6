//! What an exporter tells about itself: sampling and interface names, as options data.

use weir_wire::{FieldSpecifier, ScopeType, Template, TemplateId, VARIABLE_LENGTH, WireError};

use crate::config::{ExporterConfig, Interface, Sampling, SamplingAnnouncement, Version};

/// An Options Template and the Options Data Records that it describes.
#[derive(Debug)]
pub(crate) struct Options {
    pub template: Template,
    pub records: Vec<Vec<u8>>,
}

/// The first ID of options templates.
const OPTIONS_TEMPLATE_MIN: u16 = 512;

/// One record in the making.
#[derive(Default)]
struct Row {
    fields: Vec<FieldSpecifier>,
    octets: Vec<u8>,
}

impl Row {
    fn field<const N: usize>(&mut self, id: u16, value: [u8; N]) {
        self.fields.push(FieldSpecifier::iana(id, N as u16));
        self.octets.extend(value);
    }

    /// Text: padded with zeros to a fixed length in NetFlow v9, of variable length in IPFIX.
    fn text(&mut self, version: Version, id: u16, text: &str, octets_max: usize) {
        if version == Version::Ipfix {
            self.fields.push(FieldSpecifier::iana(id, VARIABLE_LENGTH));
            // The limit of the settings keeps the length within the one octet that comes first.
            self.octets.push(text.len() as u8);
            self.octets.extend_from_slice(text.as_bytes());
        } else {
            self.fields.push(FieldSpecifier::iana(id, octets_max as u16));
            let end = self.octets.len() + octets_max;
            self.octets.extend_from_slice(text.as_bytes());
            self.octets.resize(end, 0);
        }
    }
}

impl Options {
    /// All that the settings ask to tell.
    pub(crate) fn of(config: &ExporterConfig) -> Result<Vec<Self>, WireError> {
        let mut kinds: Vec<Vec<Row>> = Vec::new();
        kinds.extend(config.sampling.map(|sampling| vec![sampling_row(config, sampling)]));
        if !config.interfaces.is_empty() {
            let rows = config.interfaces.iter().map(|interface| interface_row(config.version, interface));
            kinds.push(rows.collect());
        }
        let mut all = Vec::new();
        for (id, rows) in (OPTIONS_TEMPLATE_MIN..).zip(kinds) {
            let Some(first) = rows.first() else { continue };
            let template = Template::new(TemplateId::new(id)?, first.fields.clone(), 1)?;
            all.push(Self { template, records: rows.into_iter().map(|row| row.octets).collect() });
        }
        Ok(all)
    }
}

fn sampling_row(config: &ExporterConfig, Sampling { interval, announcement }: Sampling) -> Row {
    let mut row = Row::default();
    match (config.version, announcement) {
        (Version::Ipfix, SamplingAnnouncement::Exporter) => {
            // RFC 7012: observationDomainId as the scope
            row.field(149, config.domain.to_be_bytes());
            exporter_sampling(&mut row, interval);
        }
        (_, SamplingAnnouncement::Exporter) => {
            row.field(ScopeType::System.id(), config.domain.to_be_bytes());
            exporter_sampling(&mut row, interval);
        }
        (Version::Ipfix, SamplingAnnouncement::Sampler(sampler)) => {
            row.field(302, u64::from(sampler).to_be_bytes());
            // RFC 5477 section 8.2: selectorAlgorithm 1, systematic count-based sampling: of every interval one
            // packet is taken and the others are skipped.
            row.field(304, 1_u16.to_be_bytes());
            row.field(305, 1_u32.to_be_bytes());
            row.field(306, (interval - 1).to_be_bytes());
        }
        (_, SamplingAnnouncement::Sampler(sampler)) => {
            row.field(ScopeType::System.id(), config.domain.to_be_bytes());
            row.field(48, sampler.to_be_bytes());
            row.field(49, [1]);
            row.field(50, interval.to_be_bytes());
        }
    }
    row
}

/// RFC 3954 section 8: samplingInterval 34, and samplingAlgorithm 35 with 1 for deterministic.
fn exporter_sampling(row: &mut Row, interval: u32) {
    row.field(34, interval.to_be_bytes());
    row.field(35, [1]);
}

fn interface_row(version: Version, interface: &Interface) -> Row {
    let mut row = Row::default();
    let scope = if version == Version::Ipfix { 10 } else { ScopeType::Interface.id() };
    row.field(scope, interface.index.to_be_bytes());
    row.text(version, 82, &interface.name, ExporterConfig::NAME_OCTETS_MAX);
    row.text(version, 83, &interface.description, ExporterConfig::DESCRIPTION_OCTETS_MAX);
    row
}
