//! The octets of remembered state.
//!
//! ```text
//! "weirstat"  version u32  body length u64  CRC-32C of the body u32  body
//! body:       domains u32, then each domain
//! domain:     key, flags, heard, datagrams, records since, start of the exporter, samplers, lists, templates
//! ```
//!
//! Integers are big-endian. A file holds one such part for each decoder, one after the other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use weir_wire::{ElementId, FieldSpecifier, ListKind, Template, TemplateId};

use super::StateError;
use crate::domain::DomainKey;
use crate::sampling::part::Part;
use crate::sampling::{Sampler, SequenceSelectors, StoredSamplers};
use crate::session::{Session, Transport};

const MAGIC: &[u8; 8] = b"weirstat";
const VERSION: u32 = 3;
/// The second version had no filters, and of Selection Sequences it had the Selector of those with just one.
const VERSION_WITH_ONE_SELECTOR: u32 = 2;
/// The first version had no Selection Sequences, and of samplers without a number it did not have what they are of.
const VERSION_WITHOUT_PARTS: u32 = 1;
const HEADER_OCTETS: usize = 8 + 4 + 8 + 4;
const TRANSPORTS: [Transport; 6] =
    [Transport::Udp, Transport::Tcp, Transport::Sctp, Transport::Tls, Transport::Dtls, Transport::File];

/// The kind of a stored sampler of a part: this, and the position of the part among all.
const PARTS_FROM: u8 = 2;

const LIST_KINDS: [ListKind; 3] = [ListKind::Basic, ListKind::SubTemplate, ListKind::SubTemplateMulti];

/// What is remembered of a domain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoredDomain {
    pub key: DomainKey,
    pub protected: bool,
    pub heard_ms: i64,
    pub datagrams: u32,
    pub records_since_ms: Option<i64>,
    pub system_init_ms: Option<i64>,
    pub samplers: StoredSamplers,
    /// Elements that are lists, because the exporter said so.
    pub lists: Vec<(ElementId, ListKind)>,
    /// Templates and when each was last sent.
    pub templates: Vec<(Template, i64)>,
}

/// Writes one part.
pub(crate) struct Writer {
    octets: Vec<u8>,
    domains: u32,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self { octets: vec![0; HEADER_OCTETS + 4], domains: 0 }
    }

    pub(crate) fn domain(&mut self, domain: &StoredDomain) {
        self.domains += 1;
        let out = &mut self.octets;
        write_key(out, domain.key);
        out.push(u8::from(domain.protected));
        out.extend(domain.heard_ms.to_be_bytes());
        out.extend(domain.datagrams.to_be_bytes());
        write_option(out, domain.records_since_ms);
        write_option(out, domain.system_init_ms);
        write_samplers(out, &domain.samplers);
        out.extend((domain.lists.len() as u32).to_be_bytes());
        for &(element, kind) in &domain.lists {
            out.extend(element.enterprise.to_be_bytes());
            out.extend(element.id.to_be_bytes());
            out.push(LIST_KINDS.iter().position(|known| *known == kind).unwrap_or_default() as u8);
        }
        out.extend((domain.templates.len() as u32).to_be_bytes());
        for (template, refreshed_ms) in &domain.templates {
            out.extend(refreshed_ms.to_be_bytes());
            out.extend(template.id().get().to_be_bytes());
            out.extend((template.scope_count() as u16).to_be_bytes());
            out.extend((template.fields().len() as u16).to_be_bytes());
            for field in template.fields() {
                out.extend(field.element.enterprise.to_be_bytes());
                out.extend(field.element.id.to_be_bytes());
                out.extend(field.length.to_be_bytes());
            }
        }
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        let (header, body) = self.octets.split_at_mut(HEADER_OCTETS);
        body[..4].copy_from_slice(&self.domains.to_be_bytes());
        let (length, checksum) = (body.len() as u64, crc32c::crc32c(body));
        header[..8].copy_from_slice(MAGIC);
        header[8..12].copy_from_slice(&VERSION.to_be_bytes());
        header[12..20].copy_from_slice(&length.to_be_bytes());
        header[20..].copy_from_slice(&checksum.to_be_bytes());
        self.octets
    }
}

fn write_samplers(out: &mut Vec<u8>, samplers: &StoredSamplers) {
    out.extend((samplers.intervals.len() as u32).to_be_bytes());
    for &(sampler, interval) in &samplers.intervals {
        let (kind, id) = match sampler {
            Sampler::Any => (0, 0),
            Sampler::Numbered(id) => (1, id),
            Sampler::Of(part, number) => (PARTS_FROM + part as u8, number),
        };
        out.push(kind);
        out.extend(id.to_be_bytes());
        out.extend(interval.to_be_bytes());
    }
    out.extend((samplers.sequences.len() as u32).to_be_bytes());
    for (sequence, selectors) in &samplers.sequences {
        out.extend(sequence.to_be_bytes());
        out.push(selectors.numbers().len() as u8);
        out.extend(selectors.numbers().iter().flat_map(|selector| selector.to_be_bytes()));
    }
    out.extend((samplers.filters.len() as u32).to_be_bytes());
    out.extend(samplers.filters.iter().flat_map(|selector| selector.to_be_bytes()));
}

/// Reads one part off the front.
pub(crate) fn read_part(octets: &mut &[u8]) -> Result<Vec<StoredDomain>, StateError> {
    let mut reader = Reader { rest: octets, whole: octets.len() };
    if reader.array::<8>().as_ref() != Some(MAGIC) {
        return Err(StateError::Foreign);
    }
    let version = match reader.u32() {
        Some(version @ (VERSION | VERSION_WITH_ONE_SELECTOR | VERSION_WITHOUT_PARTS)) => version,
        Some(found) => return Err(StateError::UnknownVersion { found, known: VERSION }),
        None => return Err(reader.damaged()),
    };
    let damaged = reader.damaged();
    let header = reader.u64().zip(reader.u32());
    let Some((length, checksum)) = header else { return Err(damaged) };
    let Some(body) = usize::try_from(length).ok().and_then(|length| reader.take(length)) else {
        return Err(damaged);
    };
    if crc32c::crc32c(body) != checksum {
        return Err(damaged);
    }
    *octets = reader.rest;
    let mut body = Reader { rest: body, whole: body.len() };
    let domains = body.u32().ok_or(damaged)?;
    (0..domains).map(|_| body.domain(version).ok_or_else(|| body.damaged())).collect()
}

pub(crate) fn write_key(out: &mut Vec<u8>, key: DomainKey) {
    let transport = TRANSPORTS.iter().position(|transport| *transport == key.session.transport).unwrap_or_default();
    out.push(transport as u8);
    let source = key.session.source;
    out.push(if source.is_ipv4() { 4 } else { 6 });
    weir_flow::address::with_octets(source.ip(), |octets| out.extend(octets));
    out.extend(source.port().to_be_bytes());
    out.push(key.version);
    out.extend(key.domain.to_be_bytes());
}

pub(crate) fn write_option(out: &mut Vec<u8>, value: Option<i64>) {
    out.push(u8::from(value.is_some()));
    out.extend(value.into_iter().flat_map(i64::to_be_bytes));
}

/// What [`write_option`] has written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Optional(pub Option<i64>);

/// Reads numbers off the front; running out of octets is `None`.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    pub rest: &'a [u8],
    pub whole: usize,
}

impl<'a> Reader<'a> {
    fn damaged(&self) -> StateError {
        StateError::Damaged { offset: self.whole - self.rest.len() }
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*head)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(head)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[octet]| octet)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    pub(crate) fn optional(&mut self) -> Option<Optional> {
        match self.u8()? {
            0 => Some(Optional(None)),
            _ => self.i64().map(|value| Optional(Some(value))),
        }
    }

    pub(crate) fn key(&mut self) -> Option<DomainKey> {
        let transport = *TRANSPORTS.get(usize::from(self.u8()?))?;
        let address: IpAddr = match self.u8()? {
            4 => Ipv4Addr::from(self.array::<4>()?).into(),
            6 => Ipv6Addr::from(self.array::<16>()?).into(),
            _ => return None,
        };
        let source = SocketAddr::new(address, self.u16()?);
        Some(DomainKey { session: Session { transport, source }, version: self.u8()?, domain: self.u32()? })
    }

    fn domain(&mut self, version: u32) -> Option<StoredDomain> {
        let (key, protected, heard_ms, datagrams) = (self.key()?, self.u8()? != 0, self.i64()?, self.u32()?);
        let (records_since_ms, system_init_ms) = (self.optional()?.0, self.optional()?.0);
        let samplers = self.samplers(version)?;
        let lists = self.u32()?;
        let lists = (0..lists)
            .map(|_| {
                let element = ElementId { enterprise: self.u32()?, id: self.u16()? };
                Some((element, *LIST_KINDS.get(usize::from(self.u8()?))?))
            })
            .collect::<Option<Vec<_>>>()?;
        let templates = self.u32()?;
        let templates = (0..templates).map(|_| self.template()).collect::<Option<Vec<_>>>()?;
        Some(StoredDomain {
            key,
            protected,
            heard_ms,
            datagrams,
            records_since_ms,
            system_init_ms,
            samplers,
            lists,
            templates,
        })
    }

    fn samplers(&mut self, version: u32) -> Option<StoredSamplers> {
        let has_parts = version != VERSION_WITHOUT_PARTS;
        let mut intervals = Vec::new();
        for _ in 0..self.u32()? {
            let (kind, id, interval) = (self.u8()?, self.u64()?, self.u32()?);
            let sampler = match kind {
                1 => Sampler::Numbered(id),
                // Whatever the scope of its options was, it was stored as that of all, or as that of an interface either
                // way. Options that come now are of something else, so they would contradict it and never replace it.
                0 | 2 if !has_parts => continue,
                0 => Sampler::Any,
                _ if has_parts => Sampler::Of(*Part::ALL.get(usize::from(kind - PARTS_FROM))?, id),
                _ => return None,
            };
            intervals.push((sampler, interval));
        }
        let count = if has_parts { self.u32()? } else { 0 };
        let sequences = (0..count).map(|_| Some((self.u64()?, self.selectors(version)?)));
        let sequences = sequences.collect::<Option<Vec<_>>>()?;
        let count = if version == VERSION { self.u32()? } else { 0 };
        let filters = (0..count).map(|_| self.u64()).collect::<Option<Vec<_>>>()?;
        Some(StoredSamplers { intervals, sequences, filters })
    }

    /// The Selectors of a Selection Sequence.
    fn selectors(&mut self, version: u32) -> Option<SequenceSelectors> {
        if version == VERSION_WITH_ONE_SELECTOR {
            let Optional(selector) = self.optional()?;
            return Some(selector.into_iter().map(|selector| selector as u64).collect());
        }
        let count = self.u8()?;
        (0..count).map(|_| self.u64()).collect()
    }

    fn template(&mut self) -> Option<(Template, i64)> {
        let (refreshed_ms, id, scopes, fields) = (self.i64()?, self.u16()?, self.u16()?, self.u16()?);
        let fields = (0..fields)
            .map(|_| {
                let element = ElementId { enterprise: self.u32()?, id: self.u16()? };
                Some(FieldSpecifier { element, length: self.u16()? })
            })
            .collect::<Option<Vec<_>>>()?;
        let template = Template::new(TemplateId::new(id).ok()?, fields, scopes).ok()?;
        Some((template, refreshed_ms))
    }
}
