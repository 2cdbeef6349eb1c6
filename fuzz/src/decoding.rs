//! The whole `Decoder` over datagrams of several exporters and domains: options, lists, type records, samplers, templates that
//! come and go. What must hold besides no panic: the books balance, and an octet costs no more time and memory than it may.
//!
//! An input is short, and what one pass over it costs is lost in what any pass costs. So it is repeated until it is as long as
//! [`REPEATED_OCTETS`], and compared with ordinary records of the same length, measured in the same process: neither the
//! sanitizer nor the machine is in the limits then. What speaks against it: an input takes as long as the repetitions.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::LazyLock;
use std::time::Duration;

use weir_collect::{Decoder, Limits};
use weir_flow::books::{BooksSums, balance};

use crate::cost::{Cost, measure};

/// Octets on the wire that an input is repeated to.
const REPEATED_OCTETS: usize = 32 << 10;
/// Octets around a datagram on the wire: preamble and gap, headers of Ethernet, IPv4 and UDP, checksum.
const FRAME_OCTETS: usize = 66;
/// Times as much time and memory for an octet as ordinary records take, at most. `tests/collect/budget.rs` of the collector has
/// closer limits, for a release build and for loads that fill what they are about.
const TIMES_MAX: usize = 100;
const MEMORY_TIMES_MAX: usize = 32;
/// What a page that is not in memory yet, or another process, may take.
const BASE_TIME: Duration = Duration::from_millis(1);
/// Times as much memory to begin with as the first record takes: each table has its builders.
const BASE_MEMORY_TIMES: usize = 4;
const RECEIVED_MS: i64 = 1_700_000_010_000;

type Datagrams = Vec<(SocketAddrV4, Vec<u8>)>;

/// What ordinary records cost.
static ORDINARY: LazyLock<Ordinary> = LazyLock::new(Ordinary::measured);

struct Ordinary {
    octets: usize,
    time: Duration,
    memory: usize,
    /// Memory that the first record alone takes.
    memory_of_first: usize,
}

impl Ordinary {
    fn measured() -> Self {
        let datagrams = ordinary();
        let cost = |datagrams: &[(SocketAddrV4, Vec<u8>)]| {
            let costs = (0..5).map(|_| measure(|| decode(datagrams, &unlimited_duplicates(), false, |_| ())).1);
            costs.reduce(Cost::least).expect("five of them")
        };
        let (first, all) = (cost(&datagrams[..2]), cost(&datagrams));
        Self {
            octets: octets_of(&datagrams),
            time: all.time,
            memory: all.octets.saturating_sub(first.octets),
            memory_of_first: first.octets,
        }
    }

    /// The time that so many octets may take.
    fn time_max(&self, octets: usize) -> Duration {
        BASE_TIME + self.time.mul_f64((TIMES_MAX * octets) as f64 / self.octets as f64)
    }

    /// The memory that they may take at a time.
    fn memory_max(&self, octets: usize) -> usize {
        // where the first record takes all that others need as well, an octet still takes one
        let memory = self.memory.max(self.octets);
        BASE_MEMORY_TIMES * self.memory_of_first + MEMORY_TIMES_MAX * memory * octets / self.octets
    }

    fn is_exceeded(&self, cost: Cost, octets: usize) -> bool {
        cost.time > self.time_max(octets) || cost.octets > self.memory_max(octets)
    }
}

/// What routers send: a template, and records of 48 octets that differ.
fn ordinary() -> Datagrams {
    let fields: [u16; 22] = [8, 4, 12, 4, 15, 4, 10, 4, 14, 4, 2, 4, 1, 4, 152, 8, 153, 8, 7, 2, 11, 2];
    let message = |sequence: u32, set: u16, body: &[u8]| {
        let mut message = [10_u16, body.len() as u16 + 20].map(u16::to_be_bytes).concat();
        message.extend([1_700_000_000, sequence, 1].map(u32::to_be_bytes).concat());
        message.extend([set, body.len() as u16 + 4].map(u16::to_be_bytes).concat());
        message.extend(body);
        (SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 1), message)
    };
    let template = [256_u16, 11].iter().chain(&fields).flat_map(|number| number.to_be_bytes()).collect::<Vec<u8>>();
    let records = |number: u32| {
        let word = |at: u32| (number * 400 + at).wrapping_mul(0x9e37_79b9).rotate_left(13).to_be_bytes();
        (0..29 * 12).flat_map(word).collect::<Vec<u8>>()
    };
    let count = (REPEATED_OCTETS / 1_478) as u32;
    let data = (0..count).map(|number| message(number * 29, 256, &records(number)));
    [message(0, 2, &template)].into_iter().chain(data).collect()
}

/// Repetitions must not be dropped for being some.
fn unlimited_duplicates() -> Limits {
    Limits { duplicate_datagrams_max: 0, ..Limits::default() }
}

/// Octets that datagrams take on the wire.
fn octets_of(datagrams: &[(SocketAddrV4, Vec<u8>)]) -> usize {
    datagrams.iter().map(|(_, payload)| payload.len() + FRAME_OCTETS).sum()
}

/// Datagrams with the ports that they come from. Each begins with an octet for the port and what becomes of its header, and
/// two for its length.
fn datagrams(mut input: &[u8]) -> Datagrams {
    let mut datagrams = Vec::new();
    while let [how, high, low, rest @ ..] = input {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (payload, after) = rest.split_at(length);
        let mut payload = payload.to_vec();
        // one in two has the length and the number that it should have, or little would ever be decoded
        if how & 8 != 0 && payload.len() >= 16 && payload[..2] == [0, 10] {
            payload[2..4].copy_from_slice(&(length as u16).to_be_bytes());
            payload[8..12].copy_from_slice(&(datagrams.len() as u32).to_be_bytes());
        }
        let source = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1 + (how >> 6)), 1 + u16::from(how & 7));
        datagrams.push((source, payload));
        input = after;
    }
    datagrams
}

/// The datagrams again and again, of the same exporters, or of others each time.
fn repeated(datagrams: &Datagrams, by_others: bool) -> Datagrams {
    let times = REPEATED_OCTETS.div_ceil(octets_of(datagrams));
    let again = move |time: usize| {
        datagrams.iter().map(move |(source, payload)| {
            let mut source = *source;
            if by_others {
                source.set_ip(Ipv4Addr::new(10, (time >> 8) as u8, time as u8, source.ip().octets()[3]));
            }
            (source, payload.clone())
        })
    };
    (0..times).flat_map(again).collect()
}

/// Decodes all datagrams; returns what is in the books, and the flows. `after` is called with the octets of each datagram that
/// had flows.
fn decode(
    datagrams: &[(SocketAddrV4, Vec<u8>)],
    limits: &Limits,
    across_ports: bool,
    mut after: impl FnMut(usize),
) -> (BooksSums, u64) {
    let mut decoder = Decoder::new(limits.clone()).with_sequences([]);
    if across_ports {
        decoder = decoder.with_templates_across_ports();
    }
    let (mut sums, mut flows) = (BooksSums::default(), 0);
    let mut take = |decoder: &mut Decoder| {
        loop {
            let delivery = decoder.take_delivery();
            if delivery.is_empty() {
                break;
            }
            flows += delivery.rows() as u64;
            delivery.books().iter().for_each(|books| sums.add(books, i64::MIN, i64::MAX));
        }
    };
    for (number, (source, payload)) in datagrams.iter().enumerate() {
        let before = decoder.rows();
        decoder.datagram(SocketAddr::V4(*source), RECEIVED_MS + number as i64, payload);
        if decoder.rows() > before {
            after(payload.len() + FRAME_OCTETS);
        }
        if decoder.is_full() {
            take(&mut decoder);
        }
    }
    decoder.expire(RECEIVED_MS + 86_400_000);
    take(&mut decoder);
    (sums, flows)
}

/// Decodes datagrams; then many of them, within the time and memory that their octets may cost.
pub(crate) fn decoder(input: &[u8]) {
    let (datagrams, how) = (datagrams(input), input.first().copied().unwrap_or_default());
    if datagrams.is_empty() {
        return;
    }
    let across_ports = how & 16 != 0;
    let (sums, flows) = decode(&datagrams, &Limits::default(), across_ports, |_| ());
    assert_eq!(balance(&sums.totals()), Ok(()), "the books balance");
    #[cfg(feature = "canary")]
    assert!(flows < 2, "the canary was found");
    let _ = flows;

    let many = repeated(&datagrams, how & 32 != 0);
    let (octets, ordinary) = (octets_of(&many), &*ORDINARY);
    let measured = || {
        let mut planted = Planted::default();
        measure(|| decode(&many, &unlimited_duplicates(), across_ports, |octets| planted.spend(ordinary, octets)))
    };
    let ((sums, _), mut cost) = measured();
    assert_eq!(balance(&sums.totals()), Ok(()), "the books balance");
    for _ in 0..2 {
        if ordinary.is_exceeded(cost, octets) {
            cost = cost.least(measured().1);
        }
    }
    let (time_max, memory_max) = (ordinary.time_max(octets), ordinary.memory_max(octets));
    assert!(cost.time <= time_max, "{:?} for {octets} octets, {time_max:?} at most", cost.time);
    assert!(cost.octets <= memory_max, "{} octets of memory for {octets}, {memory_max} at most", cost.octets);
}

/// The canaries of the limits: what each datagram with flows costs in addition.
#[derive(Default)]
struct Planted {
    #[cfg(feature = "canary-memory")]
    kept: Vec<Vec<u8>>,
}

impl Planted {
    fn spend(&mut self, ordinary: &Ordinary, octets: usize) {
        #[cfg(feature = "canary-time")]
        {
            let times = (10 * TIMES_MAX * octets) as f64 / ordinary.octets as f64;
            let until = crate::cost::now() + ordinary.time.mul_f64(times);
            while crate::cost::now() < until {}
        }
        #[cfg(feature = "canary-memory")]
        self.kept.push(Vec::with_capacity(ordinary.memory_max(octets)));
        // without a canary nothing is spent
        let _ = (&self, ordinary, octets);
    }
}
