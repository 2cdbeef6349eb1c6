//! Who does what in a scene, flow by flow.

use std::net::Ipv4Addr;

use crate::network::{Host, Zone};
use crate::random::Random;
use crate::row::{ACK, FIN, PSH, RST, Row, SYN, TCP, UDP};
use crate::scenes::{Scene, SceneKind};

/// One packet of so many is seen when sampling changes.
pub(super) const SAMPLING_INTERVAL: u32 = 10;

/// Control bits of a connection that is opened, used and closed.
const WHOLE: u8 = FIN | SYN | PSH | ACK;

/// The flows of a scene, and who takes part by columns of reports.
pub(super) struct Script {
    pub(super) rows: Vec<Row>,
    pub(super) key: Vec<(&'static str, String)>,
}

/// Writes the script of a scene, which is the one of this number.
pub(super) fn script(scene: Scene, number: usize, inside: &Zone, random: &mut Random) -> Script {
    let cast = Cast {
        scene,
        // below 100, where a network for documentation is that counts as a bogon
        attacker: outsider([1 + (number % 90) as u8, 1 + random.below(250) as u8]),
        host: inside.any(false, random),
    };
    match scene.kind {
        SceneKind::PortscanHorizontal => cast.portscan_horizontal(),
        SceneKind::PortscanVertical => cast.portscan_vertical(),
        SceneKind::Beaconing => cast.beaconing(random),
        SceneKind::DdosAmplification => cast.ddos_amplification(),
        SceneKind::DdosSyn => cast.ddos_syn(),
        SceneKind::Exfiltration => cast.exfiltration(),
        SceneKind::BruteForce => cast.brute_force(),
        SceneKind::NewService => cast.new_service(),
        SceneKind::FirstContact => cast.first_contact(),
        SceneKind::Spoofed => cast.spoofed(),
        SceneKind::ExporterSilent => Script { rows: Vec::new(), key: Vec::new() },
        SceneKind::SamplingChanged => {
            Script { rows: Vec::new(), key: vec![("sampling_interval", SAMPLING_INTERVAL.to_string())] }
        }
    }
}

/// An address of 198.51.0.0/16, which models have no host of.
fn outsider([third, fourth]: [u8; 2]) -> Host {
    // a system for documentation (RFC 5398)
    Host { octets: v4([198, 51, third, fourth]), mask: 24, system: 64_496, interface: 101, router: 129 }
}

/// One of many sources outside, at most 16,000 different ones.
fn one_of_many(number: u32) -> Host {
    outsider([128 + (number % 64) as u8, 1 + (number / 64 % 250) as u8])
}

fn v4(address: [u8; 4]) -> [u8; 16] {
    let mut octets = [0; 16];
    octets[..4].copy_from_slice(&address);
    octets
}

fn text(host: &Host) -> String {
    let [a, b, c, d, ..] = host.octets;
    Ipv4Addr::new(a, b, c, d).to_string()
}

/// A packet that begins a connection.
fn tried(src: Host, dst: Host, ports: [u16; 2], end_ms: i64) -> Row {
    Row {
        start_ms: end_ms,
        end_ms,
        src,
        dst,
        src_port: ports[0],
        dst_port: ports[1],
        packets: 1,
        bytes: 44,
        wide: false,
        protocol: TCP,
        tcp_flags: SYN,
        tos: 0,
        sampling_interval: None,
    }
}

/// A connection from its begin to its end, of packets that have so many octets each.
fn connection(src: Host, dst: Host, ports: [u16; 2], end_ms: i64, [packets, octets]: [u64; 2]) -> Row {
    let row = tried(src, dst, ports, end_ms);
    Row { start_ms: end_ms - 400, packets, bytes: packets * octets, tcp_flags: WHOLE, ..row }
}

/// The flow back, with so many packets of so many octets.
fn back(row: &Row, [packets, octets]: [u64; 2]) -> Row {
    Row {
        src: row.dst,
        dst: row.src,
        src_port: row.dst_port,
        dst_port: row.src_port,
        packets,
        bytes: packets * octets,
        ..*row
    }
}

/// Who takes part in a scene.
struct Cast {
    scene: Scene,
    /// An address outside that nobody else talks to.
    attacker: Host,
    /// A host inside.
    host: Host,
}

impl Cast {
    /// When this one of so many flows ends: they come at an even pace.
    fn time_ms(&self, number: u32, count: u32) -> i64 {
        self.scene.at_ms + self.scene.kind.duration_ms() * i64::from(number) / i64::from(count)
    }

    fn portscan_horizontal(&self) -> Script {
        const TRIES: u32 = 1_000;
        let [a, b, ..] = self.host.octets;
        let target = |n: u32| Host { octets: v4([a, b, (n >> 8) as u8, n as u8]), ..self.host };
        let tries = (0..TRIES).map(|n| {
            let ports = [40_000 + n as u16, 23];
            tried(self.attacker, target(n + 1), ports, self.time_ms(n, TRIES))
        });
        Script { rows: tries.collect(), key: vec![("src_addr", text(&self.attacker))] }
    }

    fn portscan_vertical(&self) -> Script {
        const TRIES: u32 = 1_000;
        let tries = (0..TRIES).flat_map(|n| {
            let row = tried(self.attacker, self.host, [50_000, 1 + n as u16], self.time_ms(n, TRIES));
            [row, Row { tcp_flags: RST | ACK, ..back(&row, [1, 40]) }]
        });
        Script { rows: tries.collect(), key: vec![("src_addr", text(&self.attacker))] }
    }

    fn beaconing(&self, random: &mut Random) -> Script {
        const CALLS: u32 = 60;
        let mut rows = Vec::new();
        for n in 0..CALLS {
            // three seconds earlier or later, and none before the scene
            let at_ms = self.time_ms(n, CALLS) + i64::from(random.below(6_001));
            let call = connection(self.host, self.attacker, [40_000 + n as u16, 443], at_ms, [6, 150]);
            rows.extend([call, back(&call, [5, 200])]);
        }
        let key =
            vec![("src_addr", text(&self.host)), ("dst_addr", text(&self.attacker)), ("dst_port", "443".to_owned())];
        Script { rows, key }
    }

    fn ddos_amplification(&self) -> Script {
        /// Port that answers come from, and octets of a packet: DNS, NTP and LDAP without connections.
        const VECTORS: [(u16, u64); 3] = [(53, 1_400), (123, 468), (389, 1_400)];
        const ANSWERS: u32 = 18_000;
        let answers = (0..ANSWERS).map(|n| {
            let (port, octets) = VECTORS[n as usize % VECTORS.len()];
            let end_ms = self.time_ms(n, ANSWERS);
            Row {
                start_ms: end_ms - 900,
                packets: 1_000,
                bytes: 1_000 * octets,
                protocol: UDP,
                tcp_flags: 0,
                ..tried(one_of_many(n % 500), self.host, [port, 40_000], end_ms)
            }
        });
        Script { rows: answers.collect(), key: vec![("victim", text(&self.host))] }
    }

    fn ddos_syn(&self) -> Script {
        const TRIES: u32 = 12_000;
        let tries = (0..TRIES)
            .map(|n| tried(one_of_many(n % 4_000), self.host, [1_024 + n as u16, 80], self.time_ms(n, TRIES)));
        Script { rows: tries.collect(), key: vec![("victim", text(&self.host))] }
    }

    fn exfiltration(&self) -> Script {
        const PARTS: u32 = 60;
        let parts = (0..PARTS).flat_map(|n| {
            let ports = [40_000 + n as u16, 8_443];
            let part = connection(self.host, self.attacker, ports, self.time_ms(n, PARTS), [14_300, 1_400]);
            [part, back(&part, [3_000, 40])]
        });
        let key = vec![("src_addr", text(&self.host)), ("dst_addr", text(&self.attacker))];
        Script { rows: parts.collect(), key }
    }

    fn brute_force(&self) -> Script {
        const TRIES: u32 = 100;
        let tries = (0..TRIES).flat_map(|n| {
            let ports = [50_000 + n as u16, 22];
            let row = connection(self.attacker, self.host, ports, self.time_ms(n, TRIES), [14, 140 + u64::from(n % 9)]);
            [row, back(&row, [12, 160])]
        });
        let key = vec![("src_addr", text(&self.attacker)), ("dst_port", "22".to_owned())];
        Script { rows: tries.collect(), key }
    }

    fn new_service(&self) -> Script {
        const CALLS: u32 = 9;
        let calls = (0..CALLS).flat_map(|n| {
            let ports = [50_000 + n as u16, 6_379];
            let call = connection(self.attacker, self.host, ports, self.time_ms(n, CALLS), [8, 100]);
            [call, back(&call, [9, 300])]
        });
        let key = vec![("dst_addr", text(&self.host)), ("dst_port", "6379".to_owned())];
        Script { rows: calls.collect(), key }
    }

    fn first_contact(&self) -> Script {
        const CALLS: u32 = 9;
        let calls = (0..CALLS).flat_map(|n| {
            let ports = [50_000 + n as u16, 8_443];
            let call = connection(self.host, self.attacker, ports, self.time_ms(n, CALLS), [300, 1_000]);
            [call, back(&call, [150, 40])]
        });
        Script { rows: calls.collect(), key: vec![("dst_addr", text(&self.attacker))] }
    }

    fn spoofed(&self) -> Script {
        const FLOWS: u32 = 60;
        let flows = (0..FLOWS).map(|n| {
            // of 240.0.0.0/4, which is reserved (RFC 6890)
            let source = Host { octets: v4([240, 1, 2, 1 + n as u8]), ..self.attacker };
            let ports = [40_000 + n as u16, 80];
            connection(source, self.host, ports, self.time_ms(n, FLOWS), [4, 60])
        });
        let in_if = self.attacker.interface.to_string();
        Script { rows: flows.collect(), key: vec![("in_if", in_if), ("network", "240.0.0.0/8".to_owned())] }
    }
}
