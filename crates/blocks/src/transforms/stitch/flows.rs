//! Rows that an opposite is waited for, and pairs that have found each other.

use super::sides::FlowSide;
use weir_rows::by_start::Place;
use weir_rows::gather::Pick;
use weir_rows::keys::NO_KEY;

/// What is known of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) start: i64,
    pub(super) arrival: u64,
    pub(super) pick: Pick,
    pub(super) end: Option<i64>,
    pub(super) bytes: Option<u64>,
    pub(super) packets: Option<u64>,
    pub(super) tcp_flags: Option<u16>,
    pub(super) dst_port: u16,
}

/// What a pair has in place of the values of the initiator's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stitched {
    pub(super) start: i64,
    pub(super) end: Option<i64>,
    pub(super) tcp_flags: Option<u16>,
    pub(super) bytes_reverse: Option<u64>,
    pub(super) packets_reverse: Option<u64>,
}

/// A row, or a pair of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    /// [`NO_KEY`] when no opposite is looked for.
    pub(super) key: u32,
    side: FlowSide,
    /// Of the row, or of the pair's initiator.
    pub(super) record: Record,
    pub(super) stitched: Option<Stitched>,
    place: Place,
    is_held: bool,
}

impl Flow {
    pub(super) fn new(key: u32, side: FlowSide, record: Record) -> Self {
        let place = Place { start: record.start, arrival: record.arrival, slot: 0 };
        Self { key, side, record, stitched: None, place, is_held: true }
    }
}

/// All that is held.
#[derive(Debug, Default)]
pub(super) struct Flows {
    flows: Vec<Flow>,
    free: Vec<u32>,
}

impl Flows {
    /// Puts a flow in, and returns where it stands.
    pub(super) fn begin(&mut self, mut flow: Flow) -> Place {
        flow.place.slot = self.free.pop().unwrap_or(self.flows.len() as u32);
        match self.flows.get_mut(flow.place.slot as usize) {
            Some(free) => *free = flow,
            None => self.flows.push(flow),
        }
        flow.place
    }

    /// Makes a pair of a row that came before and one that goes the other way. Returns the new place when it has moved.
    pub(super) fn join(&mut self, slot: u32, record: &Record, side: FlowSide) -> Option<Place> {
        let flow = &mut self.flows[slot as usize];
        let earlier = flow.record;
        let is_initiator = match (flow.side, side) {
            (FlowSide::Back { is_reply: true }, _) => true,
            (_, FlowSide::Back { is_reply: true }) => false,
            // RFC 5103 section 3.1: the initiator sent the first packet; next to that, servers have lower ports
            _ => (record.start, record.dst_port) < (earlier.start, earlier.dst_port),
        };
        let (initiator, other) = if is_initiator { (record, &earlier) } else { (&earlier, record) };
        flow.stitched = Some(Stitched {
            start: initiator.start.min(other.start),
            end: initiator.end.max(other.end),
            tcp_flags: match (initiator.tcp_flags, other.tcp_flags) {
                (Some(one), Some(two)) => Some(one | two),
                (one, two) => one.or(two),
            },
            bytes_reverse: other.bytes,
            packets_reverse: other.packets,
        });
        flow.record = *initiator;
        if record.start >= flow.place.start {
            return None;
        }
        flow.place.start = record.start;
        Some(flow.place)
    }

    /// Takes a flow out.
    pub(super) fn end(&mut self, slot: u32) -> Flow {
        let flow = &mut self.flows[slot as usize];
        flow.is_held = false;
        self.free.push(slot);
        *flow
    }

    /// The side of an unmatched row.
    pub(super) fn side(&self, slot: u32) -> FlowSide {
        self.flows[slot as usize].side
    }

    /// Where the row is that will be handed on.
    pub(super) fn pick(&self, slot: u32) -> Pick {
        self.flows[slot as usize].record.pick
    }

    /// Whether something stands at this place now.
    pub(super) fn is_at(&self, place: Place) -> bool {
        self.flows.get(place.slot as usize).is_some_and(|flow| flow.place == place && flow.is_held)
    }

    /// How many are held, a pair as one.
    pub(super) fn len(&self) -> usize {
        self.flows.len() - self.free.len()
    }

    /// Where the rows are that are held.
    pub(super) fn picks(&mut self) -> Vec<&mut Pick> {
        self.flows.iter_mut().filter(|flow| flow.is_held).map(|flow| &mut flow.record.pick).collect()
    }

    pub(super) fn renumber_keys(&mut self, renumbered: &[u32]) {
        let looking = |flow: &&mut Flow| flow.is_held && flow.key != NO_KEY && flow.stitched.is_none();
        for flow in self.flows.iter_mut().filter(looking) {
            flow.key = renumbered[flow.key as usize];
        }
    }

    /// Octets of memory.
    pub(super) fn octets(&self) -> usize {
        self.flows.capacity() * size_of::<Flow>()
    }
}
