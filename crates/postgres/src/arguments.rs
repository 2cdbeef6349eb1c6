//! Values that clients send for parameters.

use std::net::IpAddr;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field};
use datafusion::common::ScalarValue;
use datafusion::common::utils::SingleRowListArrayBuilder;
use weir_sql::ParameterValue;

use crate::errors::{BAD_BINARY, BAD_TEXT, NOT_SUPPORTED, PgError};
use crate::kinds::PgKind;
use crate::messages::Format;

/// Microseconds from 1970 to 2000, where Postgres begins to count.
const EPOCH_MICROS: i64 = 946_684_800_000_000;
const EPOCH_DAYS: i32 = 10_957;
/// `cidr` of `pg_type`, the type of networks. No column has it, and on the wire its values look as those of `inet` do.
const CIDR: u32 = 650;
/// Items that a value may have.
const ITEMS_MAX: usize = 1 << 16;

/// The type of the engine for a parameter that a client declares; `None` leaves it to the engine.
pub(crate) fn declared(oid: u32) -> Option<DataType> {
    Some(match PgKind::by_oid(oid)? {
        PgKind::Bool => DataType::Boolean,
        PgKind::Int2 | PgKind::Int4 | PgKind::Int8 | PgKind::Oid => DataType::Int64,
        PgKind::Float4 | PgKind::Float8 => DataType::Float64,
        PgKind::Date => DataType::Date32,
        _ => return None,
    })
}

/// The type that is said of a parameter whose type the client has not declared.
pub(crate) fn described(field: &Field) -> u32 {
    match field.data_type() {
        // the engine infers the octets of an address without saying that they are one
        DataType::Binary if field.metadata().is_empty() => PgKind::Inet.oid(),
        _ => PgKind::of_field(field).oid(),
    }
}

/// The value of a parameter of type `oid`; 0 is one whose type nobody has said.
pub(crate) fn value(oid: u32, format: Format, octets: Option<&[u8]>) -> Result<ParameterValue, PgError> {
    let kind = if oid == CIDR { PgKind::Inet } else { PgKind::by_oid(oid).unwrap_or(PgKind::Unknown) };
    let Some(octets) = octets else {
        return Ok(ParameterValue::Typed(
            ScalarValue::try_from(&declared(oid).unwrap_or(DataType::Utf8)).unwrap_or(ScalarValue::Null),
        ));
    };
    match format {
        Format::Text => of_text(kind, octets),
        Format::Binary => of_binary(kind, octets).map_err(|()| {
            let message = format!("{} octets are no {} in binary format", octets.len(), kind.spoken());
            PgError::new(BAD_BINARY, message)
        })?,
    }
}

fn text_of(octets: &[u8]) -> Result<&str, PgError> {
    std::str::from_utf8(octets).map_err(|_| PgError::new("22021", "a value is not UTF-8"))
}

fn of_text(kind: PgKind, octets: &[u8]) -> Result<ParameterValue, PgError> {
    let text = text_of(octets)?;
    let bad = || PgError::new(BAD_TEXT, format!("'{}' is no {}", text.escape_debug(), kind.spoken()));
    let typed = |value: ScalarValue| Ok(ParameterValue::Typed(value));
    let trimmed = text.trim();
    match kind {
        PgKind::Int2 | PgKind::Int4 | PgKind::Int8 | PgKind::Oid => {
            typed(ScalarValue::Int64(Some(trimmed.parse().map_err(|_| bad())?)))
        }
        PgKind::Float4 | PgKind::Float8 => typed(ScalarValue::Float64(Some(trimmed.parse().map_err(|_| bad())?))),
        PgKind::Numeric => numeric(trimmed).map(ParameterValue::Typed).ok_or_else(bad),
        PgKind::Bool => match trimmed.to_ascii_lowercase().as_str() {
            "t" | "true" | "1" | "on" | "yes" | "y" => typed(ScalarValue::Boolean(Some(true))),
            "f" | "false" | "0" | "off" | "no" | "n" => typed(ScalarValue::Boolean(Some(false))),
            _ => Err(bad()),
        },
        PgKind::Inet => Ok(ParameterValue::Text(without_mask(trimmed).to_owned())),
        PgKind::Bytea => {
            let digits = trimmed.strip_prefix("\\x").ok_or_else(bad)?;
            typed(ScalarValue::Binary(Some(unhex(digits).ok_or_else(bad)?)))
        }
        array if array.item().is_some() => {
            let items = array_items(trimmed).ok_or_else(bad)?;
            list(array, items).map(ParameterValue::Typed).ok_or_else(bad)
        }
        // what the text means follows from what it is compared with
        _ => Ok(ParameterValue::Text(text.to_owned())),
    }
}

/// An address that is a host is compared with addresses.
fn without_mask(text: &str) -> &str {
    match text.rsplit_once('/') {
        Some((address, bits)) => match address.parse::<IpAddr>() {
            Ok(IpAddr::V4(_)) if bits == "32" => address,
            Ok(IpAddr::V6(_)) if bits == "128" => address,
            _ => text,
        },
        None => text,
    }
}

fn numeric(text: &str) -> Option<ScalarValue> {
    if let Ok(whole) = text.parse::<i64>() {
        return Some(ScalarValue::Int64(Some(whole)));
    }
    let scale = text.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let scale = i8::try_from(scale).ok().filter(|scale| *scale <= 38)?;
    let decimal = ScalarValue::try_from_string(text.to_owned(), &DataType::Decimal128(38, scale));
    decimal.ok().or_else(|| text.parse().ok().map(|number| ScalarValue::Float64(Some(number))))
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    let digit = |octet: u8| char::from(octet).to_digit(16);
    let pair = |pair: &[u8]| Some((digit(*pair.first()?)? * 16 + digit(*pair.get(1)?)?) as u8);
    digits.chunks(2).map(pair).collect()
}

/// The items of `{a,"b c",NULL}`.
fn array_items(text: &str) -> Option<Vec<Option<String>>> {
    let inner = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut items = Vec::new();
    let mut letters = inner.chars().peekable();
    while letters.peek().is_some() {
        let (mut item, mut is_quoted) = (String::new(), false);
        if letters.next_if_eq(&'"').is_some() {
            is_quoted = true;
            loop {
                match letters.next()? {
                    '"' => break,
                    '\\' => item.push(letters.next()?),
                    letter => item.push(letter),
                }
            }
        }
        while let Some(letter) = letters.next_if(|letter| *letter != ',') {
            if is_quoted || letter == '{' {
                return None;
            }
            item.push(letter);
        }
        letters.next();
        items.push(if !is_quoted && item.eq_ignore_ascii_case("null") { None } else { Some(item) });
        if items.len() > ITEMS_MAX {
            return None;
        }
    }
    Some(items)
}

fn list(array: PgKind, items: Vec<Option<String>>) -> Option<ScalarValue> {
    let values: ArrayRef = match array {
        PgKind::Int2Array | PgKind::Int4Array | PgKind::Int8Array => {
            let number = |item: Option<String>| item.map(|item| item.trim().parse::<i64>()).transpose().ok();
            Arc::new(Int64Array::from(items.into_iter().map(number).collect::<Option<Vec<_>>>()?))
        }
        _ => Arc::new(StringArray::from(items)),
    };
    Some(SingleRowListArrayBuilder::new(values).build_list_scalar())
}

fn of_binary(kind: PgKind, octets: &[u8]) -> Result<Result<ParameterValue, PgError>, ()> {
    let typed = |value: ScalarValue| Ok(Ok(ParameterValue::Typed(value)));
    let eight = || <[u8; 8]>::try_from(octets).map(i64::from_be_bytes).map_err(drop);
    let four = || <[u8; 4]>::try_from(octets).map(i32::from_be_bytes).map_err(drop);
    match kind {
        PgKind::Bool => typed(ScalarValue::Boolean(Some(matches!(octets, [1])))),
        PgKind::Int2 => {
            let two = <[u8; 2]>::try_from(octets).map(i16::from_be_bytes).map_err(drop)?;
            typed(ScalarValue::Int64(Some(i64::from(two))))
        }
        PgKind::Int4 => typed(ScalarValue::Int64(Some(i64::from(four()?)))),
        PgKind::Oid => typed(ScalarValue::Int64(Some(i64::from(four()?.cast_unsigned())))),
        PgKind::Int8 => typed(ScalarValue::Int64(Some(eight()?))),
        PgKind::Float4 => typed(ScalarValue::Float64(Some(f64::from(f32::from_bits(four()?.cast_unsigned()))))),
        PgKind::Float8 => typed(ScalarValue::Float64(Some(f64::from_bits(eight()?.cast_unsigned())))),
        PgKind::Date => typed(ScalarValue::Date32(Some(four()?.saturating_add(EPOCH_DAYS)))),
        PgKind::Timestamp | PgKind::Timestamptz => {
            let micros = eight()?.saturating_add(EPOCH_MICROS);
            typed(ScalarValue::TimestampMicrosecond(Some(micros), Some("UTC".into())))
        }
        PgKind::Bytea => typed(ScalarValue::Binary(Some(octets.to_vec()))),
        PgKind::Inet => Ok(Ok(ParameterValue::Text(inet(octets).ok_or(())?))),
        PgKind::Text | PgKind::Varchar | PgKind::Bpchar | PgKind::Name | PgKind::Unknown | PgKind::Json => {
            Ok(text_of(octets).map(|text| ParameterValue::Text(text.to_owned())))
        }
        other => {
            let message = format!("a parameter of type {} is not taken in binary format", other.spoken());
            Ok(Err(PgError::new(NOT_SUPPORTED, message).with_hint("send it as text")))
        }
    }
}

/// The text of an address on the wire.
fn inet(octets: &[u8]) -> Option<String> {
    let (head, address) = octets.split_at_checked(4)?;
    let address = match address.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(address).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(address).ok()?),
        _ => return None,
    };
    let is_host = usize::from(head[1]) == (octets.len() - 4) * 8;
    Some(if is_host { address.to_string() } else { format!("{address}/{}", head[1]) })
}

/// The type of a column of times, for tests and casts.
#[cfg(test)]
fn utc_micros() -> DataType {
    DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, Some("UTC".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(oid: u32, format: Format, octets: &[u8]) -> ScalarValue {
        match value(oid, format, Some(octets)).expect("a value") {
            ParameterValue::Typed(value) => value,
            ParameterValue::Text(text) => panic!("'{text}' has no type"),
        }
    }

    #[test]
    fn texts_of_no_type_stay_texts() {
        let text = |oid| value(oid, Format::Text, Some(b"TCP")).expect("a value");
        for oid in [0, 25, 705, 1043, 999_999] {
            assert_eq!(text(oid), ParameterValue::Text("TCP".to_owned()));
        }
    }

    #[test]
    fn numbers_and_times_have_their_types() {
        assert_eq!(typed(20, Format::Text, b" 42"), ScalarValue::Int64(Some(42)));
        assert_eq!(typed(21, Format::Binary, &[0xff, 0xfe]), ScalarValue::Int64(Some(-2)));
        assert_eq!(typed(1700, Format::Text, b"1.25"), ScalarValue::Decimal128(Some(125), 38, 2));
        let time = typed(1184, Format::Binary, &753_315_200_007_000_i64.to_be_bytes());
        assert_eq!(time.data_type(), utc_micros());
        assert_eq!(time, ScalarValue::TimestampMicrosecond(Some(1_700_000_000_007_000), Some("UTC".into())));
        assert_eq!(typed(1082, Format::Binary, &8718_i32.to_be_bytes()), ScalarValue::Date32(Some(19_675)));
        for (oid, format, octets) in
            [(20, Format::Text, b"x".as_slice()), (20, Format::Binary, b"abc"), (16, Format::Text, b"maybe")]
        {
            assert!(value(oid, format, Some(octets)).is_err(), "{oid}");
        }
    }

    #[test]
    fn addresses_are_texts_without_a_mask_of_a_host() {
        let address = |octets: &[u8], format| match value(869, format, Some(octets)).expect("a value") {
            ParameterValue::Text(text) => text,
            ParameterValue::Typed(value) => panic!("{value}"),
        };
        assert_eq!(address(b"192.0.2.1/32", Format::Text), "192.0.2.1");
        assert_eq!(address(b"192.0.2.0/24", Format::Text), "192.0.2.0/24");
        assert_eq!(address(&[2, 32, 0, 4, 192, 0, 2, 1], Format::Binary), "192.0.2.1");
        assert_eq!(address(&[2, 24, 1, 4, 192, 0, 2, 0], Format::Binary), "192.0.2.0/24");
        assert!(value(869, Format::Binary, Some(&[2, 32, 0, 4, 1])).is_err());
        let network = value(650, Format::Binary, Some(&[2, 8, 1, 4, 10, 0, 0, 0])).expect("a value");
        assert_eq!(network, ParameterValue::Text("10.0.0.0/8".to_owned()));
    }

    #[test]
    fn arrays_are_lists() {
        let items = |text: &str| array_items(text);
        assert_eq!(items("{}"), Some(Vec::new()));
        assert_eq!(items(r#"{1,NULL,"a \"b\", c"}"#), Some(vec![Some("1".into()), None, Some(r#"a "b", c"#.into())]));
        for wrong in ["1,2", "{1", r#"{"a}"#, "{{1},{2}}", r#"{"a"b}"#] {
            assert_eq!(items(wrong), None, "{wrong}");
        }
        assert!(matches!(typed(1007, Format::Text, b"{443,80}"), ScalarValue::List(_)));
        assert!(value(1007, Format::Text, Some(b"{443,x}")).is_err());
    }
}
