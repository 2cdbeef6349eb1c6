//! Settings of an exporter.

use std::fmt;

/// Version of the export protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Version {
    /// NetFlow version 5.
    V5,
    /// NetFlow version 9 (RFC 3954).
    V9,
    /// IPFIX (RFC 7011).
    Ipfix,
}

impl Version {
    /// The number in the first two octets of each datagram: 5, 9 or 10.
    pub const fn number(self) -> u16 {
        match self {
            Self::V5 => 5,
            Self::V9 => 9,
            Self::Ipfix => 10,
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V5 => "NetFlow v5",
            Self::V9 => "NetFlow v9",
            Self::Ipfix => "IPFIX",
        })
    }
}

/// When templates and options are sent again: whichever comes first (RFC 3954 section 9, RFC 7011 section 8.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateRefresh {
    /// After this number of datagrams.
    pub datagrams: u32,
    /// After this number of seconds.
    pub secs: u32,
}

/// How packets were selected before flows were made of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// One packet in this number was selected.
    pub interval: u32,
    /// How NetFlow v9 and IPFIX announce it; NetFlow v5 has the interval in each header.
    pub announcement: SamplingAnnouncement,
}

/// How a sampling interval is announced in options data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplingAnnouncement {
    /// For the exporter as a whole: samplingInterval 34 and samplingAlgorithm 35.
    Exporter,
    /// For one sampler, whose number each flow then carries. NetFlow v9: 48, 49 and 50. IPFIX: selectorId 302 with
    /// 304, 305 and 306 (RFC 5477 section 8.2).
    Sampler(u32),
}

impl Sampling {
    /// Checks that an interval fits into the field of the version.
    pub(crate) fn check_interval(interval: u32, version: Version) -> Result<(), ConfigError> {
        let max = if version == Version::V5 { 0x3fff } else { u32::MAX };
        if (1..=max).contains(&interval) {
            return Ok(());
        }
        Err(ConfigError::SamplingInterval { interval, version, max })
    }
}

/// An interface, announced in options data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// SNMP index.
    pub index: u32,
    /// Short name (interfaceName 82), at most 32 octets in NetFlow v9 and 128 in IPFIX.
    pub name: String,
    /// What it is for (interfaceDescription 83), at most 64 octets in NetFlow v9 and 254 in IPFIX.
    pub description: String,
}

impl Interface {
    /// Checks that its texts fit into the fields of the version.
    pub(crate) fn check(&self, version: Version) -> Result<(), ConfigError> {
        // With those of IPFIX a record still fits into the shortest message, and has lengths of one octet.
        let (name_max, description_max) = match version {
            Version::Ipfix => (128, 254),
            _ => (ExporterConfig::NAME_OCTETS_MAX, ExporterConfig::DESCRIPTION_OCTETS_MAX),
        };
        let texts = [(&self.name, name_max), (&self.description, description_max)];
        match texts.into_iter().find(|(text, max)| text.len() > *max) {
            Some((text, max)) => Err(ConfigError::InterfaceText { index: self.index, octets: text.len(), max }),
            None => Ok(()),
        }
    }
}

/// Settings of one exporter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExporterConfig {
    /// Version of the protocol.
    pub version: Version,
    /// Observation Domain ID, Source ID in NetFlow v9. In NetFlow v5 the lower octet is the engine id and the next
    /// one the engine type.
    pub domain: u32,
    /// Longest message, UDP payload where it is a datagram; [`OCTETS_MAX_V5`](Self::OCTETS_MAX_V5) holds 30 records of NetFlow v5.
    pub datagram_octets_max: usize,
    /// When templates and options are sent again.
    pub template_refresh: TemplateRefresh,
    /// Most templates for flows, at most [`TEMPLATES_MAX`](Self::TEMPLATES_MAX).
    pub templates_max: usize,
    /// Templates and options are held back until this number of datagrams was sent. Data goes out before its template
    /// then, as it does when a collector starts late.
    pub templates_after_datagrams: u64,
    /// Templates and options are handed out once, as soon as they are known, in messages of their own; the caller
    /// repeats these for each collector that lacks them. For connections, and for several collectors that are reached
    /// at different times.
    pub announces_apart: bool,
    /// Sampling, when there was any.
    pub sampling: Option<Sampling>,
    /// Interfaces whose names are announced in options data, except by NetFlow v5.
    pub interfaces: Vec<Interface>,
    /// Uptime of the exporter when it encodes its first flows, in milliseconds. In NetFlow v5 and v9 all times count
    /// from when it started, so this is how old a flow may be if no uptime is to wrap.
    pub uptime_ms: u32,
}

/// Settings that contradict themselves or the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A message that is too short to be of use or too long for what carries it.
    #[error("datagrams of {octets} octets: between {min} and {max} are possible")]
    DatagramOctets {
        /// As configured.
        octets: usize,
        /// Fewest possible.
        min: usize,
        /// Most possible.
        max: usize,
    },
    /// More templates than there are IDs for, or none.
    #[error("{templates} templates: between 1 and {max} are possible")]
    Templates {
        /// As configured.
        templates: usize,
        /// Most possible.
        max: usize,
    },
    /// A refresh that would leave no message for data.
    #[error("template refresh after {datagrams} datagrams or {secs} seconds: both must be at least 1")]
    TemplateRefresh {
        /// As configured.
        datagrams: u32,
        /// As configured.
        secs: u32,
    },
    /// A sampling interval that is 0 or does not fit into the header of NetFlow v5.
    #[error("sampling interval {interval}: {version} takes 1 to {max}")]
    SamplingInterval {
        /// As configured.
        interval: u32,
        /// Version of the protocol.
        version: Version,
        /// Largest possible.
        max: u32,
    },
    /// A domain that does not fit into engine type and id.
    #[error("observation domain {domain} is more than the 16 bits of engine type and id in NetFlow v5")]
    Domain {
        /// As configured.
        domain: u32,
    },
    /// A name too long for its field.
    #[error("interface {index}: {octets} octets of text, limit is {max}")]
    InterfaceText {
        /// SNMP index.
        index: u32,
        /// Length of the text.
        octets: usize,
        /// Limit.
        max: usize,
    },
}

impl ExporterConfig {
    /// Payload of a NetFlow v5 datagram with its 30 records.
    pub const OCTETS_MAX_V5: usize = 24 + 30 * 48;
    /// Payload that leaves space for tunnels in an Ethernet frame of 1500 octets.
    pub const OCTETS_MAX_DEFAULT: usize = 1400;
    /// Shortest limit on datagrams: any template of columns alone fits into it.
    pub const OCTETS_MIN: usize = 512;
    /// Longest UDP payload in IPv4.
    pub const OCTETS_LIMIT: usize = 65507;
    /// Longest message: its length has 16 bits (RFC 7011 section 3.1).
    pub const OCTETS_LIMIT_MESSAGE: usize = 65535;
    /// Most Options Data Records of one kind; more are refused.
    pub const OPTIONS_RECORDS_MAX: usize = 16_384;
    /// Most templates for flows; their IDs are 256 to 511, those of options start at 512.
    pub const TEMPLATES_MAX: usize = 256;
    /// Longest interface name in NetFlow v9, in octets.
    pub const NAME_OCTETS_MAX: usize = 32;
    /// Longest interface description in NetFlow v9, in octets.
    pub const DESCRIPTION_OCTETS_MAX: usize = 64;

    /// The defaults for a version.
    pub fn new(version: Version) -> Self {
        let datagram_octets_max = if version == Version::V5 { Self::OCTETS_MAX_V5 } else { Self::OCTETS_MAX_DEFAULT };
        Self {
            version,
            domain: 0,
            datagram_octets_max,
            template_refresh: TemplateRefresh { datagrams: 1000, secs: 60 },
            templates_max: Self::TEMPLATES_MAX,
            templates_after_datagrams: 0,
            announces_apart: false,
            sampling: None,
            interfaces: Vec::new(),
            // as old as flows may be, 24 days
            uptime_ms: i32::MAX as u32,
        }
    }

    /// Checks the settings against each other and the protocol.
    pub fn check(&self) -> Result<(), ConfigError> {
        let limit = if self.announces_apart { Self::OCTETS_LIMIT_MESSAGE } else { Self::OCTETS_LIMIT };
        let (octets, min, max) = (self.datagram_octets_max, Self::OCTETS_MIN, limit);
        if !(min..=max).contains(&octets) {
            return Err(ConfigError::DatagramOctets { octets, min, max });
        }
        if !(1..=Self::TEMPLATES_MAX).contains(&self.templates_max) {
            return Err(ConfigError::Templates { templates: self.templates_max, max: Self::TEMPLATES_MAX });
        }
        let TemplateRefresh { datagrams, secs } = self.template_refresh;
        if datagrams == 0 || secs == 0 {
            return Err(ConfigError::TemplateRefresh { datagrams, secs });
        }
        if self.version == Version::V5 && self.domain > 0xffff {
            return Err(ConfigError::Domain { domain: self.domain });
        }
        if let Some(Sampling { interval, .. }) = self.sampling {
            Sampling::check_interval(interval, self.version)?;
        }
        self.interfaces.iter().try_for_each(|interface| interface.check(self.version))
    }
}
