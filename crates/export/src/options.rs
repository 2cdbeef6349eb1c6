//! What an exporter announces about itself: sampling and interface names, as options data.

use weir_wire::{FieldSpecifier, ScopeType, Template, TemplateId, VARIABLE_LENGTH, WireError};

use crate::config::{ConfigError, ExporterConfig, Interface, Sampling, SamplingAnnouncement, Version};

/// What an exporter learns about itself while it is at work, for
/// [`Exporter::add_options`](crate::Exporter::add_options).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionsData {
    /// An interface that flows name by its index.
    Interface(Interface),
    /// How packets are selected.
    Selector(Selector),
}

/// A Selector (RFC 5477 section 8.2): of every `interval` packets one is selected. Flows need not name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Selector {
    /// `selectorId`; 0 is the only one of an exporter, which NetFlow v9 announces for the exporter as a whole.
    pub id: u64,
    /// `selectorAlgorithm`, such as 1 for systematic count-based sampling.
    pub algorithm: u16,
    /// One packet in this number is selected; 1 or more.
    pub interval: u32,
}

/// Options Templates of one exporter, and the Options Data Records that they describe.
#[derive(Debug, Default)]
pub(crate) struct Options(Vec<OptionsKind>);

/// An Options Template and its records, by what each of them is about.
#[derive(Debug)]
pub(crate) struct OptionsKind {
    pub template: Template,
    pub records: Vec<(u64, Vec<u8>)>,
}

/// What a record has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// There is the same record already.
    Unchanged,
    /// A record of this kind is new.
    Record(usize, usize),
    /// A record differs from the earlier one about the same thing.
    Correction(usize, usize),
    /// It is the first of its kind, which needs a template.
    Kind(usize),
    /// There are too many, or a number does not fit into its field.
    Refused,
}

// IDs of options templates, one for each form of record, so that none changes its meaning when another comes.
const SAMPLING: u16 = 512;
const INTERFACE: u16 = 513;
const SELECTOR: u16 = 514;
const SAMPLER: u16 = 515;

/// One record in the making: the form that it has, what it is about, and its fields.
struct Row {
    form: u16,
    about: u64,
    fields: Vec<FieldSpecifier>,
    octets: Vec<u8>,
}

impl Row {
    fn new(form: u16, about: u64) -> Self {
        Self { form, about, fields: Vec::new(), octets: Vec::new() }
    }

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
    /// All options data of the settings.
    pub(crate) fn of(config: &ExporterConfig) -> Result<Self, WireError> {
        let mut options = Self::default();
        if let Some(sampling) = config.sampling {
            options.put(sampling_row(config, sampling))?;
        }
        for interface in &config.interfaces {
            options.put(interface_row(config.version, interface))?;
        }
        Ok(options)
    }

    /// Every kind.
    pub(crate) fn kinds(&self) -> &[OptionsKind] {
        &self.0
    }

    /// Adds a record, or replaces the one about the same thing.
    pub(crate) fn add(&mut self, config: &ExporterConfig, data: &OptionsData) -> Change {
        let row = match data {
            OptionsData::Interface(interface) => interface_row(config.version, interface),
            OptionsData::Selector(selector) => match selector_row(config, *selector) {
                Some(row) => row,
                None => return Change::Refused,
            },
        };
        self.put(row).unwrap_or(Change::Refused)
    }

    fn put(&mut self, row: Row) -> Result<Change, WireError> {
        let Row { form, about, fields, octets } = row;
        let Some(at) = self.0.iter().position(|kind| kind.template.id().get() == form) else {
            let template = Template::new(TemplateId::new(form)?, fields, 1)?;
            self.0.push(OptionsKind { template, records: vec![(about, octets)] });
            return Ok(Change::Kind(self.0.len() - 1));
        };
        let records = &mut self.0[at].records;
        match records.iter().position(|(known, _)| *known == about) {
            Some(record) if records[record].1 == octets => Ok(Change::Unchanged),
            Some(record) => {
                records[record].1 = octets;
                Ok(Change::Correction(at, record))
            }
            None if records.len() >= ExporterConfig::OPTIONS_RECORDS_MAX => Ok(Change::Refused),
            None => {
                records.push((about, octets));
                Ok(Change::Record(at, records.len() - 1))
            }
        }
    }
}

impl OptionsData {
    /// Checks that it fits into the fields of a version.
    pub(crate) fn check(&self, version: Version) -> Result<(), ConfigError> {
        match self {
            Self::Interface(interface) => interface.check(version),
            Self::Selector(selector) => Sampling::check_interval(selector.interval, version),
        }
    }
}

fn sampling_row(config: &ExporterConfig, Sampling { interval, announcement }: Sampling) -> Row {
    let mut row = Row::new(SAMPLING, 0);
    match (config.version, announcement) {
        (Version::Ipfix, SamplingAnnouncement::Exporter) => {
            // RFC 7012: observationDomainId as the scope
            row.field(149, config.domain.to_be_bytes());
            exporter_sampling(&mut row, interval, 1);
        }
        (_, SamplingAnnouncement::Exporter) => {
            row.field(ScopeType::System.id(), config.domain.to_be_bytes());
            exporter_sampling(&mut row, interval, 1);
        }
        (Version::Ipfix, SamplingAnnouncement::Sampler(sampler)) => {
            selector_report(&mut row, Selector { id: sampler.into(), algorithm: 1, interval });
        }
        (_, SamplingAnnouncement::Sampler(sampler)) => {
            sampler_of(&mut row, config, sampler, interval, 1);
        }
    }
    row
}

/// How packets are selected, learnt at work. `None` when the number of the Selector does not fit into its field.
fn selector_row(config: &ExporterConfig, selector: Selector) -> Option<Row> {
    // RFC 3954 section 8 knows deterministic sampling, 1, and random sampling, 2.
    let mode = if selector.algorithm == 1 { 1 } else { 2 };
    Some(match (config.version, selector.id) {
        (Version::Ipfix, id) => {
            let mut row = Row::new(SELECTOR, id);
            selector_report(&mut row, selector);
            row
        }
        (_, 0) => {
            let mut row = Row::new(SELECTOR, 0);
            row.field(ScopeType::System.id(), config.domain.to_be_bytes());
            exporter_sampling(&mut row, selector.interval, mode);
            row
        }
        (_, id) => {
            let mut row = Row::new(SAMPLER, id);
            sampler_of(&mut row, config, u32::try_from(id).ok()?, selector.interval, mode);
            row
        }
    })
}

/// RFC 5477 section 8.2: of every `interval` packets one is taken and the others are skipped.
fn selector_report(row: &mut Row, Selector { id, algorithm, interval }: Selector) {
    row.field(302, id.to_be_bytes());
    row.field(304, algorithm.to_be_bytes());
    row.field(305, 1_u32.to_be_bytes());
    row.field(306, (interval - 1).to_be_bytes());
}

/// A sampler of NetFlow v9 by its number: samplerId 48, samplerMode 49, samplerRandomInterval 50.
fn sampler_of(row: &mut Row, config: &ExporterConfig, id: u32, interval: u32, mode: u8) {
    row.field(ScopeType::System.id(), config.domain.to_be_bytes());
    row.field(48, id.to_be_bytes());
    row.field(49, [mode]);
    row.field(50, interval.to_be_bytes());
}

/// RFC 3954 section 8: samplingInterval 34, and samplingAlgorithm 35.
fn exporter_sampling(row: &mut Row, interval: u32, algorithm: u8) {
    row.field(34, interval.to_be_bytes());
    row.field(35, [algorithm]);
}

fn interface_row(version: Version, interface: &Interface) -> Row {
    let mut row = Row::new(INTERFACE, interface.index.into());
    let scope = if version == Version::Ipfix { 10 } else { ScopeType::Interface.id() };
    row.field(scope, interface.index.to_be_bytes());
    row.text(version, 82, &interface.name, ExporterConfig::NAME_OCTETS_MAX);
    row.text(version, 83, &interface.description, ExporterConfig::DESCRIPTION_OCTETS_MAX);
    row
}
