//! A source of synthetic flows.

use weir_chain::{
    Built, ComponentContext, ComponentError, ComponentKind, Opener, OptionError, Outlet, PullResult, Role, Source,
    TimeSpan, options,
};
use weir_generate::{Flows, ModelError, TrafficModel};

use super::traffic::{TrafficOptions, millis, scenes};

/// The kind `generator`.
pub const KIND: ComponentKind<GeneratorOptions> = ComponentKind {
    name: "generator",
    role: Role::Source,
    inputs: &[],
    doc: "Makes synthetic flows from a seed, the same on every machine and every time. It hands on the columns \
          `received`, `start`, `end`, addresses, ports, protocol, flags, counters, interfaces and routing of flows, in \
          the order in which their simulated exporter reports them: by `received`, while `start` and `end` are up to \
          `active_timeout` and `idle_timeout` before it. Flows come as fast as the chain takes them, whatever \
          their simulated time. It ends after `records`, or when the chain stops.",
    configure,
};

options! {
    /// Options of the source `generator`.
    pub struct GeneratorOptions {
        /// Make this many flows; without it, as many as are taken until the chain is stopped.
        records: Option<u64>,
        /// Flows that end in a second of simulated time.
        flows_per_second: u32 = 10_000 => 1..=u32::MAX as u64,
        /// Cut flows that last this long.
        active_timeout: TimeSpan = TimeSpan::from_secs(60),
        /// Report flows up to this long after their end.
        idle_timeout: TimeSpan = TimeSpan::from_secs(15),
        /// Give flows Information Elements without a column of their own, in the column `elements`.
        elements: bool = false,
        /// Make `bytes` the number of the flow from 0, which shows which are missing or duplicated.
        numbered: bool = false,
        /// Plant these attacks and failures, each as `NAME@TIME` with a time since `start`, such as
        /// `"portscan-vertical@10m"`, or in ISO 8601. Their flows come on top of `records`. Names are
        /// `portscan-horizontal`, `portscan-vertical`, `beaconing`, `ddos-amplification`, `ddos-syn`, `exfiltration`,
        /// `brute-force`, `new-service`, `first-contact`, `spoofed`, `exporter-silent` and `sampling-changed`.
        scenes: Vec<String> = Vec::new(),
    }
    includes {
        /// Who talks.
        traffic: TrafficOptions,
    }
}

/// Flows in a burst.
const BURST_ROWS: usize = Flows::BATCH_ROWS;

#[expect(clippy::needless_pass_by_value, reason = "what every kind has")]
fn configure(options: GeneratorOptions) -> Result<Opener, OptionError> {
    let start_ms = options.traffic.start_ms()?;
    let model = TrafficModel {
        hosts: options.traffic.hosts,
        ipv6_permille: options.traffic.ipv6_permille()?,
        start_ms,
        flows_per_second: options.flows_per_second,
        active_timeout_ms: millis(options.active_timeout),
        idle_timeout_ms: millis(options.idle_timeout),
        elements: options.elements,
        numbered: options.numbered,
        received: true,
        scenes: scenes(&options.scenes, start_ms)?,
        ..TrafficModel::new(options.traffic.seed)
    };
    let flows = model.flows(options.records.unwrap_or(u64::MAX));
    let flows = flows.map_err(|error| OptionError::new(key_of(&error), error.to_string()))?;
    Ok(Box::new(move |_: &ComponentContext| Ok(Built::Source(Box::new(Generator { flows, is_stopped: false })))))
}

/// The option that a model is wrong by.
fn key_of(error: &ModelError) -> &'static str {
    match error {
        ModelError::Scenes { .. } | ModelError::SceneEarly { .. } | ModelError::SceneNumbered => "scenes",
        _ => "hosts",
    }
}

#[derive(Debug)]
struct Generator {
    flows: Flows,
    is_stopped: bool,
}

impl Source for Generator {
    fn pull(&mut self, out: &mut Outlet) -> Result<PullResult, ComponentError> {
        if self.is_stopped {
            return Ok(PullResult::Ended);
        }
        match self.flows.next_batch(BURST_ROWS) {
            Some(flows) => {
                out.flows(flows);
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
    use arrow::array::AsArray;
    use arrow::datatypes::UInt64Type;
    use weir_chain::compliance;

    use super::*;

    fn refused(options: &str) -> String {
        let options = weir_chain::options::parse(options).expect("options");
        let error = configure(options).err().expect("an error");
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
        let (Built::Source(mut source), _) = compliance::open(&KIND, "") else { panic!("no source") };
        let mut out = Outlet::new();
        for _ in 0..50 {
            assert_eq!(source.pull(&mut out).expect("flows"), PullResult::More);
        }
        source.stop();
        assert_eq!(source.pull(&mut out).expect("the end"), PullResult::Ended);
    }

    #[test]
    fn options_must_make_sense() {
        assert_eq!(refused("ipv6_share = 1.5"), "ipv6_share: 1.5 is not between 0 and 1");
        assert_eq!(refused("start = 'yesterday'"), "start: 'yesterday' is not a time");
        for (options, expected) in [
            ("scenes = 'beaconing'", "'beaconing' has no time"),
            ("scenes = ['flood@1m']", "there is no scene 'flood'"),
            ("scenes = ['spoofed@soon']", "'soon' is no time of a scene"),
            ("scenes = ['spoofed@2025-12-31T23:59:59Z']", "scene 'spoofed' begins 1000 ms before the flows do"),
            ("numbered = true\nscenes = ['spoofed@1m']", "flows whose bytes are their number have no scenes"),
        ] {
            assert_eq!(refused(options), format!("scenes: {expected}"));
        }
    }

    #[test]
    fn scenes_are_at_times_since_the_start_or_by_the_clock() {
        let options = |time: &str| format!("records = 3000\nflows_per_second = 10\nscenes = ['brute-force@{time}']");
        let outcome = compliance::source(&KIND, &options("1m"));
        assert_eq!(outcome.rows.as_ref().map(arrow::array::RecordBatch::num_rows), Some(3_200));
        assert_eq!(outcome.rows, compliance::source(&KIND, &options("2026-01-01T00:01:00Z")).rows);
    }
}
