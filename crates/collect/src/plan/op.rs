//! The column writes that plans consist of.

use weir_flow::{Column, ColumnType};
use weir_wire::FieldSpecifier;

use crate::applications::ApplicationNumber;
use crate::clock::{DurationForm, TimeForm};
use crate::sampling::Rate;

/// One column write, over all records of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    /// An unsigned integer in network order, perhaps of reduced size (RFC 7011 section 6.2).
    Number { column: Column, field: usize },
    /// Of the fields of one of [`crate::plan::Plan::choices`] the one that a record means.
    Chosen { column: Column, choice: usize },
    /// 4 or 16 octets.
    Address { column: Column, field: usize },
    /// A template with both families: whichever is not all zeros, the later one when both are set, that of the flow's
    /// family when neither is.
    EitherAddress { column: Column, first: usize, second: usize },
    /// Octets as they are.
    Octets { column: Column, field: usize },
    /// Text: of the fields of [`crate::plan::Plan::texts`] the first that has any.
    Text { column: Column, texts: usize },
    /// Both halves of YAF's TCP flags, or-ed.
    EitherFlag { column: Column, initial: usize, union: usize },
    /// A sampling interval of two numbers, or of one that is no interval as it is.
    Interval { selected: usize, other: usize, form: IntervalForm },
    /// The type or the code of ICMP, of a field with both; null where the protocol, if a field has it, is another.
    IcmpPart { column: Column, fields: IcmpFields },
    /// The name of an application by its number.
    ApplicationName { field: usize, number: ApplicationNumber },
    /// A time.
    Time { column: Column, time: TimeField },
    /// An end by the start of the flow and for how long it lasted, or a start by its end.
    TimeByDuration { column: Column, known: TimeField, duration: DurationField },
}

/// A field with a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeField {
    pub field: usize,
    pub form: TimeForm,
    /// Of an uptime, the field with the time that it counts from.
    pub init_time: Option<u16>,
    /// The fields that have the time of records where it is 0, by their place in [`crate::plan::Plan::other_times`].
    pub others: Option<u16>,
}

impl TimeField {
    /// Whether every record has a time there. An uptime in IPFIX may have no base, and 0 is no time of NTP.
    fn is_always_known(self, fields: &[FieldSpecifier], header_uptime: bool) -> bool {
        let is_known = match self.form {
            TimeForm::Uptime => header_uptime,
            TimeForm::Ntp => false,
            TimeForm::Seconds | TimeForm::Millis | TimeForm::DeltaMicros => true,
        };
        is_known && self.others.is_none() && fields[self.field].length <= 8
    }
}

/// A field that says for how long a flow lasted. It has at most the four octets of its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DurationField {
    pub field: usize,
    pub form: DurationForm,
}

/// Fields with the type and the code of ICMP in one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IcmpFields {
    pub both: usize,
    /// Of a template that has an element for each version of ICMP, that of ICMP of IPv6 (`icmpTypeCodeIPv6`).
    pub of_ipv6: Option<usize>,
    pub protocol: Option<usize>,
}

/// What the numbers of an [`Op::Interval`] are: the first counts packets selected, unless it is said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntervalForm {
    /// The second counts packets left out after those selected (`samplingPacketSpace`).
    Space,
    /// The second counts all packets of which some are selected (`samplingPopulation`).
    Population,
    /// There is one number only, of packets that are selected in a row (`samplingPacketInterval`). Exporters
    /// that send it alone mean one packet of so many, and 1 says nothing.
    Alone,
    /// Both are intervals (`samplingInterval`, `samplerRandomInterval`), of which 0 says nothing.
    Either,
}

impl IntervalForm {
    /// What the numbers of a record say; `None` where that is nothing.
    pub(crate) fn rate(self, (first, second): (Option<u64>, Option<u64>)) -> Option<Rate> {
        match self {
            Self::Space => Rate::new(first?, first?.saturating_add(second?)),
            Self::Population => Rate::new(first?, second?),
            Self::Alone => Rate::new(1, first?).filter(|rate| rate.observed > 1),
            Self::Either => Rate::new(1, first.filter(|interval| *interval > 0).or(second)?),
        }
    }
}

impl Op {
    pub(crate) fn column(self) -> Column {
        match self {
            Self::Number { column, .. }
            | Self::Chosen { column, .. }
            | Self::Address { column, .. }
            | Self::EitherAddress { column, .. }
            | Self::Octets { column, .. }
            | Self::Text { column, .. }
            | Self::EitherFlag { column, .. }
            | Self::IcmpPart { column, .. }
            | Self::Time { column, .. }
            | Self::TimeByDuration { column, .. } => column,
            Self::Interval { .. } => Column::SamplingInterval,
            Self::ApplicationName { .. } => Column::Application,
        }
    }

    /// The field of which the column keeps everything that it can say.
    pub(crate) fn held_field(self, fields: &[FieldSpecifier], header_uptime: bool) -> Option<usize> {
        let length = |field: usize| usize::from(fields[field].length);
        let (field, is_held) = match self {
            Self::Number { column, field } => (field, length(field) <= width(column.column_type())),
            Self::Address { field, .. } | Self::Octets { field, .. } => (field, true),
            // the column takes the first only when there is no second to lose
            Self::EitherAddress { second, .. } => (second, true),
            // a rounded quotient, or bits that may be of either, are not all that was said
            // and of texts and choices it is decided for each record what the column does not show
            // a name is not the number
            Self::EitherFlag { .. }
            | Self::IcmpPart { .. }
            | Self::Interval { .. }
            | Self::Text { .. }
            | Self::Chosen { .. }
            | Self::ApplicationName { .. } => return None,
            // NTP forms and microseconds are finer than a column of milliseconds; an IPFIX uptime may have no base
            Self::Time { time: TimeField { field, form, init_time, .. }, .. } => {
                let is_held = match form {
                    TimeForm::Seconds | TimeForm::Millis => true,
                    TimeForm::Uptime => header_uptime && init_time.is_none() && length(field) <= 4,
                    TimeForm::Ntp | TimeForm::DeltaMicros => false,
                };
                (field, is_held)
            }
            // it is what lies between the two columns, in whole milliseconds
            Self::TimeByDuration { known, duration, .. } => {
                (duration.field, duration.form == DurationForm::Millis && known.is_always_known(fields, header_uptime))
            }
        };
        is_held.then_some(field)
    }
}

/// Octets that a column of numbers holds.
pub(crate) fn width(column_type: ColumnType) -> usize {
    match column_type {
        ColumnType::U8 => 1,
        ColumnType::U16 => 2,
        ColumnType::U32 => 4,
        ColumnType::U64 | ColumnType::Time => 8,
        _ => 0,
    }
}
