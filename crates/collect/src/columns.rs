//! Runs a plan: all records of a set, one column after another.

use weir_flow::builder::{NumberColumn, OctetsColumn};
use weir_flow::elements::ElementsColumn;
use weir_flow::{Column, ColumnType, FlowBatchBuilder};
use weir_wire::FieldPositions;
use weir_wire::value::be_uint;

use arrow::datatypes::ArrowPrimitiveType;

use crate::applications::ApplicationNames;
use crate::choice::{Choice, FamilyFields, set_address};
use crate::clock::{MessageClock, TimeForm, is_absolute};
use crate::domain::DomainTemplates;
use crate::domain_key::DomainKey;
use crate::lists;
use crate::observed::{self, ObservedPacket};
use crate::plan::{DurationField, IcmpFields, IntervalForm, Leftover, Op, Plan, TimeField};
use crate::records::Records;
use crate::sampling::SamplingInForce;
use crate::{section, texts};

/// What the records of a domain are read by, besides their plan.
pub(crate) struct KnownOfDomain<'a> {
    pub key: DomainKey,
    /// By these, lists are read.
    pub templates: &'a DomainTemplates,
    /// Names of the numbers of applications.
    pub names: &'a ApplicationNames,
    /// What options data report about sampling.
    pub sampling: &'a SamplingInForce<'a>,
}

/// Appends the records to their columns; the group of rows must have been begun. Returns how many lists could not be read.
pub(crate) fn write(
    plan: &Plan,
    records: Records<'_>,
    clock: &MessageClock,
    known: &KnownOfDomain<'_>,
    builder: &mut FlowBatchBuilder,
) -> u32 {
    for op in &plan.ops {
        match *op {
            // where options report nothing, what the records say is all there is
            Op::Number { column: Column::SamplingInterval, field } if !known.sampling.is_none() => {
                write_interval((field, field), IntervalForm::Either, records, known.sampling, builder);
            }
            Op::Number { column, field } => write_number(column, field, records, builder),
            Op::Chosen { column, choice } => {
                let Some(choice) = plan.choices.get(choice) else { continue };
                write_chosen(column, choice, records, builder);
            }
            Op::Address { column, field } => write_address(builder.address(column), field, records),
            Op::EitherAddress { column, first, second } => {
                write_either(builder.address(column), (first, second), plan.family(), records);
            }
            Op::Octets { column, field } => {
                let positions = records.located.field(field);
                let target = builder.address(column);
                (0..records.len()).for_each(|record| target.push(Some(records.octets(&positions, record))));
            }
            Op::Text { column, texts } => {
                let Some(fields) = plan.texts.get(texts) else { continue };
                let target = builder.text(column);
                (0..records.len()).for_each(|at| texts::push(target, column, fields.shown(records, at)));
            }
            Op::EitherFlag { column, initial, union } => {
                let target = builder.u16(column);
                let bits = |field, record| records.number(field, record).unwrap_or(0) as u16;
                (0..records.len()).for_each(|at| target.push(Some(bits(initial, at) | bits(union, at))));
            }
            Op::Interval { selected, other, form } => {
                write_interval((selected, other), form, records, known.sampling, builder);
            }
            Op::IcmpPart { column, fields } => {
                let target = builder.u8(column);
                (0..records.len()).for_each(|at| target.push(icmp_part(column, records, at, fields)));
            }
            Op::ApplicationName { field, number } => {
                let positions = records.located.field(field);
                let target = builder.text(Column::Application);
                let name = |at| known.names.name(known.key, number, records.octets(&positions, at));
                (0..records.len()).for_each(|at| target.push(name(at).map(str::as_bytes)));
            }
            Op::Time { column, time } => {
                write_time(builder.time(column), plan, (time, plan.end_of(column)), records, clock);
            }
            Op::TimeByDuration { column, known, duration } => {
                let is_end = matches!(column, Column::End | Column::EndReverse);
                let target = builder.time(column);
                let known = |at| plan.time_meant(known, records, at);
                let time = |at| time_by_duration(records, at, (known(at), duration), is_end, clock);
                (0..records.len()).for_each(|at| target.push(time(at)));
            }
        }
    }
    write_rest(plan, records, known, builder)
}

/// Appends what is no value of one field: packets of which the records have sections, lists, and elements without a
/// column.
fn write_rest(plan: &Plan, records: Records<'_>, known: &KnownOfDomain<'_>, builder: &mut FlowBatchBuilder) -> u32 {
    let sections = plan.section.map(|section| section::read(section, records));
    if let Some(rows) = &sections {
        section::write(rows, builder, |column| plan.writes(column));
    }
    if plan.has_lists {
        return lists::write_leftovers(plan, records, known.templates, builder);
    }
    if !plan.leftovers.is_empty() {
        write_leftovers(plan, records, sections.as_deref(), builder);
    }
    0
}

/// Writes the intervals of records that have their own: where one says nothing, what options data report is in force. A
/// 0 stays where these report nothing either.
fn write_interval(
    (first, second): (usize, usize),
    form: IntervalForm,
    records: Records<'_>,
    in_force: &SamplingInForce<'_>,
    builder: &mut FlowBatchBuilder,
) {
    let target = builder.u32(Column::SamplingInterval);
    for record in 0..records.len() {
        let numbers = (records.number(first, record), records.number(second, record));
        let zero = (form == IntervalForm::Either && numbers.1 == Some(0)).then_some(0);
        target.push(match form.rate(numbers) {
            Some(rate) => rate.interval(),
            None => in_force.of_record(records, record).or(zero),
        });
    }
}

/// Type or code of ICMP, from type * 256 + code. Exporters that have the field in every record fill it with zeros where the
/// protocol is another, and 0 is a type.
fn icmp_part(column: Column, records: Records<'_>, record: usize, fields: IcmpFields) -> Option<u8> {
    let field = match fields.protocol.map(|protocol| records.number(protocol, record)) {
        None | Some(Some(1)) => fields.both,
        Some(Some(58)) => fields.of_ipv6.unwrap_or(fields.both),
        Some(_) => return None,
    };
    let both = u16::try_from(records.number(field, record)?).ok()?;
    Some(if column == Column::IcmpType { (both >> 8) as u8 } else { both as u8 })
}

fn write_leftovers(
    plan: &Plan,
    records: Records<'_>,
    sections: Option<&[ObservedPacket<'_>]>,
    builder: &mut FlowBatchBuilder,
) {
    let target = builder.elements();
    if sections.is_none() && write_all(plan, records, target) {
        return;
    }
    for record in 0..records.len() {
        for leftover in plan.leftovers.iter().filter(|leftover| plan.keeps(leftover, records, record)) {
            target.push(leftover.enterprise, leftover.id, records.octets_of(leftover.field, record));
        }
        if let Some(row) = sections.and_then(|rows| rows.get(record)) {
            observed::push_elements(row, target);
        }
        target.end_row();
    }
}

/// Writes all leftovers of all records at once, where each record has all of them at the same places; false where not.
fn write_all(plan: &Plan, records: Records<'_>, target: &mut ElementsColumn) -> bool {
    let leftovers = &plan.leftovers;
    let fixed = |leftover: &Leftover| match records.located.field(leftover.field) {
        FieldPositions::Fixed { offset, stride, length } if leftover.is_always_kept() => Some((offset, stride, length)),
        _ => None,
    };
    let Some((begin, stride, _)) = leftovers.first().and_then(fixed) else { return false };
    if !leftovers.iter().all(|leftover| fixed(leftover).is_some()) {
        return false;
    }
    let places = || leftovers.iter().filter_map(fixed);
    let elements =
        leftovers.iter().zip(places()).map(|(leftover, (.., length))| (leftover.enterprise, leftover.id, length));
    // where one stands after the other in the record, they are copied at once
    let end = places().try_fold(begin, |end, (offset, _, length)| (offset == end).then_some(end + length));
    let rows = 0..records.len();
    let octets = |place: usize, length: usize| records.body.get(place..place + length).unwrap_or_default();
    match end {
        Some(end) if end - begin == stride => {
            target.extend_rows(rows.len(), elements, std::iter::once(octets(begin, rows.len() * stride)));
        }
        Some(end) => {
            let of_row = |row| octets(begin + row * stride, end - begin);
            target.extend_rows(rows.len(), elements, rows.map(of_row));
        }
        None => {
            let of_row = |row| places().map(move |(offset, stride, length)| octets(offset + row * stride, length));
            target.extend_rows(rows.len(), elements, rows.clone().flat_map(of_row));
        }
    }
    true
}

fn write_number(column: Column, field: usize, records: Records<'_>, builder: &mut FlowBatchBuilder) {
    match column.column_type() {
        ColumnType::U8 => append(builder.u8(column), field, records, |value| value as u8),
        ColumnType::U16 => append(builder.u16(column), field, records, |value| value as u16),
        ColumnType::U32 => append(builder.u32(column), field, records, |value| value as u32),
        _ => append(builder.u64(column), field, records, |value| value),
    }
}

fn write_chosen(column: Column, choice: &Choice, records: Records<'_>, builder: &mut FlowBatchBuilder) {
    match column.column_type() {
        ColumnType::U8 => append_chosen(builder.u8(column), choice, records),
        ColumnType::U16 => append_chosen(builder.u16(column), choice, records),
        ColumnType::U32 => append_chosen(builder.u32(column), choice, records),
        _ => append_chosen(builder.u64(column), choice, records),
    }
}

fn append_chosen<T>(target: &mut NumberColumn<T>, choice: &Choice, records: Records<'_>)
where
    T: ArrowPrimitiveType<Native: TryFrom<u64>>,
{
    for record in 0..records.len() {
        target.push(choice.number(records, record).and_then(|number| number.try_into().ok()));
    }
}

/// Appends integers. `narrow` keeps the low bits; values that do not fit become null.
#[inline]
fn append<T: ArrowPrimitiveType>(
    target: &mut NumberColumn<T>,
    field: usize,
    records: Records<'_>,
    narrow: impl Fn(u64) -> T::Native + Copy,
) {
    let width = size_of::<T::Native>();
    match records.located.field(field) {
        FieldPositions::Fixed { offset, stride, length } if length <= width => {
            append_fixed(target, (offset, stride, length), records, narrow);
        }
        positions => {
            let limit = if width == 8 { u64::MAX } else { (1 << (8 * width)) - 1 };
            for record in 0..records.len() {
                let value = be_uint(records.octets(&positions, record)).filter(|value| *value <= limit);
                target.push(value.map(narrow));
            }
        }
    }
}

/// The hot loops, one for each length so that the compiler knows it.
#[inline]
fn append_fixed<T: ArrowPrimitiveType>(
    target: &mut NumberColumn<T>,
    (offset, stride, length): (usize, usize, usize),
    records: Records<'_>,
    narrow: impl Fn(u64) -> T::Native + Copy,
) {
    macro_rules! of_length {
        ($($n:literal)*) => {
            match length {
                $($n => target.extend(records.strided::<$n>(offset, stride).map(|octets| narrow(widen(octets)))),)*
                _ => (0..records.len()).for_each(|_| target.push(None)),
            }
        };
    }
    of_length!(1 2 3 4 5 6 7 8);
}

#[inline]
fn widen<const N: usize>(octets: [u8; N]) -> u64 {
    let mut wide = [0; 8];
    wide[8 - N..].copy_from_slice(&octets);
    u64::from_be_bytes(wide)
}

fn write_address(target: &mut OctetsColumn, field: usize, records: Records<'_>) {
    match records.located.field(field) {
        FieldPositions::Fixed { offset, stride, length: 4 } => {
            target.extend_fixed(records.strided::<4>(offset, stride));
        }
        FieldPositions::Fixed { offset, stride, length: 16 } => {
            target.extend_fixed(records.strided::<16>(offset, stride));
        }
        positions => (0..records.len()).for_each(|record| target.push(Some(records.octets(&positions, record)))),
    }
}

/// Some exporters have one template for both families and fill the other one with zeros. Zeros in both are an address
/// of the flow's family, such as the next hop of a network that is attached.
fn write_either(
    target: &mut OctetsColumn,
    (first, second): (usize, usize),
    family: Option<FamilyFields>,
    records: Records<'_>,
) {
    let (first, second) = (records.located.field(first), records.located.field(second));
    for record in 0..records.len() {
        let (first, second) = (records.octets(&first, record), records.octets(&second, record));
        let zeros = || {
            let is_ipv6 = family.is_some_and(|family| family.is_ipv6(records, record));
            if (first.len() == 16) == is_ipv6 { first } else { second }
        };
        target.push(Some(set_address(first, second).unwrap_or_else(zeros)));
    }
}

/// Appends times. Next to a start there may be the end of the flow, for uptimes that have wrapped between the two.
fn write_time(
    target: &mut NumberColumn<arrow::datatypes::TimestampMillisecondType>,
    plan: &Plan,
    (time, end): (TimeField, Option<TimeField>),
    records: Records<'_>,
    clock: &MessageClock,
) {
    // most exporters of today: a time that nothing else changes
    if time.form != TimeForm::Uptime && time.others.is_none() {
        return write_absolute(target, time, records, clock);
    }
    match (uptimes(time, records, clock), end.and_then(|end| uptimes(end, records, clock))) {
        (Some(starts), Some(ends)) => {
            return target.extend(starts.zip(ends).map(|(start, end)| clock.start_by_uptimes(start, end)));
        }
        (Some(times), None) if end.is_none() => return target.extend(times),
        _ => {}
    }
    for record in 0..records.len() {
        let meant = |time| plan.time_meant(time, records, record);
        let time_ms = |time| time_ms(records, record, time, clock);
        let (time, end) = (meant(time), end.map(meant));
        let counts = |time: TimeField| {
            time.form == TimeForm::Uptime
                && records.number(time.field, record).is_some_and(|uptime| !is_absolute(uptime))
        };
        let end_ms = end.filter(|end| counts(time) && counts(*end)).and_then(time_ms);
        let start_ms = |start_ms| end_ms.map_or(start_ms, |end_ms| clock.start_by_uptimes(start_ms, end_ms));
        target.push(time_ms(time).map(start_ms));
    }
}

/// Appends times that are no uptimes.
fn write_absolute(
    target: &mut NumberColumn<arrow::datatypes::TimestampMillisecondType>,
    time: TimeField,
    records: Records<'_>,
    clock: &MessageClock,
) {
    for record in 0..records.len() {
        target.push(records.number(time.field, record).and_then(|value| time.form.to_ms(value, clock)));
    }
}

/// The times of a field of uptimes of 32 bits that count from what the header says; `None` for any other field.
fn uptimes<'a>(
    time: TimeField,
    records: Records<'a>,
    clock: &MessageClock,
) -> Option<impl ExactSizeIterator<Item = i64> + use<'a>> {
    let FieldPositions::Fixed { offset, stride, length: 4 } = records.located.field(time.field) else { return None };
    let counts = time.form == TimeForm::Uptime && time.init_time.is_none() && time.others.is_none();
    let uptime = clock.uptime_ms.filter(|_| counts)?;
    let export_ms = clock.export_ms;
    Some(records.strided::<4>(offset, stride).map(move |octets| {
        let age_ms = uptime.wrapping_sub(u32::from_be_bytes(octets)) as i32;
        export_ms - i64::from(age_ms)
    }))
}

/// The time that a field of a record has, in milliseconds since the epoch.
#[inline]
fn time_ms(records: Records<'_>, record: usize, time: TimeField, clock: &MessageClock) -> Option<i64> {
    let TimeField { field, form, init_time, .. } = time;
    let base = init_time.filter(|_| form == TimeForm::Uptime);
    // an uptime has 32 bits and wraps, so it counts back from the uptime at the export
    let clock = match base.and_then(|base| records.number(base.into(), record)) {
        Some(base) => MessageClock { uptime_ms: Some(clock.export_ms.wrapping_sub(base as i64) as u32), ..*clock },
        None => *clock,
    };
    records.number(field, record).and_then(|value| form.to_ms(value, &clock))
}

/// The end of a flow by its start and for how long it lasted, or its start by its end.
fn time_by_duration(
    records: Records<'_>,
    record: usize,
    (known, duration): (TimeField, DurationField),
    is_end: bool,
    clock: &MessageClock,
) -> Option<i64> {
    let known_ms = time_ms(records, record, known, clock)?;
    let duration_ms = duration.form.to_ms(records.number(duration.field, record)?);
    Some(if is_end { known_ms.saturating_add(duration_ms) } else { known_ms.saturating_sub(duration_ms) })
}
