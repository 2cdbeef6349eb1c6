//! Flows that nfcapd has: rows of our own, sent to a real nfcapd as NetFlow v9, so that what nfdump reads is known
//! without asking nfdump.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use weir_flow::Column;
use weir_testkit::ports;

use crate::rows::{Row, Value};

/// When the first flow starts; the others start ten milliseconds apart, by which they are told apart.
pub(crate) const START_MS: i64 = 1_704_153_600_000;
pub(crate) const APART_MS: i64 = 10;

/// The exporter's clock: it started so long before it exports.
const UPTIME_MS: u32 = 3_600_000;
const EXPORT_SECONDS: u32 = 1_704_153_600 + 1800;

/// Xorshift: the same numbers on every run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    pub(crate) fn pick<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize].clone()
    }
}

/// Where a field of a template comes from.
#[derive(Debug, Clone, Copy)]
enum Source {
    Column(Column),
    Element,
}

/// Field type, its octets, where its value comes from.
type Field = (u16, usize, Source);

macro_rules! fields {
    ($($id:literal $octets:literal $column:ident,)*) => { &[$(($id, $octets, Source::Column(Column::$column))),*] };
}

const TIMES: &[Field] = fields! { 22 4 Start, 21 4 End, };
const COMMON: &[Field] = fields! {
    7 2 SrcPort, 11 2 DstPort, 4 1 Protocol, 6 1 TcpFlags, 5 1 Tos, 2 8 Packets, 1 8 Bytes,
};
const V4: &[Field] = fields! { 8 4 SrcAddr, 12 4 DstAddr, };
const V6: &[Field] = fields! { 27 16 SrcAddr, 28 16 DstAddr, };
const ROUTING: &[Field] = fields! {
    10 4 InIf, 14 4 OutIf, 16 4 SrcAs, 17 4 DstAs, 9 1 SrcMask, 13 1 DstMask, 55 1 DstTos, 61 1 Direction,
    89 1 ForwardingStatus, 58 2 SrcVlan, 59 2 DstVlan, 15 4 NextHop, 18 4 BgpNextHop, 24 8 PacketsOut, 23 8 BytesOut,
    56 6 SrcMac, 57 6 PostDstMac, 80 6 DstMac, 81 6 PostSrcMac, 128 4 NextAs, 129 4 PrevAs, 234 4 IngressVrf,
    235 4 EgressVrf,
};
const MPLS: &[Field] = &[(70, 3, Source::Element), (71, 3, Source::Element), (72, 3, Source::Element)];
const ICMP: &[Field] = fields! { 32 2 IcmpTypeCode, };
const NAT: &[Field] = fields! {
    225 4 NatSrcAddr, 226 4 NatDstAddr, 227 2 NatSrcPort, 228 2 NatDstPort, 230 1 NatEvent,
};
const FIREWALL: &[Field] = &[
    (233, 1, Source::Column(Column::FirewallEvent)),
    (33002, 2, Source::Element),
    (33000, 12, Source::Element),
    (33001, 12, Source::Element),
];

/// Templates: a router's IPv4 and IPv6, pings, translations, a firewall's events.
const TEMPLATES: &[&[&[Field]]] = &[
    &[TIMES, V4, COMMON, ROUTING, MPLS],
    &[TIMES, V6, COMMON, ROUTING, MPLS],
    &[TIMES, V4, COMMON, ICMP],
    &[TIMES, V4, COMMON, NAT],
    &[TIMES, V4, COMMON, FIREWALL],
];

/// Rows of every template, by turns.
pub(crate) fn rows(count: usize) -> Vec<Row> {
    let mut dice = Dice(20_100_628);
    (0..count).map(|number| row(&mut dice, number)).collect()
}

fn row(dice: &mut Dice, number: usize) -> Row {
    let template = number % TEMPLATES.len();
    let mut row = Row::new();
    let mut elements = Vec::new();
    for &(id, octets, source) in TEMPLATES[template].iter().copied().flatten() {
        match source {
            Source::Column(column) => {
                row.insert(column, value(dice, column, octets));
            }
            Source::Element => elements.push((0, id, element(dice, id))),
        }
    }
    if !elements.is_empty() {
        row.insert(Column::Elements, Value::Elements(elements));
    }
    let start = START_MS + number as i64 * APART_MS;
    row.insert(Column::Start, Value::Ms(start));
    row.insert(Column::End, Value::Ms(start + dice.pick(&[0, 1, 999, 1000, 5000, 60_000])));
    row.insert(Column::Exporter, Value::Octets(vec![127, 0, 0, 1]));
    // As many exporters do: type and code of ICMP in the destination port too, no ports where there are none.
    let type_and_code = Value::Number(dice.pick(&[0, 3 * 256, 3 * 256 + 1, 8 * 256, 11 * 256]));
    if template == 2 {
        row.insert(Column::Protocol, Value::Number(1));
        row.insert(Column::SrcPort, Value::Number(0));
        row.insert(Column::DstPort, type_and_code.clone());
        row.insert(Column::IcmpTypeCode, type_and_code);
    } else if row[&Column::Protocol] == Value::Number(47) {
        row.insert(Column::SrcPort, Value::Number(0));
        row.insert(Column::DstPort, Value::Number(0));
    }
    if row[&Column::Protocol] != Value::Number(6) {
        row.insert(Column::TcpFlags, Value::Number(0));
    }
    row
}

/// Values that repeat, so that filters meet them.
fn value(dice: &mut Dice, column: Column, octets: usize) -> Value {
    use Column as C;
    let number = match column {
        C::Start | C::End => 0,
        C::SrcAddr | C::DstAddr | C::NextHop | C::BgpNextHop | C::NatSrcAddr | C::NatDstAddr => {
            let low = dice.below(6) as u8 + 1;
            return Value::Octets(if octets == 4 {
                vec![dice.pick(&[10, 172]), 16, dice.below(2) as u8, low]
            } else {
                let mut v6 = vec![0x20, 0x01, 0x0d, 0xb8, 0, dice.below(2) as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, low];
                v6[8] = low;
                v6
            });
        }
        C::SrcMac | C::DstMac | C::PostSrcMac | C::PostDstMac => {
            return Value::Octets(vec![0, 0x1b, 0x21, 0, 0, dice.below(4) as u8 + 1]);
        }
        C::Protocol => dice.pick(&[6, 6, 6, 17, 17, 47]),
        C::SrcPort | C::DstPort | C::NatSrcPort | C::NatDstPort => dice.pick(&[22, 53, 80, 443, 1024, 40_000, 65_535]),
        C::TcpFlags => dice.below(64),
        C::Tos | C::DstTos => dice.pick(&[0, 8, 72, 184]),
        C::Packets | C::PacketsOut => dice.pick(&[1, 2, 10, 1000, 100_000]),
        C::Bytes | C::BytesOut => dice.pick(&[40, 64, 1500, 10_000, 1_000_000, 5_000_000_000]),
        C::SrcMask | C::DstMask => dice.pick(&[8, 16, 24]),
        C::Direction => dice.below(2),
        C::ForwardingStatus => dice.pick(&[64, 65, 128, 130]),
        C::NatEvent => dice.pick(&[1, 2, 4, 5]),
        C::FirewallEvent => dice.pick(&[1, 2, 3, 5]),
        _ => dice.below(5) + 1,
    };
    Value::Number(number)
}

fn element(dice: &mut Dice, id: u16) -> Vec<u8> {
    let number = |number: u64, octets: usize| number.to_be_bytes()[8 - octets..].to_vec();
    match id {
        70..=72 => number((dice.below(4) + 16) << 4 | dice.below(8) << 1 | u64::from(id == 72), 3),
        33002 => number(dice.pick(&[1001, 1002, 1003, 1004]), 2),
        _ => [0; 3].iter().flat_map(|_| number(dice.below(4) + 1, 4)).collect(),
    }
}

/// The rows as NetFlow v9: a datagram with the templates, then some flows of one template in each.
fn datagrams(rows: &[Row]) -> Vec<Vec<u8>> {
    const FLOWS_IN_ONE: usize = 6;
    let mut sets = vec![(TEMPLATES.len() as u16, template_set())];
    for (number, _) in TEMPLATES.iter().enumerate() {
        let of_template: Vec<&Row> = rows.iter().skip(number).step_by(TEMPLATES.len()).collect();
        for rows in of_template.chunks(FLOWS_IN_ONE) {
            sets.push((rows.len() as u16, data_set(number, rows)));
        }
    }
    let numbered = sets.into_iter().enumerate();
    numbered.map(|(sequence, (records, set))| datagram(sequence as u32, records, &set)).collect()
}

fn datagram(sequence: u32, records: u16, set: &[u8]) -> Vec<u8> {
    let mut octets = Vec::new();
    octets.extend(9_u16.to_be_bytes());
    octets.extend(records.to_be_bytes());
    for word in [UPTIME_MS, EXPORT_SECONDS, sequence, 0] {
        octets.extend(word.to_be_bytes());
    }
    octets.extend(set);
    octets
}

fn set(id: u16, contents: &[u8]) -> Vec<u8> {
    let padding = (4 - contents.len() % 4) % 4;
    let mut octets = Vec::new();
    octets.extend(id.to_be_bytes());
    octets.extend((contents.len() as u16 + 4 + padding as u16).to_be_bytes());
    octets.extend(contents);
    octets.extend(vec![0; padding]);
    octets
}

fn template_set() -> Vec<u8> {
    let mut contents = Vec::new();
    for (number, template) in TEMPLATES.iter().enumerate() {
        contents.extend((256 + number as u16).to_be_bytes());
        contents.extend((template.iter().copied().flatten().count() as u16).to_be_bytes());
        for (id, octets, _) in template.iter().copied().flatten() {
            contents.extend(id.to_be_bytes());
            contents.extend((*octets as u16).to_be_bytes());
        }
    }
    set(0, &contents)
}

fn data_set(template: usize, rows: &[&Row]) -> Vec<u8> {
    let mut contents = Vec::new();
    for row in rows {
        for &(id, octets, source) in TEMPLATES[template].iter().copied().flatten() {
            match source {
                Source::Column(column) => contents.extend(field(&row[&column], octets)),
                Source::Element => contents.extend(element_of(row, id)),
            }
        }
    }
    set(256 + template as u16, &contents)
}

fn field(value: &Value, octets: usize) -> Vec<u8> {
    match value {
        Value::Number(number) => number.to_be_bytes()[8 - octets..].to_vec(),
        Value::Ms(ms) => {
            let boot = i64::from(EXPORT_SECONDS) * 1000 - i64::from(UPTIME_MS);
            u32::try_from(ms - boot).expect("within the uptime").to_be_bytes().to_vec()
        }
        Value::Octets(octets) => octets.clone(),
        Value::Elements(_) => panic!("elements are fields of their own"),
    }
}

fn element_of(row: &Row, id: u16) -> Vec<u8> {
    let Some(Value::Elements(elements)) = row.get(&Column::Elements) else { panic!("no elements") };
    elements.iter().find(|(_, known, _)| *known == id).expect("the element").2.clone()
}

/// A running nfcapd; it is stopped when this is dropped.
struct Nfcapd(Child);

impl Drop for Nfcapd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Has nfcapd write the rows into files of `folder`; `None` when it is not installed.
pub(crate) fn collect(folder: &Path, rows: &[Row]) -> Option<PathBuf> {
    let port = ports::free_port();
    let files = folder.join("files");
    std::fs::create_dir_all(&files).expect("a folder");
    let port_text = port.to_string();
    let arguments = ["-p", &port_text, "-b", "127.0.0.1", "-t", "3600", "-B", "4000000", "-w"];
    let child = Command::new("nfcapd").args(arguments).arg(&files).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut nfcapd = Nfcapd(child.ok()?);
    wait_until("nfcapd listens", || ports::is_waiting_at(nfcapd.0.id(), port));
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    for datagram in datagrams(rows) {
        sender.send_to(&datagram, ("127.0.0.1", port)).expect("sent");
    }
    wait_until("nfcapd has read all", || ports::is_waiting_at(nfcapd.0.id(), port));
    let pid = nfcapd.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill").success());
    wait_until("nfcapd ends", || nfcapd.0.try_wait().expect("waited").is_some());
    Some(files)
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_mins(1), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
