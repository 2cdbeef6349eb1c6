//! Who talks to whom, and how much: one conversation, as the one or two flows that it makes.

use crate::model::TrafficModel;
use crate::network::{Host, Zone};
use crate::random::{Choice, Random};
use crate::row::{ACK, FIN, PSH, RST, Row, SYN, TCP, UDP};

/// Makes conversations.
#[derive(Debug, Clone)]
pub(crate) struct Conversations {
    pub random: Random,
    inside: Zone,
    outside: Zone,
    services: Choice,
    packet_octaves: Choice,
    model: TrafficModel,
}

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

/// Weights of 1, 2 to 3, 4 to 7 packets and so on: a Pareto distribution with an exponent of about 0.85, its end
/// thinned out so that 2^21 packets of 1500 octets stay within the 32 bits of NetFlow v5.
const PACKET_OCTAVE_WEIGHTS: [u32; 21] = [
    450_000, 250_000, 125_000, 78_000, 44_000, 24_000, 13_000, 7_200, 4_000, 2_200, 1_200, 700, 400, 200, 100, 50, 25,
    12, 6, 2, 1,
];

/// Longest packet.
const MTU_OCTETS: u32 = 1500;

/// How many of 1000 conversations make flows in both directions.
const BOTH_WAYS_PERMILLE: u32 = 400;

impl Conversations {
    pub(crate) fn new(model: &TrafficModel) -> Self {
        let mut random = Random::new(model.seed);
        let weights = model.services.iter().map(|service| service.weight);
        let weights: Vec<_> = weights.chain([model.other_services_weight]).collect();
        Self {
            inside: Zone::inside(model.hosts / 8),
            outside: Zone::outside(model.hosts - model.hosts / 8, &mut random),
            services: Choice::new(&weights),
            packet_octaves: Choice::new(&PACKET_OCTAVE_WEIGHTS),
            model: model.clone(),
            random,
        }
    }

    /// The next conversation, over by `clock_ms`: a flow from the client, and perhaps the one back.
    pub(crate) fn next(&mut self, clock_ms: i64) -> (Row, Option<Row>) {
        let wide = self.model.ipv6_permille > 0 && self.random.chance(self.model.ipv6_permille.into());
        let (src, dst) = self.hosts(wide);
        let (protocol, src_port, dst_port) = self.service(wide);
        let packets = self.packets(protocol, dst_port);
        let end_ms = clock_ms - i64::from(self.random.below(self.model.idle_timeout_ms.saturating_add(1)));
        let row = Row {
            start_ms: end_ms - self.duration_ms(packets),
            end_ms,
            src,
            dst,
            src_port,
            dst_port,
            packets,
            bytes: self.bytes(packets, protocol, wide, false),
            wide,
            protocol,
            tcp_flags: if protocol == TCP { self.tcp_flags(packets) } else { 0 },
            tos: if self.random.chance(80) { 0xb8 } else { 0 },
            sampling_interval: None,
        };
        let back = self.random.chance(BOTH_WAYS_PERMILLE).then(|| self.back(&row));
        (row, back)
    }

    /// The client and the server, popular hosts more often.
    pub(crate) fn hosts(&mut self, wide: bool) -> (Host, Host) {
        let (from, to) = zones(&self.inside, &self.outside, &mut self.random);
        (from.pick(wide, &mut self.random), to.pick(wide, &mut self.random))
    }

    /// The client and the server, all hosts of a zone as often.
    pub(crate) fn any_hosts(&mut self, wide: bool) -> (Host, Host) {
        let (from, to) = zones(&self.inside, &self.outside, &mut self.random);
        (from.any(wide, &mut self.random), to.any(wide, &mut self.random))
    }

    /// Protocol, port of the client, port of the server.
    pub(crate) fn service(&mut self, wide: bool) -> (u8, u16, u16) {
        let ephemeral = 32_768 + self.random.below(28_232) as u16;
        let Some(service) = self.model.services.get(self.services.pick(&mut self.random)) else {
            let protocol = if self.random.chance(600) { TCP } else { UDP };
            // 1024 to 32767
            let port = self.random.zipf(15) % 31_744;
            return (protocol, ephemeral, 1024 + port as u16);
        };
        match service.protocol {
            // Echo requests, echo replies and unreachable hosts, as type * 256 + code.
            ICMP if wide => (ICMPV6, 0, [0x8000, 0x8100, 0x0103][self.random.below(3) as usize]),
            ICMP => (ICMP, 0, [0x0800, 0x0000, 0x0301][self.random.below(3) as usize]),
            protocol @ (TCP | UDP) => (protocol, ephemeral, service.port),
            protocol => (protocol, 0, 0),
        }
    }

    /// How many packets the client sends.
    pub(crate) fn packets(&mut self, protocol: u8, port: u16) -> u64 {
        if protocol == UDP && matches!(port, 53 | 123 | 161) {
            return 1 + u64::from(self.random.below(8) == 0);
        }
        let octave = self.packet_octaves.pick(&mut self.random);
        self.random.in_octave(octave as u32).into()
    }

    /// Packets follow each other within 1 to 2047 ms, short gaps being as likely as long ones.
    fn duration_ms(&mut self, packets: u64) -> i64 {
        let gap_ms = u64::from(self.random.zipf(11)) + 1;
        ((packets - 1) * gap_ms).min(self.model.active_timeout_ms.into()) as i64
    }

    /// Headers, and payload of one of three kinds; what is sent in bulk fills the packets.
    pub(crate) fn bytes(&mut self, packets: u64, protocol: u8, wide: bool, from_server: bool) -> u64 {
        let header = match protocol {
            TCP => 20,
            UDP | ICMP | ICMPV6 => 8,
            _ => 4,
        } + if wide { 40 } else { 20 };
        let kind = match packets {
            // Servers send in bulk, and a quarter of the clients; the others acknowledge.
            17.. if from_server || self.random.chance(250) => 9,
            17.. => 0,
            _ => self.random.below(10),
        };
        let payload = match kind {
            0..5 => self.random.below(64),
            5..9 => 64 + self.random.below(640),
            _ => 1_000 + self.random.below(MTU_OCTETS - header - 1_000 + 1),
        };
        packets * u64::from(header + payload)
    }

    /// No more flags than the packets can have set: whoever opens and closes needs two.
    pub(crate) fn tcp_flags(&mut self, packets: u64) -> u8 {
        let tenth = self.random.below(10);
        match (packets, tenth) {
            (1, 0..6) => SYN,
            (1, 6..8) => ACK,
            (1, _) => RST | ACK,
            (2, 0..5) => SYN | RST,
            (2, _) => FIN | ACK,
            (_, 0..6) => FIN | SYN | PSH | ACK,
            (_, 6..8) => PSH | ACK,
            (_, 8) => SYN | RST | PSH | ACK,
            _ => ACK,
        }
    }

    /// The flow back: the same while, ends swapped, no more packets.
    fn back(&mut self, row: &Row) -> Row {
        let packets = row.packets - u64::from(self.random.below((row.packets as u32).div_ceil(2)));
        let icmp = matches!(row.protocol, ICMP | ICMPV6);
        // An echo is answered by type 0, or 129 in IPv6.
        let reply = if row.wide { 0x8100 } else { 0 };
        let (src_port, dst_port) = if icmp { (0, reply) } else { (row.dst_port, row.src_port) };
        Row {
            src: row.dst,
            dst: row.src,
            src_port,
            dst_port,
            packets,
            bytes: self.bytes(packets, row.protocol, row.wide, true),
            tcp_flags: if row.protocol == TCP { self.tcp_flags(packets) } else { 0 },
            end_ms: if packets == 1 { row.start_ms } else { row.end_ms },
            ..*row
        }
    }
}

/// Where a client and its server are.
fn zones<'a>(inside: &'a Zone, outside: &'a Zone, random: &mut Random) -> (&'a Zone, &'a Zone) {
    match random.below(1000) {
        0..640 => (inside, outside),
        640..900 => (outside, inside),
        900..970 => (inside, inside),
        _ => (outside, outside),
    }
}
