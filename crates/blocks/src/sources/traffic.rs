//! What the sources of synthetic flows share: the options that describe who talks and since when.

use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::TimestampMillisecondType;
use weir_chain::{OptionError, TimeSpan, options};
use weir_generate::TrafficModel;

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

/// A span of time as models have it.
pub(crate) fn millis(span: TimeSpan) -> u32 {
    u32::try_from(span.millis()).unwrap_or(u32::MAX)
}
