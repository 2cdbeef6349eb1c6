//! Data Sets: decoded, or put aside until their template comes.

use weir_flow::{Column, Counter, FlowBatchBuilder};
use weir_wire::{ElementId, ListKind, TemplateId};

use super::Decoder;
use super::samplers::Shared;
use crate::clock::{self, MessageClock};
use crate::columns::{self, Records};
use crate::lists::InDomain;
use crate::options::{Teller, lists_told};
use crate::plan::Plan;
use crate::sampling::{Learned, SamplerFields, Samplers};
use crate::session::{Domain, Known};
use crate::time_flags;
use crate::waiting::HeldSet;

/// Most elements that are remembered to be lists, of all exporters; what comes later is not heeded.
const LEARNED_LISTS_MAX: usize = 1 << 16;

impl Decoder {
    /// Decodes a Data Set, or puts it aside. Returns the number of records when it is known.
    pub(super) fn data(&mut self, index: u32, id: TemplateId, body: &[u8], clock: &MessageClock) -> Option<u32> {
        if !self.knows(index, id, clock.received_ms) {
            self.hold(index, id, HeldSet { clock: *clock, body: body.into(), number: 0 });
            return None;
        }
        if !self.released.is_empty() {
            // behind those whose template has come, and who wait until a delivery is taken
            self.count(index, Counter::SetsWaitingIn, 1);
            let number = self.waiting.take_number();
            self.release(index, id, [HeldSet { clock: *clock, body: body.into(), number }]);
            return None;
        }
        self.decode(index, id, body, clock)
    }

    /// Decodes a Data Set whose template is known.
    pub(super) fn decode(&mut self, index: u32, id: TemplateId, body: &[u8], clock: &MessageClock) -> Option<u32> {
        let domain = &mut self.domains[index as usize];
        let known = domain.templates.get(&id)?;
        self.octets += body.len();
        let located = known.template.layout().locate(body, &mut self.spans);
        let (rows, problem) = (located.records, located.problem);
        let records = Records { body, located: &located };
        let (mut told, mut undecodable) = (Told::default(), 0);
        let counter = if known.template.is_options() {
            let before = domain.samplers.only();
            let fields = SamplerFields::of(&known.template, domain.key.version == 9);
            let room = self.limits.samplers_max.saturating_sub(self.samplers_known);
            told.samplers = domain.samplers.learn(&fields, records, room);
            domain.inspection.sampling(before, domain.samplers.only());
            let system_init_ms = clock::system_init_ms(&known.template, records).or(domain.system_init_ms);
            self.state.changed |= told.samplers.changed || system_init_ms != domain.system_init_ms;
            domain.system_init_ms = system_init_ms;
            if domain.key.version == 10 {
                told.lists = lists_told(&known.template, records);
            }
            let teller = Teller { key: domain.key, exporter: &domain.exporter };
            told.unlisted = self.options.tell(teller, &known.template, records, clock);
            told.tells_samplers = !domain.samplers.is_empty();
            Counter::RecordsOptions
        } else {
            let clock = clock.with_system_init(domain.system_init_ms);
            let shared = if domain.samplers.is_empty() { self.samplers.of(domain.key) } else { None };
            undecodable = append(&mut self.builder, domain, known, records, &clock, shared);
            told.first_flows = rows > 0 && !domain.carries_flows;
            Counter::RecordsStored
        };
        self.count(index, counter, rows as u64);
        if undecodable > 0 {
            self.count(index, Counter::ListsUndecodable, u64::from(undecodable));
        }
        self.note_in_set(index, problem);
        self.heed(index, told);
        if problem.is_some() { None } else { u32::try_from(rows).ok() }
    }

    /// What follows from records for how others are read.
    fn heed(&mut self, index: u32, told: Told) {
        self.samplers_known += told.samplers.new;
        if told.samplers.refused > 0 {
            self.count(index, Counter::SamplersRefused, told.samplers.refused);
        }
        if told.unlisted > 0 {
            self.count(index, Counter::OptionsUnlisted, told.unlisted);
        }
        let domain = &mut self.domains[index as usize];
        domain.carries_flows |= told.first_flows;
        if !told.lists.is_empty() {
            let before = domain.learned_lists.len();
            let mut lists = told.lists;
            lists.truncate(LEARNED_LISTS_MAX.saturating_sub(self.lists_learned));
            domain.learn_lists(lists);
            self.lists_learned += domain.learned_lists.len() - before;
            self.state.changed |= domain.learned_lists.len() > before;
        }
        if told.tells_samplers || told.first_flows {
            self.samplers.changed(index, &self.domains, told.tells_samplers);
        }
    }
}

/// What records told beside flows.
#[derive(Default)]
struct Told {
    samplers: Learned,
    /// Whether the domain knows of samplers.
    tells_samplers: bool,
    lists: Vec<(ElementId, ListKind)>,
    unlisted: u64,
    first_flows: bool,
}

/// Appends the records of a set as flows. `shared` is what other domains of the exporter tell of samplers, where this
/// one knows of none. Yields how many lists could not be read.
pub(super) fn append(
    builder: &mut FlowBatchBuilder,
    domain: &Domain,
    known: &Known,
    records: Records<'_>,
    clock: &MessageClock,
    shared: Option<&Shared>,
) -> u32 {
    let rows = records.len();
    if rows == 0 {
        return 0;
    }
    builder.begin_rows(rows);
    builder.time(Column::Received).repeat(clock.received_ms, rows);
    builder.address(Column::Exporter).repeat(&domain.exporter, rows);
    builder.u32(Column::ObservationDomain).repeat(domain.key.domain, rows);
    builder.u8(Column::ExportVersion).repeat(domain.key.version, rows);
    let in_domain = InDomain { templates: &domain.templates, learned: &domain.learned_lists };
    let undecodable = columns::write(&known.plan, records, clock, &in_domain, builder);
    time_flags::write(&known.plan, records, clock, domain.key.session.transport, builder);
    if !known.plan.tells_sampling {
        let (named, unnamed) = shared.map_or((&domain.samplers, &domain.samplers), |s| (&s.named, &s.unnamed));
        write_sampling(&known.plan, records, named, unnamed, builder);
    }
    undecodable
}

/// Writes the interval of the sampler in force: of the one that a record names, or of the one that is meant when it
/// names none.
fn write_sampling(
    plan: &Plan,
    records: Records<'_>,
    named: &Samplers,
    unnamed: &Samplers,
    builder: &mut FlowBatchBuilder,
) {
    let rows = records.len();
    match (plan.sampler_field, plan.in_if_field) {
        (Some(field), _) if !named.is_empty() => {
            let sampling = builder.u32(Column::SamplingInterval);
            let of = |row| records.number(field, row).and_then(|sampler| named.of(sampler));
            (0..rows).for_each(|row| sampling.push(of(row)));
        }
        (None, Some(field)) if unnamed.differ_by_interface() => {
            let sampling = builder.u32(Column::SamplingInterval);
            let of = |row| records.number(field, row).and_then(|interface| unnamed.of_interface(interface));
            (0..rows).for_each(|row| sampling.push(of(row)));
        }
        (None, _) => {
            if let Some(interval) = unnamed.only() {
                builder.u32(Column::SamplingInterval).repeat(interval, rows);
            }
        }
        (Some(_), _) => {}
    }
}
