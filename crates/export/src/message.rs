//! Filling messages of NetFlow v9 and IPFIX.

use std::collections::VecDeque;

use weir_wire::message_builder::{FinishedMessage, MessageBuilder};
use weir_wire::sets::SET_HEADER_LEN;
use weir_wire::{FieldSpecifier, ObservationDomainId, Template, TemplateId, WireError, ipfix, netflow9};

use crate::clock::Clock;
use crate::columns::Columns;
use crate::config::{ExporterConfig, SamplingAnnouncement, Version};
use crate::exported::{Exported, Refusal};
use crate::exporter::{Datagram, OptionsError};
use crate::options::{Change, Options, OptionsData};
use crate::records::Plan;
use crate::shapes::{ElementShapes, Shape, Shapes};
use crate::stage::Stage;

/// Flows of one shape: their template, and those that wait for a message.
#[derive(Debug)]
struct Kind {
    shape: Shape,
    elements: Vec<FieldSpecifier>,
    template: Template,
    plan: Plan,
    stage: Stage,
    /// Rows of the batch at hand that are of this kind.
    rows: Vec<u32>,
}

/// What is to be sent before the next data.
#[derive(Debug, Clone, Copy)]
enum Announcement {
    /// The template of a kind.
    Template(usize),
    /// An options template.
    OptionsTemplate(usize),
    /// A record of an options template.
    OptionsRecord(usize, usize),
}

/// Records waiting for a message, and the state that lasts from message to message.
#[derive(Debug)]
pub(crate) struct Messages {
    config: ExporterConfig,
    kinds: Vec<Kind>,
    options: Options,
    announcements: VecDeque<Announcement>,
    elements: ElementShapes,
    datagram: Vec<u8>,
    /// Messages sent before in NetFlow v9, data records sent before in IPFIX.
    sequence: u32,
    /// Datagrams with data since the last refresh.
    datagrams_since_refresh: u32,
    refreshed_ms: Option<i64>,
    /// The kind whose records go first into the next message; changes, so that none waits for ever.
    first_kind: usize,
}

/// The first ID of templates for flows.
const TEMPLATE_MIN: u16 = 256;

impl Messages {
    pub(crate) fn new(config: &ExporterConfig) -> Self {
        // The fields of options are chosen in this crate and none is out of bounds, so there is always a template.
        let options = Options::of(config).unwrap_or_default();
        let mut messages = Self {
            config: config.clone(),
            kinds: Vec::new(),
            options,
            announcements: VecDeque::new(),
            elements: ElementShapes::default(),
            datagram: Vec::new(),
            sequence: 0,
            datagrams_since_refresh: 0,
            refreshed_ms: None,
            first_kind: 0,
        };
        if config.announces_apart {
            messages.queue_announcements();
        }
        messages
    }

    /// Adds options data to be sent before the next flows. Yields whether it corrects a record.
    pub(crate) fn add_options(&mut self, data: &OptionsData) -> Result<bool, OptionsError> {
        let change = self.options.add(&self.config, data);
        match change {
            Change::Unchanged => {}
            Change::Record(index, record) | Change::Correction(index, record) => {
                self.announcements.push_back(Announcement::OptionsRecord(index, record));
            }
            Change::Kind(index) => {
                self.announcements.push_back(Announcement::OptionsTemplate(index));
                self.announcements.push_back(Announcement::OptionsRecord(index, 0));
            }
            Change::Refused => return Err(OptionsError::TooMany),
        }
        Ok(matches!(change, Change::Correction(..)))
    }

    /// Puts the rows that were not refused into the stages of their kinds, the first of them being `first`; refuses
    /// those that find none.
    pub(crate) fn add(&mut self, columns: &Columns<'_>, shapes: &mut Shapes, first: usize, boot_ms: i64) {
        for ((shape, refused), row) in shapes.shapes.iter().zip(&mut shapes.refused).zip(first..) {
            if refused.is_none()
                && let Err(reason) = self.assign(columns, *shape, row)
            {
                *refused = Some(reason);
            }
        }
        for kind in self.kinds.iter_mut().filter(|kind| !kind.rows.is_empty()) {
            kind.plan.write(columns, &kind.rows, boot_ms, &mut kind.stage);
            kind.rows.clear();
        }
    }

    fn assign(&mut self, columns: &Columns<'_>, shape: Shape, row: usize) -> Result<(), Refusal> {
        self.elements.fields.clear();
        if let Some(elements) = columns.elements {
            self.elements.classify(elements, row)?;
        }
        let fields = &self.elements.fields;
        let found = self.kinds.iter().position(|kind| kind.shape == shape && kind.elements == *fields);
        let kind = match found {
            Some(kind) => kind,
            None => self.add_kind(shape)?,
        };
        let kind = &mut self.kinds[kind];
        if kind.plan.record_octets().is_none() && !fits(&self.config, kind.plan.octets_of_row(columns, row)) {
            return Err(Refusal::Length);
        }
        kind.rows.push(row as u32);
        Ok(())
    }

    /// A kind for the shape at hand. It must fit into a message: its template, and its shortest record.
    fn add_kind(&mut self, shape: Shape) -> Result<usize, Refusal> {
        if self.kinds.len() >= self.config.templates_max {
            return Err(Refusal::Template);
        }
        let elements = self.elements.fields.clone();
        let sampler = self.config.sampling.and_then(|sampling| match sampling.announcement {
            SamplingAnnouncement::Sampler(sampler) => Some(sampler),
            SamplingAnnouncement::Exporter => None,
        });
        let (plan, fields) = Plan::of_shape(self.config.version, shape, &elements, sampler);
        // Template ID and field count, then 8 octets for each field with an enterprise number.
        let enterprises = fields.iter().filter(|field| field.element.enterprise != 0).count();
        let template_octets = 4 + 4 * fields.len() + 4 * enterprises;
        let template = TemplateId::new(TEMPLATE_MIN + self.kinds.len() as u16)
            .and_then(|id| Template::new(id, fields, 0))
            .map_err(|error| match error {
                WireError::ZeroLengthTemplate => Refusal::Template,
                _ => Refusal::Length,
            })?;
        if !fits(&self.config, template.layout().min_record_len()) || !fits(&self.config, template_octets) {
            return Err(Refusal::Length);
        }
        self.announcements.push_back(Announcement::Template(self.kinds.len()));
        let stage = Stage::new(plan.record_octets());
        self.kinds.push(Kind { shape, elements, template, plan, stage, rows: Vec::new() });
        Ok(self.kinds.len() - 1)
    }

    /// Hands out messages while there is enough for a full one; with `all` until nothing waits.
    pub(crate) fn emit(
        &mut self,
        clock: Clock,
        all: bool,
        exported: &mut Exported,
        sink: &mut impl FnMut(Datagram<'_>),
    ) {
        if self.config.announces_apart {
            self.announce(clock, exported, sink);
        }
        loop {
            let waiting: usize = self.kinds.iter().map(|kind| kind.stage.len()).sum();
            let full = waiting >= self.config.datagram_octets_max - header_octets(self.config.version);
            let nothing = waiting == 0 && (self.announcements.is_empty() || self.withheld(exported));
            if nothing || !(full || all) {
                return;
            }
            self.refresh(clock.now_ms, exported);
            self.hand_out(clock, exported, sink);
        }
    }

    /// Hands out all templates and options that there are, in messages of their own.
    pub(crate) fn announce_anew(&mut self, clock: Clock, exported: &mut Exported, sink: &mut impl FnMut(Datagram<'_>)) {
        self.queue_announcements();
        self.announce(clock, exported, sink);
    }

    /// Hands out what is to be announced.
    pub(crate) fn announce(&mut self, clock: Clock, exported: &mut Exported, sink: &mut impl FnMut(Datagram<'_>)) {
        while !self.announcements.is_empty() && !self.withheld(exported) {
            self.hand_out(clock, exported, sink);
        }
    }

    fn hand_out(&mut self, clock: Clock, exported: &mut Exported, sink: &mut impl FnMut(Datagram<'_>)) {
        let options_before = exported.options_records;
        let finished = self.message(clock, exported);
        let flows = u64::from(finished.data_records) - (exported.options_records - options_before);
        self.datagrams_since_refresh = self.datagrams_since_refresh.saturating_add(u32::from(flows > 0));
        self.sequence = self.sequence.wrapping_add(match self.config.version {
            Version::Ipfix => finished.data_records,
            _ => 1,
        });
        exported.datagrams += 1;
        exported.octets += finished.octets as u64;
        exported.templates += u64::from(finished.template_records);
        sink(Datagram { octets: &self.datagram, flows: flows as u32, records: finished.data_records });
    }

    /// Whether templates are still held back.
    fn withheld(&self, exported: &Exported) -> bool {
        exported.datagrams < self.config.templates_after_datagrams
    }

    /// Queues all templates and options when it is time to.
    fn refresh(&mut self, now_ms: i64, exported: &Exported) {
        let refresh = self.config.template_refresh;
        // A refresh that takes several messages is finished before the next, and data goes out between the two.
        let due = self.refreshed_ms.is_none_or(|refreshed_ms| {
            self.datagrams_since_refresh >= refresh.datagrams
                || now_ms.saturating_sub(refreshed_ms) >= i64::from(refresh.secs) * 1000
        });
        let under_way = self.refreshed_ms.is_some() && !self.announcements.is_empty();
        if !due || under_way || self.withheld(exported) || self.config.announces_apart {
            return;
        }
        self.refreshed_ms = Some(now_ms);
        self.datagrams_since_refresh = 0;
        self.queue_announcements();
    }

    /// Queues all templates and options, in place of what was queued of them.
    fn queue_announcements(&mut self) {
        self.announcements.clear();
        self.announcements.extend((0..self.kinds.len()).map(Announcement::Template));
        for (index, options) in self.options.kinds().iter().enumerate() {
            self.announcements.push_back(Announcement::OptionsTemplate(index));
            let records = 0..options.records.len();
            self.announcements.extend(records.map(|record| Announcement::OptionsRecord(index, record)));
        }
    }

    /// Writes one message into `datagram`.
    fn message(&mut self, clock: Clock, exported: &mut Exported) -> FinishedMessage {
        let mut datagram = std::mem::take(&mut self.datagram);
        datagram.clear();
        let octets_max = self.config.datagram_octets_max;
        let (domain, sequence) = (ObservationDomainId(self.config.domain), self.sequence);
        let secs = clock.now_ms.div_euclid(1000);
        let finished = if self.config.version == Version::Ipfix {
            let header = ipfix::Header { length: 0, export_time_secs: secs as u32, sequence, domain };
            let mut message = ipfix::MessageBuilder::new(&mut datagram, &header).within(octets_max);
            self.fill(&mut message, exported);
            message.finish()
        } else {
            let header = netflow9::Header {
                count: 0,
                // Uptime at the whole second that the header has, so that times come out to the millisecond.
                sys_uptime_ms: clock.uptime_at(secs * 1000),
                unix_secs: secs as u32,
                sequence,
                source_id: domain,
            };
            let mut message = netflow9::MessageBuilder::new(&mut datagram, &header).within(octets_max);
            self.fill(&mut message, exported);
            message.finish()
        };
        self.datagram = datagram;
        finished
    }

    /// Announcements first, then data: only when all announcements fitted, unless they are held back.
    fn fill<P>(&mut self, message: &mut MessageBuilder<'_, P>, exported: &mut Exported) {
        if !self.withheld(exported) {
            let is_apart = self.config.announces_apart && !self.announcements.is_empty();
            while let Some(&announcement) = self.announcements.front() {
                let written = match announcement {
                    Announcement::Template(kind) => message.template(&self.kinds[kind].template),
                    Announcement::OptionsTemplate(index) => message.template(&self.options.kinds()[index].template),
                    Announcement::OptionsRecord(index, record) => {
                        let options = &self.options.kinds()[index];
                        message.record(&options.template, |out| out.extend_from_slice(&options.records[record].1))
                    }
                };
                if written.is_err() {
                    // An announcement fits into an empty message, so the next one takes it.
                    return;
                }
                exported.options_records += u64::from(matches!(announcement, Announcement::OptionsRecord(..)));
                self.announcements.pop_front();
            }
            if is_apart {
                return;
            }
        }
        let kinds = self.kinds.len();
        for turn in 0..kinds {
            let kind = &mut self.kinds[(self.first_kind + turn) % kinds];
            if !kind.stage.is_empty() && !kind.fill(message, self.config.datagram_octets_max) {
                // It goes on with this kind.
                self.first_kind = (self.first_kind + turn) % kinds;
                return;
            }
        }
    }
}

impl Kind {
    /// Writes as many records as fit. False when some are left.
    fn fill<P>(&mut self, message: &mut MessageBuilder<'_, P>, octets_max: usize) -> bool {
        let mut space = message.remaining(octets_max).saturating_sub(SET_HEADER_LEN);
        loop {
            let (records, octets) = self.stage.fitting(space);
            if records == 0 {
                return false;
            }
            let front = self.stage.front(octets);
            if message.records(&self.template, |out| out.extend_from_slice(front)).is_ok() {
                self.stage.consume(records, octets);
                return self.stage.is_empty();
            }
            // The padding of the set did not fit any more.
            space = octets - 1;
        }
    }
}

const fn header_octets(version: Version) -> usize {
    match version {
        Version::Ipfix => ipfix::HEADER_LEN,
        _ => netflow9::HEADER_LEN,
    }
}

/// Whether a record or template of this length fits into a message of its own.
fn fits(config: &ExporterConfig, octets: usize) -> bool {
    let overhead = header_octets(config.version) + SET_HEADER_LEN;
    (overhead + octets).next_multiple_of(4) <= config.datagram_octets_max
}
