//! sFlow version 5: datagrams of samples, samples of records.
//!
//! Everything is tagged and has a length ("sFlow Version 5", sflow.org, section 5), so that whatever is not known is
//! stepped over. A sample that is spoiled costs itself, a record that is spoiled costs itself and those after it in
//! the sample. Iterating borrows from the datagram; a record is read when it is asked for
//! ([`Record::flow`](record::Record::flow)), so that those that are not needed cost nothing.
//!
//! Sampled packet headers are handed out as octets, to be read with [`crate::packet`].

pub mod counters;
pub mod record;
mod xdr;

#[cfg(test)]
mod tests;

use crate::error::{WireError, octets_of};
pub use record::{FlowRecord, Record, Records};
use xdr::Xdr;

/// The version field of every datagram, 32 bits wide.
pub const VERSION: u32 = 5;
/// Octets of a header with an IPv4 agent address.
const HEADER_LEN: u32 = 28;

/// Names a structure: 20 bits of enterprise, 12 bits of format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Format(pub u32);

impl Format {
    /// A structure that sflow.org defines.
    pub const fn standard(number: u32) -> Self {
        Self(number)
    }

    /// SMI Private Enterprise Number of the organisation that defines the structure, 0 for sflow.org.
    pub const fn enterprise(self) -> u32 {
        self.0 >> 12
    }

    /// Number within the enterprise.
    pub const fn number(self) -> u16 {
        (self.0 & 0xfff) as u16
    }
}

/// Header of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header<'a> {
    /// Address of the agent, 4 or 16 octets; none when the agent reports it as unknown.
    pub agent: &'a [u8],
    /// Tells apart the streams of datagrams of one agent.
    pub sub_agent: u32,
    /// Datagrams that the sub-agent had sent before, modulo 2^32.
    pub sequence: u32,
    /// Milliseconds since the agent started.
    pub uptime_ms: u32,
    /// Samples in the datagram.
    pub samples: u32,
}

/// A datagram: header and samples.
#[derive(Debug, Clone)]
pub struct Datagram<'a> {
    /// The header.
    pub header: Header<'a>,
    /// The samples.
    pub samples: Samples<'a>,
}

/// Finds the samples.
///
/// # Errors
///
/// [`WireError::WrongVersion`], [`WireError::TruncatedHeader`], and [`WireError::AddressType`] because the length of
/// an unknown type of address is not known either.
pub fn decode(datagram: &[u8]) -> Result<Datagram<'_>, WireError> {
    let mut xdr = Xdr::new(datagram);
    let truncated = WireError::TruncatedHeader { need: HEADER_LEN, have: octets_of(datagram.len()) };
    match xdr.u32() {
        Some(VERSION) => {}
        Some(found) => return Err(WireError::WrongVersion { found: found as u16 }),
        None => return Err(truncated),
    }
    if let Some(found @ 3..) = Xdr::new(xdr.rest()).u32() {
        return Err(WireError::AddressType { found });
    }
    let header = read_header(&mut xdr).ok_or(truncated)?;
    Ok(Datagram { header, samples: Samples { rest: xdr.rest(), stated: header.samples, found: 0 } })
}

fn read_header<'a>(xdr: &mut Xdr<'a>) -> Option<Header<'a>> {
    Some(Header {
        agent: xdr.address()?,
        sub_agent: xdr.u32()?,
        sequence: xdr.u32()?,
        uptime_ms: xdr.u32()?,
        samples: xdr.u32()?,
    })
}

/// What samples are about: an interface, a VLAN, an entity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DataSource {
    /// Kind of the index: 0 `ifIndex`, 1 VLAN, 2 physical entity, 3 logical entity.
    pub class: u32,
    /// The index.
    pub index: u32,
}

/// Interface that a packet came in or went out by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    /// Meaning of the value: 0 one interface, 1 the packet was discarded, 2 several interfaces.
    pub format: u32,
    /// `ifIndex`; reason of the discard; number of interfaces.
    pub value: u32,
}

impl Interface {
    /// Packets that the device itself has sent or received have this for their other interface.
    pub const INTERNAL: u32 = 0x3fff_ffff;

    /// The `ifIndex`, `None` when unknown, when it is the device itself, when there are several, or when the packet was
    /// discarded.
    pub fn index(self) -> Option<u32> {
        (self.format == 0 && self.value != 0 && !self.is_device()).then_some(self.value)
    }

    /// Whether it stands for the device itself.
    pub fn is_device(self) -> bool {
        self.format == 0 && self.value == Self::INTERNAL
    }

    /// The reason of the discard, where the interface holds one.
    pub fn discarded(self) -> Option<u32> {
        (self.format == 1).then_some(self.value)
    }
}

/// A packet that was sampled, or discarded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowSample<'a> {
    /// Samples that the source had made before, modulo 2^32.
    pub sequence: u32,
    /// Where it was sampled.
    pub source: DataSource,
    /// One packet in this number is sampled. `None` of a discarded packet: each of them is reported.
    pub sampling_rate: Option<u32>,
    /// Packets that could have been sampled; 0 of a discarded packet.
    pub pool: u32,
    /// Samples that the agent could not make for lack of resources, since it started.
    pub drops: u32,
    /// Where it came in.
    pub input: Interface,
    /// Where it went out.
    pub output: Interface,
    /// Why it was discarded ("sFlow Dropped Packet Notification Structures").
    pub drop_reason: Option<u32>,
    /// What is known of the packet.
    pub records: Records<'a>,
}

/// Counters of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountersSample<'a> {
    /// Samples that the source had made before, modulo 2^32.
    pub sequence: u32,
    /// Whose counters.
    pub source: DataSource,
    /// The counters.
    pub records: Records<'a>,
}

/// A sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sample<'a> {
    /// `flow_sample`, `flow_sample_expanded`: a packet.
    Flow(FlowSample<'a>),
    /// `discarded_packet`: a packet that went nowhere.
    Discarded(FlowSample<'a>),
    /// `counters_sample`, `counters_sample_expanded`.
    Counters(CountersSample<'a>),
    /// Of a format that is not read.
    Unknown {
        /// The format.
        format: Format,
        /// The sample.
        body: &'a [u8],
    },
}

/// The samples of a datagram, in order. After the last, a disagreement with the header is yielded once.
#[derive(Debug, Clone)]
pub struct Samples<'a> {
    rest: &'a [u8],
    stated: u32,
    found: u32,
}

impl<'a> Iterator for Samples<'a> {
    type Item = Result<Sample<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.found == self.stated {
            let octets = octets_of(std::mem::take(&mut self.rest).len());
            return (octets > 0).then_some(Err(WireError::TrailingOctets { octets }));
        }
        let have = octets_of(self.rest.len());
        let (stated, found) = (self.stated, self.found);
        let mut xdr = Xdr::new(self.rest);
        let whole = xdr.u32().zip(xdr.u32());
        let Some((format, body)) = whole.and_then(|(format, length)| Some((format, xdr.take(length)?))) else {
            self.stated = self.found;
            self.rest = &[];
            let need = whole.map_or(8, |(_, length)| length.saturating_add(8));
            return Some(Err(match have {
                0 => WireError::SampleCount { stated, found },
                _ => WireError::SampleTruncated { sample: found, need, have },
            }));
        };
        self.rest = xdr.rest();
        self.found += 1;
        let format = Format(format);
        let short = WireError::StructureTooShort { format: format.0, octets: octets_of(body.len()) };
        Some(read_sample(format, body).ok_or(short))
    }
}

/// The structures of samples, by the numbers that sflow.org gave them.
fn read_sample(format: Format, body: &[u8]) -> Option<Sample<'_>> {
    let mut xdr = Xdr::new(body);
    Some(match format.0 {
        1 => Sample::Flow(flow_sample(&mut xdr, false)?),
        2 => Sample::Counters(counters_sample(&mut xdr, false)?),
        3 => Sample::Flow(flow_sample(&mut xdr, true)?),
        4 => Sample::Counters(counters_sample(&mut xdr, true)?),
        5 => Sample::Discarded(discarded_packet(&mut xdr)?),
        _ => Sample::Unknown { format, body },
    })
}

fn source(xdr: &mut Xdr<'_>, expanded: bool) -> Option<DataSource> {
    let first = xdr.u32()?;
    Some(if expanded {
        DataSource { class: first, index: xdr.u32()? }
    } else {
        DataSource { class: first >> 24, index: first & 0xff_ffff }
    })
}

fn interface(xdr: &mut Xdr<'_>, expanded: bool) -> Option<Interface> {
    let first = xdr.u32()?;
    Some(if expanded {
        Interface { format: first, value: xdr.u32()? }
    } else {
        Interface { format: first >> 30, value: first & 0x3fff_ffff }
    })
}

fn flow_sample<'a>(xdr: &mut Xdr<'a>, expanded: bool) -> Option<FlowSample<'a>> {
    Some(FlowSample {
        sequence: xdr.u32()?,
        source: source(xdr, expanded)?,
        sampling_rate: Some(xdr.u32()?),
        pool: xdr.u32()?,
        drops: xdr.u32()?,
        input: interface(xdr, expanded)?,
        output: interface(xdr, expanded)?,
        drop_reason: None,
        records: Records::new(xdr.u32()?, xdr.rest()),
    })
}

fn counters_sample<'a>(xdr: &mut Xdr<'a>, expanded: bool) -> Option<CountersSample<'a>> {
    Some(CountersSample {
        sequence: xdr.u32()?,
        source: source(xdr, expanded)?,
        records: Records::new(xdr.u32()?, xdr.rest()),
    })
}

fn discarded_packet<'a>(xdr: &mut Xdr<'a>) -> Option<FlowSample<'a>> {
    let (sequence, source, drops) = (xdr.u32()?, source(xdr, true)?, xdr.u32()?);
    let (input, output) = (xdr.u32()?, xdr.u32()?);
    Some(FlowSample {
        sequence,
        source,
        sampling_rate: None,
        pool: 0,
        drops,
        input: Interface { format: 0, value: input },
        output: Interface { format: 0, value: output },
        drop_reason: Some(xdr.u32()?),
        records: Records::new(xdr.u32()?, xdr.rest()),
    })
}
