//! A source of the flow records of one of two routers that see the same traffic.

use weir_chain::{
    BlockError, BlockKind, Built, Opener, Outlet, ParameterError, ParameterSpec, ParameterType, Parameters, Pulled,
    Role, Source,
};
use weir_generate::{Router, RouterPair, RouterRecords};

use crate::traffic;

/// The kind `router-generator`.
pub const KIND: BlockKind = BlockKind {
    name: "router-generator",
    role: Role::Source,
    inputs: &[],
    doc: "Makes the flow records of one of two routers that see the same traffic, the same on every machine and every \
          time: what the reference chain of Kögel and Scholz compares. Every packet passes the first router; the second \
          sees it later, or not at all, and miscounts the octets of some flows. Flow caches with active, inactive and \
          fast timeouts and a limited size tell one flow in several records. Rows come in the order of received, the time \
          of export; start and end lie before it. Two of these blocks with the same parameters, but for router, see the \
          same traffic.",
    parameters: &[
        ParameterSpec {
            key: "router",
            parameter_type: ParameterType::Integer(1, 2),
            default: None,
            doc: "Which router: 1, which every packet passes, or 2, the one behind it.",
        },
        ParameterSpec {
            key: "conversations",
            parameter_type: ParameterType::Integer(0, i64::MAX as u64),
            default: Some("1000000"),
            doc: "Conversations that pass the routers; each makes about one and a half records at each of them.",
        },
        traffic::SEED,
        traffic::HOSTS,
        traffic::START,
        ParameterSpec {
            key: "conversations_per_second",
            parameter_type: ParameterType::Integer(1, 20_000),
            default: Some("3280"),
            doc: "Conversations that begin in a second of their own, simulated time.",
        },
        ParameterSpec {
            key: "delay_base_secs",
            parameter_type: ParameterType::Seconds,
            default: Some("0.012"),
            doc: "Shortest time from the first router to the second.",
        },
        ParameterSpec {
            key: "delay_jitter_secs",
            parameter_type: ParameterType::Seconds,
            default: Some("0.028"),
            doc: "How much longer it may take; all packets of a conversation take the same time.",
        },
        ParameterSpec {
            key: "loss_permille",
            parameter_type: ParameterType::Integer(0, 166),
            default: Some("5"),
            doc: "How many of 1000 packets are lost between the routers.",
        },
        ParameterSpec {
            key: "cache_entries_max",
            parameter_type: ParameterType::Integer(1, u32::MAX as u64),
            default: Some("48000"),
            doc: "Entries of the flow cache of each router; over it the oldest are exported early.",
        },
    ],
    configure,
};

/// Records in a burst.
const BURST_ROWS: usize = 4096;

fn configure(parameters: &Parameters) -> Result<Opener, ParameterError> {
    let router = if parameters.integer("router") == 1 { Router::First } else { Router::Second };
    let pair = RouterPair {
        hosts: traffic::hosts(parameters),
        start_ms: traffic::start_ms(parameters)?,
        conversations_per_second: parameters.integer("conversations_per_second") as u32,
        delay_base_ms: traffic::millis(parameters, "delay_base_secs"),
        delay_jitter_ms: traffic::millis(parameters, "delay_jitter_secs"),
        loss_permille: parameters.integer("loss_permille") as u16,
        cache_entries_max: parameters.integer("cache_entries_max") as u32,
        ..RouterPair::new(parameters.integer("seed"))
    };
    let records = pair
        .records(router, parameters.integer("conversations"))
        .map_err(|error| ParameterError::new("router", format!("there can be no such routers: {error}")))?;
    Ok(Box::new(move |_| Ok(Built::Source(Box::new(RouterGenerator { records: Some(records) })))))
}

struct RouterGenerator {
    /// `None` once it is stopped.
    records: Option<RouterRecords>,
}

impl Source for RouterGenerator {
    fn pull(&mut self, out: &mut Outlet) -> Result<Pulled, BlockError> {
        let Some(flows) = self.records.as_mut().and_then(|records| records.next_batch(BURST_ROWS)) else {
            return Ok(Pulled::Ended);
        };
        out.flows(flows);
        Ok(Pulled::More)
    }

    fn stop(&mut self) {
        self.records = None;
    }
}

#[cfg(test)]
mod tests {
    use weir_chain::compliance;

    use super::*;

    /// The compliance test takes a reference that lives as long as the program.
    const ROUTER_GENERATOR: &BlockKind = &KIND;

    #[test]
    fn complies_and_tells_what_is_true_of_the_routers() {
        let truth = RouterPair::new(7).truth(3_000).expect("routers");
        for (router, records) in [(1, truth.records[0]), (2, truth.records[1])] {
            let parameters = format!("router = {router}\nconversations = 3000\nseed = 7");
            assert_eq!(compliance::source(ROUTER_GENERATOR, &parameters).len() as u64, records);
        }
    }
}
