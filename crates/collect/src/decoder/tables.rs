//! The rows that gather for a delivery: flows, options, counters.

use weir_flow::{Column, FlowBatch, FlowBatchBuilder, Table, TableBatch};
use weir_wire::sflow::Record;
use weir_wire::{Spans, TemplateId, WireError};

use super::fixed_format::FixedPacket;
use super::learned::{LearnedFromSet, OptionsSet};
use super::samplers::SharedSamplers;
use crate::applications::ApplicationNames;
use crate::clock::MessageClock;
use crate::columns::{self, KnownOfDomain};
use crate::counters::{CounterRows, SampleOrigin};
use crate::domain::{CompiledTemplate, Domain, DomainKey};
use crate::options::{OptionsTable, RecordOrigin};
use crate::records::Records;
use crate::sampling::{AllowedSamplers, KnownSamplers, Rate, SamplersLearned, SamplingInForce};
use crate::time_flags;

/// Rows that a batch is expected to have: those of a delivery of the live collector, and a datagram's more.
const BATCH_ROWS: usize = 34_000;
/// Rows from which on a delivery should be taken before more is decoded.
const DELIVERY_ROWS: usize = 65_536;
/// Octets of Data Sets from which on the same holds: records may be wide, or have many elements without a column.
const DELIVERY_OCTETS: usize = 4 << 20;

/// What was written from a set of Data Records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FlowSet {
    /// Records.
    pub rows: usize,
    pub problem: Option<WireError>,
    /// Lists that could not be read to their end.
    pub lists_undecodable: u32,
}

/// The tables of a delivery while it is being made.
#[derive(Debug)]
pub(super) struct Tables {
    pub flows: FlowBatchBuilder,
    options: OptionsTable,
    counters: [CounterRows; 2],
    /// Octets of the Data Sets in `flows`.
    octets: usize,
    spans: Spans,
}

impl Tables {
    pub(super) fn new() -> Self {
        Self {
            flows: FlowBatchBuilder::new(BATCH_ROWS),
            options: OptionsTable::default(),
            counters: [Table::InterfaceCounters, Table::HostCounters].map(CounterRows::new),
            octets: 0,
            spans: Spans::default(),
        }
    }

    /// Flows gathered.
    pub(super) fn rows(&self) -> usize {
        self.flows.rows()
    }

    /// Whether a delivery should be taken.
    pub(super) fn is_full(&self) -> bool {
        self.flows.rows() >= DELIVERY_ROWS || self.octets >= DELIVERY_OCTETS || self.options.is_full()
    }

    /// Hands out the flows, and the rows of the other tables.
    pub(super) fn take(&mut self) -> (Option<FlowBatch>, Vec<TableBatch>) {
        self.octets = 0;
        let flows = (self.flows.rows() > 0).then(|| self.flows.finish());
        let options = self.options.take().into_iter();
        (flows, options.chain(self.counters.iter_mut().filter_map(CounterRows::finish)).collect())
    }

    /// Begins a message of so many octets: options are read and written according to them.
    pub(super) fn begin_message(&mut self, octets: usize) {
        self.options.begin_message(octets);
    }

    /// The same of a set of a message that has waited.
    pub(super) fn begin_set_that_waited(&mut self, octets: usize) {
        self.options.begin_set_that_waited(octets);
    }

    /// Counts octets that were decoded, towards a full delivery.
    pub(super) fn add_octets(&mut self, octets: usize) {
        self.octets += octets;
    }

    /// Appends the records of a set as flows. `shared` is what other domains of the exporter report about samplers,
    /// where this one knows none.
    pub(super) fn flow_set(
        &mut self,
        domain: &Domain,
        compiled: &CompiledTemplate,
        body: &[u8],
        clock: &MessageClock,
        shared: Option<&SharedSamplers>,
    ) -> FlowSet {
        self.octets += body.len();
        let located = compiled.template.layout().locate(body, &mut self.spans);
        let records = Records { body, located: &located };
        let clock = clock.with_system_init(domain.system_init_ms);
        let names = self.options.applications();
        let lists_undecodable = append(&mut self.flows, (domain, names), compiled, records, &clock, shared);
        FlowSet { rows: located.records, problem: located.problem, lists_undecodable }
    }

    /// Appends the records of a packet of NetFlow v1, v5 or v7 as flows.
    pub(super) fn fixed_packet(&mut self, domain: &Domain, form: &CompiledTemplate, packet: &FixedPacket<'_>) {
        let located = form.template.layout().locate(packet.records(), &mut self.spans);
        let records = Records { body: packet.records(), located: &located };
        append(&mut self.flows, (domain, self.options.applications()), form, records, &packet.clock, None);
        let rows = records.len();
        if rows == 0 {
            return;
        }
        if let Some(engine_type) = packet.engine_type() {
            self.flows.u8(Column::EngineType).repeat(engine_type, rows);
        }
        if let Some(engine_id) = packet.engine_id() {
            self.flows.u8(Column::EngineId).repeat(engine_id, rows);
        }
        if let Some(interval) = packet.sampling_interval() {
            self.flows.u32(Column::SamplingInterval).repeat(interval, rows);
        }
    }

    /// Reads the records of a set of options data: they become rows, and the domain learns what they report about
    /// samplers and its start. `allowed` is asked where they may report samplers. `None` when the domain has no such template.
    #[inline(never)]
    pub(super) fn options_set(
        &mut self,
        domain: &mut Domain,
        id: TemplateId,
        body: &[u8],
        (clock, limited_ms): (&MessageClock, Option<i64>),
        allowed: impl FnOnce(DomainKey) -> AllowedSamplers,
    ) -> Option<OptionsSet> {
        let CompiledTemplate { template, options, .. } = domain.templates.get(id)?;
        let plan = options.as_ref()?;
        self.octets += body.len();
        let mut located = template.layout().locate(body, &mut self.spans);
        let (rows, problem) = (located.records, located.problem);
        located.records = self.options.take_records(rows);
        let unread = (rows - located.records) as u64;
        let records = Records { body, located: &located };
        let mut samplers = SamplersLearned::default();
        if plan.sampling.tells() {
            let key = domain.key;
            samplers = domain.samplers.learn(&plan.sampling, records, key.domain, || allowed(key));
            if !samplers.changes.is_empty() || samplers.unmatched > 0 {
                domain.inspection.sampling(domain.samplers.only(), samplers.unmatched);
            }
        }
        let system_init_ms = plan.system_init_ms(records).or(domain.system_init_ms);
        let system_init_changed = system_init_ms != domain.system_init_ms;
        domain.system_init_ms = system_init_ms;
        let lists = plan.lists_reported(records);
        let origin = RecordOrigin { key: domain.key, exporter: &domain.exporter };
        let kind = plan.kind(records, samplers.first_has_rate);
        let mut left_out = self.options.append(origin, (template, plan, kind), records, (clock, limited_ms));
        left_out.records += unread;
        let learned = LearnedFromSet { samplers, lists, system_init_changed };
        let learned = learned.is_any().then(|| Box::new(learned));
        Some(OptionsSet { rows, problem, left_out, learned })
    }

    /// Whether a record of sFlow has columns in a table of counters.
    pub(super) fn has_counters(&self, record: &Record<'_>) -> bool {
        self.counters.iter().any(|rows| rows.has_columns_of(record))
    }

    /// Appends the counters of a sample: each table that has columns for them gets a row.
    pub(super) fn counters(&mut self, origin: &SampleOrigin<'_>, records: &[Record<'_>]) {
        for rows in &mut self.counters {
            if records.iter().any(|record| rows.has_columns_of(record)) {
                rows.push(origin, records);
            }
        }
    }
}

/// Appends the records of a set as flows. Returns how many lists could not be read.
fn append(
    builder: &mut FlowBatchBuilder,
    (domain, names): (&Domain, &ApplicationNames),
    compiled: &CompiledTemplate,
    records: Records<'_>,
    clock: &MessageClock,
    shared: Option<&SharedSamplers>,
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
    let plan = compiled.plan(&domain.templates);
    let own = KnownSamplers { named: &domain.samplers, unnamed: &domain.samplers, of_domain: None };
    let samplers = shared.map_or(own, |shared| shared.known_to(domain.key.domain));
    let in_force = SamplingInForce::of(&plan.selection, compiled.template.id(), samplers);
    let known = KnownOfDomain { key: domain.key, templates: &domain.templates, names, sampling: &in_force };
    let undecodable = columns::write(plan, records, clock, &known, builder);
    time_flags::write(plan, records, clock, domain.key.session.transport, builder);
    if !plan.has_sampling_interval {
        write_sampling(&in_force, plan.probability, records, builder);
    }
    undecodable
}

/// Writes the intervals in force, of records that may have a field with a probability of their own.
fn write_sampling(
    in_force: &SamplingInForce<'_>,
    probability: Option<usize>,
    records: Records<'_>,
    builder: &mut FlowBatchBuilder,
) {
    if let Some(field) = probability {
        let sampling = builder.u32(Column::SamplingInterval);
        let of = |record: usize| match Rate::of_field(field, records, record) {
            Some(rate) => rate.interval(),
            None => in_force.of_record(records, record),
        };
        (0..records.len()).for_each(|record| sampling.push(of(record)));
        return;
    }
    match in_force {
        SamplingInForce::OfAll(None) => {}
        SamplingInForce::OfAll(Some(interval)) => {
            builder.u32(Column::SamplingInterval).repeat(*interval, records.len());
        }
        SamplingInForce::BySampler { .. } | SamplingInForce::ByPart(_) => {
            let sampling = builder.u32(Column::SamplingInterval);
            in_force.of_records(records, |interval| sampling.push(interval));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use weir_wire::{FieldSpecifier, Template};

    use super::*;
    use crate::Limits;
    use crate::options::LeftOut;
    use crate::session::Session;

    const CLOCK: MessageClock = MessageClock { received_ms: 1_000, export_ms: 1_000, uptime_ms: None };
    const CLOCKS: (&MessageClock, Option<i64>) = (&CLOCK, None);

    /// One sampler may be learned, and one changed.
    fn one(_: DomainKey) -> AllowedSamplers {
        AllowedSamplers { new: 1, changes: 1 }
    }

    fn id(id: u16) -> TemplateId {
        TemplateId::new(id).expect("id")
    }

    /// A domain with a template of flows, 256, and one of options about samplers, 257.
    fn domain() -> Domain {
        let session = Session::udp(SocketAddr::from(([192, 0, 2, 1], 4739)));
        let mut domain = Domain::new(DomainKey { session, version: 10, domain: 3 }, &Limits::default());
        let mut add = |number: u16, fields: &[(u16, u16)], scopes| {
            let fields = fields.iter().map(|&(id, length)| FieldSpecifier::iana(id, length)).collect();
            domain.templates.insert(Template::new(id(number), fields, scopes).expect("a template"), 0);
        };
        add(256, &[(8, 4), (1, 4)], 0);
        add(257, &[(302, 2), (34, 2)], 1);
        domain
    }

    #[test]
    fn what_is_written_is_returned() {
        let (domain, mut tables) = (domain(), Tables::new());
        let compiled = domain.templates.get(id(256)).expect("a template");
        let set = tables.flow_set(&domain, compiled, &[1; 24], &CLOCK, None);
        assert_eq!(set, FlowSet { rows: 3, problem: None, lists_undecodable: 0 });
        // less than a record is padding
        let set = tables.flow_set(&domain, compiled, &[1; 4], &CLOCK, None);
        assert_eq!((set.rows, tables.rows()), (0, 3));
        let (flows, others) = tables.take();
        assert_eq!((flows.map(|flows| flows.rows()), others.len(), tables.rows()), (Some(3), 0, 0));
    }

    #[test]
    fn options_teach_the_domain_and_become_rows() {
        let (mut domain, mut tables) = (domain(), Tables::new());
        tables.begin_message(100);
        let set =
            tables.options_set(&mut domain, id(257), &[0, 5, 0, 100, 0, 6, 0, 10], CLOCKS, one).expect("a template");
        let samplers = set.learned.expect("samplers").samplers;
        assert_eq!((set.rows, samplers.new, samplers.refused), (2, 1, 1));
        assert_eq!((domain.samplers.numbered(5), domain.samplers.numbered(6)), (Some(100), None));
        assert!(tables.options_set(&mut domain, id(258), &[], CLOCKS, one).is_none());
        let (flows, others) = tables.take();
        assert!(flows.is_none());
        assert_eq!(others.iter().map(|batch| batch.record_batch().num_rows()).sum::<usize>(), 2);
    }

    #[test]
    fn numbers_of_applications_have_the_names_that_the_exporter_reports() {
        let (mut domain, mut tables) = (domain(), Tables::new());
        let mut add = |number: u16, fields: &[(u16, u16)], scopes| {
            let fields = fields.iter().map(|&(id, length)| FieldSpecifier::iana(id, length)).collect();
            domain.templates.insert(Template::new(id(number), fields, scopes).expect("a template"), 0);
        };
        // applicationId; with applicationName in a record of its own, and in an options record
        add(300, &[(95, 4), (1, 4)], 0);
        add(301, &[(95, 4), (96, 8)], 1);
        add(302, &[(95, 4), (96, 8), (1, 4)], 0);
        let flows = |tables: &mut Tables, domain: &Domain, template, body: &[u8]| {
            let compiled = domain.templates.get(id(template)).expect("a template");
            tables.flow_set(domain, compiled, body, &CLOCK, None);
        };
        let [youtube, https] = [[13, 0, 0, 82], [3, 0, 1, 187]];
        flows(&mut tables, &domain, 300, &[&youtube[..], &[0, 0, 0, 1], &https, &[0, 0, 0, 2]].concat());
        tables.begin_message(100);
        let set = tables.options_set(&mut domain, id(301), &[&youtube[..], b"youtube\0"].concat(), CLOCKS, one);
        assert_eq!(set.expect("a template").left_out, LeftOut::default());
        flows(&mut tables, &domain, 300, &[&youtube[..], &[0, 0, 0, 3]].concat());
        flows(&mut tables, &domain, 302, &[&youtube[..], b"own name", &[0, 0, 0, 4]].concat());
        let taken = tables.take().0.expect("flows");
        let names: Vec<_> = taken.text(Column::Application).expect("names").iter().collect();
        assert_eq!(names, [None, Some("https"), Some("youtube"), Some("own name")]);
        let numbers = taken.binary(Column::ApplicationId).expect("numbers");
        assert_eq!(numbers.value(2), youtube, "the number stays");
    }

    #[test]
    fn many_octets_make_a_delivery_full() {
        let mut tables = Tables::new();
        tables.add_octets(DELIVERY_OCTETS - 1);
        assert!(!tables.is_full());
        tables.add_octets(1);
        assert!(tables.is_full());
        tables.take();
        assert!(!tables.is_full());
    }
}
