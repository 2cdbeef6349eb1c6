//! Flows of one conversation as one flow, which keeps the other columns of its first flow.
//!
//! Other groups have keys and counters and nothing else. These are flows: they may be sorted, written to a file and
//! printed in any format, because the fields that are neither key nor counter are those of the first flow that was
//! found. So memory grows with the conversations and all their fields, which is what speaks against it.

use std::hash::BuildHasher;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, TimestampMillisecondArray, UInt8Array, UInt16Array, UInt32Array,
    UInt64Array,
};
use arrow::compute::kernels::zip::zip;
use arrow::compute::take;
use arrow::datatypes::{TimestampMillisecondType, UInt8Type, UInt16Type, UInt64Type};
use foldhash::fast::RandomState;
use hashbrown::HashTable;
use weir_flow::{Column, FlowBatch};

use crate::group::add_saturating;

/// Which flows are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conversation {
    /// Those that agree in protocol, addresses and ports.
    OneWay,
    /// Those of TCP and UDP in both directions, as nfdump has it: what goes the other way than the first flow is
    /// counted as out, and its flags of TCP are left out.
    BothWays,
    /// As `BothWays`. Conversations of TCP and UDP whose first flow is from a port below 1024 to a higher one than that are
    /// turned round at the end, so that the client is the source; the flags of TCP stay those of the first flow's direction.
    BothWaysGuessed,
}

/// Octets of a key: protocol, length of the addresses, two addresses, two ports.
const KEY_OCTETS: usize = 2 + 16 + 16 + 2 + 2;

type Key = [u8; KEY_OCTETS];

/// The protocols whose two directions are one flow.
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Columns that change places when a flow is turned round.
const SIDES: &[(Column, Column)] = &[
    (Column::SrcAddr, Column::DstAddr),
    (Column::SrcPort, Column::DstPort),
    (Column::SrcAs, Column::DstAs),
    (Column::SrcMask, Column::DstMask),
    (Column::InIf, Column::OutIf),
    (Column::Packets, Column::PacketsOut),
    (Column::Bytes, Column::BytesOut),
];

/// What is counted of a conversation.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    flows: u64,
    packets: u64,
    bytes: u64,
    packets_out: u64,
    bytes_out: u64,
    start_ms: Option<i64>,
    end_ms: Option<i64>,
    tcp_flags: u16,
    is_saturated: bool,
}

/// Makes flows of conversations.
#[derive(Debug)]
pub struct Conversations {
    conversation: Conversation,
    hasher: RandomState,
    table: HashTable<usize>,
    keys: Vec<Key>,
    sums: Vec<Sums>,
    /// The first flow of each conversation, in the order of `keys`.
    firsts: Vec<FlowBatch>,
}

impl Conversations {
    /// None yet.
    pub fn new(conversation: Conversation) -> Self {
        Self {
            conversation,
            hasher: RandomState::default(),
            table: HashTable::new(),
            keys: Vec::new(),
            sums: Vec::new(),
            firsts: Vec::new(),
        }
    }

    /// Number of conversations so far.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether there is none yet.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Conversations of which a sum is larger than 64 bits hold, and given as the largest number.
    pub fn saturated(&self) -> usize {
        self.sums.iter().filter(|sums| sums.is_saturated).count()
    }

    /// Counts flows.
    pub fn add(&mut self, flows: &FlowBatch) {
        let columns = Columns::of(flows);
        let mut new = Vec::new();
        for row in 0..flows.rows() {
            let (number, is_reverse) = self.find(&columns.key(row));
            if number == self.sums.len() {
                self.sums.push(Sums::default());
                new.push(row as u32);
            }
            if let Some(sums) = self.sums.get_mut(number) {
                columns.count(row, is_reverse, sums);
            }
        }
        if !new.is_empty() {
            self.firsts.push(taken(flows, &UInt32Array::from(new)));
        }
    }

    /// The number of the conversation of a key, which may be a new one, and whether it is the reverse key.
    fn find(&mut self, key: &Key) -> (usize, bool) {
        let hash = self.hasher.hash_one(key);
        if let Some(&number) = self.table.find(hash, |&number| self.keys.get(number) == Some(key)) {
            return (number, false);
        }
        if self.conversation != Conversation::OneWay && matches!(key[0], TCP | UDP) {
            let reverse = reverse(key);
            let hash = self.hasher.hash_one(reverse);
            if let Some(&number) = self.table.find(hash, |&number| self.keys.get(number) == Some(&reverse)) {
                return (number, true);
            }
        }
        let number = self.keys.len();
        self.keys.push(*key);
        let (hasher, keys) = (&self.hasher, &self.keys);
        self.table.insert_unique(hash, number, |&number| keys.get(number).map_or(0, |key| hasher.hash_one(key)));
        (number, false)
    }

    /// The conversations as flows, in the order in which they were found.
    pub fn finish(self) -> Vec<FlowBatch> {
        let is_guessed = self.conversation == Conversation::BothWaysGuessed;
        let mut sums = self.sums.as_slice();
        let mut flows = Vec::with_capacity(self.firsts.len());
        for firsts in &self.firsts {
            let (these, rest) = sums.split_at(firsts.rows().min(sums.len()));
            let counted = with_sums(firsts, these);
            flows.push(if is_guessed { turned_round(&counted) } else { counted });
            sums = rest;
        }
        flows
    }
}

fn reverse(key: &Key) -> Key {
    let mut reverse = *key;
    reverse[2..18].copy_from_slice(&key[18..34]);
    reverse[18..34].copy_from_slice(&key[2..18]);
    reverse[34..36].copy_from_slice(&key[36..38]);
    reverse[36..38].copy_from_slice(&key[34..36]);
    reverse
}

/// The columns of a batch that count.
struct Columns<'a> {
    protocol: Option<&'a UInt8Array>,
    addresses: [Option<&'a BinaryArray>; 2],
    ports: [Option<&'a UInt16Array>; 2],
    counters: [Option<&'a UInt64Array>; 5],
    times: [Option<&'a TimestampMillisecondArray>; 2],
    tcp_flags: Option<&'a UInt16Array>,
}

impl<'a> Columns<'a> {
    fn of(flows: &'a FlowBatch) -> Self {
        use Column as C;
        let either = |out, reverse| flows.primitive::<UInt64Type>(out).or_else(|| flows.primitive(reverse));
        Self {
            protocol: flows.primitive::<UInt8Type>(C::Protocol),
            addresses: [C::SrcAddr, C::DstAddr].map(|column| flows.binary(column)),
            ports: [C::SrcPort, C::DstPort].map(|column| flows.primitive::<UInt16Type>(column)),
            counters: [
                flows.primitive(C::Flows),
                flows.primitive(C::Packets),
                flows.primitive(C::Bytes),
                either(C::PacketsOut, C::PacketsReverse),
                either(C::BytesOut, C::BytesReverse),
            ],
            times: [C::Start, C::End].map(|column| flows.primitive::<TimestampMillisecondType>(column)),
            tcp_flags: flows.primitive::<UInt16Type>(C::TcpFlags),
        }
    }

    fn key(&self, row: usize) -> Key {
        let mut key = [0; KEY_OCTETS];
        key[0] = self.protocol.filter(|values| values.is_valid(row)).map_or(0, |values| values.value(row));
        for (at, addresses) in [(2, self.addresses[0]), (18, self.addresses[1])] {
            let octets = addresses.filter(|values| values.is_valid(row)).map_or(&[][..], |values| values.value(row));
            let octets = octets.get(..16).unwrap_or(octets);
            // both addresses of a flow are of one family
            key[1] = key[1].max(octets.len() as u8);
            key[at..at + octets.len()].copy_from_slice(octets);
        }
        for (at, ports) in [(34, self.ports[0]), (36, self.ports[1])] {
            let port = ports.filter(|values| values.is_valid(row)).map_or(0, |values| values.value(row));
            key[at..at + 2].copy_from_slice(&port.to_be_bytes());
        }
        key
    }

    fn count(&self, row: usize, is_reverse: bool, sums: &mut Sums) {
        let [flows, mut packets, mut bytes, mut packets_out, mut bytes_out] =
            self.counters.map(|counter| counter.filter(|values| values.is_valid(row)).map(|values| values.value(row)));
        if is_reverse {
            std::mem::swap(&mut packets, &mut packets_out);
            std::mem::swap(&mut bytes, &mut bytes_out);
        }
        let mut is_over = false;
        let mut add = |sum: &mut u64, more: Option<u64>| is_over |= add_saturating(sum, more.unwrap_or(0));
        add(&mut sums.flows, Some(flows.unwrap_or(1)));
        add(&mut sums.packets, packets);
        add(&mut sums.bytes, bytes);
        add(&mut sums.packets_out, packets_out);
        add(&mut sums.bytes_out, bytes_out);
        sums.is_saturated |= is_over;
        let [start, end] =
            self.times.map(|times| times.filter(|times| times.is_valid(row)).map(|times| times.value(row)));
        sums.start_ms = sums.start_ms.into_iter().chain(start).min();
        sums.end_ms = sums.end_ms.into_iter().chain(end).max();
        // nfdump keeps the flags of the direction that came first
        let flags = self.tcp_flags.filter(|flags| !is_reverse && flags.is_valid(row));
        sums.tcp_flags |= flags.map_or(0, |flags| flags.value(row));
    }
}

/// Some rows of a batch.
fn taken(flows: &FlowBatch, rows: &UInt32Array) -> FlowBatch {
    let columns = Column::ALL.iter().filter_map(|&column| {
        let values = flows.column(column)?;
        // the rows are of this batch
        take(values, rows, None).ok().map(|values| (column, values))
    });
    rebuilt(rows.len(), columns.collect()).unwrap_or_else(|| flows.clone())
}

fn rebuilt(rows: usize, mut columns: Vec<(Column, ArrayRef)>) -> Option<FlowBatch> {
    columns.sort_by_key(|(column, _)| *column);
    FlowBatch::from_columns(rows, columns).ok()
}

/// The flows with what was counted in place of their counters.
fn with_sums(firsts: &FlowBatch, sums: &[Sums]) -> FlowBatch {
    use Column as C;
    let numbers = |of: fn(&Sums) -> u64| Arc::new(sums.iter().map(|sums| Some(of(sums))).collect::<UInt64Array>());
    let times = |of: fn(&Sums) -> Option<i64>| {
        Arc::new(sums.iter().map(of).collect::<TimestampMillisecondArray>().with_timezone("UTC"))
    };
    let mut counted: Vec<(Column, ArrayRef)> = vec![
        (C::Flows, numbers(|sums| sums.flows)),
        (C::Packets, numbers(|sums| sums.packets)),
        (C::Bytes, numbers(|sums| sums.bytes)),
        (C::Start, times(|sums| sums.start_ms)),
        (C::End, times(|sums| sums.end_ms)),
        (C::TcpFlags, Arc::new(sums.iter().map(|sums| Some(sums.tcp_flags)).collect::<UInt16Array>())),
    ];
    if sums.iter().any(|sums| sums.packets_out > 0 || sums.bytes_out > 0) {
        counted.push((C::PacketsOut, numbers(|sums| sums.packets_out)));
        counted.push((C::BytesOut, numbers(|sums| sums.bytes_out)));
    }
    let kept = Column::ALL.iter().filter(|column| {
        // what came in the other direction is in the counters of what goes out now
        !matches!(column, C::PacketsReverse | C::BytesReverse) && counted.iter().all(|(counted, _)| counted != *column)
    });
    let kept: Vec<_> =
        kept.filter_map(|&column| firsts.column(column).map(|values| (column, Arc::clone(values)))).collect();
    rebuilt(firsts.rows(), counted.into_iter().chain(kept).collect()).unwrap_or_else(|| firsts.clone())
}

/// The flows, those of them turned round that go from a server to a client.
fn turned_round(flows: &FlowBatch) -> FlowBatch {
    let columns = Columns::of(flows);
    let is_from_server = |row| {
        let key = columns.key(row);
        let [source, destination] = [34, 36].map(|at| u16::from_be_bytes([key[at], key[at + 1]]));
        matches!(key[0], TCP | UDP) && source < 1024 && destination > 1024
    };
    let turn: Vec<bool> = (0..flows.rows()).map(is_from_server).collect();
    if !turn.contains(&true) {
        return flows.clone();
    }
    let turn = BooleanArray::from(turn);
    let absent = |column: Column| -> ArrayRef {
        match column {
            // nothing was counted in that direction
            Column::PacketsOut | Column::BytesOut => Arc::new(UInt64Array::from(vec![0; flows.rows()])),
            _ => arrow::array::new_null_array(weir_flow::schema::field(column).data_type(), flows.rows()),
        }
    };
    let side = |column: Column| flows.column(column).map_or_else(|| absent(column), Arc::clone);
    let mut changed: Vec<(Column, ArrayRef)> = Vec::new();
    for &(one, other) in SIDES {
        if flows.column(one).is_none() && flows.column(other).is_none() {
            continue;
        }
        let (first, second) = (side(one), side(other));
        if let (Ok(first_turned), Ok(second_turned)) = (zip(&turn, &second, &first), zip(&turn, &first, &second)) {
            changed.extend([(one, first_turned), (other, second_turned)]);
        }
    }
    let kept = Column::ALL.iter().filter(|column| changed.iter().all(|(changed, _)| changed != *column));
    let kept: Vec<_> =
        kept.filter_map(|&column| flows.column(column).map(|values| (column, Arc::clone(values)))).collect();
    rebuilt(flows.rows(), changed.into_iter().chain(kept).collect()).unwrap_or_else(|| flows.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Protocol, source, its port, destination, its port, packets, flags, first and last millisecond.
    type Flow = (u8, u8, u16, u8, u16, u64, u16, i64, i64);

    fn batch(flows: &[Flow]) -> FlowBatch {
        use Column as C;
        let address = |of: fn(&Flow) -> u8| -> ArrayRef {
            Arc::new(flows.iter().map(|flow| Some(vec![192, 0, 2, of(flow)])).collect::<BinaryArray>())
        };
        let port =
            |of: fn(&Flow) -> u16| -> ArrayRef { Arc::new(flows.iter().map(of).map(Some).collect::<UInt16Array>()) };
        let count =
            |of: fn(&Flow) -> u64| -> ArrayRef { Arc::new(flows.iter().map(of).map(Some).collect::<UInt64Array>()) };
        let time = |of: fn(&Flow) -> i64| -> ArrayRef {
            Arc::new(flows.iter().map(of).map(Some).collect::<TimestampMillisecondArray>().with_timezone("UTC"))
        };
        let columns = vec![
            (C::Start, time(|flow| flow.7)),
            (C::End, time(|flow| flow.8)),
            (C::SrcAddr, address(|flow| flow.1)),
            (C::DstAddr, address(|flow| flow.3)),
            (C::SrcPort, port(|flow| flow.2)),
            (C::DstPort, port(|flow| flow.4)),
            (C::Protocol, Arc::new(flows.iter().map(|flow| Some(flow.0)).collect::<UInt8Array>()) as ArrayRef),
            (C::TcpFlags, port(|flow| flow.6)),
            (C::Packets, count(|flow| flow.5)),
            (C::Bytes, count(|flow| flow.5 * 100)),
        ];
        FlowBatch::from_columns(flows.len(), columns).expect("a batch")
    }

    /// Source and its port, flows, packets, packets out, flags, first and last millisecond.
    type Merged = (u8, u16, u64, u64, u64, u16, i64, i64);

    fn check(conversation: Conversation, batches: &[&[Flow]], expected: &[Merged]) {
        let mut conversations = Conversations::new(conversation);
        for flows in batches {
            conversations.add(&batch(flows));
        }
        assert_eq!(conversations.len(), expected.len());
        let mut found = Vec::new();
        for flows in conversations.finish() {
            let columns = Columns::of(&flows);
            for row in 0..flows.rows() {
                let mut sums = Sums::default();
                columns.count(row, false, &mut sums);
                assert_eq!((sums.bytes, sums.bytes_out), (sums.packets * 100, sums.packets_out * 100));
                let key = columns.key(row);
                let times = (sums.start_ms.expect("a start"), sums.end_ms.expect("an end"));
                let port = u16::from_be_bytes([key[34], key[35]]);
                found.push((
                    key[5],
                    port,
                    sums.flows,
                    sums.packets,
                    sums.packets_out,
                    sums.tcp_flags,
                    times.0,
                    times.1,
                ));
            }
        }
        assert_eq!(found, expected);
    }

    const FLOWS: [&[Flow]; 2] = [
        &[(6, 1, 443, 2, 50000, 3, 2, 10, 20), (6, 2, 50000, 1, 443, 5, 16, 5, 15), (17, 2, 50000, 1, 443, 7, 0, 1, 2)],
        &[(6, 2, 50000, 1, 443, 11, 1, 12, 30), (6, 1, 443, 2, 50000, 13, 4, 11, 12)],
    ];

    #[test]
    fn flows_of_one_way_are_summed() {
        let expected = [(1, 443, 2, 16, 0, 6, 10, 20), (2, 50000, 2, 16, 0, 17, 5, 30), (2, 50000, 1, 7, 0, 0, 1, 2)];
        check(Conversation::OneWay, &FLOWS, &expected);
    }

    /// As nfdump 1.7.1 has it with `-b`, which prints the flags of the direction that came first.
    #[test]
    fn the_other_way_is_out() {
        let expected = [(1, 443, 4, 16, 16, 6, 5, 30), (2, 50000, 1, 7, 0, 0, 1, 2)];
        check(Conversation::BothWays, &FLOWS, &expected);
    }

    #[test]
    fn the_client_is_the_source_when_it_is_guessed() {
        let expected = [(2, 50000, 4, 16, 16, 6, 5, 30), (2, 50000, 1, 7, 0, 0, 1, 2)];
        check(Conversation::BothWaysGuessed, &FLOWS, &expected);
    }
}
