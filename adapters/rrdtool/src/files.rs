//! Files of series: their names, and the commands that make and update them.

use std::fmt::Write as _;

use weir_series::{Metric, MetricKind};

/// Octets of a command, about: several readings go in one.
const COMMAND_OCTETS: usize = 4_096;

/// Octets of the name of a file, at most: rrdtool appends seven while it makes one, and some file systems take 143.
const NAME_OCTETS_MAX: usize = 128;
/// What the name of each file ends with.
const ENDING: &str = ".rrd";

/// The file of a series.
#[derive(Debug, Clone, Copy)]
pub struct RrdFile<'a> {
    /// Its name, without blanks; see [`file_name`].
    pub name: &'a str,
    /// Length of its steps in seconds.
    pub step_secs: u32,
    /// What the series counts.
    pub metrics: &'a [Metric],
    /// Steps that it keeps.
    pub rows: u64,
    /// Whether one of this name that is there is replaced by a new one; otherwise there is an error, and it stays as it is.
    pub is_replaced: bool,
}

impl RrdFile<'_> {
    /// Steps whose largest values have a row of their own.
    pub const MAXIMUM_STEPS: u32 = 12;

    /// The command that makes the file, for steps that begin at a time or later, in seconds since the epoch. Counters are given as
    /// what there was in each step (ABSOLUTE), which rrdtool makes a rate of.
    pub fn create(&self, start_secs: i64) -> String {
        let (step_secs, rows) = (u64::from(self.step_secs), self.rows);
        let mut command = format!("create {} --start {start_secs} --step {step_secs}", self.name);
        if !self.is_replaced {
            command.push_str(" --no-overwrite");
        }
        for metric in self.metrics {
            let kind = if metric.kind == MetricKind::Counter { "ABSOLUTE" } else { "GAUGE" };
            let _ = write!(command, " DS:{}:{kind}:{}:0:U", metric.name, 2 * step_secs);
        }
        let steps = u64::from(Self::MAXIMUM_STEPS);
        let _ = write!(command, " RRA:AVERAGE:0.5:1:{rows} RRA:MAX:0.5:{steps}:{}", rows / steps + 1);
        command
    }

    /// The commands that put steps into the file: when each begins, and its [`reading`], in the order of time. Without the time of its
    /// last update the file is made first. Steps that it has are left out, and what is between two of them is unknown.
    pub fn updates(
        &self,
        last_update_secs: Option<i64>,
        readings: impl IntoIterator<Item = (i64, String)>,
    ) -> Vec<String> {
        let mut commands = Vec::new();
        let mut update = String::new();
        let mut through_secs = last_update_secs;
        for (begin_secs, known) in readings {
            let end_secs = begin_secs + i64::from(self.step_secs);
            let known_secs = through_secs.unwrap_or_else(|| {
                commands.push(self.create(begin_secs));
                begin_secs
            });
            if end_secs <= known_secs {
                continue;
            }
            // rrdtool would take a value for one of all the time since the last update
            let gap = (known_secs < begin_secs).then(|| unknown(begin_secs, self.metrics.len()));
            for one in gap.into_iter().chain([known]) {
                if !update.is_empty() && update.len() + one.len() > COMMAND_OCTETS {
                    commands.push(std::mem::take(&mut update));
                }
                if update.is_empty() {
                    update = format!("update {}", self.name);
                }
                update.push(' ');
                update.push_str(&one);
            }
            through_secs = Some(end_secs);
        }
        if !update.is_empty() {
            commands.push(update);
        }
        commands
    }
}

/// What a file gets of a step that ends at a time, in seconds since the epoch: the value of each metric, `None` for one that is unknown.
pub fn reading(end_secs: i64, values: impl IntoIterator<Item = Option<u64>>) -> String {
    let mut text = end_secs.to_string();
    for value in values {
        // writing to a string cannot fail
        let _ = match value {
            None => write!(text, ":U"),
            Some(value) => write!(text, ":{value}"),
        };
    }
    text
}

/// A reading of nothing that is known.
pub(crate) fn unknown(end_secs: i64, metrics: usize) -> String {
    reading(end_secs, std::iter::repeat_n(None, metrics))
}

/// The name of a file, another one for each key, without letters that a shell or rrdtool reads otherwise: `-` for a blank, `,` for a
/// colon, `+` for a slash, and `%` with its octets for every other one. Of a longer name there are the begin and a hash, after `%%`.
pub fn file_name(by: &str, key: &str) -> String {
    let mut name = format!("{by}_");
    for letter in key.chars() {
        match letter {
            ' ' => name.push('-'),
            ':' | '/' => name.push(if letter == ':' { ',' } else { '+' }),
            letter if letter.is_ascii_alphanumeric() || matches!(letter, '.' | '_') => name.push(letter),
            letter => letter.encode_utf8(&mut [0; 4]).bytes().for_each(|octet| {
                // writing to a string cannot fail
                let _ = write!(name, "%{octet:02x}");
            }),
        }
    }
    if name.len() + ENDING.len() > NAME_OCTETS_MAX {
        let hash = format!("%%{:032x}", fnv_1a(name.as_bytes()));
        // there are no other letters in it than those of ASCII, but perhaps in the name of a family
        name.truncate(name.floor_char_boundary(NAME_OCTETS_MAX - ENDING.len() - hash.len()));
        name.push_str(&hash);
    }
    name.push_str(ENDING);
    name
}

/// The hash FNV-1a of 128 bits (draft-eastlake-fnv): names must stay the same for years, in every version.
fn fnv_1a(octets: &[u8]) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    const OFFSET_BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    octets.iter().fold(OFFSET_BASIS, |hash, octet| (hash ^ u128::from(*octet)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests;
