//! What is sent between two hosts, and what happens to it between two routers.
//!
//! All plans come from one stream of random numbers, drawn in the same order whoever asks, so that each router, and the
//! truth, can walk the conversations on their own and see the same ones.

use crate::conversation::Conversations;
use crate::network::Host;
use crate::random::Random;
use crate::routers::keys::{Keys, digest};
use crate::routers::packets::{Loss, Passage, Schedule};
use crate::routers::{Router, RouterPair};
use crate::row::{FIN, RST, SYN, TCP, UDP};

/// What packets have in common that belong to one flow, and that every router sees alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    /// IPv4 in the first four octets, or IPv6.
    pub src: [u8; 16],
    pub dst: [u8; 16],
    pub src_port: u16,
    pub dst_port: u16,
    pub protocol: u8,
    pub wide: bool,
}

/// A conversation from its client to its server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Plan {
    pub key: Key,
    pub tos: u8,
    pub tcp_flags: u8,
    /// Interfaces towards the client and the server, away from the other router.
    pub interfaces: [u32; 2],
    /// Octets of each packet.
    pub packet_octets: u16,
    /// How many octets more the second router counts for each packet.
    pub miscounted_octets: i16,
    /// When it passes the first router, ms since the start of the model.
    pub start_ms: u64,
    /// How much later it passes the second one.
    pub delay_ms: u32,
    pub schedule: Schedule,
    /// What is lost between the routers.
    pub loss: Loss,
}

impl Plan {
    /// How it passes a router.
    #[inline]
    pub(crate) fn passage(&self, router: Router) -> Passage {
        let schedule = self.schedule;
        match router {
            Router::First => Passage { origin_ms: self.start_ms, schedule, loss: Loss::NONE },
            Router::Second => {
                Passage { origin_ms: self.start_ms + u64::from(self.delay_ms), schedule, loss: self.loss }
            }
        }
    }

    /// Octets that a router counts for each packet.
    #[inline]
    pub(crate) fn octets_at(&self, router: Router) -> u16 {
        match router {
            Router::First => self.packet_octets,
            Router::Second => self.packet_octets.saturating_add_signed(self.miscounted_octets),
        }
    }

    /// TCP flags of the packets from `first` to `last`: who opens does so with the first packet, who closes with the
    /// last one.
    #[inline]
    pub(crate) fn flags_of(tcp_flags: u8, packets: u32, first: u32, last: u32) -> u8 {
        let opening = if first == 0 { 0 } else { SYN };
        let closing = if last + 1 == packets { 0 } else { FIN | RST };
        tcp_flags & !(opening | closing)
    }
}

/// Makes the plans of a pair of routers, in the order of their starts.
#[derive(Debug, Clone)]
pub(crate) struct Planner {
    pair: RouterPair,
    conversations: Conversations,
    keys: Keys,
    /// Number of the next conversation.
    number: u64,
    start_ms: u64,
}

/// Length of a load period.
const PERIOD_SECS: u64 = 300;
/// How much of the period comes before its peak.
const BEFORE_PEAK_MS: u64 = 270_000;
const PEAK_MS: u64 = PERIOD_SECS * 1000 - BEFORE_PEAK_MS;

impl Planner {
    pub(crate) fn new(pair: &RouterPair) -> Self {
        let reuse_secs = RouterPair::REUSE_MS.div_ceil(1000) as u32;
        Self {
            conversations: Conversations::new(&pair.traffic()),
            keys: Keys::new(reuse_secs, pair.without_ports()),
            pair: pair.clone(),
            number: 0,
            start_ms: start_of(pair, 0),
        }
    }

    /// When the next conversation starts.
    #[inline]
    pub(crate) fn start_ms(&self) -> u64 {
        self.start_ms
    }

    /// The next conversation.
    pub(crate) fn next(&mut self) -> Plan {
        let start_ms = self.start_ms;
        self.number += 1;
        self.start_ms = start_of(&self.pair, self.number);
        let (key, interfaces) = self.key((start_ms / 1000) as u32);
        let packets = self.conversations.packets(key.protocol, key.dst_port) as u32;
        let bytes = self.conversations.bytes(packets.into(), key.protocol, key.wide, false);
        let tcp_flags = if key.protocol == TCP { self.conversations.tcp_flags(packets.into()) } else { 0 };
        let (pair, random) = (&self.pair, &mut self.conversations.random);
        Plan {
            key,
            tos: if random.chance(80) { 0xb8 } else { 0 },
            tcp_flags,
            interfaces,
            packet_octets: (bytes / u64::from(packets)) as u16,
            miscounted_octets: miscounted_octets(pair, random),
            start_ms,
            delay_ms: delay_ms(pair, random),
            schedule: schedule(pair, packets, random),
            loss: loss(pair, random),
        }
    }

    /// A key that has not been used for the reuse time. Popular hosts come first; when they have no key left, others
    /// take their place.
    fn key(&mut self, now_secs: u32) -> (Key, [u32; 2]) {
        let permille = self.pair.ipv6_permille;
        let wide = permille > 0 && self.conversations.random.chance(permille.into());
        let (protocol, _, dst_port) = self.conversations.service(wide);
        let mut hosts = self.conversations.hosts(wide);
        loop {
            let (client, server) = &hosts;
            let free = match (digest_of(client, server, protocol, dst_port), protocol) {
                (digest, TCP | UDP) => self.keys.port(digest, now_secs),
                (digest, _) => self.keys.take(digest, now_secs).then_some(0),
            };
            if let Some(src_port) = free {
                let key = Key { src: client.octets, dst: server.octets, src_port, dst_port, protocol, wide };
                return (key, [client.interface, server.interface]);
            }
            hosts = self.conversations.any_hosts(wide);
        }
    }
}

/// When the conversation with this number starts, ms since the start of the model: evenly spread over the time before
/// the peak of a period and over the peak.
fn start_of(pair: &RouterPair, number: u64) -> u64 {
    let of_period = u64::from(pair.conversations_per_second) * PERIOD_SECS;
    let before_peak = of_period * (1000 - u64::from(pair.peak_permille)) / 1000;
    let place = number % of_period;
    let ms = match place.checked_sub(before_peak) {
        None => place * BEFORE_PEAK_MS / before_peak,
        Some(place) => BEFORE_PEAK_MS + place * PEAK_MS / (of_period - before_peak),
    };
    number / of_period * PERIOD_SECS * 1000 + ms
}

fn digest_of(client: &Host, server: &Host, protocol: u8, port: u16) -> u64 {
    let [client, server] = [client, server].map(|host| u128::from_be_bytes(host.octets));
    let service = u64::from(protocol) << 16 | u64::from(port);
    digest(&[(client >> 64) as u64, client as u64, (server >> 64) as u64, server as u64, service])
}

/// Brisk conversations have a packet each 1 to 2047 ms, slow ones each 0.5 to 31.5 s, short steps being as likely as
/// long ones. What would last too long is quicker.
fn schedule(pair: &RouterPair, packets: u32, random: &mut Random) -> Schedule {
    const EVEN_MS_MAX: u64 = RouterPair::DURATION_MS_MAX - RouterPair::PAUSE_MS_MAX as u64;
    let step_ms =
        if random.chance(pair.slow_permille.into()) { 500 * (random.zipf(6) + 1) } else { random.zipf(11) + 1 };
    let mut schedule = Schedule { packets, step: step_ms << 16, pause_before: packets, pause_ms: 0 };
    if packets > 1 {
        let step_max = (EVEN_MS_MAX << 16) / u64::from(packets - 1);
        schedule.step = u64::from(schedule.step).min(step_max) as u32;
        if random.chance(pair.paused_permille.into()) {
            const PAUSES: u32 = RouterPair::PAUSE_MS_MAX - RouterPair::PAUSE_MS_MIN + 1;
            schedule.pause_before = 1 + random.below(packets - 1);
            schedule.pause_ms = RouterPair::PAUSE_MS_MIN + random.below(PAUSES);
        }
    }
    schedule
}

/// Short delays are more likely than long ones, as with queues that are seldom full.
fn delay_ms(pair: &RouterPair, random: &mut Random) -> u32 {
    let jitters = pair.delay_jitter_ms + 1;
    pair.delay_base_ms + random.below(jitters).min(random.below(jitters))
}

/// Half of the conversations lose nothing, a quarter what they should and a quarter three times that.
fn loss(pair: &RouterPair, random: &mut Random) -> Loss {
    let unseen = random.chance(pair.unseen_permille.into());
    let (factor, phase) = ([0, 0, 1, 3][random.below(4) as usize], random.below(1000) as u16);
    Loss { permille: if unseen { 1000 } else { pair.loss_permille * factor }, phase }
}

fn miscounted_octets(pair: &RouterPair, random: &mut Random) -> i16 {
    let (miscounts, more) = (random.chance(pair.miscounted_permille.into()), random.chance(500));
    match (miscounts, more) {
        (false, _) => 0,
        (true, true) => pair.miscounted_octets as i16,
        (true, false) => -(pair.miscounted_octets as i16),
    }
}
