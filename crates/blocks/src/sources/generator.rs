//! A source of synthetic flows.

use weir_chain::{
    Built, ComponentContext, ComponentError, ComponentKind, Opener, Outlet, ParameterError, ParameterSpec,
    ParameterType, Parameters, Pulled, Role, Source,
};
use weir_generate::{Flows, TrafficModel};

use super::traffic;

/// The kind `generator`.
pub const KIND: ComponentKind = ComponentKind {
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

const PARAMETERS: &[ParameterSpec] = &[
    ParameterSpec {
        key: "records",
        parameter_type: ParameterType::Integer(0, i64::MAX as u64),
        default: Some("1000000"),
        doc: "Flows to make; 0 for as many as are taken until the chain is stopped.",
    },
    traffic::SEED,
    traffic::HOSTS,
    traffic::IPV6_SHARE,
    ParameterSpec {
        key: "flows_per_second",
        parameter_type: ParameterType::Integer(1, u32::MAX as u64),
        default: Some("10000"),
        doc: "Flows in a second of their own, simulated time.",
    },
    traffic::START,
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

fn model(parameters: &Parameters) -> Result<TrafficModel, ParameterError> {
    Ok(TrafficModel {
        hosts: traffic::hosts(parameters),
        ipv6_permille: traffic::ipv6_permille(parameters)?,
        start_ms: traffic::start_ms(parameters)?,
        flows_per_second: parameters.integer("flows_per_second") as u32,
        active_timeout_ms: traffic::millis(parameters, "active_timeout_secs"),
        idle_timeout_ms: traffic::millis(parameters, "idle_timeout_secs"),
        elements: parameters.boolean("elements"),
        numbered: parameters.boolean("numbered"),
        received: true,
        ..TrafficModel::new(parameters.integer("seed"))
    })
}

fn configure(parameters: &Parameters) -> Result<Opener, ParameterError> {
    let records = match parameters.integer("records") {
        0 => u64::MAX,
        records => records,
    };
    let flows = model(parameters)?.flows(records);
    let flows = flows.map_err(|error| ParameterError::new("hosts", error.to_string()))?;
    Ok(Box::new(move |_: &ComponentContext| Ok(Built::Source(Box::new(Generator { flows, is_stopped: false })))))
}

#[derive(Debug)]
struct Generator {
    flows: Flows,
    is_stopped: bool,
}

impl Source for Generator {
    fn pull(&mut self, out: &mut Outlet) -> Result<Pulled, ComponentError> {
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
