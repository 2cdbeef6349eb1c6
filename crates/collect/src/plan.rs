//! A template compiled into the column writes that its records need.
//!
//! A field goes to the column that its element fills. When several fields of a template want the same column, the
//! preferred element gets it and the others are kept among the elements without a column, so nothing is lost. Every
//! field whose length a column cannot hold is kept there as well.

use weir_flow::registry::{self, REVERSE_ENTERPRISE};
use weir_flow::{Column, ColumnType};
use weir_wire::element::PADDING_OCTETS;
use weir_wire::fixed::FixedFormat;
use weir_wire::{ElementId, FieldSpecifier, ListKind, Template, TemplateId, VARIABLE_LENGTH};

use crate::applications::ApplicationNumber;
use crate::choice::{Choice, ChoiceRule, FamilyFields};
use crate::clock::{DurationForm, SYSTEM_INIT_TIME_MS, TimeForm};
use crate::records::{Records, is_set};
use crate::sampling::SelectionFields;
use crate::section::Section;
use crate::texts::{TEXT_FIELDS_MAX, TextFields};

mod op;

use op::width;
pub(crate) use op::{DurationField, IcmpFields, IntervalForm, Op, TimeField};

/// `observationTimeSeconds` to `observationTimeNanoseconds`: an event's only time.
const OBSERVATION_TIMES: [(u16, TimeForm); 4] =
    [(322, TimeForm::Seconds), (323, TimeForm::Millis), (324, TimeForm::Ntp), (325, TimeForm::Ntp)];

/// `flowDurationMilliseconds` and `flowDurationMicroseconds`. The first is preferred: the 32 bits of the other hold 71
/// minutes.
const DURATIONS: [(u16, DurationForm); 2] = [(161, DurationForm::Millis), (162, DurationForm::Micros)];

/// Counters of a flow, and those after the Observation Point, which are those of the flow where nothing else is.
const COUNTERS: [(Column, Column); 2] = [(Column::Packets, Column::PacketsOut), (Column::Bytes, Column::BytesOut)];

/// `layer2OctetDeltaCount`.
const LAYER2_OCTETS: u16 = 352;

/// Columns of what the headers of packets say. Where packets have several headers of a kind because they travel in a
/// tunnel, a template has an element once for each, the outermost first (RFC 7011 section 8). The columns take the
/// innermost of each, so that they agree about which flow they describe; the tunnel's are among the elements.
const OF_THE_PACKETS_HEADERS: [Column; 7] = [
    Column::SrcAddr,
    Column::DstAddr,
    Column::SrcPort,
    Column::DstPort,
    Column::Protocol,
    Column::TcpFlags,
    Column::Tos,
];

/// A field kept among the elements without a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leftover {
    pub field: usize,
    pub enterprise: u32,
    pub id: u16,
    /// The address of the other family for the same column. This one is kept where both are set: flows in tunnels
    /// have two pairs of addresses.
    pub other_family: Option<u16>,
    /// The fields of text that it is one of, by their place in [`Plan::texts`]. It is kept where the column does not show
    /// all of it.
    pub texts: Option<u16>,
    /// The choice that it is one of, by its place in [`Plan::choices`]. It is kept where the column shows another one.
    pub choice: Option<u16>,
    /// Whether values are lists, which are followed by what is in them.
    pub list: Option<ListKind>,
}

impl Leftover {
    pub(crate) fn element(&self) -> ElementId {
        ElementId { enterprise: self.enterprise, id: self.id }
    }

    /// Whether it is kept whatever its value and those of other fields are.
    pub(crate) fn is_always_kept(&self) -> bool {
        self.other_family.is_none() && self.texts.is_none() && self.choice.is_none()
    }
}

/// What to do with the records of one template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub ops: Vec<Op>,
    pub leftovers: Vec<Leftover>,
    /// Fields of text, by their columns.
    pub texts: Vec<TextFields>,
    /// Fields of numbers of which a record means one.
    pub choices: Vec<Choice>,
    /// Fields with a time in place of another one, the preferred ones first; see [`TimeField::others`].
    pub other_times: Vec<Box<[TimeField]>>,
    /// Whether the records have a sampling interval of their own. Where it says nothing, what options data report is in
    /// force.
    pub has_sampling_interval: bool,
    /// The probability with which a packet is selected (`samplingProbability`), of records without such an interval. Where
    /// its value is none, what options data report is in force.
    pub probability: Option<usize>,
    /// What the records say of their sampler, whose interval options data may report.
    pub selection: SelectionFields,
    /// Section of the packet that the records carry, to be read where they lack its addresses.
    pub section: Option<Section>,
    /// Whether any field is a list.
    pub has_lists: bool,
    /// Whether a time is an uptime and nothing in the records says what it counts from.
    pub needs_uptime: bool,
    /// Fields for uptimes that are long enough for more, see [`crate::clock::is_absolute`].
    pub wide_uptimes: Vec<usize>,
}

impl Plan {
    /// Compiles a template. `header_uptime` says whether the protocol's header has the exporter's uptime,
    /// `list_kind` which elements are lists.
    pub(crate) fn compile(
        template: &Template,
        header_uptime: bool,
        list_kind: impl Fn(ElementId) -> Option<ListKind>,
    ) -> Self {
        let fields = template.fields();
        let mut plan = Self {
            ops: Vec::with_capacity(fields.len()),
            leftovers: Vec::new(),
            texts: Vec::new(),
            choices: Vec::new(),
            other_times: Vec::new(),
            has_sampling_interval: false,
            probability: None,
            selection: SelectionFields::default(),
            section: None,
            has_lists: false,
            needs_uptime: false,
            wide_uptimes: Vec::new(),
        };
        for claims in claims_of(fields).chunk_by(|one, other| one.column == other.column) {
            plan.place(claims, fields);
        }
        plan.place_durations(fields);
        plan.place_event_time(fields);
        plan.place_flags(fields);
        plan.place_icmp(fields);
        plan.place_interval(fields);
        plan.place_application(fields);
        plan.keep_the_rest(fields, header_uptime);
        for leftover in &mut plan.leftovers {
            leftover.list = list_kind(leftover.element());
        }
        plan.has_lists = plan.leftovers.iter().any(|leftover| leftover.list.is_some());
        if !plan.has_lists && !plan.writes(Column::SrcAddr) && !plan.writes(Column::DstAddr) {
            plan.section = Section::of(fields);
        }
        plan.place_counters();
        plan.place_frame_octets(fields);
        plan.has_sampling_interval = plan.writes(Column::SamplingInterval);
        plan.selection = SelectionFields::of(fields, plan.field_of(Column::SamplerId));
        for op in &plan.ops {
            if let Op::Time { time: TimeField { field, form: TimeForm::Uptime, init_time, .. }, .. } = *op {
                plan.needs_uptime |= init_time.is_none();
                if fields[field].length == 8 {
                    plan.wide_uptimes.push(field);
                }
            }
        }
        plan.shrink_to_fit();
        plan
    }

    /// Frees the capacity that is not used. Templates are kept for long, and [`crate::Limits`] count what their fields
    /// take: a list that grew has up to twice the capacity that it needs, and one of a single entry four times.
    fn shrink_to_fit(&mut self) {
        self.ops.shrink_to_fit();
        self.leftovers.shrink_to_fit();
        self.texts.shrink_to_fit();
        self.choices.shrink_to_fit();
        self.other_times.shrink_to_fit();
        self.wide_uptimes.shrink_to_fit();
    }

    /// The field that a column of numbers is filled from.
    fn field_of(&self, wanted: Column) -> Option<usize> {
        self.ops.iter().find_map(|op| match *op {
            Op::Number { column, field } if column == wanted => Some(field),
            _ => None,
        })
    }

    /// The field that a column of times is filled from.
    fn time_of(&self, wanted: Column) -> Option<TimeField> {
        self.ops.iter().find_map(|op| match *op {
            Op::Time { column, time } if column == wanted => Some(time),
            _ => None,
        })
    }

    /// The field with the time of a record: where a field is 0, the first of those in its place that is set. Exporters
    /// fill forms of times that they do not use with zeros.
    #[inline]
    pub(crate) fn time_meant(&self, time: TimeField, records: Records<'_>, record: usize) -> TimeField {
        let Some(others) = time.others.and_then(|others| self.other_times.get(usize::from(others))) else {
            return time;
        };
        let is_set = |time: &&TimeField| is_set(records.octets_of(time.field, record));
        [&time].into_iter().chain(others.iter()).find(is_set).copied().unwrap_or(time)
    }

    /// The field with the end of the flow whose start a column has.
    pub(crate) fn end_of(&self, column: Column) -> Option<TimeField> {
        match column {
            Column::Start => self.time_of(Column::End),
            Column::StartReverse => self.time_of(Column::EndReverse),
            _ => None,
        }
    }

    /// By which fields the family of a flow is known; `None` unless the template has addresses of both.
    pub(crate) fn family(&self) -> Option<FamilyFields> {
        let pair = |wanted: Column| {
            self.ops.iter().find_map(|op| match *op {
                Op::EitherAddress { column, first, second } if column == wanted => Some((first, second)),
                _ => None,
            })
        };
        let pairs = [Column::SrcAddr, Column::DstAddr].map(pair);
        pairs.iter().any(Option::is_some).then_some(FamilyFields(pairs))
    }

    /// Whether a leftover is kept of a record: addresses of both families share a column where only one of them is set,
    /// a text is in its column unless it is not the first or was cleaned, and a number unless another field is meant.
    pub(crate) fn keeps(&self, leftover: &Leftover, records: Records<'_>, record: usize) -> bool {
        if leftover.is_always_kept() {
            return true;
        }
        let octets = records.octets_of(leftover.field, record);
        if let Some(texts) = leftover.texts.and_then(|texts| self.texts.get(usize::from(texts))) {
            return !texts.shows(octets, records, record);
        }
        if let Some(choice) = leftover.choice.and_then(|choice| self.choices.get(usize::from(choice))) {
            return !choice.shows(leftover.field, records, record);
        }
        leftover.other_family.is_none_or(|other| is_set(octets) && is_set(records.octets_of(other.into(), record)))
    }

    pub(crate) fn writes(&self, column: Column) -> bool {
        self.ops.iter().any(|op| op.column() == column)
    }

    /// Finds the field with the best claim on a column, of claims on it, the best first.
    fn place(&mut self, claims: &[Claim], fields: &[FieldSpecifier]) {
        let Some(&Claim { column, field, .. }) = claims.first() else { return };
        let op = match column.column_type() {
            ColumnType::Address => match both_families(claims, fields) {
                Some((first, second)) => Op::EitherAddress { column, first, second },
                None => Op::Address { column, field },
            },
            ColumnType::Mac | ColumnType::Octets => Op::Octets { column, field },
            ColumnType::Text => {
                let fields = claims.iter().take(TEXT_FIELDS_MAX).map(|claim| claim.field).collect();
                self.texts.push(TextFields { column, fields });
                Op::Text { column, texts: self.texts.len() - 1 }
            }
            ColumnType::Time => match self.time_field(claims, fields) {
                Some(time) => Op::Time { column, time },
                None => return,
            },
            _ => match self.choice_of(claims, fields) {
                Some(choice) => {
                    self.choices.push(choice);
                    Op::Chosen { column, choice: self.choices.len() - 1 }
                }
                None => Op::Number { column, field },
            },
        };
        self.ops.push(op);
    }

    /// The field with the best claim on a column of times, and those of other elements, which have the time where it is
    /// 0.
    fn time_field(&mut self, claims: &[Claim], fields: &[FieldSpecifier]) -> Option<TimeField> {
        let init_time = init_time(fields);
        let mut times = best_of_elements(claims).filter_map(|field| {
            let form = TimeForm::of_element(fields[field].element.id)?;
            Some(TimeField { field, form, init_time, others: None })
        });
        let first = times.next()?;
        let others: Box<[TimeField]> = times.collect();
        if others.is_empty() {
            return Some(first);
        }
        self.other_times.push(others);
        Some(TimeField { others: Some((self.other_times.len() - 1) as u16), ..first })
    }

    /// The fields of which each record means one, of claims on a column; `None` where there is no such choice.
    fn choice_of(&self, claims: &[Claim], fields: &[FieldSpecifier]) -> Option<Choice> {
        let column = claims.first()?.column;
        let rule = match column {
            // an element for each transport protocol (180 to 183); vlanId and dot1qVlanId, and those after the
            // Observation Point
            Column::SrcPort | Column::DstPort | Column::SrcVlan | Column::DstVlan => ChoiceRule::FirstSet,
            // an element for each version of ICMP (176 to 179)
            Column::IcmpType | Column::IcmpCode => match self.field_of(Column::Protocol) {
                Some(protocol) => ChoiceRule::IcmpVersion { protocol, types: icmp_types(fields) },
                None => ChoiceRule::FirstSet,
            },
            // an element for each family (9 and 29, 13 and 30)
            Column::SrcMask | Column::DstMask => self.family().map_or(ChoiceRule::FirstSet, ChoiceRule::Family),
            _ => return None,
        };
        let chosen: Box<[usize]> = best_of_elements(claims).collect();
        let fit = chosen.iter().all(|&field| usize::from(fields[field].length) <= width(column.column_type()));
        (fit && chosen.len() > 1).then_some(Choice { rule, fields: chosen })
    }

    /// Exporters that measure flows on their way out only, count them in the elements for after the Observation Point.
    /// Where the record has one of the other counters, or a list of records in it may have them, these say what was
    /// counted, and octets of the one place with packets of the other are no flow. A section of a packet counts nothing.
    fn place_counters(&mut self) {
        let is_counted = COUNTERS.iter().any(|(counter, _)| self.writes(*counter));
        let has_records =
            self.leftovers.iter().any(|leftover| leftover.list.is_some_and(|kind| kind != ListKind::Basic));
        if is_counted || has_records {
            return;
        }
        for (counter, counter_out) in COUNTERS {
            for op in &mut self.ops {
                if let Op::Number { column, .. } = op
                    && *column == counter_out
                {
                    *column = counter;
                }
            }
        }
    }

    /// Octets of frames are those of a flow where neither the record, nor a list or a section of a packet in it, may
    /// have those of IP. They stay among the elements, for they are something else.
    fn place_frame_octets(&mut self, fields: &[FieldSpecifier]) {
        if self.has_lists || self.section.is_some() || self.writes(Column::Bytes) {
            return;
        }
        let octets = ElementId::iana(LAYER2_OCTETS);
        let is_meant = |field: &FieldSpecifier| field.element == octets && fits(Column::Bytes, *field);
        if let Some(field) = fields.iter().position(is_meant) {
            self.ops.push(Op::Number { column: Column::Bytes, field });
        }
    }

    /// Records of events have one time, which is both start and end.
    fn place_event_time(&mut self, fields: &[FieldSpecifier]) {
        let event = fields.iter().enumerate().find_map(|(field, specifier)| {
            let known = |(id, _): &&(u16, TimeForm)| specifier.element.enterprise == 0 && specifier.element.id == *id;
            OBSERVATION_TIMES.iter().find(known).map(|&(_, form)| (field, form))
        });
        let Some((field, form)) = event else { return };
        for column in [Column::Start, Column::End] {
            if !self.writes(column) {
                self.ops.push(Op::Time { column, time: TimeField { field, form, init_time: None, others: None } });
            }
        }
    }

    /// Of records that have one of their times and for how long the flow lasted, the other time follows; of records
    /// without any time a duration says nothing about one.
    fn place_durations(&mut self, fields: &[FieldSpecifier]) {
        let directions =
            [(0, Column::Start, Column::End), (REVERSE_ENTERPRISE, Column::StartReverse, Column::EndReverse)];
        for (enterprise, start, end) in directions {
            let (column, known) = match (self.time_of(start), self.time_of(end)) {
                (Some(start), None) => (end, start),
                (None, Some(end)) => (start, end),
                _ => continue,
            };
            let duration = DURATIONS.iter().find_map(|&(id, form)| {
                let is_meant = |field: &FieldSpecifier| {
                    field.element == ElementId { enterprise, id } && (1..=4).contains(&field.length)
                };
                Some(DurationField { field: fields.iter().position(is_meant)?, form })
            });
            if let Some(duration) = duration {
                self.ops.push(Op::TimeByDuration { column, known, duration });
            }
        }
    }

    /// YAF distinguishes the flags of the first packet from those of all others.
    fn place_flags(&mut self, fields: &[FieldSpecifier]) {
        let position = |id| fields.iter().position(|field| field.element == ElementId { enterprise: CERT, id });
        for (column, reverse) in [(Column::TcpFlags, 0), (Column::TcpFlagsReverse, CERT_REVERSE)] {
            let both = position(INITIAL_TCP_FLAGS | reverse).zip(position(UNION_TCP_FLAGS | reverse));
            if let (false, Some((initial, union))) = (self.writes(column), both) {
                self.ops.push(Op::EitherFlag { column, initial, union });
            }
        }
    }

    /// Exporters that have type and code of ICMP in one field mean the same as those that have two. Of two fields, one
    /// for each version of ICMP, the column with both has the first; exporters fill the other one with zeros.
    fn place_icmp(&mut self, fields: &[FieldSpecifier]) {
        let Some(both) = self.field_of(Column::IcmpTypeCode) else { return };
        let is_of_ipv6 = |field: &FieldSpecifier| {
            field.element == ElementId::iana(ICMP_TYPE_CODE_IPV6) && fits(Column::IcmpTypeCode, *field)
        };
        let of_ipv6 = fields.iter().position(is_of_ipv6);
        let fields = IcmpFields { both, of_ipv6, protocol: self.field_of(Column::Protocol) };
        for column in [Column::IcmpType, Column::IcmpCode] {
            if !self.writes(column) {
                self.ops.push(Op::IcmpPart { column, fields });
            }
        }
    }

    /// An interval in two numbers says more than a first number alone, which the column would else take; a probability,
    /// float64 or float32 in its place (RFC 7011 section 6.2), is taken where there is no interval.
    fn place_interval(&mut self, fields: &[FieldSpecifier]) {
        let fits = |field: &FieldSpecifier| (1..=8).contains(&field.length);
        let position = |id| fields.iter().position(|field| field.element == ElementId::iana(id) && fits(field));
        let pairs = [(305, 306, IntervalForm::Space), (309, 310, IntervalForm::Population)];
        let pair = pairs.into_iter().find_map(|(selected, other, form)| {
            Some(Op::Interval { selected: position(selected)?, other: position(other)?, form })
        });
        let either =
            || Some(Op::Interval { selected: position(34)?, other: position(50)?, form: IntervalForm::Either });
        if let Some(pair) = pair.or_else(either) {
            self.ops.retain(|op| op.column() != Column::SamplingInterval);
            self.ops.push(pair);
        }
        if !self.writes(Column::SamplingInterval) {
            self.probability = position(311).filter(|field| matches!(fields[*field].length, 4 | 8));
        }
        for op in &mut self.ops {
            if let Op::Number { column: Column::SamplingInterval, field } = *op
                && fields[field].element == ElementId::iana(305)
            {
                *op = Op::Interval { selected: field, other: field, form: IntervalForm::Alone };
            }
        }
    }

    /// Where no field names the application, its number may have a name.
    fn place_application(&mut self, fields: &[FieldSpecifier]) {
        if self.writes(Column::Application) {
            return;
        }
        let position = |element| fields.iter().position(|field| field.element == element);
        let identifier = position(ElementId::iana(APPLICATION_ID)).map(|field| (field, ApplicationNumber::Identifier));
        let label = ElementId { enterprise: CERT, id: SILK_APP_LABEL };
        let number = identifier.or_else(|| position(label).map(|field| (field, ApplicationNumber::Label)));
        if let Some((field, number)) = number {
            self.ops.push(Op::ApplicationName { field, number });
        }
    }

    fn keep_the_rest(&mut self, fields: &[FieldSpecifier], header_uptime: bool) {
        let uses = self.field_uses(fields, header_uptime);
        for ((field, specifier), of_field) in fields.iter().enumerate().zip(uses) {
            let FieldUse { is_held, other_family, texts, choice } = of_field;
            let ElementId { enterprise, id } = specifier.element;
            let padding = enterprise == 0 && id == PADDING_OCTETS;
            if specifier.length != 0 && !padding && !is_held {
                self.leftovers.push(Leftover { field, enterprise, id, other_family, texts, choice, list: None });
            }
        }
    }

    /// What columns take of each field. It is found column by column: templates of a thousand fields come from anybody.
    fn field_uses(&self, fields: &[FieldSpecifier], header_uptime: bool) -> Vec<FieldUse> {
        let mut uses = vec![FieldUse::default(); fields.len()];
        for op in &self.ops {
            if let Op::EitherAddress { first, second, .. } = *op {
                uses[first].other_family = Some(second as u16);
            }
            if let Some(held) = op.held_field(fields, header_uptime) {
                uses[held].is_held = true;
            }
        }
        for (number, texts) in (0..).zip(&self.texts) {
            texts.fields.iter().for_each(|&field| uses[field].texts = Some(number));
        }
        for (number, choice) in (0..).zip(&self.choices) {
            choice.fields.iter().for_each(|&field| uses[field].choice = Some(number));
        }
        uses
    }
}

/// What columns take of a field.
#[derive(Debug, Clone, Default)]
struct FieldUse {
    /// A column keeps everything that the field can say.
    is_held: bool,
    /// See [`Leftover::other_family`].
    other_family: Option<u16>,
    /// See [`Leftover::texts`].
    texts: Option<u16>,
    /// See [`Leftover::choice`].
    choice: Option<u16>,
}

/// Whether values of this length can go to the column at all.
fn fits(column: Column, specifier: FieldSpecifier) -> bool {
    let length = specifier.length;
    match column.column_type() {
        ColumnType::Address => {
            let ElementId { enterprise, id } = specifier.element;
            let needed = registry::element(enterprise, id).map(|element| element.data_type);
            match needed {
                Some(registry::DataType::Ipv6Address) => length == 16,
                _ => length == 4,
            }
        }
        ColumnType::Mac => length == 6,
        ColumnType::Octets | ColumnType::Text => length > 0,
        ColumnType::Elements => false,
        _ => length == VARIABLE_LENGTH || (1..=8).contains(&length),
    }
}

/// A field that may fill a column. The best one comes first, column by column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    column: Column,
    /// Of its element among those of the column; 0 is preferred.
    rank: usize,
    /// Among fields of the same rank the smallest is preferred.
    order: usize,
    field: usize,
}

/// The fields that may fill columns, in the order of their claims.
fn claims_of(fields: &[FieldSpecifier]) -> Vec<Claim> {
    let mut claims = Vec::with_capacity(fields.len());
    for (field, specifier) in fields.iter().enumerate() {
        let of_element = Column::of_element(specifier.element.enterprise, specifier.element.id);
        if let Some((column, rank)) = of_element.filter(|(column, _)| fits(*column, *specifier)) {
            let order = if OF_THE_PACKETS_HEADERS.contains(&column) { fields.len() - field } else { field };
            claims.push(Claim { column, rank, order, field });
        }
    }
    claims.sort_unstable();
    claims
}

/// The field with the best claim of each element, of claims on a column. Of an element that a template has several
/// times, the others are of other headers.
fn best_of_elements(claims: &[Claim]) -> impl Iterator<Item = usize> {
    let of_elements = claims.chunk_by(|one, other| one.rank == other.rank);
    of_elements.filter_map(|of_element| of_element.first()).map(|claim| claim.field)
}

/// The best claims of both families, in the order of the template.
fn both_families(claims: &[Claim], fields: &[FieldSpecifier]) -> Option<(usize, usize)> {
    let of_length = |length| claims.iter().map(|claim| claim.field).find(|&field| fields[field].length == length);
    let (v4, v6) = of_length(4).zip(of_length(16))?;
    Some((v4.min(v6), v4.max(v6)))
}

/// The fields of the types of ICMP and of ICMPv6, of a template with both.
fn icmp_types(fields: &[FieldSpecifier]) -> Option<(usize, usize)> {
    let is_type = |field: &FieldSpecifier, id| field.element == ElementId::iana(id) && fits(Column::IcmpType, *field);
    let position = |id| fields.iter().position(|field| is_type(field, id));
    position(ICMP_TYPE_IPV4).zip(position(ICMP_TYPE_IPV6))
}

fn init_time(fields: &[FieldSpecifier]) -> Option<u16> {
    let is_meant = |field: &FieldSpecifier| {
        field.element.enterprise == 0 && field.element.id == SYSTEM_INIT_TIME_MS && field.length <= 8
    };
    fields.iter().position(is_meant).map(|field| field as u16)
}

/// CERT's enterprise number, and its elements that a column is made of.
const CERT: u32 = 6871;
const SILK_APP_LABEL: u16 = 33;
/// `icmpTypeIPv4` and `icmpTypeIPv6`.
const ICMP_TYPE_IPV4: u16 = 176;
const ICMP_TYPE_IPV6: u16 = 178;
/// `icmpTypeCodeIPv6`.
const ICMP_TYPE_CODE_IPV6: u16 = 139;
/// `applicationId`.
const APPLICATION_ID: u16 = 95;
const INITIAL_TCP_FLAGS: u16 = 14;
const UNION_TCP_FLAGS: u16 = 15;
/// The bit by which CERT's elements become those of the opposite direction (RFC 5103 section 6.1 leaves that to the
/// enterprise).
const CERT_REVERSE: u16 = 0x4000;

/// The column of flags of which one of YAF's elements has a part.
pub(crate) fn column_of_flags(element: ElementId) -> Option<Column> {
    let of_flags =
        element.enterprise == CERT && matches!(element.id & !CERT_REVERSE, INITIAL_TCP_FLAGS | UNION_TCP_FLAGS);
    let reverse = element.id & CERT_REVERSE != 0;
    of_flags.then_some(if reverse { Column::TcpFlagsReverse } else { Column::TcpFlags })
}

/// NetFlow v1, v5 and v7 need no template on the wire; this is the one that all records of a version follow.
pub(crate) fn fixed_template(format: &FixedFormat) -> Option<Template> {
    Template::new(TemplateId::new(256).ok()?, format.template_fields(), 0).ok()
}

#[cfg(test)]
mod tests;
