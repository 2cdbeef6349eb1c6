//! A source of what one of two routers exports, which see the same synthetic traffic one behind the other.

use weir_chain::{
    Built, Burst, ComponentContext, ComponentError, ComponentKind, Opener, OptionError, OptionSpec, Options, Outlet,
    PullResult, Role, Source, TimeSpan, options,
};
use weir_flow::books::stored_rows;
use weir_flow::{BooksBatch, Delivery, SideTables};
use weir_generate::{Router, RouterPair, RouterPairError, RouterRecords};

use super::traffic::{TrafficOptions, millis};

/// The kind `router-generator`.
pub const KIND: ComponentKind<RouterGeneratorOptions> = ComponentKind {
    name: "router-generator",
    role: Role::Source,
    inputs: &[],
    doc: "Makes what one of two routers exports that see the same synthetic traffic, the same on every machine and \
          every time. Packets pass router 1 and, after a delay and unless they are lost, router 2; each router has a \
          flow cache whose timeouts cut conversations into records. Two of these components with the same options but \
          for `router` are the two routers. It hands on the columns `received`, `start`, `end`, `exporter` (10.255.0.1 \
          and 10.255.0.2), `observation_domain`, `export_version`, addresses, ports, `protocol`, `tcp_flags`, `tos`, \
          `packets`, `bytes`, `in_if`, `out_if` and `end_reason`, in the order of `received`, which is neither that of \
          `start` nor that of `end`. Records come as fast as the chain takes them, whatever their simulated time. It \
          ends when the last of the conversations is exported, or when the chain stops.",
    configure,
};

options! {
    /// Options of the source `router-generator`.
    pub struct RouterGeneratorOptions {
        /// Be this one of the two routers: 1 is the one that every packet passes, 2 the one behind it.
        router: u32 => 1..=2,
        /// Make this many conversations, each of which becomes one or several records; without it, as many as are taken
        /// until the chain is stopped.
        conversations: Option<u64>,
        /// Conversations that begin in a second of simulated time, on average over five minutes.
        conversations_per_second: u32 = 3280 => 1..=u32::MAX as u64,
        /// Shortest delay from router 1 to router 2.
        delay_base: TimeSpan = TimeSpan::from_millis(12),
        /// How much longer the delay of a conversation can be.
        delay_jitter: TimeSpan = TimeSpan::from_millis(28),
        /// Lose this many of 1000 packets between the routers.
        loss_permille: u16 = 5 => 0..=1000,
        /// Hide this many of 1000 conversations from router 2.
        unseen_permille: u16 = 2 => 0..=1000,
        /// Let router 2 count the bytes of this many of 1000 conversations wrongly.
        miscounted_permille: u16 = 50 => 0..=1000,
        /// Export entries of the flow caches when they are this old.
        active_timeout: TimeSpan = TimeSpan::from_secs(60),
        /// Export entries without a packet for this long.
        idle_timeout: TimeSpan = TimeSpan::from_secs(15),
        /// Export entries of only one or two packets when they are this old.
        fast_timeout: TimeSpan = TimeSpan::from_secs(5),
        /// Keep at most this many entries in a flow cache; over the limit those opened first are exported.
        cache_entries_max: u32 = 48_000 => 1..=u32::MAX as u64,
    }
    includes {
        /// Who talks.
        traffic: TrafficOptions,
    }
}

fn pair(options: &RouterGeneratorOptions) -> Result<RouterPair, OptionError> {
    let pair = RouterPair {
        hosts: options.traffic.hosts,
        ipv6_permille: options.traffic.ipv6_permille()?,
        start_ms: options.traffic.start_ms()?,
        conversations_per_second: options.conversations_per_second,
        delay_base_ms: millis(options.delay_base),
        delay_jitter_ms: millis(options.delay_jitter),
        loss_permille: options.loss_permille,
        unseen_permille: options.unseen_permille,
        miscounted_permille: options.miscounted_permille,
        active_timeout_ms: millis(options.active_timeout),
        inactive_timeout_ms: millis(options.idle_timeout),
        fast_timeout_ms: millis(options.fast_timeout),
        cache_entries_max: options.cache_entries_max,
        ..RouterPair::new(options.traffic.seed)
    };
    match pair.check() {
        Ok(()) => Ok(pair),
        Err(error) => Err(OptionError::new(key_of(&error), error.to_string())),
    }
}

/// The option that an error is about. The model names milliseconds, and its idle timeout inactive.
fn key_of(error: &RouterPairError) -> &'static str {
    let RouterPairError::OutOfRange { name, .. } = error else { return "hosts" };
    let stem = name.strip_suffix("_ms").unwrap_or(name);
    let stem = if stem == "inactive_timeout" { "idle_timeout" } else { stem };
    let specs: Vec<OptionSpec> = RouterGeneratorOptions::specs();
    specs.iter().map(|spec| spec.key).find(|key| *key == stem).unwrap_or("hosts")
}

#[expect(clippy::needless_pass_by_value, reason = "what every kind has")]
fn configure(options: RouterGeneratorOptions) -> Result<Opener, OptionError> {
    let pair = pair(&options)?;
    let router = if options.router == 1 { Router::First } else { Router::Second };
    let conversations = options.conversations.unwrap_or(u64::MAX);
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
    fn pull(&mut self, out: &mut Outlet) -> Result<PullResult, ComponentError> {
        if self.is_stopped {
            return Ok(PullResult::Ended);
        }
        match self.records.next_batch(RouterRecords::BATCH_ROWS) {
            Some(records) => {
                let books = Some(BooksBatch::from_rows(&stored_rows(&records)));
                let side_tables = SideTables { books, ..SideTables::default() };
                out.burst(Burst::from(Delivery { flows: Some(records), side_tables }));
                Ok(PullResult::More)
            }
            None => Ok(PullResult::Ended),
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

    fn checked(options: &str) -> Result<RouterPair, OptionError> {
        pair(&weir_chain::options::parse(options)?)
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
        let options = "router = 2\nseed = 4\nhosts = 65536\nipv6_share = 0.5\nstart = '1970-01-01T00:00:01Z'\n\
                          conversations_per_second = 100\ndelay_base = '1ms'\ndelay_jitter = '2ms'\nloss_permille = 3\n\
                          unseen_permille = 4\nmiscounted_permille = 5\nactive_timeout = '6s'\n\
                          idle_timeout = '7.5s'\nfast_timeout = '8s'\ncache_entries_max = 9";
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
        assert_eq!(checked(options), Ok(expected));
    }

    #[test]
    fn options_must_make_sense() {
        let key = |options| checked(options).expect_err("an error").key;
        assert_eq!(key("router = 1\nloss_permille = 900"), "loss_permille");
        assert_eq!(key("router = 1\nfast_timeout = '0.5s'"), "fast_timeout");
        assert_eq!(key("router = 1\nhosts = 1024"), "hosts");
        assert_eq!(key("router = 3"), "router");
        assert_eq!(key("seed = 3"), "router");
    }

    #[test]
    fn without_a_number_it_goes_on_until_it_is_stopped() {
        let (Built::Source(mut source), _) = compliance::open(&KIND, "router = 1") else { panic!("no source") };
        let mut out = Outlet::new();
        for _ in 0..10 {
            assert_eq!(source.pull(&mut out).expect("records"), PullResult::More);
        }
        source.stop();
        assert_eq!(source.pull(&mut out).expect("the end"), PullResult::Ended);
    }
}
