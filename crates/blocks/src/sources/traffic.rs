//! What the sources of synthetic flows share: the options that describe who talks and since when.

use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::TimestampMillisecondType;
use weir_chain::{OptionError, TimeSpan, options};
use weir_generate::{Scene, SceneKind, TrafficModel};

options! {
    /// Who talks, and since when.
    pub struct TrafficOptions {
        /// Choose among all the traffic that the other options describe.
        seed: u64 = 1 => 0..=i64::MAX as u64,
        /// About this many hosts, one in eight of them inside.
        hosts: u32 = 1 << 20 => TrafficModel::HOSTS_MIN as u64..=TrafficModel::HOSTS_MAX as u64,
        /// Share of conversations in IPv6, from 0 to 1.
        ipv6_share: f64 = 0.0,
        /// Begin the simulated time here, in ISO 8601; in UTC where no offset is given.
        start: String = "2026-01-01T00:00:00Z".to_owned(),
    }
}

impl TrafficOptions {
    /// The share of IPv6 as a model has it.
    pub(crate) fn ipv6_permille(&self) -> Result<u16, OptionError> {
        let share = self.ipv6_share;
        if !(0.0..=1.0).contains(&share) {
            return Err(OptionError::new("ipv6_share", format!("{share} is not between 0 and 1")));
        }
        Ok((share * 1000.0).round() as u16)
    }

    /// The start in milliseconds since the epoch.
    pub(crate) fn start_ms(&self) -> Result<i64, OptionError> {
        let start = self.start.as_str();
        TimestampMillisecondType::parse(start).ok_or_else(|| {
            let error = OptionError::new("start", format!("'{start}' is not a time"));
            error.with_hint("write 2026-01-01T00:00:00Z")
        })
    }
}

/// Reads scenes to plant, each as `NAME@TIME`: the time is since the start, such as `10m`, or in ISO 8601.
///
/// # Errors
///
/// When there is no scene of a name, or the time is none.
pub fn scenes(texts: &[String], start_ms: i64) -> Result<Vec<Scene>, OptionError> {
    texts.iter().map(|text| scene(text, start_ms)).collect()
}

fn scene(text: &str, start_ms: i64) -> Result<Scene, OptionError> {
    let wrong = |message: String, hint: &str| OptionError::new("scenes", message).with_hint(hint);
    let Some((name, time)) = text.split_once('@') else {
        return Err(wrong(format!("'{text}' has no time"), "write NAME@TIME, such as portscan-vertical@10m"));
    };
    let kind = SceneKind::named(name).ok_or_else(|| {
        let names = SceneKind::ALL.map(SceneKind::name).join(", ");
        wrong(format!("there is no scene '{name}'"), &format!("there are {names}"))
    })?;
    let since_start = || time.parse::<TimeSpan>().ok().map(|span| start_ms.saturating_add(span.millis()));
    let at_ms = since_start().or_else(|| TimestampMillisecondType::parse(time)).ok_or_else(|| {
        wrong(
            format!("'{time}' is no time of a scene"),
            "write a time since the start, such as 10m, or 2026-01-01T00:10:00Z",
        )
    })?;
    Ok(Scene { kind, at_ms })
}

/// A span of time as models have it.
pub(crate) fn millis(span: TimeSpan) -> u32 {
    u32::try_from(span.millis()).unwrap_or(u32::MAX)
}
