//! One bidirectional flow of two unidirectional ones.
//!
//! Both directions of a conversation get the same key: its two ends in an order that does not depend on who sends, and
//! a mark that says which way the row goes. A row looks under its key for what goes the other way. Of a pair only the
//! initiator's row is held as columns; of the other there are the few numbers that are added to it.

mod flows;
mod handed_on;
mod sides;
#[cfg(test)]
mod tests;

use arrow::array::RecordBatch;
use weir_chain::{
    Built, ComponentContext, ComponentError, ComponentKind, Counter, ONE_INPUT, Opener, OptionError, Outlet, Role,
    State, Transform,
};

use self::flows::{Flow, Flows, Record};
use self::handed_on::HandedOn;
use self::sides::{Columns, FlowSide, Sides};
use weir_rows::by_start::{Admission, Gate, GateOptions, Nearest, Place, RowStore, StartOrder, Times};
use weir_rows::gather::Pick;
use weir_rows::keys::{KeyColumns, NO_KEY};

/// Makes bidirectional flows of unidirectional ones.
pub const KIND: ComponentKind<GateOptions> = ComponentKind {
    name: "stitch",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Makes one bidirectional flow (RFC 5103) of two flows that go opposite ways between the same addresses and \
          ports, with the same `protocol`, `exporter` and `observation_domain`, and whose starts are no farther apart \
          than `window`. A row finds the unmatched row of the other way that starts nearest to it; of two that are \
          equally near, the earlier one. A null port counts as 0. Flows of ICMP and ICMPv6 match when one is an echo, \
          timestamp, information or address mask request and the other the reply to it; the type is taken from \
          `icmp_type`, else `icmp_type_code`, else from `dst_port` as type * 256 + code. The initiator is who sent the \
          flow that started first; with equal starts, who sent to the lower port; with equal ports, whose row came \
          first; with ICMP always who sent the request. The row of the initiator is handed on with its columns as they \
          came, except for these: `bytes_reverse` and `packets_reverse` are the bytes and packets of the other row, \
          `start` is the earlier start, `end` the later end, and `tcp_flags` has the flags of both ways together, \
          because there is no column for those of one. `flows_stitched` counts such rows. Rows that find no partner are \
          handed on as they are when the window has passed (`rows_unmatched`). Some rows get no partner, but are held \
          and handed on too: those that are bidirectional already (`rows_bidirectional`), and those without addresses, \
          from an address and port to itself, or of other types of ICMP (`rows_without_opposite`). Where an exporter \
          cuts long flows, pieces are matched with pieces. Translated addresses are not the same addresses, so the two \
          sides of a translation do not match. Rows are handed on in the order of their start, then of arrival. A row \
          without a `start`, or with one in the future, goes on at once (`rows_without_start`), and so does a late one.",
    configure,
};

/// Keys without unmatched rows are forgotten when there are so many more keys than three times what is held.
const KEYS_IDLE_MIN: usize = 4096;

#[expect(clippy::unnecessary_wraps, reason = "every kind is configured by a function of this type")]
fn configure(options: GateOptions) -> Result<Opener, OptionError> {
    Ok(Box::new(move |context: &ComponentContext| {
        let counters = &context.counters;
        Ok(Built::Transform(Box::new(Stitch {
            gate: Gate::new(&options, counters),
            keys: KeyColumns::new(sides::KEYS),
            sides: Sides::default(),
            key_ids: Vec::new(),
            store: RowStore::default(),
            order: StartOrder::default(),
            nearest: Nearest::default(),
            flows: Flows::default(),
            handed_on: HandedOn::default(),
            arrivals: 0,
            counters: Counters {
                stitched: counters.counter("flows_stitched"),
                unmatched: counters.counter("rows_unmatched"),
                bidirectional: counters.counter("rows_bidirectional"),
                without_opposite: counters.counter("rows_without_opposite"),
            },
        })))
    }))
}

struct Stitch {
    gate: Gate,
    keys: KeyColumns,
    sides: Sides,
    key_ids: Vec<u32>,
    store: RowStore,
    order: StartOrder,
    /// Unmatched rows by key. Those of one key go all the same way: one that went the other way would have found one of
    /// them, because whatever is held at the same time starts within the window.
    nearest: Nearest,
    flows: Flows,
    handed_on: HandedOn,
    arrivals: u64,
    counters: Counters,
}

struct Counters {
    stitched: Counter,
    unmatched: Counter,
    bidirectional: Counter,
    without_opposite: Counter,
}

impl Transform for Stitch {
    fn take(&mut self, _input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError> {
        let columns = Columns::new(&rows)?;
        let keyed = self.sides.of(&rows, &columns)?;
        self.keys.ids(&keyed, usize::MAX, &mut self.key_ids)?;
        let batch = self.store.put(rows.clone());
        let times = Times::new(&rows)?;
        for row in 0..rows.num_rows() {
            self.arrivals += 1;
            let pick = Pick { batch, row: row as u32 };
            match self.gate.admit(&times, row) {
                Admission::Drop => {}
                Admission::Pass => self.handed_on.as_it_is(pick),
                Admission::Hold(start) => {
                    self.hand_on_before(self.gate.edge());
                    if !self.gate.sheds(self.flows.len()) {
                        let record = columns.record(row, start, self.arrivals, pick);
                        self.hold(record, self.sides.side(row), self.key_ids[row]);
                        self.make_room();
                    }
                }
            }
        }
        self.handed_on.put_out(&mut self.store, out)?;
        self.forget_keys();
        self.store.settle(|| self.flows.picks())
    }

    fn finish(&mut self, out: &mut Outlet) -> Result<(), ComponentError> {
        self.hand_on_before(None);
        self.handed_on.put_out(&mut self.store, out)?;
        self.store.settle(Vec::new)
    }

    fn state(&self) -> State {
        let octets = self.store.octets() + self.order.octets() + self.nearest.octets() + self.flows.octets();
        State { rows: self.flows.len() as u64, octets: (octets + self.keys.octets()) as u64, edge_ms: self.gate.edge() }
    }
}

impl Stitch {
    fn hold(&mut self, record: Record, side: FlowSide, key: u32) {
        let key = match side {
            FlowSide::There | FlowSide::Back { .. } => key,
            FlowSide::Bidirectional => {
                self.counters.bidirectional.add(1);
                NO_KEY
            }
            FlowSide::None => {
                self.counters.without_opposite.add(1);
                NO_KEY
            }
        };
        if key != NO_KEY {
            let goes_other_way = |place: Place| self.flows.side(place.slot).is_opposite(side);
            if let Some(place) = self.nearest.find(key, record.start, u64::MAX, 1, goes_other_way) {
                self.nearest.remove(key, place);
                self.join(place.slot, &record, side);
                return;
            }
        }
        self.store.hold(record.pick);
        let place = self.flows.begin(Flow::new(key, side, record));
        self.order.add(place);
        if key != NO_KEY {
            self.nearest.add(key, place);
        }
    }

    fn join(&mut self, slot: u32, record: &Record, side: FlowSide) {
        self.counters.stitched.add(1);
        let before = self.flows.pick(slot);
        let moved = self.flows.join(slot, record, side);
        let after = self.flows.pick(slot);
        if after != before {
            self.store.hold(after);
            self.store.release(before);
        }
        if let Some(moved) = moved {
            self.order.add(moved);
        }
    }

    /// Hands on what starts before `edge`, or all.
    fn hand_on_before(&mut self, edge: Option<i64>) {
        while let Some(place) = self.order.take_first(edge, |place| self.flows.is_at(place)) {
            self.hand_on(place);
        }
    }

    fn make_room(&mut self) {
        while self.gate.is_over(self.flows.len()) {
            let Some(place) = self.order.take_first(None, |place| self.flows.is_at(place)) else { return };
            self.gate.handed_on_early(place.start);
            self.hand_on(place);
        }
    }

    fn hand_on(&mut self, place: Place) {
        let flow = self.flows.end(place.slot);
        if flow.key != NO_KEY && flow.stitched.is_none() {
            self.nearest.remove(flow.key, place);
            self.counters.unmatched.add(1);
        }
        self.handed_on.flow(&flow);
        self.store.release(flow.record.pick);
    }

    /// Forgets keys that no unmatched row has, when there are many of them.
    fn forget_keys(&mut self) {
        if self.keys.len() > 3 * self.flows.len() + KEYS_IDLE_MIN {
            let renumbered = self.keys.retain(|key| !self.nearest.has_none(key));
            self.nearest.renumber(&renumbered);
            self.flows.renumber_keys(&renumbered);
        }
    }
}
