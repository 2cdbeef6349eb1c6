//! A template compiled into the column writes that its records need.
//!
//! A field goes to the column that its element fills. When several fields of a template want the same column, the
//! preferred element gets it and the others are kept among the elements without a column, so nothing is lost. Every
//! field whose length a column cannot hold is kept there as well.

use std::collections::BTreeMap;

use weir_flow::{Column, ColumnType, registry};
use weir_wire::element::PADDING_OCTETS;
use weir_wire::fixed::FixedFormat;
use weir_wire::{ElementId, FieldSpecifier, ListKind, Template, TemplateId, VARIABLE_LENGTH};

use crate::applications::ApplicationNumber;
use crate::clock::{SYSTEM_INIT_TIME_MS, TimeForm};
use crate::records::{Records, is_set};
use crate::section::Section;
use crate::texts::{TEXT_FIELDS_MAX, TextFields};

/// `observationTimeSeconds` to `observationTimeNanoseconds`: an event's only time.
const OBSERVATION_TIMES: [(u16, TimeForm); 4] =
    [(322, TimeForm::Seconds), (323, TimeForm::Millis), (324, TimeForm::Ntp), (325, TimeForm::Ntp)];

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

/// One column write, over all records of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// An unsigned integer in network order, perhaps of reduced size (RFC 7011 section 6.2).
    Number { column: Column, field: usize },
    /// 4 or 16 octets.
    Address { column: Column, field: usize },
    /// A template with both families: whichever is not all zeros, the later one when both are set.
    EitherAddress { column: Column, first: usize, second: usize },
    /// Octets as they are.
    Octets { column: Column, field: usize },
    /// Text: of the fields of [`Plan::texts`] the first that has any.
    Text { column: Column, texts: usize },
    /// Both halves of YAF's TCP flags, or-ed.
    EitherFlag { column: Column, initial: usize, union: usize },
    /// A sampling interval of two numbers: packets selected, and packets in all or left out.
    Interval { selected: usize, other: usize, form: IntervalForm },
    /// The name of an application by its number.
    ApplicationName { field: usize, number: ApplicationNumber },
    /// A time.
    Time { column: Column, field: usize, form: TimeForm, init_time: Option<usize> },
}

/// What the second number of an [`Op::Interval`] counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntervalForm {
    /// Packets left out after those selected (`samplingPacketSpace`).
    Space,
    /// All packets of which some are selected (`samplingPopulation`).
    Population,
    /// Nothing: there is one number only, of packets that are selected in a row (`samplingPacketInterval`). Exporters
    /// that send it alone mean one packet of so many, and 1 says nothing.
    Alone,
}

impl Op {
    fn column(self) -> Column {
        match self {
            Self::Number { column, .. }
            | Self::Address { column, .. }
            | Self::EitherAddress { column, .. }
            | Self::Octets { column, .. }
            | Self::Text { column, .. }
            | Self::EitherFlag { column, .. }
            | Self::Time { column, .. } => column,
            Self::Interval { .. } => Column::SamplingInterval,
            Self::ApplicationName { .. } => Column::Application,
        }
    }
}

/// A field kept among the elements without a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leftover {
    pub field: usize,
    pub enterprise: u32,
    pub id: u16,
    /// The address of the other family for the same column. This one is kept where both are set: flows in tunnels
    /// have two pairs of addresses.
    pub other_family: Option<usize>,
    /// The fields of text that it is one of, by their place in [`Plan::texts`]. It is kept where the column does not show
    /// all of it.
    pub texts: Option<usize>,
    /// Whether values are lists, which are followed by what is in them.
    pub list: Option<ListKind>,
}

impl Leftover {
    pub(crate) fn element(&self) -> ElementId {
        ElementId { enterprise: self.enterprise, id: self.id }
    }
}

/// What to do with the records of one template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub ops: Vec<Op>,
    pub leftovers: Vec<Leftover>,
    /// Fields of text, by their columns.
    pub texts: Vec<TextFields>,
    /// Whether the records have their own sampling interval.
    pub has_sampling_interval: bool,
    /// Whether the records name a sampler, whose interval options data may report.
    pub sampler_field: Option<usize>,
    /// Section of the packet that the records carry, to be read where they lack its addresses.
    pub section: Option<Section>,
    /// The interface that the flows came in by, which may have a sampler of its own.
    pub in_if_field: Option<usize>,
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
            has_sampling_interval: false,
            sampler_field: None,
            section: None,
            in_if_field: None,
            has_lists: false,
            needs_uptime: false,
            wide_uptimes: Vec::new(),
        };
        for (column, claims) in claims_of(fields) {
            plan.place(column, claims, fields);
        }
        plan.place_event_time(fields);
        plan.place_flags(fields);
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
        plan.has_sampling_interval = plan.writes(Column::SamplingInterval);
        plan.sampler_field = plan.field_of(Column::SamplerId);
        plan.in_if_field = plan.field_of(Column::InIf);
        for op in &plan.ops {
            if let Op::Time { field, form: TimeForm::Uptime, init_time, .. } = *op {
                plan.needs_uptime |= init_time.is_none();
                if fields[field].length == 8 {
                    plan.wide_uptimes.push(field);
                }
            }
        }
        plan
    }

    /// The field that a column of numbers is filled from.
    fn field_of(&self, wanted: Column) -> Option<usize> {
        self.ops.iter().find_map(|op| match *op {
            Op::Number { column, field } if column == wanted => Some(field),
            _ => None,
        })
    }

    /// Whether a leftover is kept of a record: addresses of both families share a column where only one of them is set,
    /// and a text is in its column unless it is not the first or was cleaned.
    pub(crate) fn keeps(&self, leftover: &Leftover, records: Records<'_>, record: usize) -> bool {
        let octets = records.octets_of(leftover.field, record);
        if let Some(texts) = leftover.texts.and_then(|texts| self.texts.get(texts)) {
            return !texts.shows(octets, records, record);
        }
        leftover.other_family.is_none_or(|other| is_set(octets) && is_set(records.octets_of(other, record)))
    }

    pub(crate) fn writes(&self, column: Column) -> bool {
        self.ops.iter().any(|op| op.column() == column)
    }

    /// Finds the field with the best claim on a column.
    fn place(&mut self, column: Column, mut claims: Vec<(usize, usize)>, fields: &[FieldSpecifier]) {
        let innermost = OF_THE_PACKETS_HEADERS.contains(&column);
        claims.sort_unstable_by_key(|&(rank, field)| (rank, if innermost { fields.len() - field } else { field }));
        let Some(&(_, field)) = claims.first() else { return };
        let op = match column.column_type() {
            ColumnType::Address => match both_families(&claims, fields) {
                Some((first, second)) => Op::EitherAddress { column, first, second },
                None => Op::Address { column, field },
            },
            ColumnType::Mac | ColumnType::Octets => Op::Octets { column, field },
            ColumnType::Text => {
                let fields = claims.iter().take(TEXT_FIELDS_MAX).map(|(_, field)| *field).collect();
                self.texts.push(TextFields { column, fields });
                Op::Text { column, texts: self.texts.len() - 1 }
            }
            ColumnType::Time => match TimeForm::of_element(fields[field].element.id) {
                Some(form) => Op::Time { column, field, form, init_time: init_time(fields) },
                None => return,
            },
            _ => Op::Number { column, field },
        };
        self.ops.push(op);
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
                self.ops.push(Op::Time { column, field, form, init_time: None });
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

    /// An interval in two numbers says more than a first number alone, which the column would else take.
    fn place_interval(&mut self, fields: &[FieldSpecifier]) {
        let position = |id| fields.iter().position(|field| field.element == ElementId::iana(id) && field.length <= 8);
        let pairs = [(305, 306, IntervalForm::Space), (309, 310, IntervalForm::Population)];
        let pair = pairs.into_iter().find_map(|(selected, other, form)| {
            Some(Op::Interval { selected: position(selected)?, other: position(other)?, form })
        });
        if let Some(pair) = pair {
            self.ops.retain(|op| op.column() != Column::SamplingInterval);
            self.ops.push(pair);
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
        for (field, specifier) in fields.iter().enumerate() {
            let element = specifier.element;
            let padding = element.enterprise == 0 && element.id == PADDING_OCTETS;
            if specifier.length != 0 && !padding && !self.holds_all_of(field, *specifier, header_uptime) {
                let (ElementId { enterprise, id }, other_family) = (element, self.other_family(field));
                let texts = self.texts.iter().position(|texts| texts.fields.contains(&field));
                self.leftovers.push(Leftover { field, enterprise, id, other_family, texts, list: None });
            }
        }
    }

    /// The later address of the other family that this one shares its column with.
    fn other_family(&self, field: usize) -> Option<usize> {
        self.ops.iter().find_map(|op| match *op {
            Op::EitherAddress { first, second, .. } if first == field => Some(second),
            _ => None,
        })
    }

    /// Whether a column keeps everything that the field can say.
    fn holds_all_of(&self, field: usize, specifier: FieldSpecifier, header_uptime: bool) -> bool {
        self.ops.iter().any(|op| match *op {
            Op::Number { column, field: written } => {
                written == field && usize::from(specifier.length) <= width(column.column_type())
            }
            Op::Address { field: written, .. } | Op::Octets { field: written, .. } => written == field,
            // the column takes the first only when there is no second to lose
            Op::EitherAddress { second, .. } => second == field,
            // a rounded quotient, or bits that may be of either, are not all that was said
            // and of texts it is decided for each record what the column does not show
            // a name is not the number
            Op::EitherFlag { .. } | Op::Interval { .. } | Op::Text { .. } | Op::ApplicationName { .. } => false,
            // NTP forms and microseconds are finer than a column of milliseconds; an IPFIX uptime may have no base
            Op::Time { field: written, form, init_time, .. } => {
                written == field
                    && match form {
                        TimeForm::Seconds | TimeForm::Millis => true,
                        TimeForm::Uptime => header_uptime && init_time.is_none() && specifier.length <= 4,
                        TimeForm::Ntp | TimeForm::DeltaMicros => false,
                    }
            }
        })
    }
}

/// Octets that a column of numbers holds.
fn width(column_type: ColumnType) -> usize {
    match column_type {
        ColumnType::U8 => 1,
        ColumnType::U16 => 2,
        ColumnType::U32 => 4,
        ColumnType::U64 | ColumnType::Time => 8,
        _ => 0,
    }
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

/// The fields that may fill a column, each with its rank, for every column that any may fill.
fn claims_of(fields: &[FieldSpecifier]) -> BTreeMap<Column, Vec<(usize, usize)>> {
    let mut claims: BTreeMap<Column, Vec<(usize, usize)>> = BTreeMap::new();
    for (field, specifier) in fields.iter().enumerate() {
        let of_element = Column::of_element(specifier.element.enterprise, specifier.element.id);
        if let Some((column, rank)) = of_element.filter(|(column, _)| fits(*column, *specifier)) {
            claims.entry(column).or_default().push((rank, field));
        }
    }
    claims
}

/// The best claims of both families, in the order of the template.
fn both_families(claims: &[(usize, usize)], fields: &[FieldSpecifier]) -> Option<(usize, usize)> {
    let of_length = |length| claims.iter().map(|&(_, field)| field).find(|&field| fields[field].length == length);
    let (v4, v6) = of_length(4).zip(of_length(16))?;
    Some((v4.min(v6), v4.max(v6)))
}

fn init_time(fields: &[FieldSpecifier]) -> Option<usize> {
    fields
        .iter()
        .position(|field| field.element.enterprise == 0 && field.element.id == SYSTEM_INIT_TIME_MS && field.length <= 8)
}

/// CERT's enterprise number, and its elements that a column is made of.
const CERT: u32 = 6871;
const SILK_APP_LABEL: u16 = 33;
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
mod tests {
    use weir_wire::fixed::FixedField;
    use weir_wire::{netflow1, netflow5, netflow7};

    use super::*;

    fn compile(template: &Template, header_uptime: bool) -> Plan {
        Plan::compile(template, header_uptime, crate::list_kinds::registered)
    }

    fn template(fields: &[(u32, u16, u16)]) -> Template {
        let fields = fields
            .iter()
            .map(|&(enterprise, id, length)| FieldSpecifier { element: ElementId { enterprise, id }, length })
            .collect();
        Template::new(TemplateId::new(256).expect("id"), fields, 0).expect("template")
    }

    #[test]
    fn the_v5_template_agrees_with_registry_and_wire() {
        // Cisco, "NetFlow Services and Applications"
        const OFFSETS: [(Column, usize); 18] = [
            (Column::SrcAddr, 0),
            (Column::DstAddr, 4),
            (Column::NextHop, 8),
            (Column::InIf, 12),
            (Column::OutIf, 14),
            (Column::Packets, 16),
            (Column::Bytes, 20),
            (Column::Start, 24),
            (Column::End, 28),
            (Column::SrcPort, 32),
            (Column::DstPort, 34),
            (Column::TcpFlags, 37),
            (Column::Protocol, 38),
            (Column::Tos, 39),
            (Column::SrcAs, 40),
            (Column::DstAs, 42),
            (Column::SrcMask, 44),
            (Column::DstMask, 45),
        ];
        let template = fixed_template(&netflow5::FORMAT).expect("template");
        assert_eq!(template.layout().fixed_record_len(), Some(netflow5::RECORD_LEN));
        let mut offset = 0;
        for field in template.fields() {
            if field.element.id != PADDING_OCTETS {
                let (column, _) = Column::of_element(0, field.element.id).expect("a column");
                assert!(OFFSETS.contains(&(column, offset)), "{column} {offset}");
                let known = netflow5::field::ALL.iter().find(|known| known.offset == offset).expect("a field of wire");
                assert_eq!(known.length, usize::from(field.length), "{column}");
            }
            offset += usize::from(field.length);
        }
        let plan = compile(&template, true);
        assert_eq!(plan.leftovers, []);
        assert_eq!(plan.ops.len(), 18);
    }

    /// Offsets of fields as the tables of wire have them, which follow Cisco's.
    #[test]
    fn the_v1_and_v7_templates_agree_with_wire() {
        use netflow7::field::{DST_AS, DST_MASK, ROUTER_SC, SRC_AS, SRC_MASK};
        macro_rules! names {
            ($version:ident) => {{
                use $version::field::{
                    DST_ADDR, DST_PORT, FIRST, INPUT, LAST, NEXT_HOP, OCTETS, OUTPUT, PACKETS, PROTOCOL, SRC_ADDR,
                    SRC_PORT, TCP_FLAGS, TOS,
                };
                [
                    (SRC_ADDR, 8),
                    (DST_ADDR, 12),
                    (NEXT_HOP, 15),
                    (INPUT, 10),
                    (OUTPUT, 14),
                    (PACKETS, 2),
                    (OCTETS, 1),
                    (FIRST, 22),
                    (LAST, 21),
                    (SRC_PORT, 7),
                    (DST_PORT, 11),
                    (PROTOCOL, 4),
                    (TOS, 5),
                    (TCP_FLAGS, 6),
                ]
            }};
        }
        let check = |format: &FixedFormat, names: &[(FixedField, u16)]| {
            let (template, version) = (fixed_template(format).expect("template"), format.version);
            assert_eq!(template.layout().fixed_record_len(), Some(format.record_len));
            let (mut offset, mut found) = (0, 0);
            for field in template.fields() {
                if let Some((known, _)) = names.iter().find(|(_, id)| *id == field.element.id) {
                    let place = (offset, usize::from(field.length));
                    assert_eq!((known.offset, known.length), place, "v{version} {}", known.name);
                    found += 1;
                }
                offset += usize::from(field.length);
            }
            assert_eq!(found, names.len(), "v{version}");
            let plan = compile(&template, true);
            assert_eq!(
                plan.leftovers.iter().map(|leftover| leftover.id).collect::<Vec<_>>(),
                match version {
                    7 => vec![130],
                    _ => vec![],
                }
            );
        };
        check(&netflow1::FORMAT, &names!(netflow1));
        let mut names = names!(netflow7).to_vec();
        let more = [(SRC_AS, 16), (DST_AS, 17), (SRC_MASK, 9), (DST_MASK, 13), (ROUTER_SC, 130)];
        names.extend(more);
        check(&netflow7::FORMAT, &names);
    }

    #[test]
    fn an_interval_of_two_numbers_fills_the_column() {
        let plan = compile(&template(&[(0, 305, 4), (0, 306, 4)]), false);
        assert_eq!(plan.ops, [Op::Interval { selected: 0, other: 1, form: IntervalForm::Space }]);
        assert!(plan.has_sampling_interval);
        assert_eq!(plan.leftovers.len(), 2, "the exact numbers are kept");
    }

    #[test]
    fn a_second_field_for_a_column_is_kept() {
        let plan = compile(&template(&[(0, 85, 8), (0, 1, 4), (9, 12235, VARIABLE_LENGTH)]), false);
        assert!(plan.ops.contains(&Op::Number { column: Column::Bytes, field: 1 }));
        let kept: Vec<_> = plan.leftovers.iter().map(|leftover| (leftover.enterprise, leftover.id)).collect();
        assert_eq!(kept, [(0, 85), (9, 12235)]);
    }

    #[test]
    fn a_field_too_wide_for_its_column_is_written_and_kept() {
        let plan = compile(&template(&[(0, 7, 4)]), false);
        assert_eq!(plan.ops, [Op::Number { column: Column::SrcPort, field: 0 }]);
        assert_eq!(plan.leftovers.len(), 1);
    }

    #[test]
    fn the_innermost_header_fills_the_columns() {
        // protocol and source address of a tunnel, then those of what is in it
        let plan = compile(&template(&[(0, 4, 1), (0, 27, 16), (0, 1, 8), (0, 4, 1), (0, 27, 16), (0, 1, 8)]), false);
        let column_of = |field| {
            plan.ops
                .iter()
                .find(|op| matches!(**op, Op::Number { field: f, .. } | Op::Address { field: f, .. } if f == field))
                .map(|op| op.column())
        };
        assert_eq!((column_of(3), column_of(4)), (Some(Column::Protocol), Some(Column::SrcAddr)));
        assert_eq!(column_of(2), Some(Column::Bytes));
        let kept: Vec<_> = plan.leftovers.iter().map(|leftover| leftover.field).collect();
        assert_eq!(kept, [0, 1, 5]);
    }

    #[test]
    fn an_uptime_is_kept_where_no_header_tells_what_it_counts_from() {
        let template = template(&[(0, 22, 4)]);
        assert_eq!(compile(&template, true).leftovers.len(), 0);
        let plan = compile(&template, false);
        assert!(plan.writes(Column::Start));
        assert_eq!(plan.leftovers.len(), 1);
    }

    #[test]
    fn few_fields_of_text_are_looked_at_for_one_column() {
        let plan = compile(&template(&[(35632, 188, 8); 200]), false);
        assert_eq!(plan.texts, [TextFields { column: Column::ServerName, fields: vec![0, 1, 2, 3] }]);
        let kept = plan.leftovers.iter().filter(|leftover| leftover.texts.is_none()).count();
        assert_eq!((plan.leftovers.len(), kept), (200, 196), "the others are kept as they are");
    }

    #[test]
    fn both_address_families_in_one_template() {
        let plan = compile(&template(&[(0, 27, 16), (0, 8, 4)]), false);
        assert_eq!(plan.ops, [Op::EitherAddress { column: Column::SrcAddr, first: 0, second: 1 }]);
        assert_eq!(
            plan.leftovers,
            [Leftover { field: 0, enterprise: 0, id: 27, other_family: Some(1), texts: None, list: None }]
        );
    }

    #[test]
    fn ends_of_tunnels_in_the_elements_of_ntop() {
        // nProbe User's Guide, "Flow Information Elements": 114 and 116 are IPv4 addresses, 396 and 397 IPv6
        let (src, dst) = (Column::TunnelSrcAddr, Column::TunnelDstAddr);
        for (enterprise, [src4, dst4, src6, dst6]) in [(35632, [114, 116, 396, 397]), (0, [57586, 57588, 57868, 57869])]
        {
            for (src_id, dst_id, octets) in [(src4, dst4, 4), (src6, dst6, 16)] {
                let plan = compile(&template(&[(enterprise, src_id, octets), (enterprise, dst_id, octets)]), false);
                let expected = [Op::Address { column: src, field: 0 }, Op::Address { column: dst, field: 1 }];
                assert_eq!((plan.ops, plan.leftovers), (expected.to_vec(), Vec::new()), "{enterprise}/{src_id}");
            }
        }
    }
}
