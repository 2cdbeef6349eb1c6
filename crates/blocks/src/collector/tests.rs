use std::time::Instant;

use arrow::array::AsArray;
use arrow::datatypes::UInt64Type;
use weir_chain::compliance;
use weir_export::{ExporterConfig, Version};
use weir_flow::{Column, Counter, FlowBatch};
use weir_generate::{SendPlan, Stream, TrafficModel, send};

use super::*;

const COLLECTOR: &BlockKind = &KIND;
const LONG: Duration = Duration::from_mins(1);

/// A collector on a free port, and the address it tells.
fn open(parameters: &str) -> (Box<dyn Source>, BlockContext, SocketAddr) {
    let (Built::Source(source), context) =
        compliance::open(COLLECTOR, &format!("listen = '127.0.0.1:0'\n{parameters}"))
    else {
        panic!("a source")
    };
    let notes = context.notes.take();
    let text = notes.first().and_then(|note| note.strip_prefix("listening on ")).expect("it tells where it listens");
    let listen = text.split(' ').next().expect("an address").parse().expect("an address");
    (source, context, listen)
}

fn counter(context: &BlockContext, name: &'static str) -> u64 {
    context.meter.counter(name).get()
}

/// Numbers of the flows, and the sum of a counter of the books, of bursts.
fn account(out: &mut Outlet, numbers: &mut Vec<u64>, booked: &mut u64) {
    for burst in out.drain() {
        let (rows, books) = burst.into_parts();
        let flows = FlowBatch::try_new(rows).expect("flows");
        numbers.extend(flows.primitive::<UInt64Type>(Column::Bytes).map(|b| b.values().to_vec()).unwrap_or_default());
        if let Some(books) = books {
            let column = books.record_batch().column_by_name(Counter::RecordsStored.name()).expect("a column");
            *booked += column.as_primitive::<UInt64Type>().values().iter().sum::<u64>();
        }
    }
}

/// It has no end of its own, so the compliance test of sources cannot read it; this asks for the same.
#[test]
fn what_was_sent_is_handed_on_before_it_ends() {
    let (mut source, context, target) = open("sockets = 2\ndelivery_interval_secs = 0.01");
    let mut flows = TrafficModel { numbered: true, ..TrafficModel::new(1) }.flows(20_000).expect("a model");
    let streams = [Version::V5, Version::V9, Version::Ipfix]
        .map(|version| Stream { source: None, config: ExporterConfig::new(version) });
    let plan = SendPlan { target, ..SendPlan::to_loopback(0) };
    let sent = send(&mut flows, &streams, &plan).expect("sent");
    assert_eq!((sent.flows, sent.datagrams_refused), (20_000, 0));
    let (mut numbers, mut booked, mut out) = (Vec::new(), 0, Outlet::new());
    let began = Instant::now();
    while numbers.len() < 5_000 {
        assert!(began.elapsed() < LONG, "flows do not come");
        assert_ne!(source.pull(&mut out).expect("no failure"), Pulled::Ended);
        account(&mut out, &mut numbers, &mut booked);
    }
    source.stop();
    while source.pull(&mut out).expect("no failure") != Pulled::Ended {
        account(&mut out, &mut numbers, &mut booked);
        assert!(began.elapsed() < LONG, "it does not end");
    }
    numbers.sort_unstable();
    assert_eq!(numbers, (0..20_000).collect::<Vec<_>>());
    assert_eq!((booked, counter(&context, "records_stored")), (20_000, 20_000));
    assert_eq!(counter(&context, "datagrams"), sent.datagrams);
    assert_eq!(counter(&context, "queue_drops") + counter(&context, "kernel_drops"), 0);
}

#[test]
fn errors_and_missing_templates_are_counted() {
    let (mut source, context, target) = open("delivery_interval_secs = 0.01");
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    sender.send_to(&[0, 77, 1, 1], target).expect("sent");
    let mut flows = TrafficModel::new(1).flows(10).expect("a model");
    // the template would come after more datagrams than there are
    let config = ExporterConfig { templates_after_datagrams: 1_000, ..ExporterConfig::new(Version::Ipfix) };
    let plan = SendPlan { target, ..SendPlan::to_loopback(0) };
    send(&mut flows, &[Stream { source: None, config }], &plan).expect("sent");
    source.stop();
    let mut out = Outlet::new();
    while source.pull(&mut out).expect("no failure") != Pulled::Ended {}
    assert_eq!((counter(&context, "datagrams_undecodable"), counter(&context, "wrong_version")), (1, 1));
    let waiting = counter(&context, "sets_waiting_in");
    assert!(waiting > 0);
    assert_eq!(counter(&context, "sets_still_waiting"), waiting);
    assert_eq!(counter(&context, "records_stored"), 0);
}

#[test]
fn an_address_that_cannot_be_used_is_an_error() {
    let configured = |text: &str| {
        let table = text.parse().expect("TOML");
        configure(&Parameters::new(KIND.parameters, &table, ".").expect("parameters"))
    };
    let Err(error) = configured("listen = 'everywhere'") else { panic!("no address") };
    assert_eq!(error.message, "'everywhere' is not an address and a port");
    let (_source, _, taken) = open("");
    let opener = configured(&format!("listen = '{taken}'")).expect("configured");
    let Err(error) = opener(&BlockContext::default()) else { panic!("the port is taken") };
    assert!(error.chain().starts_with(&format!("cannot collect: cannot listen on {taken}: ")), "{}", error.chain());
}

#[test]
fn defaults_are_those_of_a_collector() {
    let parameters = Parameters::new(KIND.parameters, &"".parse().expect("TOML"), ".").expect("all have a default");
    let options = options(&parameters).expect("options");
    let expected = CollectorOptions::new(SocketAddr::from(([127, 0, 0, 1], 2055)));
    assert_eq!(format!("{options:?}"), format!("{expected:?}"));
}
