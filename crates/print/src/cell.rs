//! The values of a column, ready to be written.

use std::ops::Range;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, LargeStringArray, ListArray, PrimitiveArray, StringArray, StringViewArray,
};
use arrow::datatypes::{
    DataType, Decimal128Type, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use weir_flow::AddressText;
use weir_flow::schema::{CONTENT_KEY, arrow_type};

use crate::digits::{Clock, push_f32, push_f64, push_hex, push_i64, push_ipv4, push_ipv6, push_u64};
use crate::elements::elements_text;

/// How the text of a value may be embedded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A number or a boolean: bare everywhere.
    Bare,
    /// Letters and digits that no format gives a meaning: quoted in JSON, never escaped.
    Plain,
    /// Anything.
    Text,
}

/// The values of a column of one batch.
pub(crate) enum Cells<'a> {
    U8(&'a PrimitiveArray<UInt8Type>),
    U16(&'a PrimitiveArray<UInt16Type>),
    U32(&'a PrimitiveArray<UInt32Type>),
    U64(&'a PrimitiveArray<UInt64Type>),
    I8(&'a PrimitiveArray<Int8Type>),
    I16(&'a PrimitiveArray<Int16Type>),
    I32(&'a PrimitiveArray<Int32Type>),
    I64(&'a PrimitiveArray<Int64Type>),
    F32(&'a PrimitiveArray<Float32Type>),
    F64(&'a PrimitiveArray<Float64Type>),
    Decimal(&'a PrimitiveArray<Decimal128Type>),
    Boolean(&'a arrow::array::BooleanArray),
    Seconds(&'a PrimitiveArray<TimestampSecondType>),
    Milliseconds(&'a PrimitiveArray<TimestampMillisecondType>),
    Microseconds(&'a PrimitiveArray<TimestampMicrosecondType>),
    Nanoseconds(&'a PrimitiveArray<TimestampNanosecondType>),
    Address(&'a BinaryArray),
    Octets(&'a BinaryArray),
    Text(&'a StringArray),
    TextView(&'a StringViewArray),
    LargeText(&'a LargeStringArray),
    Elements(&'a ArrayRef),
    /// A list, and the values of all lists of the batch.
    List(&'a ListArray, Box<Cells<'a>>),
    Other(&'a ArrayRef, Option<ArrayFormatter<'a>>),
}

static OTHER: FormatOptions<'static> = FormatOptions::new().with_display_error(true);

impl<'a> Cells<'a> {
    pub(crate) fn new(field: &Field, values: &'a ArrayRef) -> Self {
        match values.data_type() {
            DataType::UInt8 => Self::U8(values.as_primitive()),
            DataType::UInt16 => Self::U16(values.as_primitive()),
            DataType::UInt32 => Self::U32(values.as_primitive()),
            DataType::UInt64 => Self::U64(values.as_primitive()),
            DataType::Int8 => Self::I8(values.as_primitive()),
            DataType::Int16 => Self::I16(values.as_primitive()),
            DataType::Int32 => Self::I32(values.as_primitive()),
            DataType::Int64 => Self::I64(values.as_primitive()),
            DataType::Float32 => Self::F32(values.as_primitive()),
            DataType::Float64 => Self::F64(values.as_primitive()),
            DataType::Decimal128(..) => Self::Decimal(values.as_primitive()),
            DataType::Boolean => Self::Boolean(values.as_boolean()),
            DataType::Timestamp(TimeUnit::Second, _) => Self::Seconds(values.as_primitive()),
            DataType::Timestamp(TimeUnit::Millisecond, _) => Self::Milliseconds(values.as_primitive()),
            DataType::Timestamp(TimeUnit::Microsecond, _) => Self::Microseconds(values.as_primitive()),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => Self::Nanoseconds(values.as_primitive()),
            DataType::Binary => match field.metadata().get(CONTENT_KEY).map(String::as_str) {
                Some("octets") => Self::Octets(values.as_binary()),
                _ => Self::Address(values.as_binary()),
            },
            DataType::Utf8 => Self::Text(values.as_string()),
            DataType::Utf8View => Self::TextView(values.as_string_view()),
            DataType::LargeUtf8 => Self::LargeText(values.as_string()),
            list if *list == arrow_type(weir_flow::ColumnType::Elements) => Self::Elements(values),
            DataType::List(item) => {
                let lists: &ListArray = values.as_list();
                Self::List(lists, Box::new(Self::new(item, lists.values())))
            }
            _ => Self::Other(values, ArrayFormatter::try_new(values, &OTHER).ok()),
        }
    }

    #[inline]
    pub(crate) fn is_null(&self, row: usize) -> bool {
        match self {
            Self::U8(values) => values.is_null(row),
            Self::U16(values) => values.is_null(row),
            Self::U32(values) => values.is_null(row),
            Self::U64(values) => values.is_null(row),
            Self::I8(values) => values.is_null(row),
            Self::I16(values) => values.is_null(row),
            Self::I32(values) => values.is_null(row),
            Self::I64(values) => values.is_null(row),
            Self::F32(values) => values.is_null(row),
            Self::F64(values) => values.is_null(row),
            Self::Decimal(values) => values.is_null(row),
            Self::Boolean(values) => values.is_null(row),
            Self::Seconds(values) => values.is_null(row),
            Self::Milliseconds(values) => values.is_null(row),
            Self::Microseconds(values) => values.is_null(row),
            Self::Nanoseconds(values) => values.is_null(row),
            Self::Address(values) | Self::Octets(values) => values.is_null(row),
            Self::Text(values) => values.is_null(row),
            Self::TextView(values) => values.is_null(row),
            Self::LargeText(values) => values.is_null(row),
            Self::List(lists, _) => lists.is_null(row),
            Self::Elements(values) | Self::Other(values, _) => values.is_null(row) || values.data_type().is_null(),
        }
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Seconds(_)
            | Self::Milliseconds(_)
            | Self::Microseconds(_)
            | Self::Nanoseconds(_)
            | Self::Address(_)
            | Self::Octets(_) => Kind::Plain,
            Self::Text(_)
            | Self::TextView(_)
            | Self::LargeText(_)
            | Self::Elements(_)
            | Self::List(..)
            | Self::Other(..) => Kind::Text,
            _ => Kind::Bare,
        }
    }

    /// The milliseconds of a time.
    #[inline]
    pub(crate) fn milliseconds(&self, row: usize) -> Option<i64> {
        match self {
            Self::Seconds(values) => Some(values.value(row).saturating_mul(1000)),
            Self::Milliseconds(values) => Some(values.value(row)),
            Self::Microseconds(values) => Some(values.value(row).div_euclid(1000)),
            Self::Nanoseconds(values) => Some(values.value(row).div_euclid(1_000_000)),
            _ => None,
        }
    }

    /// The value of an unsigned number.
    #[inline]
    pub(crate) fn unsigned(&self, row: usize) -> Option<u64> {
        match self {
            Self::U8(values) => Some(values.value(row).into()),
            Self::U16(values) => Some(values.value(row).into()),
            Self::U32(values) => Some(values.value(row).into()),
            Self::U64(values) => Some(values.value(row)),
            Self::Decimal(values) if values.scale() == 0 => u64::try_from(values.value(row)).ok(),
            _ => None,
        }
    }

    /// The value of a signed number.
    pub(crate) fn signed(&self, row: usize) -> Option<i64> {
        match self {
            Self::I8(values) => Some(values.value(row).into()),
            Self::I16(values) => Some(values.value(row).into()),
            Self::I32(values) => Some(values.value(row).into()),
            Self::I64(values) => Some(values.value(row)),
            _ => None,
        }
    }

    /// The digits of a decimal as a whole number.
    pub(crate) fn digits(&self, row: usize) -> Option<i128> {
        match self {
            Self::Decimal(values) => Some(values.value(row)),
            _ => None,
        }
    }

    /// Whether it is a decimal, and no whole number of 64 bits with a sign or without.
    pub(crate) fn is_beyond_integers(&self, row: usize) -> bool {
        let Self::Decimal(values) = self else { return false };
        let digits = values.value(row);
        values.scale() != 0 || (i64::try_from(digits).is_err() && u64::try_from(digits).is_err())
    }

    /// The items of a list, and which of them are those of the row.
    pub(crate) fn items(&self, row: usize) -> Option<(&Self, Range<usize>)> {
        let Self::List(lists, items) = self else { return None };
        let offsets = lists.value_offsets();
        Some((items, offsets[row] as usize..offsets[row + 1] as usize))
    }

    /// The value of a number with a fraction.
    pub(crate) fn fraction(&self, row: usize) -> Option<f64> {
        match self {
            Self::F32(values) => Some(values.value(row).into()),
            Self::F64(values) => Some(values.value(row)),
            _ => None,
        }
    }

    /// Whether a number is one that JSON cannot write.
    pub(crate) fn is_beyond_json(&self, row: usize) -> bool {
        match self {
            Self::F32(values) => !values.value(row).is_finite(),
            Self::F64(values) => !values.value(row).is_finite(),
            _ => false,
        }
    }

    /// Appends the value as programs read it: times in ISO 8601 and UTC, addresses as text.
    #[inline]
    pub(crate) fn push(&self, row: usize, clock: &mut Clock, text: &mut Vec<u8>) {
        match self {
            Self::U8(values) => push_u64(text, values.value(row).into()),
            Self::U16(values) => push_u64(text, values.value(row).into()),
            Self::U32(values) => push_u64(text, values.value(row).into()),
            Self::U64(values) => push_u64(text, values.value(row)),
            Self::I8(values) => push_i64(text, values.value(row).into()),
            Self::I16(values) => push_i64(text, values.value(row).into()),
            Self::I32(values) => push_i64(text, values.value(row).into()),
            Self::I64(values) => push_i64(text, values.value(row)),
            Self::Address(values) => push_address(text, values.value(row)),
            Self::Text(values) => text.extend_from_slice(values.value(row).as_bytes()),
            Self::TextView(values) => text.extend_from_slice(values.value(row).as_bytes()),
            Self::LargeText(values) => text.extend_from_slice(values.value(row).as_bytes()),
            Self::Boolean(values) => text.extend_from_slice(if values.value(row) { b"true" } else { b"false" }),
            _ => self.push_rare(row, clock, text),
        }
    }

    fn push_rare(&self, row: usize, clock: &mut Clock, text: &mut Vec<u8>) {
        if let Some(ms) = self.milliseconds(row) {
            clock.push(text, ms, b'T');
            text.push(b'Z');
            return;
        }
        match self {
            Self::F32(values) => push_f32(text, values.value(row)),
            Self::F64(values) => push_f64(text, values.value(row)),
            Self::Decimal(values) => text.extend_from_slice(values.value_as_string(row).as_bytes()),
            Self::List(..) => self.push_list(row, clock, text),
            Self::Octets(values) => {
                text.extend_from_slice(b"0x");
                push_hex(text, values.value(row));
            }
            Self::Elements(values) => text.extend_from_slice(elements_text(values, row).as_bytes()),
            Self::Other(_, Some(formatter)) => text.extend_from_slice(formatter.value(row).to_string().as_bytes()),
            _ => {}
        }
    }

    fn push_list(&self, row: usize, clock: &mut Clock, text: &mut Vec<u8>) {
        let Some((items, range)) = self.items(row) else { return };
        text.push(b'[');
        let first = range.start;
        for item in range {
            if item > first {
                text.extend_from_slice(b", ");
            }
            if items.is_null(item) {
                text.extend_from_slice(b"null");
            } else {
                items.push(item, clock, text);
            }
        }
        text.push(b']');
    }
}

/// Appends octets as an address of their length, see [`AddressText`].
#[inline]
fn push_address(text: &mut Vec<u8>, octets: &[u8]) {
    if let Ok(v4) = <[u8; 4]>::try_from(octets) {
        push_ipv4(text, v4);
    } else if let Ok(v6) = <&[u8; 16]>::try_from(octets) {
        push_ipv6(text, v6);
    } else {
        text.extend_from_slice(AddressText(octets).to_string().as_bytes());
    }
}
