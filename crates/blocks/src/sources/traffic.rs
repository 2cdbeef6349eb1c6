//! What the sources of synthetic flows share: the parameters that describe who talks and since when.

use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::TimestampMillisecondType;
use weir_chain::{ParameterError, ParameterSpec, ParameterType, Parameters};
use weir_generate::TrafficModel;

/// Chooses among all traffic.
pub(crate) const SEED: ParameterSpec = ParameterSpec {
    key: "seed",
    parameter_type: ParameterType::Integer(0, i64::MAX as u64),
    default: Some("1"),
    doc: "Chooses among all the traffic that the other parameters describe.",
};

/// Number of hosts.
pub(crate) const HOSTS: ParameterSpec = ParameterSpec {
    key: "hosts",
    parameter_type: ParameterType::Integer(TrafficModel::HOSTS_MIN as u64, TrafficModel::HOSTS_MAX as u64),
    default: Some("1048576"),
    doc: "About how many hosts there are, one in eight of them inside.",
};

/// Share of IPv6.
pub(crate) const IPV6_SHARE: ParameterSpec = ParameterSpec {
    key: "ipv6_share",
    parameter_type: ParameterType::Number,
    default: Some("0.0"),
    doc: "Share of conversations in IPv6, from 0 to 1.",
};

/// Beginning of the simulated time.
pub(crate) const START: ParameterSpec = ParameterSpec {
    key: "start",
    parameter_type: ParameterType::Text,
    default: Some("\"2026-01-01T00:00:00Z\""),
    doc: "When the simulated time begins, as ISO 8601 has it; in UTC where no offset is given.",
};

/// [`HOSTS`] as a model has it.
pub(crate) fn hosts(parameters: &Parameters) -> u32 {
    parameters.integer("hosts") as u32
}

/// [`IPV6_SHARE`] as a model has it.
pub(crate) fn ipv6_permille(parameters: &Parameters) -> Result<u16, ParameterError> {
    let share = parameters.number("ipv6_share");
    if !(0.0..=1.0).contains(&share) {
        return Err(ParameterError::new("ipv6_share", format!("{share} is not between 0 and 1")));
    }
    Ok((share * 1000.0).round() as u16)
}

/// [`START`] in milliseconds since the epoch.
pub(crate) fn start_ms(parameters: &Parameters) -> Result<i64, ParameterError> {
    let start = parameters.text("start");
    TimestampMillisecondType::parse(start).ok_or_else(|| {
        let error = ParameterError::new("start", format!("'{start}' is no time"));
        error.with_hint("write 2026-01-01T00:00:00Z")
    })
}

/// A span of time as models have it.
pub(crate) fn millis(parameters: &Parameters, key: &str) -> u32 {
    u32::try_from(parameters.millis(key)).unwrap_or(u32::MAX)
}
