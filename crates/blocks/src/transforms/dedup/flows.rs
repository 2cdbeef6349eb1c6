//! Flows that further observations are waited for, in flat tables.

use std::cmp::Reverse;
use std::fmt;

use weir_flow::AddressText;

use weir_rows::by_start::Place;
use weir_rows::gather::Pick;

/// Who has seen a flow: the address of an exporter, or nobody that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Observer {
    octets: [u8; 16],
    length: u8,
}

impl Observer {
    pub(super) fn new(exporter: Option<&[u8]>) -> Self {
        let exporter = exporter.unwrap_or_default();
        let length = exporter.len().min(16);
        let mut octets = [0; 16];
        octets[..length].copy_from_slice(&exporter[..length]);
        Self { octets, length: length as u8 }
    }
}

impl fmt::Display for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.length {
            0 => f.write_str("-"),
            length => AddressText(&self.octets[..usize::from(length)]).fmt(f),
        }
    }
}

/// What is known of a row that may be handed on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) start: i64,
    pub(super) arrival: u64,
    pub(super) pick: Pick,
    pub(super) packets: u64,
}

/// One exporter's observation of a flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Observation {
    start: i64,
    arrival: u64,
    pub(super) observer: Observer,
    /// The one that came before it in the same flow.
    next: u32,
}

#[derive(Debug, Clone, Copy)]
struct Flow {
    /// At the earliest start.
    place: Place,
    /// At the start of the observation that came first.
    near: Place,
    latest_start: i64,
    key: u32,
    /// The row to be handed on.
    kept: Seen,
    /// The observation that came last; [`NONE`] when there is no flow in this slot.
    observation: u32,
}

const NONE: u32 = u32::MAX;

/// All flows, and all observations of them.
#[derive(Debug, Default)]
pub(super) struct Flows {
    flows: Vec<Flow>,
    flows_free: Vec<u32>,
    observations: Vec<Observation>,
    observations_free: Vec<u32>,
}

impl Flows {
    /// Begins a flow with its first observation.
    pub(super) fn begin(&mut self, key: u32, seen: &Seen, observer: Observer) -> Place {
        let observation = self.observe(seen, observer, NONE);
        let slot = self.flows_free.pop().unwrap_or(self.flows.len() as u32);
        let place = Place { start: seen.start, arrival: seen.arrival, slot };
        let flow = Flow { place, near: place, latest_start: seen.start, key, kept: *seen, observation };
        match self.flows.get_mut(slot as usize) {
            Some(free) => *free = flow,
            None => self.flows.push(flow),
        }
        place
    }

    fn observe(&mut self, seen: &Seen, observer: Observer, next: u32) -> u32 {
        let observation = Observation { start: seen.start, arrival: seen.arrival, observer, next };
        if let Some(place) = self.observations_free.pop() {
            self.observations[place as usize] = observation;
            return place;
        }
        self.observations.push(observation);
        self.observations.len() as u32 - 1
    }

    /// Whether an observation may be one of this flow.
    pub(super) fn fits(&self, slot: u32, start: i64, observer: Observer, tolerance_ms: u64) -> bool {
        let flow = &self.flows[slot as usize];
        let (first, last) = (flow.place.start.min(start), flow.latest_start.max(start));
        let mut next = flow.observation;
        while let Some(observation) = self.observations.get(next as usize) {
            if observation.observer == observer {
                return false;
            }
            next = observation.next;
        }
        first.abs_diff(last) <= tolerance_ms
    }

    /// Adds an observation to a flow. Returns the row that is not to be handed on any more when the new one is, and the
    /// flow's place when it has moved.
    pub(super) fn join(
        &mut self,
        slot: u32,
        seen: &Seen,
        observer: Observer,
        keeps_most: bool,
    ) -> (Option<Pick>, Option<Place>) {
        let observation = self.observe(seen, observer, self.flows[slot as usize].observation);
        let flow = &mut self.flows[slot as usize];
        flow.observation = observation;
        flow.latest_start = flow.latest_start.max(seen.start);
        let worth =
            |seen: &Seen| (if keeps_most { seen.packets } else { 0 }, Reverse(seen.start), Reverse(seen.arrival));
        let mut dropped = None;
        if worth(seen) > worth(&flow.kept) {
            dropped = Some(flow.kept.pick);
            flow.kept = *seen;
        }
        if seen.start >= flow.place.start {
            return (dropped, None);
        }
        flow.place.start = seen.start;
        (dropped, Some(flow.place))
    }

    /// Whether a flow stands at this place now.
    pub(super) fn is_at(&self, place: Place) -> bool {
        self.flows.get(place.slot as usize).is_some_and(|flow| flow.place == place && flow.observation != NONE)
    }

    /// The key of a flow, and the place at which it is found by it.
    pub(super) fn nearest_place(&self, slot: u32) -> (u32, Place) {
        let flow = &self.flows[slot as usize];
        (flow.key, flow.near)
    }

    /// Ends a flow: puts its observations in the order of their starts into `observations`, and returns its row.
    pub(super) fn end(&mut self, slot: u32, observations: &mut Vec<Observation>) -> Pick {
        let flow = &mut self.flows[slot as usize];
        let mut next = std::mem::replace(&mut flow.observation, NONE);
        observations.clear();
        while let Some(observation) = self.observations.get(next as usize) {
            self.observations_free.push(next);
            next = observation.next;
            observations.push(*observation);
        }
        observations.sort_unstable_by_key(|observation| (observation.start, observation.arrival));
        self.flows_free.push(slot);
        self.flows[slot as usize].kept.pick
    }

    /// How many observations there are.
    pub(super) fn observations(&self) -> usize {
        self.observations.len() - self.observations_free.len()
    }

    /// Where the rows to be handed on are.
    pub(super) fn picks(&mut self) -> Vec<&mut Pick> {
        let live = self.flows.iter_mut().filter(|flow| flow.observation != NONE);
        live.map(|flow| &mut flow.kept.pick).collect()
    }

    pub(super) fn renumber_keys(&mut self, renumbered: &[u32]) {
        for flow in self.flows.iter_mut().filter(|flow| flow.observation != NONE) {
            flow.key = renumbered[flow.key as usize];
        }
    }

    /// Octets of memory.
    pub(super) fn octets(&self) -> usize {
        self.flows.capacity() * size_of::<Flow>() + self.observations.capacity() * size_of::<Observation>()
    }
}
