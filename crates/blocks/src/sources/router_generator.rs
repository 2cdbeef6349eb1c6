//! A source of what one of two routers exports, which see the same synthetic traffic one behind the other.

use weir_chain::{
    Built, ComponentContext, ComponentError, ComponentKind, Opener, Outlet, ParameterError, ParameterSpec,
    ParameterType, Parameters, Pulled, Role, Source,
};
use weir_generate::{Router, RouterPair, RouterPairError, RouterRecords};

use super::traffic;

/// The kind `router-generator`.
pub const KIND: ComponentKind = ComponentKind {
    name: "router-generator",
    role: Role::Source,
    inputs: &[],
    doc: "Makes what one of two routers exports that see the same synthetic traffic, the same on every machine and \
          every time. Packets pass router 1 and, after a delay and unless they are lost, router 2; each router has a \
          flow cache whose timeouts cut conversations into records. Two of these blocks with the same parameters but \
          for `router` are the two routers. It hands on the columns `received`, `start`, `end`, `exporter` (10.255.0.1 \
          and 10.255.0.2), `observation_domain`, `export_version`, addresses, ports, `protocol`, `tcp_flags`, `tos`, \
          `packets`, `bytes`, `in_if`, `out_if` and `end_reason`, in the order of `received`, which is neither that of \
          `start` nor that of `end`. Records come as fast as the chain takes them, whatever their simulated time. It \
          ends when the last of the conversations is exported, or when the chain stops.",
    parameters: PARAMETERS,
    configure,
};

const PARAMETERS: &[ParameterSpec] = &[
    ParameterSpec {
        key: "router",
        parameter_type: ParameterType::Integer(1, 2),
        default: None,
        doc: "Which of the two routers it is: 1 is the one that every packet passes, 2 the one behind it.",
    },
    ParameterSpec {
        key: "conversations",
        parameter_type: ParameterType::Integer(0, i64::MAX as u64),
        default: Some("1000000"),
        doc: "Conversations to make, each of which is told in one or several records; 0 for as many as are taken until \
              the chain is stopped.",
    },
    traffic::SEED,
    traffic::HOSTS,
    traffic::IPV6_SHARE,
    traffic::START,
    ParameterSpec {
        key: "conversations_per_second",
        parameter_type: ParameterType::Integer(1, u32::MAX as u64),
        default: Some("3280"),
        doc: "Conversations that begin in a second of simulated time, on the average over five minutes.",
    },
    ParameterSpec {
        key: "delay_base_ms",
        parameter_type: ParameterType::Integer(0, u32::MAX as u64),
        default: Some("12"),
        doc: "Shortest delay from router 1 to router 2, in milliseconds.",
    },
    ParameterSpec {
        key: "delay_jitter_ms",
        parameter_type: ParameterType::Integer(0, u32::MAX as u64),
        default: Some("28"),
        doc: "How much longer the delay of a conversation can be, in milliseconds.",
    },
    ParameterSpec {
        key: "loss_permille",
        parameter_type: ParameterType::Integer(0, 1000),
        default: Some("5"),
        doc: "How many of 1000 packets are lost between the routers.",
    },
    ParameterSpec {
        key: "unseen_permille",
        parameter_type: ParameterType::Integer(0, 1000),
        default: Some("2"),
        doc: "How many of 1000 conversations router 2 never sees.",
    },
    ParameterSpec {
        key: "miscounted_permille",
        parameter_type: ParameterType::Integer(0, 1000),
        default: Some("50"),
        doc: "How many of 1000 conversations router 2 counts the octets of wrongly.",
    },
    ParameterSpec {
        key: "active_timeout_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("60"),
        doc: "Entries of the flow caches are exported when they are so old.",
    },
    ParameterSpec {
        key: "inactive_timeout_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("15"),
        doc: "Entries are exported when there was no packet for so long.",
    },
    ParameterSpec {
        key: "fast_timeout_secs",
        parameter_type: ParameterType::Seconds,
        default: Some("5"),
        doc: "Entries of only one or two packets are exported when they are so old.",
    },
    ParameterSpec {
        key: "cache_entries_max",
        parameter_type: ParameterType::Integer(1, u32::MAX as u64),
        default: Some("48000"),
        doc: "Entries of a flow cache; when there are more, those are exported that were opened first.",
    },
];

fn pair(parameters: &Parameters) -> Result<RouterPair, ParameterError> {
    let number = |key| parameters.integer(key) as u32;
    let permille = |key| parameters.integer(key) as u16;
    let pair = RouterPair {
        hosts: traffic::hosts(parameters),
        ipv6_permille: traffic::ipv6_permille(parameters)?,
        start_ms: traffic::start_ms(parameters)?,
        conversations_per_second: number("conversations_per_second"),
        delay_base_ms: number("delay_base_ms"),
        delay_jitter_ms: number("delay_jitter_ms"),
        loss_permille: permille("loss_permille"),
        unseen_permille: permille("unseen_permille"),
        miscounted_permille: permille("miscounted_permille"),
        active_timeout_ms: traffic::millis(parameters, "active_timeout_secs"),
        inactive_timeout_ms: traffic::millis(parameters, "inactive_timeout_secs"),
        fast_timeout_ms: traffic::millis(parameters, "fast_timeout_secs"),
        cache_entries_max: number("cache_entries_max"),
        ..RouterPair::new(parameters.integer("seed"))
    };
    match pair.check() {
        Ok(()) => Ok(pair),
        Err(error) => Err(ParameterError::new(key_of(&error), error.to_string())),
    }
}

/// The parameter that an error is about. The model has milliseconds where parameters have seconds.
fn key_of(error: &RouterPairError) -> &'static str {
    let RouterPairError::OutOfRange { name, .. } = error else { return "hosts" };
    let is_meant = |key: &&str| {
        key == name || name.strip_suffix("_ms").is_some_and(|stem| key.strip_suffix("_secs") == Some(stem))
    };
    PARAMETERS.iter().map(|spec| spec.key).find(is_meant).unwrap_or("hosts")
}

fn configure(parameters: &Parameters) -> Result<Opener, ParameterError> {
    let pair = pair(parameters)?;
    let router = if parameters.integer("router") == 1 { Router::First } else { Router::Second };
    let conversations = match parameters.integer("conversations") {
        0 => u64::MAX,
        conversations => conversations,
    };
    Ok(Box::new(move |_: &ComponentContext| {
        let records = pair.records(router, conversations);
        let records = records.map_err(|error| ComponentError::caused("there are no such routers", error))?;
        Ok(Built::Source(Box::new(RouterGenerator { records, is_stopped: false })))
    }))
}

#[derive(Debug)]
struct RouterGenerator {
    records: RouterRecords,
    is_stopped: bool,
}

impl Source for RouterGenerator {
    fn pull(&mut self, out: &mut Outlet) -> Result<Pulled, ComponentError> {
        if self.is_stopped {
            return Ok(Pulled::Ended);
        }
        match self.records.next_batch(RouterRecords::BATCH_ROWS) {
            Some(records) => {
                out.flows(records);
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
    use arrow::array::{AsArray, RecordBatch};
    use arrow::datatypes::{TimestampMillisecondType, UInt64Type};
    use weir_chain::compliance;

    use super::*;

    fn checked(parameters: &str) -> Result<RouterPair, ParameterError> {
        let table = parameters.parse().expect("parameters");
        pair(&Parameters::new(KIND.parameters, &table, ".")?)
    }

    fn sum(rows: &RecordBatch, column: &str) -> u64 {
        rows.column_by_name(column).expect("a column").as_primitive::<UInt64Type>().values().iter().sum()
    }

    #[test]
    fn compliance_and_the_truth_of_both_routers() {
        let truth = RouterPair::new(3).truth(5000).expect("a truth");
        for router in [1, 2] {
            let outcome = compliance::source(&KIND, &format!("router = {router}\nconversations = 5000\nseed = 3"));
            let rows = outcome.rows.expect("rows");
            let at = router - 1;
            assert_eq!(rows.num_rows() as u64, truth.records[at]);
            assert_eq!((sum(&rows, "packets"), sum(&rows, "bytes")), (truth.packets[at], truth.bytes[at]));
            let received = rows.column_by_name("received").expect("times").as_primitive::<TimestampMillisecondType>();
            assert!(received.values().is_sorted());
            let exporters = rows.column_by_name("exporter").expect("exporters").as_binary::<i32>();
            assert!(exporters.iter().all(|exporter| exporter == Some(&[10, 255, 0, router as u8])));
        }
    }

    #[test]
    fn defaults_are_those_of_the_model() {
        assert_eq!(checked("router = 1"), Ok(RouterPair::new(1)));
        let parameters = "router = 2\nseed = 4\nhosts = 65536\nipv6_share = 0.5\nstart = '1970-01-01T00:00:01Z'\n\
                          conversations_per_second = 100\ndelay_base_ms = 1\ndelay_jitter_ms = 2\nloss_permille = 3\n\
                          unseen_permille = 4\nmiscounted_permille = 5\nactive_timeout_secs = 6\n\
                          inactive_timeout_secs = 7.5\nfast_timeout_secs = 8\ncache_entries_max = 9";
        let expected = RouterPair {
            hosts: 65_536,
            ipv6_permille: 500,
            start_ms: 1000,
            conversations_per_second: 100,
            delay_base_ms: 1,
            delay_jitter_ms: 2,
            loss_permille: 3,
            unseen_permille: 4,
            miscounted_permille: 5,
            active_timeout_ms: 6000,
            inactive_timeout_ms: 7500,
            fast_timeout_ms: 8000,
            cache_entries_max: 9,
            ..RouterPair::new(4)
        };
        assert_eq!(checked(parameters), Ok(expected));
    }

    #[test]
    fn parameters_must_make_sense() {
        let key = |parameters| checked(parameters).expect_err("an error").key;
        assert_eq!(key("router = 1\nloss_permille = 900"), "loss_permille");
        assert_eq!(key("router = 1\nfast_timeout_secs = 0.5"), "fast_timeout_secs");
        assert_eq!(key("router = 1\nhosts = 1024"), "hosts");
        assert_eq!(key("router = 3"), "router");
        assert_eq!(key("seed = 3"), "router");
    }

    #[test]
    fn without_a_number_it_goes_on_until_it_is_stopped() {
        let (Built::Source(mut source), _) = compliance::open(&KIND, "router = 1\nconversations = 0") else {
            panic!("no source")
        };
        let mut out = Outlet::new();
        for _ in 0..10 {
            assert_eq!(source.pull(&mut out).expect("records"), Pulled::More);
        }
        source.stop();
        assert_eq!(source.pull(&mut out).expect("the end"), Pulled::Ended);
    }
}
