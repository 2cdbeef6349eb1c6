//! Every transport of RFC 7011 section 10 over loopback, and the relay.

mod certificates;
mod dtls;
mod file;
mod howto;
mod networks;
mod relay;
mod tcp;
mod tls;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use weir_collect::{Collector, CollectorOptions, Listener, Next, Transport};
use weir_flow::{Column, Counter, Delivery};

/// A running collector and everything that it has handed on.
pub(super) struct Running {
    pub collector: Collector,
    deliveries: Vec<Delivery>,
}

/// Options for one listener on a free port of loopback.
pub(super) fn listening(transport: Transport) -> CollectorOptions {
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    CollectorOptions { listeners: vec![Listener { transport, address }], ..CollectorOptions::new(address) }
}

impl Running {
    pub(super) fn start(options: &CollectorOptions) -> Self {
        Self { collector: super::start(options), deliveries: Vec::new() }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.collector.listeners()[0].local
    }

    pub(super) fn total(&self, counter: Counter) -> u64 {
        self.collector.statistics().iter().map(|decoder| decoder.total(counter)).sum()
    }

    /// How often something went wrong for this reason.
    pub(super) fn problem(&self, label: &str) -> u64 {
        let statistics = self.collector.statistics();
        let problems = statistics.iter().flat_map(|decoder| &decoder.problems);
        problems.filter(|(known, _)| *known == label).map(|(_, count)| count).sum()
    }

    /// Takes deliveries until this holds, and fails when it never does.
    #[track_caller]
    pub(super) fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let give_up = Instant::now() + Duration::from_mins(2);
        while !holds(self) {
            match self.collector.next(Duration::from_millis(10)).expect("no failure") {
                Next::Delivery(delivery) => self.deliveries.push(delivery),
                Next::Nothing => {}
                Next::Ended => panic!("ended before {what}"),
            }
            if Instant::now() > give_up {
                let statistics = self.collector.statistics();
                let problems: Vec<_> = statistics.iter().flat_map(|decoder| &decoder.problems).collect();
                let totals: Vec<_> = Counter::ALL
                    .iter()
                    .map(|counter| (counter.name(), self.total(*counter)))
                    .filter(|(_, count)| *count > 0)
                    .collect();
                panic!("waited in vain for {what}; problems {problems:?}, totals {totals:?}");
            }
        }
    }

    #[track_caller]
    pub(super) fn until_counted(&mut self, counter: Counter, count: u64) {
        self.until(counter.name(), |running| running.total(counter) >= count);
        assert_eq!(self.total(counter), count, "{}", counter.name());
    }

    #[track_caller]
    pub(super) fn until_problem(&mut self, label: &'static str, count: u64) {
        self.until(label, |running| running.problem(label) >= count);
        assert_eq!(self.problem(label), count, "{label}");
    }

    pub(super) fn rows(&self) -> usize {
        self.deliveries.iter().map(Delivery::rows).sum()
    }

    /// The sum of a column over all flows.
    pub(super) fn sum(&self, column: Column) -> u64 {
        self.deliveries.iter().filter_map(|delivery| delivery.flows.as_ref()).map(|flows| flows.sum(column)).sum()
    }

    /// Stops it, and returns the counts in the books.
    #[track_caller]
    pub(super) fn finish(&mut self) -> [u64; Counter::COUNT] {
        self.deliveries.extend(super::drain(&mut self.collector));
        let mut booked = [0; Counter::COUNT];
        for delivery in &self.deliveries {
            let counts = super::counts(delivery.books());
            booked.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
        for &counter in Counter::ALL {
            assert_eq!(booked[counter as usize], self.total(counter), "{} in the books", counter.name());
        }
        booked
    }
}

#[test]
fn without_a_place_to_listen_there_is_no_collector() {
    let none = CollectorOptions { listeners: Vec::new(), ..super::any_port() };
    assert_eq!(Collector::start(&none).expect_err("none").to_string(), "no address to listen on");
}

#[test]
fn sctp_is_listened_to_or_refused_with_a_hint() {
    let options = listening(Transport::Sctp);
    match Collector::start(&options) {
        Ok(collector) => assert_ne!(collector.listeners()[0].local.port(), 0),
        Err(error) => {
            let text = error.to_string();
            assert!(text.starts_with("cannot listen on sctp://127.0.0.1:0: this kernel has no SCTP\nhint: "), "{text}");
        }
    }
}

#[test]
fn all_transports_at_once_have_decoders_of_their_own() {
    let listeners = ["udp://127.0.0.1:0", "tcp://127.0.0.1:0", "udp://[::1]:0", "tcp://[::1]:0"];
    let listeners = listeners.map(|text| text.parse().expect(text)).to_vec();
    let mut running = Running::start(&CollectorOptions { listeners, sockets: 2, ..super::any_port() });
    assert_eq!(running.collector.sockets().len(), 4);
    let addresses: Vec<_> = running.collector.listeners().iter().map(|info| info.local).collect();
    for (number, address) in addresses.into_iter().enumerate() {
        if number % 2 == 0 {
            let any = SocketAddr::new(address.ip(), 0);
            let socket = std::net::UdpSocket::bind(any).expect("bind");
            socket.send_to(&super::templates_only(0), address).expect("sent");
            socket.send_to(&super::data(0, &[1, 2]), address).expect("sent");
        } else {
            tcp::send(address, &[super::templates_only(0), super::data(0, &[1, 2])].concat());
        }
    }
    running.until_counted(Counter::RecordsStored, 8);
    let booked = running.finish();
    assert_eq!((booked[Counter::Datagrams as usize], booked[Counter::StreamMessages as usize]), (8, 4));
    assert_eq!((booked[Counter::ConnectionsAccepted as usize], booked[Counter::ConnectionsFailed as usize]), (2, 0));
}
