//! What the documentation says, in plain loops over plain lists.

use super::{HandedOnRow, Row};

pub(super) struct Model {
    pub(super) window_ms: i64,
    pub(super) future_ms: i64,
    pub(super) rows_max: usize,
    pub(super) sheds: bool,
    pub(super) drops_late: bool,
}

/// Rows handed on, and counts: late, shed, early, without start, stitched, unmatched.
#[derive(Default)]
pub(super) struct Expected {
    pub(super) rows: Vec<HandedOnRow>,
    pub(super) counts: [u64; 6],
}

/// A row that is held, and its partner.
struct Held {
    first: usize,
    second: Option<usize>,
}

fn alone(number: usize, row: &Row) -> HandedOnRow {
    HandedOnRow {
        number,
        start: row.start,
        end: row.end,
        tcp_flags: row.tcp_flags,
        bytes_reverse: row.bytes_reverse,
        packets_reverse: None,
    }
}

/// The type of ICMP that a row tells.
fn icmp_type(row: &Row) -> Option<u8> {
    let from_code = row.icmp_type_code.map(|code| (code / 256) as u8);
    row.icmp_type.or(from_code).or(row.dst.1.map(|port| (port / 256) as u8))
}

/// The type that replies to a type, for requests only.
fn reply_to(protocol: u8, request: u8) -> Option<u8> {
    match (protocol, request) {
        (1, 8) => Some(0),
        (1, 13 | 15 | 17) => Some(request + 1),
        (58, 128) => Some(129),
        _ => None,
    }
}

fn is_icmp(row: &Row) -> bool {
    [1, 58].contains(&row.protocol)
}

/// Whether `reply` answers the ICMP message `request`.
fn answers(request: &Row, reply: &Row) -> bool {
    let wanted = icmp_type(request).and_then(|kind| reply_to(request.protocol, kind));
    request.src.0 == reply.dst.0 && request.dst.0 == reply.src.0 && wanted.is_some() && icmp_type(reply) == wanted
}

fn are_opposite(one: &Row, two: &Row) -> bool {
    if (one.exporter, one.domain, one.protocol) != (two.exporter, two.domain, two.protocol) {
        return false;
    }
    if one.bytes_reverse.or(two.bytes_reverse).is_some() {
        return false;
    }
    if is_icmp(one) {
        return answers(one, two) || answers(two, one);
    }
    let end = |end: (&'static str, Option<u16>)| (end.0, end.1.unwrap_or(0));
    end(one.src) == end(two.dst) && end(one.dst) == end(two.src) && end(one.src) != end(one.dst)
}

/// Whether anything could ever be the opposite of a row.
fn has_opposite(row: &Row) -> bool {
    if row.bytes_reverse.is_some() {
        return false;
    }
    if is_icmp(row) {
        let Some(own) = icmp_type(row) else { return false };
        return reply_to(row.protocol, own).is_some()
            || (0..=255).any(|other| reply_to(row.protocol, other) == Some(own));
    }
    (row.src.0, row.src.1.unwrap_or(0)) != (row.dst.0, row.dst.1.unwrap_or(0))
}

impl Model {
    pub(super) fn options(&self) -> String {
        format!(
            "window = '{}ms'\nfuture = '{}ms'\nwindow_rows_max = {}\nwhen_full = '{}'\nlate = '{}'",
            self.window_ms,
            self.future_ms,
            self.rows_max,
            if self.sheds { "shed" } else { "hand-on" },
            if self.drops_late { "drop" } else { "pass" },
        )
    }

    pub(super) fn run(&self, rows: &[Row]) -> Expected {
        let mut expected = Expected::default();
        let mut held: Vec<Held> = Vec::new();
        let mut edge = i64::MIN;
        for (number, row) in rows.iter().enumerate() {
            let from_future = |start| row.received.is_some_and(|received| start > received + self.future_ms);
            let Some(start) = row.start.filter(|start| !from_future(*start)) else {
                expected.counts[3] += 1;
                expected.rows.push(alone(number, row));
                continue;
            };
            if start < edge {
                expected.counts[0] += 1;
                if !self.drops_late {
                    expected.rows.push(alone(number, row));
                }
                continue;
            }
            edge = edge.max(start - self.window_ms);
            while hand_on_first(&mut held, Some(edge), rows, &mut expected).is_some() {}
            if self.sheds && held.len() >= self.rows_max {
                expected.counts[1] += 1;
                continue;
            }
            let other_start = |held: &&mut Held| rows[held.first].start.unwrap_or_default();
            let partners = held.iter_mut().filter(|held| {
                let is_near = other_start(held).abs_diff(start) <= self.window_ms as u64;
                held.second.is_none() && is_near && are_opposite(&rows[held.first], row)
            });
            let nearest =
                partners.min_by_key(|held| (other_start(held).abs_diff(start), other_start(held), held.first));
            match nearest {
                Some(nearest) => {
                    nearest.second = Some(number);
                    expected.counts[4] += 1;
                }
                None => held.push(Held { first: number, second: None }),
            }
            while held.len() > self.rows_max {
                let early = hand_on_first(&mut held, None, rows, &mut expected);
                edge = edge.max(early.expect("a flow"));
                expected.counts[2] += 1;
            }
        }
        while hand_on_first(&mut held, None, rows, &mut expected).is_some() {}
        expected
    }
}

/// Hands on what started first, when it started before `edge`; returns its start.
fn hand_on_first(held: &mut Vec<Held>, edge: Option<i64>, rows: &[Row], expected: &mut Expected) -> Option<i64> {
    let start =
        |held: &Held| [Some(held.first), held.second].into_iter().flatten().filter_map(|row| rows[row].start).min();
    let first = (0..held.len()).min_by_key(|at| (start(&held[*at]), held[*at].first))?;
    let first_start = start(&held[first])?;
    if edge.is_some_and(|edge| first_start >= edge) {
        return None;
    }
    let Held { first, second } = held.remove(first);
    let Some(second) = second else {
        expected.counts[5] += u64::from(has_opposite(&rows[first]));
        expected.rows.push(alone(first, &rows[first]));
        return Some(first_start);
    };
    let (one, two) = (&rows[first], &rows[second]);
    let begins = if is_icmp(one) {
        answers(one, two)
    } else {
        let port = |row: &Row| row.dst.1.unwrap_or(0);
        one.start < two.start || one.start == two.start && port(one) <= port(two)
    };
    let (number, other) = if begins { (first, second) } else { (second, first) };
    let (initiator, other) = (&rows[number], &rows[other]);
    let flags: Vec<u16> = [initiator.tcp_flags, other.tcp_flags].into_iter().flatten().collect();
    expected.rows.push(HandedOnRow {
        number,
        start: Some(first_start),
        end: [initiator.end, other.end].into_iter().flatten().max(),
        tcp_flags: flags.iter().copied().reduce(|one, two| one | two),
        bytes_reverse: other.bytes,
        packets_reverse: other.packets,
    });
    Some(first_start)
}
