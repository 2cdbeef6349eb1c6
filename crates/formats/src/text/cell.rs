//! Values as people and programs write them.

use std::collections::HashMap;
use std::sync::LazyLock;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use weir_flow::{Column, ColumnType, parse_address};

/// A value of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cell {
    Number(u64),
    Time(i64),
    Octets(Vec<u8>),
}

/// The text where there is no value.
pub(crate) fn is_empty(text: &str) -> bool {
    matches!(text, "" | "-" | "(empty)" | "null" | "NULL" | "<none>")
}

/// Reads the value of a column, `None` when the text is none.
pub(crate) fn read(column: Column, text: &str) -> Option<Cell> {
    let max = match column.column_type() {
        ColumnType::Time => return time_ms(text).map(Cell::Time),
        ColumnType::Address => return parse_address(text).map(Cell::Octets),
        ColumnType::Mac => return mac(text).map(Cell::Octets),
        ColumnType::Text => return (!text.is_empty()).then(|| Cell::Octets(text.into())),
        ColumnType::Octets | ColumnType::Elements => return hexadecimal(text).map(Cell::Octets),
        ColumnType::U8 => u8::MAX.into(),
        ColumnType::U16 => u16::MAX.into(),
        ColumnType::U32 => u32::MAX.into(),
        ColumnType::U64 => u64::MAX,
    };
    let value = number(text).or_else(|| match column {
        Column::Protocol => protocol(text).map(u64::from),
        Column::TcpFlags | Column::TcpFlagsReverse => tcp_flags(text).map(u64::from),
        Column::Direction => ["ingress", "egress"].iter().position(|word| *word == text).map(|at| at as u64),
        _ => None,
    })?;
    (value <= max).then_some(Cell::Number(value))
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Numbers of protocols by their names, in lower case. Where a keyword of IANA's registry and a name of filters differ,
/// the keyword counts, as in SQL: IPIP is 94.
static PROTOCOLS: LazyLock<HashMap<String, u8>> = LazyLock::new(|| {
    let names = weir_flow::PROTOCOLS.iter().flat_map(|protocol| {
        let names = protocol.filter_names.iter().chain(protocol.other_names);
        names.map(move |name| ((*name).to_owned(), protocol.number))
    });
    let keyword = |protocol: &weir_flow::Protocol| Some((protocol.keyword?.to_ascii_lowercase(), protocol.number));
    let keywords = weir_flow::PROTOCOLS.iter().filter_map(keyword);
    // Zeek's name where it knows none
    let unknown = ("unknown_transport".to_owned(), 0);
    names.chain(keywords).chain([unknown]).collect()
});

/// Numbers of protocols by nfdump's names, in lower case. Of the two that it calls IDPR it is the one with that
/// keyword.
static NFDUMP_PROTOCOLS: LazyLock<HashMap<String, u8>> = LazyLock::new(|| {
    let named = |protocol: &weir_flow::Protocol| Some((protocol.nfdump_name?.to_ascii_lowercase(), protocol.number));
    // the last one of a name counts
    weir_flow::PROTOCOLS.iter().rev().filter_map(named).collect()
});

fn protocol(text: &str) -> Option<u8> {
    PROTOCOLS.get(&text.to_ascii_lowercase()).copied()
}

/// Reads a protocol of nfdump's text: by its own names, of which some mean other numbers elsewhere, before all others.
pub(crate) fn read_nfdump_protocol(text: &str) -> Option<Cell> {
    let named = NFDUMP_PROTOCOLS.get(&text.to_ascii_lowercase()).map(|number| Cell::Number(u64::from(*number)));
    named.or_else(|| read(Column::Protocol, text))
}

/// Reads a destination port of nfdump's text. Type and code of ICMP have a dot between them in 1.7.8, and were one
/// number before, as in its files: `8.0` is 2048.
pub(crate) fn read_nfdump_port(text: &str) -> Option<Cell> {
    let Some((icmp_type, code)) = text.split_once('.') else { return read(Column::DstPort, text) };
    let [icmp_type, code] = [icmp_type, code].map(|number| number.parse::<u8>().ok());
    Some(Cell::Number(u64::from(icmp_type?) << 8 | u64::from(code?)))
}

/// Whether a text is what argus writes of who sent to whom: `->`, `<?>`, `|>` and the like, or `who` of ARP (ra(1)).
pub(crate) fn is_arrow(text: &str) -> bool {
    text == "who" || text.contains(['<', '>']) && text.chars().all(|letter| "<>-?|o".contains(letter))
}

/// Whether two types of ICMP or ICMPv6 are question and answer, as Zeek takes them.
pub(crate) fn is_icmp_pair((first, second): (u16, u16)) -> bool {
    const PAIRS: [(u16, u16); 11] = [
        (8, 0),
        (13, 14),
        (15, 16),
        (10, 9),
        (17, 18),
        (128, 129),
        (133, 134),
        (135, 136),
        (130, 131),
        (139, 140),
        (144, 145),
    ];
    PAIRS.contains(&(first, second)) || PAIRS.contains(&(second, first))
}

/// Letters of set bits, in any order, with dots or blanks where a bit is not set.
fn tcp_flags(text: &str) -> Option<u16> {
    let mut flags = 0;
    for letter in text.chars().filter(|letter| !matches!(letter, '.' | ' ')) {
        flags |= 1 << "FSRPAUEC".find(letter)?;
    }
    Some(flags)
}

fn mac(text: &str) -> Option<Vec<u8>> {
    let octets: Vec<u8> =
        text.split([':', '-']).map(|octet| u8::from_str_radix(octet, 16).ok()).collect::<Option<_>>()?;
    (octets.len() == 6).then_some(octets)
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("0x").unwrap_or(text).as_bytes();
    let pairs = digits.chunks_exact(2);
    if !pairs.remainder().is_empty() || digits.is_empty() {
        return None;
    }
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Seconds with a fraction as milliseconds.
pub(crate) fn secs_as_ms(text: &str) -> Option<i64> {
    if text.starts_with('-') || text.contains(['e', 'E']) {
        let ms = (text.parse::<f64>().ok()? * 1000.0).floor();
        return (ms.abs() < MS_MAX).then_some(ms as i64);
    }
    let (secs, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = fraction.bytes().all(|digit| digit.is_ascii_digit());
    let ms: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    let secs: i64 = secs.parse().ok()?;
    digits.then_some(())?;
    secs.checked_mul(1000)?.checked_add(ms)
}

/// Milliseconds beyond which no time is meant.
const MS_MAX: f64 = 1e16;

/// Numbers from here on are milliseconds since the epoch, below seconds: the year 5138, or March 1973.
const MS_FROM: i64 = 100_000_000_000;

/// A time: seconds or milliseconds since the epoch, or a date and a time of day, in UTC when nothing else is said. None is
/// beyond the years that dates are written in.
fn time_ms(text: &str) -> Option<i64> {
    if let Some(ms) = secs_as_ms(text) {
        let ms = if ms / 1000 >= MS_FROM { ms / 1000 } else { ms };
        return jiff::Timestamp::from_millisecond(ms).ok().map(|_| ms);
    }
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Some(time.as_millisecond());
    }
    // dates of rwcut have strokes
    let date = text.get(..10)?.replace('/', "-");
    let civil: DateTime = format!("{date}{}", text.get(10..)?).parse().ok()?;
    Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(column: Column, text: &str, expected: impl Into<Option<Cell>>) {
        assert_eq!(read(column, text), expected.into(), "{column} {text}");
    }

    #[test]
    fn times() {
        let expected = Some(Cell::Time(1_565_635_847_958));
        for text in [
            "1565635847.958",
            "1565635847.958123",
            "1565635847958",
            "1565635847958.0",
            "1.565635847958e12",
            "1.565635847958e9",
            "2019-08-12T18:50:47.958Z",
            "2019-08-12T18:50:47.958",
            "2019-08-12 18:50:47.958",
            "2019/08/12T18:50:47.958",
            "2019-08-12T20:50:47.958+02:00",
        ] {
            check(Column::Start, text, expected.clone());
        }
        check(Column::Start, "1565635847", Some(Cell::Time(1_565_635_847_000)));
        check(Column::Start, "2e-6", Some(Cell::Time(0)));
        check(Column::Start, "-1.5", Some(Cell::Time(-1500)));
        check(Column::Start, "1e99", None);
        // 9999-12-01T00:00:00Z, by `date -d`, and a month later
        check(Column::Start, "253399622400000", Some(Cell::Time(253_399_622_400_000)));
        for text in ["253402300800000", "253402300800000.5", "1565635847958000", "-400000000000"] {
            check(Column::Start, text, None);
        }
        for text in ["XXXXXXXXXX.XXXXXX", "1.x", "yesterday", "2019-13-01 00:00:00", "é19-08-12 18:50:47"] {
            check(Column::Start, text, None);
        }
    }

    #[test]
    fn arrows() {
        for text in ["->", "<-", "<->", "?>", "<?", "<?>", "|>", "<|>", "o>", "<o>", "who"] {
            assert!(is_arrow(text), "{text}");
        }
        for text in ["", "-", "0", "ingress", "whom", "o", "=>"] {
            assert!(!is_arrow(text), "{text}");
        }
    }

    #[test]
    fn numbers_and_names() {
        check(Column::Protocol, "tcp", Some(Cell::Number(6)));
        check(Column::Protocol, "UDP", Some(Cell::Number(17)));
        check(Column::Protocol, "58", Some(Cell::Number(58)));
        check(Column::Protocol, "256", None);
        // keywords of IANA's registry and names of filters, in any case
        for (name, number) in [
            ("OSPF", 89),
            ("ospfigp", 89),
            ("IPv6-Frag", 44),
            ("icmp6", 58),
            ("IPv6-ICMP", 58),
            ("PGM", 113),
            ("Compaq-Peer", 110),
            ("nsh", 145),
            ("Mobility Header", 135),
            ("IPv4", 4),
            ("IPIP", 94),
            ("ipip", 94),
        ] {
            check(Column::Protocol, name, Some(Cell::Number(number)));
        }
        check(Column::Protocol, "Frag6", None);
        check(Column::SrcPort, "0x50", Some(Cell::Number(80)));
        check(Column::SrcPort, "65536", None);
        check(Column::TcpFlags, "...A..S.", Some(Cell::Number(0x12)));
        check(Column::TcpFlags, " S  A   ", Some(Cell::Number(0x12)));
        check(Column::TcpFlags, "0x1b", Some(Cell::Number(0x1b)));
        check(Column::TcpFlags, "xyz", None);
        check(Column::SrcAddr, "2001:db8::1", parse_address("2001:db8::1").map(Cell::Octets));
        check(Column::SrcAddr, "300.1.1.1", None);
        check(Column::SrcMac, "00:11:22:33:44:5f", Some(Cell::Octets(vec![0, 0x11, 0x22, 0x33, 0x44, 0x5f])));
        check(Column::ServerName, "www.example.org", Some(Cell::Octets(b"www.example.org".to_vec())));
        check(Column::ApplicationId, "0d000001", Some(Cell::Octets(vec![13, 0, 0, 1])));
    }
}
