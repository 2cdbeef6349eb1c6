//! The lines of a catalogue, and what becomes of damaged ones.
//!
//! A line is a checksum, a family, a number and a key. One bit that is another one is found and corrected: of all lines that differ
//! in one bit at most one has the right checksum, since texts of up to 650 octets with the same CRC-32C differ in six bits or more.
//! The bit may be of the end of a line, or make an end where there was none. Lines with more damage are counted, and cost
//! their keys. What speaks against correcting is that a text of chance is taken for a line once in some ten million times.

use std::fmt::Write as _;

use crate::FamilyId;

/// Longest line that is corrected: of longer ones each bit costs too much, and there are more texts with the same checksum.
const CORRECTED_LEN_MAX: usize = 650;
/// Most damaged lines that are looked at: a file with more of them has not one wrong bit.
const CORRECTIONS_MAX: u64 = 1_000;

/// Family, number and key of a line.
pub(super) type Entry = (FamilyId, u32, String);

/// What was found in the octets of a catalogue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LineCounts {
    /// Octets up to the end of the last whole line.
    pub(super) octets: u64,
    /// Places where one bit was corrected.
    pub(super) repaired: u64,
    /// Lines that were durable and cannot be read.
    pub(super) damaged: u64,
}

/// Reads the lines of a catalogue.
pub(super) fn read(octets: &[u8], mut add: impl FnMut(Entry)) -> LineCounts {
    let mut counts = LineCounts::default();
    let mut lines = octets.split_inclusive(|&octet| octet == b'\n').peekable();
    while let Some(line) = lines.next() {
        let Some(whole) = line.strip_suffix(b"\n") else {
            // a process that died has not finished the last line, unless only its end is another octet
            if let Some(entry) = with_another_end(line) {
                add(entry);
                counts.repaired += 1;
                counts.octets += line.len() as u64;
            }
            break;
        };
        counts.octets += line.len() as u64;
        if let Some(entry) = parsed(whole) {
            add(entry);
            continue;
        }
        let is_tried = counts.repaired + counts.damaged < CORRECTIONS_MAX;
        if let Some(entries) = Some(whole).filter(|_| is_tried).and_then(corrected) {
            entries.into_iter().for_each(&mut add);
            counts.repaired += 1;
        } else if let Some(entry) = lines.peek().filter(|_| is_tried).and_then(|next| joined(whole, next)) {
            add(entry);
            counts.repaired += 1;
            counts.octets += lines.next().map_or(0, <[u8]>::len) as u64;
        } else {
            // another line that is damaged costs its own key only; zeros are what a loss of power leaves of a line that was
            // not durable
            counts.damaged += u64::from(!whole.contains(&0));
        }
    }
    counts
}

/// A line without its end: family, number and key.
fn parsed(line: &[u8]) -> Option<Entry> {
    let line = str::from_utf8(line).ok()?;
    let (checksum, rest) = line.split_once('\t')?;
    if u32::from_str_radix(checksum, 16).ok()? != crc32c::crc32c(rest.as_bytes()) {
        return None;
    }
    let mut parts = rest.splitn(3, '\t');
    let (family, id, key) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?);
    Some((FamilyId(family), id, unescaped(key)))
}

/// A line, or two of which the end between them is another octet, with one bit as it was.
fn corrected(line: &[u8]) -> Option<Vec<Entry>> {
    if line.len() > CORRECTED_LEN_MAX {
        return None;
    }
    let mut tried = line.to_vec();
    for at in 0..line.len() {
        for bit in 0..8 {
            tried[at] = line[at] ^ (1 << bit);
            let found = match tried[at] {
                b'\n' => parsed(&tried[..at]).zip(parsed(&tried[at + 1..])).map(|(one, other)| vec![one, other]),
                _ => parsed(&tried).map(|entry| vec![entry]),
            };
            if found.is_some() {
                return found;
            }
        }
        tried[at] = line[at];
    }
    None
}

/// A line in which one octet has become an end: what is before it, and the line behind it, with its end.
fn joined(first: &[u8], second: &[u8]) -> Option<Entry> {
    let second = second.strip_suffix(b"\n")?;
    if first.len() + second.len() >= CORRECTED_LEN_MAX {
        return None;
    }
    (0..8).find_map(|bit| parsed(&[first, &[b'\n' ^ (1 << bit)], second].concat()))
}

/// The last line, when one bit of its end is another one.
fn with_another_end(line: &[u8]) -> Option<Entry> {
    let (end, line) = line.split_last()?;
    Some(line).filter(|_| (end ^ b'\n').is_power_of_two()).and_then(parsed)
}

/// A line with its end.
pub(super) fn line(family: FamilyId, id: u32, key: &str) -> String {
    let mut rest = format!("{}\t{id}\t", family.0);
    for character in key.chars() {
        match character {
            '\\' => rest.push_str("\\\\"),
            '\n' => rest.push_str("\\n"),
            '\t' => rest.push_str("\\t"),
            other => rest.push(other),
        }
    }
    let mut line = String::new();
    let _ = writeln!(line, "{:08x}\t{rest}", crc32c::crc32c(rest.as_bytes()));
    line
}

fn unescaped(text: &str) -> String {
    let mut key = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match (character, character == '\\') {
            (_, true) => key.push(match characters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(other) => other,
                None => '\\',
            }),
            (other, false) => key.push(other),
        }
    }
    key
}
