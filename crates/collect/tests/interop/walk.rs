//! What `weir_wire` finds in datagrams, kept as plain data to compare with. Templates are remembered in the simplest
//! way there is, so that the decoder's own way can be held against it.

use std::collections::HashMap;
use std::net::SocketAddr;

use weir_wire::fixed::FixedFormat;
use weir_wire::value::be_uint;
use weir_wire::{
    ElementId, Set, Sets, Spans, Template, TemplateRecord, TemplateRecords, WireError, ipfix, netflow1, netflow5,
    netflow7, netflow9,
};

use crate::inputs::Datagram;

/// One field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Field {
    pub element: ElementId,
    /// Whether the element is a scope type of NetFlow v9 and not of the registry.
    pub scope_type: bool,
    /// Length that the template states.
    pub length: u16,
    pub octets: Vec<u8>,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Record {
    pub template: u16,
    /// Leading scope fields; 0 for flows.
    pub scopes: usize,
    pub fields: Vec<Field>,
    /// When the exporter started, as far as options data had told it (IPFIX only).
    pub system_init_ms: Option<i64>,
}

impl Record {
    /// The first field of an IANA element.
    pub(crate) fn iana(&self, id: u16) -> Option<&Field> {
        self.fields.iter().find(|field| field.element == ElementId::iana(id) && !field.scope_type)
    }
}

/// One set.
#[derive(Debug, Clone)]
pub(crate) enum SetSeen {
    Templates(Vec<Template>),
    OptionsTemplates(Vec<Template>),
    Data { template: u16, records: Vec<Record>, waits: bool },
    Reserved,
}

/// What a header says, in the terms of all protocols.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct HeaderSeen {
    pub version: u16,
    pub export_ms: i64,
    pub uptime_ms: Option<u32>,
    pub sequence: u32,
    pub domain: u32,
    /// Records by the header of NetFlow v5, records of all kinds by that of v9.
    pub count: u16,
    /// NetFlow v5 only.
    pub sampling_interval: u16,
    /// NetFlow v5 only.
    pub sampling_mode: u8,
}

/// One datagram.
#[derive(Debug, Clone, Default)]
pub(crate) struct Message {
    pub header: HeaderSeen,
    pub sets: Vec<SetSeen>,
    pub problems: Vec<WireError>,
    /// Nothing of it could be read.
    pub undecodable: bool,
}

impl Message {
    /// Records of all sets, options included.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.sets.iter().flat_map(|set| match set {
            SetSeen::Data { records, .. } => &records[..],
            _ => &[],
        })
    }

    /// Records of flows.
    pub(crate) fn flows(&self) -> impl Iterator<Item = &Record> {
        self.records().filter(|record| record.scopes == 0)
    }

    pub(crate) fn templates(&self) -> impl Iterator<Item = &Template> {
        self.sets.iter().flat_map(|set| match set {
            SetSeen::Templates(templates) | SetSeen::OptionsTemplates(templates) => &templates[..],
            _ => &[],
        })
    }
}

/// Elements of the fields of records of fixed form, in the order of the tables `field::ALL` (RFC 3954 section 8 gave
/// them the same numbers); 0 where there is none.
const NETFLOW1_ELEMENTS: &[u16] = &[8, 12, 15, 10, 14, 2, 1, 22, 21, 7, 11, 4, 5, 6];
const NETFLOW5_ELEMENTS: &[u16] = &[8, 12, 15, 10, 14, 2, 1, 22, 21, 7, 11, 6, 4, 5, 16, 17, 9, 13];
const NETFLOW7_ELEMENTS: &[u16] = &[8, 12, 15, 10, 14, 2, 1, 22, 21, 7, 11, 0, 6, 4, 5, 16, 17, 9, 13, 0, 130];

type Key = (SocketAddr, u16, u32, u16);

/// Remembers templates.
#[derive(Debug, Default)]
struct Walk {
    templates: HashMap<Key, Template>,
    spans: Spans,
    system_init_ms: HashMap<(SocketAddr, u32), i64>,
}

/// Walks datagrams in order.
pub(crate) fn walk(datagrams: &[Datagram]) -> Vec<Message> {
    let mut walk = Walk::default();
    datagrams.iter().map(|datagram| walk.datagram(datagram)).collect()
}

impl Walk {
    fn datagram(&mut self, datagram: &Datagram) -> Message {
        let decoded = match datagram.version() {
            1 => fixed_message(&netflow1::FORMAT, datagram, NETFLOW1_ELEMENTS),
            5 => fixed_message(&netflow5::FORMAT, datagram, NETFLOW5_ELEMENTS),
            7 => fixed_message(&netflow7::FORMAT, datagram, NETFLOW7_ELEMENTS),
            9 => netflow9::decode(&datagram.payload).map(|message| self.netflow9(datagram.source, message)),
            10 => ipfix::decode(&datagram.payload).map(|message| self.ipfix(datagram.source, message)),
            found => Err(WireError::WrongVersion { found }),
        };
        decoded.unwrap_or_else(|error| Message { problems: vec![error], undecodable: true, ..Message::default() })
    }

    fn netflow9(&mut self, source: SocketAddr, message: netflow9::Message<'_>) -> Message {
        let header = HeaderSeen {
            version: 9,
            export_ms: i64::from(message.header.unix_secs) * 1000,
            uptime_ms: Some(message.header.sys_uptime_ms),
            sequence: message.header.sequence,
            domain: message.header.source_id.0,
            count: message.header.count,
            ..HeaderSeen::default()
        };
        self.sets(source, header, message.sets)
    }

    fn ipfix(&mut self, source: SocketAddr, message: ipfix::Message<'_>) -> Message {
        let header = HeaderSeen {
            version: 10,
            export_ms: i64::from(message.header.export_time_secs) * 1000,
            uptime_ms: None,
            sequence: message.header.sequence,
            domain: message.header.domain.0,
            ..HeaderSeen::default()
        };
        let mut seen = self.sets(source, header, message.sets);
        seen.problems.extend(message.problem);
        seen
    }

    fn sets(&mut self, source: SocketAddr, header: HeaderSeen, mut sets: Sets<'_>) -> Message {
        let mut message = Message { header, ..Message::default() };
        let key = |id: u16| (source, header.version, header.domain, id);
        let mut is_counted = false;
        while let Some(set) = sets.next() {
            let (before, was_counted) = (message.problems.len(), std::mem::take(&mut is_counted));
            let seen = match set {
                Ok(Set::Templates(records)) => SetSeen::Templates(self.define(key, records, &mut message.problems)),
                Ok(Set::OptionsTemplates(records)) => {
                    SetSeen::OptionsTemplates(self.define(key, records, &mut message.problems))
                }
                Ok(Set::Data { template, body }) => {
                    let template = template.get();
                    match self.templates.get(&key(template)) {
                        Some(known) => {
                            let v9 = header.version == 9;
                            let (mut records, problem) = locate(known, body, v9, &mut self.spans);
                            self.follow_system_init((source, header.domain), v9, &mut records);
                            message.problems.extend(problem);
                            SetSeen::Data { template, records, waits: false }
                        }
                        None => SetSeen::Data { template, records: Vec::new(), waits: true },
                    }
                }
                Ok(Set::Reserved { .. }) => SetSeen::Reserved,
                // of a set that is too long, what is there may have been wrong already
                Err(_) if was_counted => continue,
                Err(error) => {
                    message.problems.push(error);
                    continue;
                }
            };
            message.sets.push(seen);
            is_counted = sets.overruns() && message.problems.len() > before;
        }
        message
    }

    /// Exporters tell in options data when they started.
    fn follow_system_init(&mut self, exporter: (SocketAddr, u32), v9: bool, records: &mut [Record]) {
        if v9 {
            return;
        }
        for record in records {
            match record.iana(160).and_then(|field| be_uint(&field.octets)) {
                Some(init_ms) if record.scopes > 0 => {
                    self.system_init_ms.insert(exporter, init_ms as i64);
                }
                _ => record.system_init_ms = self.system_init_ms.get(&exporter).copied(),
            }
        }
    }

    fn define(
        &mut self,
        key: impl Fn(u16) -> Key,
        records: TemplateRecords<'_>,
        problems: &mut Vec<WireError>,
    ) -> Vec<Template> {
        let mut defined = Vec::new();
        for record in records {
            match record {
                Ok(TemplateRecord::Define(template)) => {
                    self.templates.insert(key(template.id().get()), template.clone());
                    defined.push(template);
                }
                Ok(TemplateRecord::Withdraw(id)) => {
                    self.templates.remove(&key(id.get()));
                }
                Ok(TemplateRecord::WithdrawAll) => {
                    let (source, version, domain, _) = key(0);
                    self.templates.retain(|(s, v, d, _), _| (*s, *v, *d) != (source, version, domain));
                }
                Err(error) => problems.push(error),
            }
        }
        defined
    }
}

fn locate(template: &Template, body: &[u8], v9: bool, spans: &mut Spans) -> (Vec<Record>, Option<WireError>) {
    let located = template.layout().locate(body, spans);
    let record = |number: usize| {
        let fields = template.fields().iter().enumerate().map(|(position, specifier)| Field {
            element: specifier.element,
            scope_type: v9 && position < template.scope_count(),
            length: specifier.length,
            octets: located.field(position).octets(body, number).expect("a field of a located record").to_vec(),
        });
        Record {
            template: template.id().get(),
            scopes: template.scope_count(),
            fields: fields.collect(),
            system_init_ms: None,
        }
    };
    ((0..located.records).map(record).collect(), located.problem)
}

/// A packet of a version of fixed form, its records cut by the table of its fields.
fn fixed_message(format: &'static FixedFormat, datagram: &Datagram, elements: &[u16]) -> Result<Message, WireError> {
    let packet = format.decode(&datagram.payload)?;
    let header = packet.header;
    assert_eq!(format.fields.len(), elements.len());
    let record = |octets: &[u8]| {
        let known = format.fields.iter().zip(elements).filter(|(_, id)| **id != 0);
        let fields = known.map(|(field, &id)| Field {
            element: ElementId::iana(id),
            scope_type: false,
            length: field.length as u16,
            octets: field.of(octets).to_vec(),
        });
        Record { template: 0, scopes: 0, fields: fields.collect(), system_init_ms: None }
    };
    Ok(Message {
        header: HeaderSeen {
            version: format.version,
            export_ms: i64::from(header.unix_secs) * 1000 + i64::from(header.unix_nsecs / 1_000_000),
            uptime_ms: Some(header.sys_uptime_ms),
            sequence: header.flow_sequence,
            domain: u32::from(header.engine_type) << 8 | u32::from(header.engine_id),
            count: header.count,
            sampling_interval: header.sampling_interval(),
            sampling_mode: header.sampling_mode(),
        },
        sets: vec![SetSeen::Data { template: 0, records: packet.iter().map(record).collect(), waits: false }],
        problems: packet.problem.into_iter().collect(),
        undecodable: false,
    })
}
