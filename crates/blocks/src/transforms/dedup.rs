//! One row for a flow that several exporters have seen.
//!
//! Observations of one flow are found by key and start, held until the window has passed, and handed on as one row with
//! the way that the flow took. Only the row that is to be kept is held as columns; of the others there is an exporter
//! and a start. What speaks against deciding so late is that nothing comes out before the window has passed, and a row
//! that is handed on at once could not say who else saw the flow.

mod flows;
mod handed_on;
#[cfg(test)]
mod tests;

use arrow::array::{BinaryArray, RecordBatch, UInt64Array};
use weir_chain::{
    Built, ColumnRule, ComponentContext, ComponentError, ComponentKind, Counter, FlowColumnRule, KindWithColumns,
    ONE_INPUT, Opener, OptionError, Outlet, Role, State, TimeSpan, Transform, choices, options,
};
use weir_flow::Column;

use self::flows::{Flows, Observer, Seen};
use self::handed_on::HandedOn;
use weir_rows::by_start::{Admission, Gate, GateOptions, Nearest, Place, RowStore, StartOrder, Times};
use weir_rows::flow_columns::{number, numbers, octets, value};
use weir_rows::gather::Pick;
use weir_rows::keys::{FIVE_TUPLE, KeyColumns};

/// Hands on once what several exporters saw.
pub const KIND: ComponentKind<DedupOptions> = ComponentKind {
    name: "dedup",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Hands on a flow once that several exporters have seen, and adds which exporters these were. Rows are \
          observations of one flow when their `keys` are equal (null is equal to null only), when all of them start \
          within `tolerance` of each other, and when each is of another `exporter`; rows of the same exporter are never \
          put together, and rows without an exporter count as one exporter. A row joins the flow that it starts nearest \
          to; of two that are equally near, the earlier one. Where the clocks of exporters differ by more than the \
          tolerance, or where they cut a long flow at different times, each keeps its own rows. Of the observations one \
          row is handed on with all its columns as they came, see `keep`, and two new columns behind them: `path` \
          (text, the addresses of the exporters in the order of the start that each has seen, with spaces between, \
          \"-\" for a null) and `observations` (unsigned 32-bit, how many there were). `rows_duplicate` counts the rows \
          that were not handed on because of that. Rows are handed on in the order of the earliest start of their \
          observations, then of arrival, when no further observation is waited for. A row without a `start`, or with \
          one in the future, goes on at once with itself as its only observation (`rows_without_start`), and so does a \
          late one. Of flows with equal keys within the tolerance 64 are looked at for each row; `searches_cut` counts \
          rows that found none among those and began a flow of their own.",
    configure,
};

/// The same, with what it does to columns.
pub const KIND_WITH_COLUMNS: KindWithColumns<DedupOptions> = KindWithColumns {
    kind: KIND,
    columns: |_| ColumnRule::Adds(vec!["path", "observations"]),
    flow_columns: |_| FlowColumnRule::Unknown,
};

options! {
    /// Options of `dedup`.
    pub struct DedupOptions {
        /// Take rows that are equal in these columns for observations of one flow; add tos where routers do not change
        /// it.
        keys: Vec<String> = FIVE_TUPLE.map(|column| column.name().to_owned()).to_vec(),
        /// Let observations of one flow start this far apart: the way of a packet and the difference of clocks, at most
        /// a day. Two flows of equal keys that follow each other faster may be taken for one.
        tolerance: TimeSpan = TimeSpan::from_secs(1),
        /// Which row is handed on. The earlier start and then the earlier arrival decides between equals.
        keep: Keep = Keep::First,
    }
    includes {
        /// How long rows are held.
        gate: GateOptions,
    }
}

choices! {
    /// Which row of several observations is handed on.
    pub enum Keep {
        /// That of the exporter which saw the flow first, by its start.
        First = "first",
        /// That with the most packets.
        Most = "most",
    }
}

/// Observations that start farther apart than this are not of one flow.
const TOLERANCE_MAX: TimeSpan = TimeSpan::from_secs(86_400);
/// How many flows of equal keys are looked at for a row.
const TRIES_MAX: usize = 64;
/// Keys without flows are forgotten when there are this many more keys than three times what is held.
const KEYS_IDLE_MIN: usize = 4096;

fn configure(options: DedupOptions) -> Result<Opener, OptionError> {
    let DedupOptions { keys, tolerance, keep, gate } = options;
    if keys.iter().any(|name| name == Column::Exporter.name()) {
        return Err(OptionError::new("keys", "'exporter' is what observations of one flow differ in"));
    }
    if tolerance > TOLERANCE_MAX {
        let message = format!("'tolerance' is {tolerance}, but at most {TOLERANCE_MAX} is possible");
        return Err(OptionError::new("tolerance", message));
    }
    if tolerance > gate.window {
        return Err(OptionError::new("tolerance", "'tolerance' is longer than 'window'"));
    }
    Ok(Box::new(move |context: &ComponentContext| {
        let counters = &context.counters;
        Ok(Built::Transform(Box::new(Dedup {
            gate: Gate::new(&gate, counters),
            tolerance_ms: tolerance.millis().cast_unsigned(),
            keeps_most: keep == Keep::Most,
            keys: KeyColumns::new(keys),
            key_ids: Vec::new(),
            store: RowStore::default(),
            order: StartOrder::default(),
            nearest: Nearest::default(),
            flows: Flows::default(),
            handed_on: HandedOn::default(),
            arrivals: 0,
            duplicates: counters.counter("rows_duplicate"),
            searches_cut: counters.counter("searches_cut"),
        })))
    }))
}

struct Dedup {
    gate: Gate,
    tolerance_ms: u64,
    keeps_most: bool,
    keys: KeyColumns,
    key_ids: Vec<u32>,
    /// The rows that would be handed on now.
    store: RowStore,
    order: StartOrder,
    /// Flows by key, at the start of the observation that came first.
    nearest: Nearest,
    flows: Flows,
    handed_on: HandedOn,
    arrivals: u64,
    duplicates: Counter,
    searches_cut: Counter,
}

impl Transform for Dedup {
    fn take(&mut self, _input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError> {
        handed_on::check(&rows)?;
        self.keys.ids(&rows, usize::MAX, &mut self.key_ids)?;
        let batch = self.store.put(rows.clone());
        let (times, columns) = (Times::new(&rows)?, Columns::new(&rows)?);
        for row in 0..rows.num_rows() {
            self.arrivals += 1;
            let pick = Pick { batch, row: row as u32 };
            match self.gate.admit(&times, row) {
                Admission::Drop => {}
                Admission::Pass => self.handed_on.alone(pick, columns.observer(row)),
                Admission::Hold(start) => {
                    self.hand_on_before(self.gate.edge());
                    if !self.gate.sheds(self.flows.observations()) {
                        let key = self.key_ids[row];
                        self.see(key, &columns.seen(row, pick, start, self.arrivals), columns.observer(row));
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
        State {
            rows: self.flows.observations() as u64,
            octets: (octets + self.keys.octets()) as u64,
            edge_ms: self.gate.edge(),
        }
    }
}

impl Dedup {
    /// Adds an observation to the flow that it belongs to, or begins one with it.
    fn see(&mut self, key: u32, seen: &Seen, observer: Observer) {
        let mut tries = 0;
        let found = self.nearest.find(key, seen.start, self.tolerance_ms, TRIES_MAX, |place| {
            tries += 1;
            self.flows.fits(place.slot, seen.start, observer, self.tolerance_ms)
        });
        let Some(found) = found else {
            self.searches_cut.add(u64::from(tries == TRIES_MAX));
            let place = self.flows.begin(key, seen, observer);
            self.store.hold(seen.pick);
            self.nearest.add(key, place);
            self.order.add(place);
            return;
        };
        let (dropped, moved) = self.flows.join(found.slot, seen, observer, self.keeps_most);
        if let Some(dropped) = dropped {
            self.store.hold(seen.pick);
            self.store.release(dropped);
        }
        if let Some(moved) = moved {
            self.order.add(moved);
        }
    }

    /// Hands on the flows that start before `edge`, or all.
    fn hand_on_before(&mut self, edge: Option<i64>) {
        while let Some(place) = self.order.take_first(edge, |place| self.flows.is_at(place)) {
            self.hand_on(place);
        }
    }

    fn make_room(&mut self) {
        while self.gate.is_over(self.flows.observations()) {
            let Some(place) = self.order.take_first(None, |place| self.flows.is_at(place)) else { return };
            self.gate.handed_on_early(place.start);
            self.hand_on(place);
        }
    }

    fn hand_on(&mut self, place: Place) {
        let (key, near) = self.flows.nearest_place(place.slot);
        self.nearest.remove(key, near);
        let pick = self.flows.end(place.slot, self.handed_on.observations());
        self.duplicates.add(self.handed_on.observations().len() as u64 - 1);
        self.handed_on.together(pick);
        self.store.release(pick);
    }

    /// Forgets keys that no flow has, when there are many of them.
    fn forget_keys(&mut self) {
        if self.keys.len() > 3 * self.flows.observations() + KEYS_IDLE_MIN {
            let renumbered = self.keys.retain(|key| !self.nearest.has_none(key));
            self.nearest.renumber(&renumbered);
            self.flows.renumber_keys(&renumbered);
        }
    }
}

/// The columns that are read.
struct Columns<'a> {
    exporters: Option<&'a BinaryArray>,
    packets: Option<&'a UInt64Array>,
}

impl<'a> Columns<'a> {
    fn new(rows: &'a RecordBatch) -> Result<Self, ComponentError> {
        Ok(Self { exporters: octets(rows, Column::Exporter)?, packets: numbers(rows, Column::Packets)? })
    }

    fn observer(&self, row: usize) -> Observer {
        Observer::new(value(self.exporters, row))
    }

    fn seen(&self, row: usize, pick: Pick, start: i64, arrival: u64) -> Seen {
        Seen { start, arrival, pick, packets: number(self.packets, row).unwrap_or(0) }
    }
}
