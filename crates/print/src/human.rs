//! Values as people read them.

use arrow::datatypes::{DataType, Field};
use jiff::tz::TimeZone;
use weir_flow::{Column, protocol_name};

use crate::cell::Cells;
use crate::digits::{Clock, ZonedClock, push_f64, push_scaled, push_u64};
use crate::harmless::is_obeyed;
use crate::names::tcp_flags_text;

/// What the values of a column mean to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    Protocol,
    Flags,
    /// A counter or a rate: large ones are scaled.
    Counter,
    /// Milliseconds, printed as seconds.
    Duration,
    Other,
}

impl Meaning {
    /// Finds the meaning by name and type: a column with the name of one of ours means the same.
    pub(crate) fn of(field: &Field) -> Self {
        match (field.name().as_str(), field.data_type()) {
            ("protocol", DataType::UInt8) => Self::Protocol,
            ("tcp_flags", DataType::UInt16) => Self::Flags,
            ("duration_ms", DataType::UInt64) => Self::Duration,
            (
                "packets_per_second" | "bits_per_second" | "bytes_per_packet" | "flows_error_max" | "packets_error_max"
                | "bytes_error_max",
                DataType::UInt64,
            ) => Self::Counter,
            (name, DataType::UInt64 | DataType::Decimal128(_, 0))
                if Column::by_name(name).is_some_and(|column| !column.spec().unit.is_empty()) =>
            {
                Self::Counter
            }
            _ => Self::Other,
        }
    }
}

/// Whether values of a type are aligned to the right.
pub(crate) fn is_right_aligned(field: &Field) -> bool {
    field.data_type().is_numeric() && !matches!(Meaning::of(field), Meaning::Protocol | Meaning::Flags)
}

/// Heading of a column.
pub(crate) fn heading(field: &Field, labels: bool) -> String {
    let label = match field.name().as_str() {
        "duration_ms" => Some("duration"),
        "packets_per_second" => Some("pps"),
        "bits_per_second" => Some("bps"),
        "bytes_per_packet" => Some("bpp"),
        // so much more there may be
        "flows_error_max" => Some("flows +"),
        "packets_error_max" => Some("packets +"),
        "bytes_error_max" => Some("bytes +"),
        name => Column::by_name(name).map(|column| column.spec().label),
    };
    clean(label.filter(|_| labels).unwrap_or(field.name()))
}

/// Text without characters that a terminal obeys.
pub(crate) fn clean(text: &str) -> String {
    if !text.chars().any(is_obeyed) {
        return text.to_owned();
    }
    let mut clean = String::with_capacity(text.len());
    for letter in text.chars() {
        if is_obeyed(letter) { clean.extend(letter.escape_default()) } else { clean.push(letter) }
    }
    clean
}

/// Writes values for people.
#[derive(Debug)]
pub(crate) struct Writer {
    scaled: bool,
    zoned: ZonedClock,
    clock: Clock,
}

impl Writer {
    pub(crate) fn new(zone: TimeZone, scaled: bool) -> Self {
        Self { scaled, zoned: ZonedClock::new(zone), clock: Clock::new() }
    }

    pub(crate) fn push(&mut self, cells: &Cells<'_>, row: usize, meaning: Meaning, text: &mut Vec<u8>) {
        if cells.is_null(row) {
            text.push(b'-');
            return;
        }
        if let Some(ms) = cells.milliseconds(row) {
            self.zoned.push(text, ms, b' ');
            return;
        }
        match (meaning, cells.unsigned(row)) {
            (Meaning::Protocol, Some(number)) => match protocol_name(number as u8) {
                Some(name) => text.extend_from_slice(name.as_bytes()),
                None => push_u64(text, number),
            },
            (Meaning::Flags, Some(flags)) => text.extend_from_slice(&tcp_flags_text(flags as u16)),
            (Meaning::Duration, Some(ms)) => {
                push_u64(text, ms / 1000);
                text.extend_from_slice(format!(".{:03}", ms % 1000).as_bytes());
            }
            (Meaning::Counter, Some(number)) if self.scaled => push_scaled(text, number),
            (Meaning::Other, None) if self.scaled && cells.fraction(row).is_some() => {
                cells.fraction(row).into_iter().for_each(|number| push_rounded(text, number));
            }
            _ => {
                let start = text.len();
                cells.push(row, &mut self.clock, text);
                clean_from(text, start);
            }
        }
    }
}

/// Cleans what was appended from `start` on.
fn clean_from(text: &mut Vec<u8>, start: usize) {
    if text[start..].iter().all(|octet| octet.is_ascii_graphic() || *octet == b' ') {
        return;
    }
    let cleaned = clean(&String::from_utf8_lossy(&text[start..]));
    text.truncate(start);
    text.extend_from_slice(cleaned.as_bytes());
}

/// Six digits, or as many as are before the point.
fn push_rounded(text: &mut Vec<u8>, number: f64) {
    let rounded = if number.abs() < 1e6 { format!("{number:.5e}") } else { format!("{number:.0}") };
    push_f64(text, rounded.parse().unwrap_or(number));
}
