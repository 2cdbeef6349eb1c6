//! A source of synthetic flows.

use arrow::compute::kernels::cast_utils::Parser;
use arrow::datatypes::TimestampMillisecondType;
use weir_chain::{
    BlockContext, BlockError, BlockKind, Built, Opener, Outlet, ParameterError, ParameterSpec, ParameterType,
    Parameters, Pulled, Role, Source,
};
use weir_generate::{Flows, TrafficModel};

/// The kind `generator`.
pub const KIND: BlockKind = BlockKind {
    name: "generator",
    role: Role::Source,
    inputs: &[],
    doc: "Makes synthetic flows from a seed, the same on every machine and every time. It hands on the columns \
          `received`, `start`, `end`, addresses, ports, protocol, flags, counters, interfaces and routing of flows, in \
          the order in which their simulated exporter tells them: by `received`, while `start` and `end` lie up to \
          `active_timeout_secs` and `idle_timeout_secs` before it. Flows come as fast as the chain takes them, whatever \
          their simulated time. It ends after `records`, or when the chain stops.",
    parameters: PARAMETERS,
    configure,
};

pub(crate) const PARAMETERS: &[ParameterSpec] = &[
    ParameterSpec {
        key: "records",
        parameter_type: ParameterType::Integer(0, i64::MAX as u64),
        default: Some("1000000"),
        doc: "Flows to make; 0 for as many as are taken until the chain is stopped.",
    },
    ParameterSpec {
        key: "seed",
        parameter_type: ParameterType::Integer(0, i64::MAX as u64),
        default: Some("1"),
        doc: "Chooses among all the traffic that the other parameters describe.",
    },
    ParameterSpec {
        key: "hosts",
        parameter_type: ParameterType::Integer(TrafficModel::HOSTS_MIN as u64, TrafficModel::HOSTS_MAX as u64),
        default: Some("1048576"),
        doc: "About how many hosts there are, one in eight of them inside.",
    },
    ParameterSpec {
        key: "ipv6_share",
        parameter_type: ParameterType::Number,
        default: Some("0.0"),
        doc: "Share of conversations in IPv6, from 0 to 1.",
    },
    ParameterSpec {
        key: "flows_per_second",
        parameter_type: ParameterType::Integer(1, u32::MAX as u64),
        default: Some("10000"),
        doc: "Flows in a second of their own, simulated time.",
    },
    ParameterSpec {
        key: "start",
        parameter_type: ParameterType::Text,
        default: Some("\"2026-01-01T00:00:00Z\""),
        doc: "When the simulated time begins, as ISO 8601 has it; in UTC where no offset is given.",
    },
    ParameterSpec {
        key: "active_timeout_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("60"),
        doc: "Flows are cut when they last so long.",
    },
    ParameterSpec {
        key: "idle_timeout_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("15"),
        doc: "Flows are told up to so long after their end.",
    },
    ParameterSpec {
        key: "elements",
        parameter_type: ParameterType::Boolean,
        default: Some("false"),
        doc: "Whether flows have Information Elements without a column of their own, in the column `elements`.",
    },
    ParameterSpec {
        key: "numbered",
        parameter_type: ParameterType::Boolean,
        default: Some("false"),
        doc: "Whether `bytes` is the number of the flow from 0, so that it shows which are missing or came twice.",
    },
];

/// Flows in a burst.
const BURST_ROWS: usize = Flows::BATCH_ROWS;

/// The traffic that parameters of [`PARAMETERS`] describe.
pub(crate) fn model(parameters: &Parameters) -> Result<TrafficModel, ParameterError> {
    let share = parameters.number("ipv6_share");
    if !(0.0..=1.0).contains(&share) {
        return Err(ParameterError::new("ipv6_share", format!("{share} is not between 0 and 1")));
    }
    let start = parameters.text("start");
    let start_ms = TimestampMillisecondType::parse(start).ok_or_else(|| {
        let error = ParameterError::new("start", format!("'{start}' is no time"));
        error.with_hint("write 2026-01-01T00:00:00Z")
    })?;
    let millis = |key| u32::try_from(parameters.millis(key)).unwrap_or(u32::MAX);
    Ok(TrafficModel {
        hosts: parameters.integer("hosts") as u32,
        ipv6_permille: (share * 1000.0).round() as u16,
        start_ms,
        flows_per_second: parameters.integer("flows_per_second") as u32,
        active_timeout_ms: millis("active_timeout_secs"),
        idle_timeout_ms: millis("idle_timeout_secs"),
        elements: parameters.boolean("elements"),
        numbered: parameters.boolean("numbered"),
        received: true,
        ..TrafficModel::new(parameters.integer("seed"))
    })
}

/// Number of flows to make.
pub(crate) fn records(parameters: &Parameters) -> u64 {
    match parameters.integer("records") {
        0 => u64::MAX,
        records => records,
    }
}

fn configure(parameters: &Parameters) -> Result<Opener, ParameterError> {
    let model = model(parameters)?;
    let flows = model.flows(records(parameters)).map_err(|error| ParameterError::new("records", error.to_string()))?;
    Ok(Box::new(move |_: &BlockContext| Ok(Built::Source(Box::new(Generator { flows, is_stopped: false })))))
}

#[derive(Debug)]
struct Generator {
    flows: Flows,
    is_stopped: bool,
}

impl Source for Generator {
    fn pull(&mut self, out: &mut Outlet) -> Result<Pulled, BlockError> {
        if self.is_stopped {
            return Ok(Pulled::Ended);
        }
        match self.flows.next_batch(BURST_ROWS) {
            Some(flows) => {
                out.flows(flows);
                Ok(Pulled::More)
            }
            None => Ok(Pulled::Ended),
        }
    }

    fn stop(&mut self) {
        self.is_stopped = true;
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::UInt64Type;
    use weir_chain::compliance;

    use super::*;

    fn refused(parameters: &str) -> String {
        let table = parameters.parse().expect("parameters");
        let parameters = Parameters::new(KIND.parameters, &table, ".").expect("parameters");
        let error = configure(&parameters).err().expect("an error");
        format!("{}: {}", error.key, error.message)
    }

    #[test]
    fn compliance_and_the_flows_of_the_model() {
        let parameters = "records = 10000\nseed = 7\nhosts = 5000\nipv6_share = 0.25\nflows_per_second = 500\n\
                          start = '2025-03-01T12:00:00+01:00'\nelements = true";
        let outcome = compliance::source(&KIND, parameters);
        let model = TrafficModel {
            hosts: 5000,
            ipv6_permille: 250,
            // 2025-03-01T11:00:00Z, by `date -d`
            start_ms: 1_740_826_800_000,
            flows_per_second: 500,
            elements: true,
            received: true,
            ..TrafficModel::new(7)
        };
        let flows: Vec<_> = model.flows(10_000).expect("flows").map(|batch| batch.record_batch().clone()).collect();
        let expected = arrow::compute::concat_batches(&flows[0].schema(), &flows).expect("a batch");
        assert_eq!(outcome.rows, Some(expected));
    }

    #[test]
    fn numbers_tell_every_flow() {
        let outcome = compliance::source(&KIND, "records = 9000\nnumbered = true");
        let rows = outcome.rows.expect("rows");
        let bytes = rows.column_by_name("bytes").expect("bytes").as_primitive::<UInt64Type>();
        assert!(bytes.values().iter().copied().eq(0..9000));
    }

    #[test]
    fn without_a_number_it_goes_on_until_it_is_stopped() {
        let (Built::Source(mut source), _) = compliance::open(&KIND, "records = 0") else { panic!("no source") };
        let mut out = Outlet::new();
        for _ in 0..50 {
            assert_eq!(source.pull(&mut out).expect("flows"), Pulled::More);
        }
        source.stop();
        assert_eq!(source.pull(&mut out).expect("the end"), Pulled::Ended);
    }

    #[test]
    fn parameters_must_make_sense() {
        assert_eq!(refused("ipv6_share = 1.5"), "ipv6_share: 1.5 is not between 0 and 1");
        assert_eq!(refused("start = 'yesterday'"), "start: 'yesterday' is no time");
    }
}
