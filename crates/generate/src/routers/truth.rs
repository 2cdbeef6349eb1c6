//! What was planted, so that whoever measures can be measured.

use std::collections::BTreeMap;
use std::fmt;

use crate::routers::plan::{Plan, Planner};
use crate::routers::{Router, RouterPair, RouterRecords};

/// Sums over the conversations of a [`RouterPair`]. Arrays have the first router first.
///
/// All of it but `records` follows from the conversations alone, one by one, with no regard to the records that they
/// are told in. As text it is JSON, one field to a line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Truth {
    /// Conversations, all of which the first router sees.
    pub conversations: u64,
    /// Conversations that the second router sees at least one packet of.
    pub seen_by_both: u64,
    /// Conversations that lose all packets.
    pub only_first: u64,
    /// Records that each router exports.
    pub records: [u64; 2],
    /// Packets that pass each router.
    pub packets: [u64; 2],
    /// Octets that each router counts.
    pub bytes: [u64; 2],
    /// Packets lost between the routers.
    pub packets_lost: u64,
    /// Packets lost of conversations seen by both, which is the sum of their differences in packets.
    pub packets_lost_seen_by_both: u64,
    /// Of the conversations seen by both, those that lose packets.
    pub conversations_with_loss: u64,
    /// Octets that the first router counts less those that the second one does, over conversations seen by both.
    pub byte_difference: i64,
    /// The part of `byte_difference` that is lost packets; the rest is miscounted.
    pub bytes_lost_seen_by_both: u64,
    /// Of the conversations seen by both, those that the second router counts the octets of wrongly.
    pub conversations_miscounted: u64,
    /// Conversations seen by both, by their delay in ms.
    pub delays: Histogram,
    /// The same by how much later the second router sees its first packet of a conversation than the first router sees
    /// its own, which is the difference in start that records tell.
    pub start_differences: Histogram,
    /// Of the conversations seen by both, those whose first packet is lost; their difference in start is the delay and
    /// the time until the first packet that is not lost.
    pub first_packets_lost: u64,
}

/// Conversations by a time in ms.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Histogram {
    /// How many conversations have each time.
    pub counts: BTreeMap<u64, u64>,
}

impl Histogram {
    fn add(&mut self, time_ms: u64) {
        *self.counts.entry(time_ms).or_default() += 1;
    }

    /// Sum of the times.
    pub fn sum_ms(&self) -> u64 {
        self.counts.iter().map(|(time_ms, count)| time_ms * count).sum()
    }

    /// The shortest time, `None` when there is none.
    pub fn min_ms(&self) -> Option<u64> {
        self.counts.first_key_value().map(|(&time_ms, _)| time_ms)
    }

    /// The longest time, `None` when there is none.
    pub fn max_ms(&self) -> Option<u64> {
        self.counts.last_key_value().map(|(&time_ms, _)| time_ms)
    }
}

impl Truth {
    /// Walks the conversations once for the sums and once with each router for the number of its records.
    pub(crate) fn new(pair: &RouterPair, conversations: u64) -> Self {
        let mut truth = Self::default();
        let mut planner = Planner::new(pair);
        (0..conversations).for_each(|_| truth.add(&planner.next()));
        truth.records = [Router::First, Router::Second].map(|router| {
            let mut records = RouterRecords::new(pair, router, conversations);
            while !records.next_records(RouterRecords::BATCH_ROWS).is_empty() {}
            records.totals().flows
        });
        truth
    }

    fn add(&mut self, plan: &Plan) {
        let packets = u64::from(plan.schedule.packets);
        let lost = u64::from(plan.loss.lost_of(plan.schedule.packets));
        let passed = packets - lost;
        let [octets, counted] = [Router::First, Router::Second].map(|router| u64::from(plan.octets_at(router)));
        self.conversations += 1;
        self.packets[0] += packets;
        self.packets[1] += passed;
        self.bytes[0] += packets * octets;
        self.bytes[1] += passed * counted;
        self.packets_lost += lost;
        let Some(first) = plan.passage(Router::Second).first_from(0) else {
            self.only_first += 1;
            return;
        };
        self.seen_by_both += 1;
        self.packets_lost_seen_by_both += lost;
        self.conversations_with_loss += u64::from(lost > 0);
        self.bytes_lost_seen_by_both += lost * octets;
        self.byte_difference += (packets * octets) as i64 - (passed * counted) as i64;
        self.conversations_miscounted += u64::from(counted != octets);
        self.delays.add(plan.delay_ms.into());
        self.start_differences.add(u64::from(plan.delay_ms) + plan.schedule.offset_ms(first));
        self.first_packets_lost += u64::from(first > 0);
    }
}

impl fmt::Display for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { records, packets, bytes, .. } = self;
        writeln!(f, "{{")?;
        writeln!(f, "  \"conversations\": {},", self.conversations)?;
        writeln!(f, "  \"seen_by_both\": {},", self.seen_by_both)?;
        writeln!(f, "  \"only_first\": {},", self.only_first)?;
        writeln!(f, "  \"records\": {records:?},")?;
        writeln!(f, "  \"packets\": {packets:?},")?;
        writeln!(f, "  \"bytes\": {bytes:?},")?;
        writeln!(f, "  \"packets_lost\": {},", self.packets_lost)?;
        writeln!(f, "  \"packets_lost_seen_by_both\": {},", self.packets_lost_seen_by_both)?;
        writeln!(f, "  \"conversations_with_loss\": {},", self.conversations_with_loss)?;
        writeln!(f, "  \"byte_difference\": {},", self.byte_difference)?;
        writeln!(f, "  \"bytes_lost_seen_by_both\": {},", self.bytes_lost_seen_by_both)?;
        writeln!(f, "  \"conversations_miscounted\": {},", self.conversations_miscounted)?;
        writeln!(f, "  \"delays\": {},", self.delays)?;
        writeln!(f, "  \"start_differences\": {},", self.start_differences)?;
        writeln!(f, "  \"first_packets_lost\": {}", self.first_packets_lost)?;
        writeln!(f, "}}")
    }
}

impl fmt::Display for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |value: Option<u64>| value.map_or_else(|| "null".to_owned(), |value| value.to_string());
        let (min, max) = (number(self.min_ms()), number(self.max_ms()));
        write!(f, "{{\"sum_ms\": {}, \"min_ms\": {min}, \"max_ms\": {max}, \"counts\": {{", self.sum_ms())?;
        for (number, (time_ms, count)) in self.counts.iter().enumerate() {
            write!(f, "{}\"{time_ms}\": {count}", if number == 0 { "" } else { ", " })?;
        }
        f.write_str("}}")
    }
}
