//! An exporter whose flows are numbered, so that order and completeness can be read from what was decoded.

use std::net::SocketAddr;

use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use weir_collect::Decoder;
use weir_collect::spool::Spool;
use weir_flow::{Column, Counter, Delivery};
use weir_wire::{FieldSpecifier, ObservationDomainId, Template, TemplateId, ipfix};

use super::counts;

/// Source address and octets; the octets are the number of the flow.
pub(crate) const NUMBERED: &[(u16, u16)] = &[(8, 4), (1, 8)];

pub(crate) fn template_of(id: u16, fields: &[(u16, u16)]) -> Template {
    let fields = fields.iter().map(|&(id, length)| FieldSpecifier::iana(id, length)).collect();
    Template::new(TemplateId::new(id).expect("id"), fields, 0).expect("template")
}

/// One Observation Domain of one source.
#[derive(Debug, Clone)]
pub(crate) struct TestExporter {
    pub source: SocketAddr,
    pub domain: u32,
    pub template: Template,
    /// Number of the next flow.
    pub next: u64,
    pub sequence: u32,
}

impl TestExporter {
    pub(crate) fn new(address: [u8; 4], port: u16, domain: u32) -> Self {
        let source = SocketAddr::from((address, port));
        Self { source, domain, template: template_of(256, NUMBERED), next: 0, sequence: 0 }
    }

    pub(crate) fn message(&mut self, write: impl FnOnce(&mut ipfix::MessageBuilder<'_>)) -> Vec<u8> {
        let mut out = Vec::new();
        let domain = ObservationDomainId(self.domain);
        let header = ipfix::Header { length: 0, export_time_secs: 1_700_000_000, sequence: self.sequence, domain };
        let mut message = ipfix::MessageBuilder::new(&mut out, &header);
        write(&mut message);
        message.finish();
        out
    }

    pub(crate) fn templates(&mut self) -> Vec<u8> {
        let template = self.template.clone();
        self.message(|message| message.template(&template).expect("fits"))
    }

    /// Numbered flows.
    pub(crate) fn data(&mut self, records: u32) -> Vec<u8> {
        let (template, mut next) = (self.template.clone(), self.next);
        let message = self.message(|message| {
            for _ in 0..records {
                message
                    .record(&template, |out| {
                        out.extend([10, 0, 0, 1]);
                        out.extend(next.to_be_bytes());
                    })
                    .expect("fits");
                next += 1;
            }
        });
        self.next = next;
        self.sequence = self.sequence.wrapping_add(records);
        message
    }
}

/// Everything that deliveries held.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// Observation Domain and number of each flow, in order.
    pub flows: Vec<(u32, u64)>,
    pub counts: Vec<u64>,
}

impl Taken {
    pub(crate) fn add(&mut self, delivery: &Delivery) {
        if let Some(flows) = &delivery.flows {
            let numbers = flows.primitive::<UInt64Type>(Column::Bytes).expect("numbers").values();
            let domains = flows.column(Column::ObservationDomain).expect("domains");
            let domains = domains.as_primitive::<arrow::datatypes::UInt32Type>().values();
            self.flows.extend(domains.iter().copied().zip(numbers.iter().copied()));
        }
        self.counts.resize(Counter::COUNT, 0);
        for (sum, count) in self.counts.iter_mut().zip(counts(delivery.books())) {
            *sum += count;
        }
    }

    pub(crate) fn all_of(&mut self, decoder: &mut Decoder) {
        loop {
            let delivery = decoder.take_delivery();
            if delivery.is_empty() {
                break;
            }
            self.add(&delivery);
        }
    }

    pub(crate) fn count(&self, counter: Counter) -> u64 {
        self.counts.get(counter as usize).copied().unwrap_or(0)
    }

    /// Numbers of a domain's flows.
    pub(crate) fn numbers(&self, domain: u32) -> Vec<u64> {
        self.flows.iter().filter(|(of, _)| *of == domain).map(|(_, number)| *number).collect()
    }
}

/// Lets a decoder and its spool talk until both are done.
pub(crate) fn exchange(decoder: &mut Decoder, spool: &mut Spool, taken: &mut Taken) {
    while let Some(request) = decoder.spool_request() {
        let mut answers = Vec::new();
        spool.serve(0, request, &mut |_, answer| {
            answers.push(answer);
            true
        });
        for answer in answers {
            decoder.spool_answer(answer);
            if decoder.is_full() {
                taken.all_of(decoder);
            }
        }
    }
}
