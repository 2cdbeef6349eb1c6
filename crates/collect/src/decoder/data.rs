//! Data Sets: decoded, or put aside until their template comes.

use weir_flow::{Column, Counter, FlowBatchBuilder};
use weir_wire::TemplateId;

use super::Decoder;
use crate::clock::{self, MessageClock};
use crate::columns::{self, Records};
use crate::session::{Domain, Known};

impl Decoder {
    /// Decodes sets that no longer wait, as many as a delivery holds.
    pub(super) fn decode_released(&mut self) {
        while !self.is_full()
            && let Some((index, id, set)) = self.released.pop_front()
        {
            self.count(index, Counter::SetsWaitingOut, 1);
            self.data(index, id, &set.body, &set.clock);
        }
    }

    /// Decodes a Data Set, or puts it aside. Returns the number of records when it is known.
    pub(super) fn data(&mut self, index: u32, id: TemplateId, body: &[u8], clock: &MessageClock) -> Option<u32> {
        let domain = &mut self.domains[index as usize];
        let Some(known) = domain.templates.get(&id) else {
            self.waiting.hold(index, id, *clock, body);
            self.count(index, Counter::SetsWaitingIn, 1);
            self.expire(clock.received_ms);
            return None;
        };
        self.octets += body.len();
        let located = known.template.layout().locate(body, &mut self.spans);
        let (rows, problem) = (located.records, located.problem);
        let records = Records { body, located: &located };
        let counter = if known.template.is_options() {
            domain.samplers.learn(&known.template, records);
            domain.system_init_ms = clock::system_init_ms(&known.template, records).or(domain.system_init_ms);
            Counter::RecordsOptions
        } else {
            let clock = clock.with_system_init(domain.system_init_ms);
            append(&mut self.builder, domain, known, records, &clock);
            Counter::RecordsStored
        };
        self.count(index, counter, rows as u64);
        self.note_in_set(index, problem);
        if problem.is_some() { None } else { u32::try_from(rows).ok() }
    }
}

/// Appends the records of a set as flows.
pub(super) fn append(
    builder: &mut FlowBatchBuilder,
    domain: &Domain,
    known: &Known,
    records: Records<'_>,
    clock: &MessageClock,
) {
    let rows = records.len();
    if rows == 0 {
        return;
    }
    builder.begin_rows(rows);
    builder.time(Column::Received).repeat(clock.received_ms, rows);
    builder.address(Column::Exporter).repeat(&domain.exporter, rows);
    builder.u32(Column::ObservationDomain).repeat(domain.key.domain, rows);
    builder.u8(Column::ExportVersion).repeat(domain.key.version, rows);
    columns::write(&known.plan, records, clock, builder);
    if known.plan.tells_sampling || domain.samplers.is_empty() {
        return;
    }
    let sampling = builder.u32(Column::SamplingInterval);
    match known.plan.sampler_field {
        Some(field) => (0..rows).for_each(|row| {
            sampling.push(records.number(field, row).and_then(|sampler| domain.samplers.of(sampler)));
        }),
        None => match domain.samplers.only() {
            Some(interval) => sampling.repeat(interval, rows),
            None => (0..rows).for_each(|_| sampling.push(None)),
        },
    }
}
