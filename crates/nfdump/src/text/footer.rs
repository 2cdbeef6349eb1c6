//! The lines below an answer, which scripts read.

use std::io::Write;

use super::Options;
use super::rows::per_second;
use super::scale::{push_duration, push_number};
use weir_print::digits::ZonedClock;

/// What the flows of an answer amount to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Number of flows.
    pub flows: u64,
    /// Number of packets.
    pub packets: u64,
    /// Number of octets.
    pub bytes: u64,
    /// Start of the first flow, milliseconds since the epoch.
    pub first_ms: Option<i64>,
    /// End of the last flow.
    pub last_ms: Option<i64>,
}

impl Totals {
    fn averages(&self) -> [u64; 3] {
        let duration_ms = self.first_ms.zip(self.last_ms).map_or(0, |(first, last)| (last - first).max(0) as u64);
        if duration_ms == 0 {
            return [0; 3];
        }
        [
            per_second(self.bytes.saturating_mul(8), duration_ms),
            per_second(self.packets, duration_ms),
            self.bytes.checked_div(self.packets).unwrap_or(0),
        ]
    }
}

/// What it took to answer.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct QueryCost {
    /// Flows read.
    pub flows_processed: u64,
    /// Flows that passed the filter.
    pub flows_passed: u64,
    /// Octets read.
    pub bytes_read: u64,
    /// Start of the first flow read, milliseconds since the epoch.
    pub first_ms: Option<i64>,
    /// End of the last flow read.
    pub last_ms: Option<i64>,
    /// Seconds of processor time of the system.
    pub system_seconds: f64,
    /// Seconds of processor time of the program.
    pub user_seconds: f64,
    /// Seconds that passed.
    pub wall_seconds: f64,
}

/// Appends the four lines below a text.
pub fn push_footer(text: &mut Vec<u8>, totals: &Totals, cost: &QueryCost, options: &Options) {
    let [bps, pps, bpp] = totals.averages();
    let labelled: [(&str, u64); 5] = [
        (", total bytes: ", totals.bytes),
        (", total packets: ", totals.packets),
        (", avg bps: ", bps),
        (", avg pps: ", pps),
        (", avg bpp: ", bpp),
    ];
    // Writing to a vector does not fail.
    let _ = write!(text, "Summary: total flows: {}", totals.flows);
    for (label, number) in labelled {
        text.extend_from_slice(label.as_bytes());
        push_number(text, number, options.plain_numbers, 0);
    }
    text.extend_from_slice(b"\nTime window: ");
    let mut clock = ZonedClock::new(options.zone.clone());
    match cost.first_ms.zip(cost.last_ms) {
        None => text.extend_from_slice(b"<unknown>"),
        Some((first, last)) if options.release.is_last() => {
            if first == 0 {
                text.extend_from_slice(b"Time Window unknown");
            } else {
                clock.push(text, first, b' ');
                text.extend_from_slice(b" - ");
                clock.push(text, last, b' ');
            }
            text.extend_from_slice(b", Duration:");
            push_duration(text, last.saturating_sub(first).try_into().unwrap_or(0));
        }
        Some((first, last)) => {
            push_second(text, first, &mut clock);
            text.extend_from_slice(b" - ");
            push_second(text, last, &mut clock);
        }
    }
    let QueryCost { flows_processed, flows_passed, bytes_read, .. } = cost;
    // 1.7.8 counts what passed, whatever it calls it
    let flows_processed = if options.release.is_last() { flows_passed } else { flows_processed };
    let what = if options.release.is_last() { "records" } else { "flows" };
    let _ = write!(text, "\nTotal {what} processed: {flows_processed}, passed: {flows_passed}, ");
    let _ = writeln!(text, "Blocks skipped: 0, Bytes read: {bytes_read}");
    let wall = cost.wall_seconds;
    let rate = if wall > 0.0 { *flows_processed as f64 / wall } else { 0.0 };
    let _ = write!(text, "Sys: {:.4}s User: {:.4}s ", cost.system_seconds, cost.user_seconds);
    let _ = writeln!(text, "Wall: {wall:.4}s flows/second: {rate:.1} Runtime: {wall:.4}s");
}

/// Appends the footer of comma-separated values.
pub fn push_csv_footer(text: &mut Vec<u8>, totals: &Totals) {
    let [bps, pps, bpp] = totals.averages();
    let Totals { flows, bytes, packets, .. } = totals;
    // Writing to a vector does not fail.
    let _ = writeln!(text, "Summary\nflows,bytes,packets,avg_bps,avg_pps,avg_bpp");
    let _ = writeln!(text, "{flows},{bytes},{packets},{bps},{pps},{bpp}");
}

fn push_second(text: &mut Vec<u8>, ms: i64, clock: &mut ZonedClock) {
    clock.push(text, ms, b' ');
    text.truncate(text.len() - 4);
}
