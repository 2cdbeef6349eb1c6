//! Information Elements as text.

use std::fmt::Write;

use arrow::array::{Array, ArrayRef, StringArray, StringBuilder};
use jiff::Timestamp;
use weir_flow::elements::{ElementValue, elements_of_row};
use weir_flow::registry::{self, DataType};
use weir_flow::{AddressText, NamedElement};

/// Seconds from 1900, the epoch of NTP, to 1970; below 2^31 they count from 2036, where the next era begins (RFC 5905
/// section 6), as they do for columns of times.
const NTP_EPOCH_SECONDS: i64 = 2_208_988_800;

/// Bits of an NTP fraction that a dateTimeMicroseconds must ignore (RFC 7011 section 6.1.9).
const NTP_BELOW_MICROSECOND: u64 = 0x7ff;

/// All elements of a row: `name=value`, or `enterprise/number=value` for those without a name, parted by blanks. A list
/// is `name=semantic[…]` with its values, or its records in braces, of which it may have none; one that could not be read
/// is in hexadecimal.
pub fn elements_text(column: &ArrayRef, row: usize) -> String {
    let values = elements_of_row(column, row);
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); values.len()];
    for (position, value) in values.iter().enumerate() {
        // what is in a list follows it, so that whatever a file says this cannot lead back
        if let Some(children) = value.place.and_then(|(list, _)| children[..position].get_mut(usize::from(list))) {
            children.push(position);
        }
    }
    let mut text = String::new();
    for (position, value) in values.iter().enumerate().filter(|(_, value)| value.place.is_none()) {
        if !text.is_empty() {
            text.push(' ');
        }
        push_named(&mut text, value);
        push_nested(&mut text, &values, &children, position);
    }
    text
}

fn push_named(text: &mut String, value: &ElementValue<'_>) {
    match registry::element(value.enterprise, value.id) {
        Some(element) => text.push_str(&element.name),
        None => push(text, format_args!("{}/{}", value.enterprise, value.id)),
    }
    text.push('=');
}

/// Appends a value, or the values of a list.
fn push_nested(text: &mut String, values: &[ElementValue<'_>], children: &[Vec<usize>], position: usize) {
    let value = &values[position];
    let data_type = registry::element(value.enterprise, value.id).map_or(DataType::OctetArray, |e| e.data_type);
    if children[position].is_empty() {
        return push_element_value(text, data_type, value.octets);
    }
    text.push_str(semantic(value.octets));
    text.push('[');
    let (basic, mut before) = (data_type == DataType::BasicList, None);
    for &child in &children[position] {
        let record = values[child].place.map(|(_, record)| record);
        match before {
            None => text.push_str(if basic { "" } else { "{" }),
            Some(_) if basic => text.push_str(", "),
            Some(_) => text.push_str(if before == Some(record) { " " } else { "} {" }),
        }
        before = Some(record);
        if !basic {
            push_named(text, &values[child]);
        }
        push_nested(text, values, children, child);
    }
    text.push_str(if basic { "]" } else { "}]" });
}

/// The first octet of a list (RFC 6313 section 4.4), when it says something.
fn semantic(octets: &[u8]) -> &'static str {
    match octets.first() {
        Some(0) => "noneOf",
        Some(1) => "exactlyOneOf",
        Some(2) => "oneOrMoreOf",
        Some(3) => "allOf",
        Some(4) => "ordered",
        _ => "",
    }
}

fn unsigned(octets: &[u8]) -> Option<u64> {
    let rest = octets.len().checked_sub(8).map_or(octets, |extra| &octets[extra..]);
    let fits = octets.len() <= 8 || octets[..octets.len() - 8].iter().all(|octet| *octet == 0);
    fits.then(|| rest.iter().fold(0, |number, octet| number << 8 | u64::from(*octet)))
}

fn signed(octets: &[u8]) -> Option<i64> {
    let first = *octets.first().filter(|_| octets.len() <= 8)?;
    let start = if first & 0x80 == 0 { 0 } else { -1 };
    Some(octets.iter().fold(start, |number, octet| number << 8 | i64::from(*octet)))
}

/// The first octet of a list that is whole and has nothing in it; nothing for other values.
fn empty_list(data_type: DataType, octets: &[u8]) -> Option<&'static str> {
    let is_empty = match data_type {
        // semantic, element, length (RFC 6313 section 4.5.1); the highest bit of the element says that an enterprise follows
        DataType::BasicList => octets.len() == if octets.get(1).is_some_and(|high| high & 0x80 != 0) { 9 } else { 5 },
        DataType::SubTemplateList => octets.len() == 3,
        // for each Template its ID, and a length with both in it
        DataType::SubTemplateMultiList => {
            octets.len() % 4 == 1
                && octets[1..].as_chunks::<4>().0.iter().all(|[.., high, low]| [*high, *low] == [0, 4])
        }
        _ => return None,
    };
    (is_empty || octets.is_empty()).then(|| semantic(octets))
}

/// RFC 7011 sections 6.1.9 and 6.1.10: seconds and fraction of NTP, of which `ignored` are no part of the value. 0 is no time
/// (RFC 5905 section 6).
fn ntp(octets: &[u8], ignored: u64) -> Option<Timestamp> {
    let bits = u64::from_be_bytes(octets.try_into().ok()?);
    if bits == 0 {
        return None;
    }
    let bits = bits & !ignored;
    let seconds = (bits >> 32) as i64;
    let era = if seconds < 1 << 31 { 1_i64 << 32 } else { 0 };
    let seconds = seconds + era - NTP_EPOCH_SECONDS;
    let nanoseconds = ((bits & 0xffff_ffff) * 1_000_000_000) >> 32;
    Timestamp::new(seconds, nanoseconds as i32).ok()
}

/// Appends formatted text; a `String` takes everything.
fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    let _ = text.write_fmt(arguments);
}

/// The values of an element in a column of elements, as text: null where the flow has no such element; when it has it more
/// than once, the first.
pub fn element_texts(column: &ArrayRef, wanted: &NamedElement) -> StringArray {
    let mut texts = StringBuilder::with_capacity(column.len(), 0);
    let mut text = String::new();
    for row in 0..column.len() {
        let values = elements_of_row(column, row);
        let found = values.iter().find(|value| wanted.numbers.contains(&(value.enterprise, value.id)));
        let Some(value) = found else {
            texts.append_null();
            continue;
        };
        text.clear();
        push_element_value(&mut text, wanted.data_type, value.octets);
        texts.append_value(&text);
    }
    texts.finish()
}

/// Appends a value by its abstract data type (RFC 7011 section 6.1); in hexadecimal when it does not fit the type.
pub fn push_element_value(text: &mut String, data_type: DataType, octets: &[u8]) {
    use DataType as T;
    let written = match data_type {
        T::Unsigned(_) => unsigned(octets).map(|number| write!(text, "{number}")),
        T::Signed(_) => signed(octets).map(|number| write!(text, "{number}")),
        T::Float(_) => match octets.len() {
            4 => octets.try_into().ok().map(|octets| write!(text, "{}", f32::from_be_bytes(octets))),
            _ => octets.try_into().ok().map(|octets| write!(text, "{}", f64::from_be_bytes(octets))),
        },
        T::Boolean => match octets {
            [1] => Some(write!(text, "true")),
            [2] => Some(write!(text, "false")),
            _ => None,
        },
        // fields of fixed length are filled up with zeros
        T::Text => std::str::from_utf8(octets).ok().map(|value| write!(text, "{}", value.trim_end_matches('\0'))),
        T::DateTimeSeconds => {
            let seconds = unsigned(octets).and_then(|seconds| i64::try_from(seconds).ok());
            let time = seconds.and_then(|seconds| Timestamp::from_second(seconds).ok());
            time.map(|time| write!(text, "{time}"))
        }
        T::DateTimeMilliseconds => {
            let ms = unsigned(octets).and_then(|ms| i64::try_from(ms).ok());
            let time = ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
            time.map(|time| write!(text, "{time}"))
        }
        T::DateTimeMicroseconds => ntp(octets, NTP_BELOW_MICROSECOND).map(|time| write!(text, "{time}")),
        T::DateTimeNanoseconds => ntp(octets, 0).map(|time| write!(text, "{time}")),
        T::MacAddress if octets.len() == 6 => Some(write!(text, "{}", AddressText(octets))),
        T::Ipv4Address if octets.len() == 4 => Some(write!(text, "{}", AddressText(octets))),
        T::Ipv6Address if octets.len() == 16 => Some(write!(text, "{}", AddressText(octets))),
        T::BasicList | T::SubTemplateList | T::SubTemplateMultiList => {
            empty_list(data_type, octets).map(|semantic| write!(text, "{semantic}[]"))
        }
        T::OctetArray | T::MacAddress | T::Ipv4Address | T::Ipv6Address => None,
    };
    if written.is_none() {
        text.push_str("0x");
        for octet in octets {
            push(text, format_args!("{octet:02x}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(data_type: DataType, octets: &[u8]) -> String {
        let mut text = String::new();
        push_element_value(&mut text, data_type, octets);
        text
    }

    #[test]
    fn lists_with_what_is_in_them() {
        let mut builder = weir_flow::FlowBatchBuilder::new(1);
        builder.begin_rows(1);
        let elements = builder.elements();
        elements.push(0, 61, &[1]);
        // RFC 6313: records of protocol and a list of ports, then a list that is not understood
        elements.push(0, 292, &[2, 1, 2, 6, 9, 3, 0, 11, 0, 2, 0, 80, 1, 187, 17, 5, 3, 0, 11, 0, 2]);
        elements.push_nested(0, 4, &[6], (1, 0));
        elements.push_nested(0, 291, &[3, 0, 11, 0, 2, 0, 80, 1, 187], (1, 0));
        elements.push_nested(0, 11, &[0, 80], (3, 0));
        elements.push_nested(0, 11, &[1, 187], (3, 1));
        elements.push_nested(0, 4, &[17], (1, 1));
        elements.push(0, 292, &[2, 1, 9, 7]);
        elements.end_row();
        let batch = builder.finish();
        assert_eq!(
            elements_text(batch.column(weir_flow::Column::Elements).expect("elements"), 0),
            "flowDirection=1 subTemplateList=oneOrMoreOf[{protocolIdentifier=6 basicList=allOf[80, 443]} \
             {protocolIdentifier=17}] subTemplateList=0x02010907"
        );
    }

    /// RFC 6313 section 4.5: what a list of each kind has before its values.
    #[test]
    fn lists_may_be_empty() {
        let cases: [(DataType, &[u8], &str); 10] = [
            (DataType::BasicList, &[0, 0, 11, 0, 2], "noneOf[]"),
            (DataType::BasicList, &[3, 0x80, 11, 0, 2, 0, 0, 26, 215], "allOf[]"),
            (DataType::BasicList, &[3, 0x80, 11, 0, 2], "0x03800b0002"),
            (DataType::BasicList, &[3, 0, 11, 0, 2, 7], "0x03000b000207"),
            (DataType::SubTemplateList, &[4, 1, 44], "ordered[]"),
            (DataType::SubTemplateList, &[4, 1], "0x0401"),
            (DataType::SubTemplateMultiList, &[255], "[]"),
            (DataType::SubTemplateMultiList, &[1, 1, 44, 0, 4, 1, 45, 0, 4], "exactlyOneOf[]"),
            (DataType::SubTemplateMultiList, &[1, 1, 44, 0, 5], "0x01012c0005"),
            (DataType::SubTemplateList, &[], "[]"),
        ];
        for (data_type, octets, expected) in cases {
            assert_eq!(text(data_type, octets), expected);
        }
    }

    #[test]
    fn values_by_their_type() {
        assert_eq!(text(DataType::Unsigned(4), &[1, 0]), "256");
        assert_eq!(text(DataType::Signed(2), &[0xff, 0xfe]), "-2");
        assert_eq!(text(DataType::Float(8), &[0x3f, 0x80, 0, 0]), "1");
        assert_eq!(text(DataType::Boolean, &[2]), "false");
        assert_eq!(text(DataType::Boolean, &[3]), "0x03");
        assert_eq!(text(DataType::Text, b"example"), "example");
        assert_eq!(text(DataType::Text, b"ker\0beros\0\0\0"), "ker\0beros");
        assert_eq!(text(DataType::DateTimeSeconds, &[0, 0, 0, 0]), "1970-01-01T00:00:00Z");
        // RFC 7011 section 6.1.9 leads to 1970-01-01 at 2208988800 seconds of NTP.
        assert_eq!(
            text(DataType::DateTimeMicroseconds, &[0x83, 0xaa, 0x7e, 0x80, 0x80, 0, 0, 0]),
            "1970-01-01T00:00:00.5Z"
        );
        // the lowest 11 bits are no part of it, as they are of a dateTimeNanoseconds
        let latest = [0x83, 0xaa, 0x7e, 0x80, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(text(DataType::DateTimeMicroseconds, &latest), "1970-01-01T00:00:00.999999523Z");
        assert_eq!(text(DataType::DateTimeNanoseconds, &latest), "1970-01-01T00:00:00.999999999Z");
        // RFC 5905 section 6: 0 is no time
        assert_eq!(text(DataType::DateTimeNanoseconds, &[0; 8]), "0x0000000000000000");
        // RFC 5905 section 6: era 1 begins at 2036-02-07T06:28:16Z
        assert_eq!(text(DataType::DateTimeNanoseconds, &[0, 0, 0, 16, 0, 0, 0, 0]), "2036-02-07T06:28:32Z");
        assert_eq!(text(DataType::DateTimeNanoseconds, &[0x80, 0, 0, 0, 0, 0, 0, 0]), "1968-01-20T03:14:08Z");
        // the types are unsigned (RFC 7011 sections 6.1.7 and 6.1.8): this is no time of the year 1969
        assert_eq!(text(DataType::DateTimeMilliseconds, &[0xff; 8]), "0xffffffffffffffff");
        assert_eq!(text(DataType::DateTimeSeconds, &[0xff; 8]), "0xffffffffffffffff");
        assert_eq!(text(DataType::Ipv4Address, &[192, 0, 2, 1]), "192.0.2.1");
        assert_eq!(text(DataType::Ipv4Address, &[192, 0]), "0xc000");
    }
}
