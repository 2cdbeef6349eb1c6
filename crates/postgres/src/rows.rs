//! Rows of an answer as messages.
//!
//! Rows are written from Arrow in the thread of the question, so that connections wait for no encoding. Columns that clients
//! often ask for have a way of their own; the rest is first cast to one of these.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BooleanArray, PrimitiveArray, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{
    DataType, Decimal128Type, Field, Float32Type, Float64Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit,
    SchemaRef, TimeUnit, TimestampMicrosecondType, UInt64Type,
};
use jiff::tz::TimeZone;
use weir_print::ColumnText;
use weir_print::digits::{Clock, ZonedClock, push_f32, push_f64, push_hex, push_i64, push_ipv4, push_ipv6};
use weir_sql::{Reason, Refusal};

use crate::kinds::PgKind;
use crate::messages::Format;

/// Microseconds from 1970 to 2000, where Postgres begins to count.
const EPOCH_MICROS: i64 = 946_684_800_000_000;
const EPOCH_DAYS: i64 = 10_957;
/// Families of addresses on the wire.
const FAMILY_IPV4: u8 = 2;
const FAMILY_IPV6: u8 = 3;

/// Writes rows.
pub(crate) struct RowWriter {
    schema: SchemaRef,
    kinds: Vec<PgKind>,
    formats: Vec<Format>,
    clocks: Clocks,
}

/// Writes times.
struct Clocks {
    plain: Clock,
    zoned: ZonedClock,
}

/// The values of a column, ready to be written.
enum Values<'a> {
    Int(PrimitiveArray<Int64Type>),
    Unsigned(&'a PrimitiveArray<UInt64Type>),
    Bool(&'a BooleanArray),
    Float4(&'a PrimitiveArray<Float32Type>),
    Float8(&'a PrimitiveArray<Float64Type>),
    Address(&'a BinaryArray),
    Octets(BinaryArray),
    /// Microseconds since 1970.
    Time(PrimitiveArray<TimestampMicrosecondType>),
    Decimal(PrimitiveArray<Decimal128Type>, i8),
    Interval(PrimitiveArray<IntervalMonthDayNanoType>),
    Text(StringArray),
    Listed(ColumnText<'a>, &'a ArrayRef),
}

impl RowWriter {
    /// For rows of these columns.
    pub(crate) fn new(schema: &SchemaRef, formats: &[Format], zone: TimeZone) -> Self {
        let kinds = schema.fields().iter().map(|field| PgKind::of_field(field)).collect();
        let formats = (0..schema.fields().len()).map(|position| Format::at(formats, position)).collect();
        let clocks = Clocks { plain: Clock::new(), zoned: ZonedClock::new(zone) };
        Self { schema: Arc::clone(schema), kinds, formats, clocks }
    }

    /// Hands on the messages of the rows of a batch, in pieces that end where a row ends and have little more than `octets_max`.
    /// `take` gets the octets and where each row ends; it gives room for the next piece.
    pub(crate) fn write(
        &mut self,
        batch: &RecordBatch,
        octets_max: usize,
        mut take: impl FnMut(Vec<u8>, Vec<u32>) -> Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let fields = self.schema.fields().iter().zip(&self.kinds);
        let columns = fields.zip(batch.columns()).map(|((field, kind), values)| Values::new(field, *kind, values));
        let mut columns = columns.collect::<Result<Vec<_>, _>>()?;
        let (mut out, mut ends) = (Vec::with_capacity(octets_max + 1024), Vec::new());
        for row in 0..batch.num_rows() {
            let start = out.len();
            out.push(b'D');
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&(columns.len() as u16).to_be_bytes());
            for (position, values) in columns.iter_mut().enumerate() {
                let (kind, format) = (self.kinds[position], self.formats[position]);
                push_value(&mut out, |out| values.push(row, kind, format, &mut self.clocks, out))
                    .map_err(|problem| problem.refusal(self.schema.field(position).name()))?;
            }
            let length = u32::try_from(out.len() - start - 1).map_err(|_| Problem::Large.refusal("the row"))?;
            out[start + 1..start + 5].copy_from_slice(&length.to_be_bytes());
            ends.push(out.len() as u32);
            if out.len() >= octets_max {
                take(std::mem::replace(&mut out, Vec::with_capacity(octets_max + 1024)), std::mem::take(&mut ends))?;
            }
        }
        if ends.is_empty() { Ok(()) } else { take(out, ends) }
    }
}

/// Why a value cannot be written.
#[derive(Debug, Clone, Copy)]
enum Problem {
    /// It is 2^63 or more.
    Bigint(u64),
    Large,
    /// Octets that are no address.
    Address(usize),
}

impl Problem {
    fn refusal(self, name: &str) -> Refusal {
        match self {
            Self::Bigint(value) => Refusal::new(Reason::Value, format!("{name} is {value}, which is beyond bigint"))
                .with_hint(format!("write CAST({name} AS DECIMAL(20, 0)), which is numeric")),
            Self::Large => Refusal::new(Reason::Value, format!("{name} is larger than a message can be")),
            Self::Address(octets) => {
                Refusal::new(Reason::Value, format!("{name} has a value of {octets} octets, which is no address"))
            }
        }
    }
}

/// Writes the length of a value before it; a null has only a length.
fn push_value(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> Result<bool, Problem>) -> Result<(), Problem> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let length = if write(out)? { i32::try_from(out.len() - start - 4).map_err(|_| Problem::Large)? } else { -1 };
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

fn cannot(error: &arrow::error::ArrowError) -> Refusal {
    Refusal::new(Reason::Internal, format!("a column cannot be written: {error}"))
}

impl<'a> Values<'a> {
    fn new(field: &Field, kind: PgKind, values: &'a ArrayRef) -> Result<Self, Refusal> {
        let into = |kind: &DataType| cast(values, kind).map_err(|error| cannot(&error));
        let microseconds = |zone| DataType::Timestamp(TimeUnit::Microsecond, zone);
        Ok(match (kind, values.data_type()) {
            (_, DataType::UInt64) => Self::Unsigned(values.as_primitive()),
            (PgKind::Int2 | PgKind::Int4 | PgKind::Int8, _) => {
                Self::Int(into(&DataType::Int64)?.as_primitive().clone())
            }
            (PgKind::Bool, DataType::Boolean) => Self::Bool(values.as_boolean()),
            (PgKind::Float4, DataType::Float32) => Self::Float4(values.as_primitive()),
            (PgKind::Float8, DataType::Float64) => Self::Float8(values.as_primitive()),
            (PgKind::Inet, DataType::Binary) => Self::Address(values.as_binary()),
            (PgKind::Inet | PgKind::Macaddr | PgKind::Bytea, _) => {
                Self::Octets(into(&DataType::Binary)?.as_binary().clone())
            }
            (PgKind::Timestamptz, DataType::Timestamp(_, zone)) => {
                Self::Time(into(&microseconds(zone.clone()))?.as_primitive().clone())
            }
            (PgKind::Timestamp | PgKind::Date, _) => Self::Time(into(&microseconds(None))?.as_primitive().clone()),
            (PgKind::Numeric, DataType::Decimal128(_, scale)) => Self::Decimal(values.as_primitive().clone(), *scale),
            (PgKind::Interval, _) => {
                Self::Interval(into(&DataType::Interval(IntervalUnit::MonthDayNano))?.as_primitive().clone())
            }
            (PgKind::Text, DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 | DataType::Dictionary(..)) => {
                Self::Text(into(&DataType::Utf8)?.as_string().clone())
            }
            (PgKind::Text, _) => Self::Listed(ColumnText::new(field, values), values),
            // float16, times of the day, decimals of 256 bits
            _ => Self::Text(into(&DataType::Utf8)?.as_string().clone()),
        })
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Int(values) => values.is_null(row),
            Self::Unsigned(values) => values.is_null(row),
            Self::Bool(values) => values.is_null(row),
            Self::Float4(values) => values.is_null(row),
            Self::Float8(values) => values.is_null(row),
            Self::Address(values) => values.is_null(row),
            Self::Octets(values) => values.is_null(row),
            Self::Time(values) => values.is_null(row),
            Self::Decimal(values, _) => values.is_null(row),
            Self::Interval(values) => values.is_null(row),
            Self::Text(values) => values.is_null(row),
            Self::Listed(_, values) => values.is_null(row) || values.data_type().is_null(),
        }
    }

    /// Appends a value; false when it is null.
    #[inline]
    fn push(
        &mut self,
        row: usize,
        kind: PgKind,
        format: Format,
        clocks: &mut Clocks,
        out: &mut Vec<u8>,
    ) -> Result<bool, Problem> {
        if self.is_null(row) {
            return Ok(false);
        }
        let is_binary = format == Format::Binary;
        match self {
            Self::Int(values) => push_integer(out, kind, values.value(row), is_binary),
            Self::Unsigned(values) => {
                let value = values.value(row);
                let signed = i64::try_from(value).map_err(|_| Problem::Bigint(value))?;
                push_integer(out, PgKind::Int8, signed, is_binary);
            }
            Self::Bool(values) if is_binary => out.push(u8::from(values.value(row))),
            Self::Bool(values) => out.push(if values.value(row) { b't' } else { b'f' }),
            Self::Float4(values) if is_binary => out.extend_from_slice(&values.value(row).to_be_bytes()),
            Self::Float4(values) => push_float(out, f64::from(values.value(row)), |out, _| {
                push_f32(out, values.value(row));
            }),
            Self::Float8(values) if is_binary => out.extend_from_slice(&values.value(row).to_be_bytes()),
            Self::Float8(values) => push_float(out, values.value(row), push_f64),
            Self::Address(values) => push_inet(out, values.value(row), is_binary)?,
            Self::Octets(values) => push_octets(out, kind, values.value(row), is_binary),
            Self::Time(values) => push_time(out, kind, values.value(row), is_binary, clocks),
            Self::Decimal(values, scale) => {
                let (value, scale) = (values.value(row), *scale);
                if is_binary { push_numeric(out, value, scale) } else { push_decimal(out, value, scale) }
            }
            Self::Interval(values) => push_interval(out, values.value(row), is_binary),
            Self::Text(values) => out.extend_from_slice(values.value(row).as_bytes()),
            Self::Listed(text, _) => text.push(row, out),
        }
        Ok(true)
    }
}

fn push_integer(out: &mut Vec<u8>, kind: PgKind, value: i64, is_binary: bool) {
    match kind {
        _ if !is_binary => push_i64(out, value),
        PgKind::Int2 => out.extend_from_slice(&(value as i16).to_be_bytes()),
        PgKind::Int4 => out.extend_from_slice(&(value as i32).to_be_bytes()),
        _ => out.extend_from_slice(&value.to_be_bytes()),
    }
}

/// What is no number is a word.
fn push_float(out: &mut Vec<u8>, value: f64, push: impl FnOnce(&mut Vec<u8>, f64)) {
    if value.is_nan() {
        out.extend_from_slice(b"NaN");
    } else if value.is_infinite() {
        out.extend_from_slice(if value > 0.0 { b"Infinity" } else { b"-Infinity" });
    } else {
        push(out, value);
    }
}

/// An address without a mask.
fn push_inet(out: &mut Vec<u8>, octets: &[u8], is_binary: bool) -> Result<(), Problem> {
    match (<[u8; 4]>::try_from(octets), <[u8; 16]>::try_from(octets)) {
        (Ok(octets), _) if is_binary => push_inet_octets(out, FAMILY_IPV4, 32, &octets),
        (Ok(octets), _) => push_ipv4(out, octets),
        (_, Ok(octets)) if is_binary => push_inet_octets(out, FAMILY_IPV6, 128, &octets),
        (_, Ok(octets)) => push_ipv6(out, &octets),
        _ => return Err(Problem::Address(octets.len())),
    }
    Ok(())
}

fn push_inet_octets(out: &mut Vec<u8>, family: u8, bits: u8, octets: &[u8]) {
    // family, bits of the mask, whether it is a network, octets
    out.extend_from_slice(&[family, bits, 0, octets.len() as u8]);
    out.extend_from_slice(octets);
}

fn push_octets(out: &mut Vec<u8>, kind: PgKind, octets: &[u8], is_binary: bool) {
    match kind {
        _ if is_binary => out.extend_from_slice(octets),
        PgKind::Macaddr => {
            for (position, octet) in octets.iter().enumerate() {
                if position > 0 {
                    out.push(b':');
                }
                push_hex(out, &[*octet]);
            }
        }
        _ => {
            out.extend_from_slice(b"\\x");
            push_hex(out, octets);
        }
    }
}

/// A time or a date. Text is that of `DateStyle` ISO.
fn push_time(out: &mut Vec<u8>, kind: PgKind, micros: i64, is_binary: bool, clocks: &mut Clocks) {
    let ms = micros.div_euclid(1000);
    match (kind, is_binary) {
        (PgKind::Date, true) => {
            let days = micros.div_euclid(86_400_000_000) - EPOCH_DAYS;
            out.extend_from_slice(&(days as i32).to_be_bytes());
        }
        (_, true) => out.extend_from_slice(&micros.saturating_sub(EPOCH_MICROS).to_be_bytes()),
        (PgKind::Date, false) => {
            let start = out.len();
            clocks.plain.push(out, ms, b' ');
            let end = out[start..].iter().position(|octet| *octet == b' ').unwrap_or(0);
            out.truncate(start + end);
        }
        (PgKind::Timestamptz, false) => {
            clocks.zoned.push(out, ms, b' ');
            push_micros(out, micros);
            push_offset(out, clocks.zoned.offset_seconds(ms));
        }
        (_, false) => {
            clocks.plain.push(out, ms, b' ');
            push_micros(out, micros);
        }
    }
}

/// Digits behind the milliseconds, where there are some.
fn push_micros(out: &mut Vec<u8>, micros: i64) {
    let rest = micros.rem_euclid(1000);
    if rest > 0 {
        out.extend_from_slice(format!("{rest:03}").as_bytes());
    }
}

/// `+00`, `+05:30`, `-03`.
fn push_offset(out: &mut Vec<u8>, seconds: i64) {
    out.push(if seconds < 0 { b'-' } else { b'+' });
    let minutes = seconds.abs() / 60;
    let mut push = |value: i64| out.extend_from_slice(&[b'0' + (value / 10) as u8, b'0' + (value % 10) as u8]);
    push(minutes / 60);
    if minutes % 60 != 0 {
        out.push(b':');
        let value = minutes % 60;
        out.extend_from_slice(&[b'0' + (value / 10) as u8, b'0' + (value % 10) as u8]);
    }
}

fn push_decimal(out: &mut Vec<u8>, value: i128, scale: i8) {
    let digits = value.unsigned_abs().to_string();
    if value < 0 {
        out.push(b'-');
    }
    if scale <= 0 {
        out.extend_from_slice(digits.as_bytes());
        out.extend(std::iter::repeat_n(b'0', usize::from(scale.unsigned_abs())));
        return;
    }
    let scale = usize::from(scale.unsigned_abs());
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    out.extend_from_slice(format!("{whole}.{fraction}").as_bytes());
}

/// A number in groups of four decimal digits, the first of which stands for 10000 to the power of its weight.
fn push_numeric(out: &mut Vec<u8>, value: i128, scale: i8) {
    let mut text = Vec::new();
    push_decimal(&mut text, value, scale);
    let text = String::from_utf8(text).unwrap_or_default();
    let text = text.trim_start_matches('-');
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = format!("{}{whole}", "0".repeat((4 - whole.len() % 4) % 4));
    let padded = format!("{whole}{fraction}{}", "0".repeat((4 - fraction.len() % 4) % 4));
    let groups = padded.as_bytes().chunks(4).map(|digits| digits.iter().fold(0, |n, d| n * 10 + u16::from(d - b'0')));
    let groups: Vec<u16> = groups.collect();
    let first = groups.iter().position(|group| *group != 0).unwrap_or(groups.len());
    let last = groups.iter().rposition(|group| *group != 0).map_or(first, |last| last + 1);
    let weight = if first == last { 0 } else { (whole.len() / 4) as i16 - 1 - first as i16 };
    out.extend_from_slice(&((last - first) as u16).to_be_bytes());
    out.extend_from_slice(&weight.to_be_bytes());
    out.extend_from_slice(&(if value < 0 { 0x4000_u16 } else { 0 }).to_be_bytes());
    out.extend_from_slice(&(fraction.len() as u16).to_be_bytes());
    groups[first..last].iter().for_each(|group| out.extend_from_slice(&group.to_be_bytes()));
}

/// Months, days and time; text as `IntervalStyle` postgres has it.
fn push_interval(out: &mut Vec<u8>, value: arrow::datatypes::IntervalMonthDayNano, is_binary: bool) {
    let micros = value.nanoseconds / 1000;
    if is_binary {
        out.extend_from_slice(&micros.to_be_bytes());
        out.extend_from_slice(&value.days.to_be_bytes());
        return out.extend_from_slice(&value.months.to_be_bytes());
    }
    let start = out.len();
    let mut part = |number: i32, one: &str| {
        if number != 0 {
            let space = if out.len() > start { " " } else { "" };
            let many = if number == 1 { "" } else { "s" };
            out.extend_from_slice(format!("{space}{number} {one}{many}").as_bytes());
        }
    };
    part(value.months / 12, "year");
    part(value.months % 12, "mon");
    part(value.days, "day");
    if micros != 0 || out.len() == start {
        let space = if out.len() > start { " " } else { "" };
        let (sign, micros) = (if micros < 0 { "-" } else { "" }, micros.unsigned_abs());
        let (seconds, rest) = (micros / 1_000_000, micros % 1_000_000);
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let fraction = if rest == 0 { String::new() } else { format!(".{rest:06}").trim_end_matches('0').to_owned() };
        out.extend_from_slice(format!("{space}{sign}{hours:02}:{minutes:02}:{seconds:02}{fraction}").as_bytes());
    }
}

#[cfg(test)]
mod tests;
