//! Compares what another program says with the flows of the same capture.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use weir_meter::KeyHeaders;

use crate::conversation::{Conversation, Sides};
use crate::expected::{Answer, Expected, Octets};
use crate::explanation::{explain, explain_untold, explain_value};
use crate::flows::{Flow, Flows, flows};
use crate::reason::Reason;
use crate::seen::{Capture, Seen, sides};

/// What came of comparing a program.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) captures: BTreeSet<PathBuf>,
    pub(crate) answers: usize,
    /// Records compared.
    pub(crate) records: usize,
    /// Conversations that agree.
    pub(crate) agreeing: usize,
    /// Packets of these.
    pub(crate) packets: u64,
    /// Values compared, by what they are, and how many of these differ for a reason.
    pub(crate) values: BTreeMap<&'static str, (usize, usize)>,
    /// How many conversations differ.
    pub(crate) differing: usize,
    /// How many conversations have no record, for a reason.
    pub(crate) untold: usize,
    /// How many conversations or values differ for these reasons.
    pub(crate) reasons: BTreeMap<Reason, usize>,
    /// Differences without a reason.
    pub(crate) unexplained: Vec<String>,
}

/// Flows, and the packets that they are of, as they may be compared with records.
pub(crate) struct Candidate {
    pub(crate) flows: Vec<Flow>,
    pub(crate) packets: Vec<Seen>,
}

impl Candidate {
    /// Octets and packets as the program counts them.
    pub(crate) fn total(&self, octets: Octets) -> Sides {
        sides(&self.packets, |seen| octets.of(seen))
    }
}

/// A capture as weir meters it and as its packets are, by the outermost and the innermost headers.
pub(crate) struct Metered {
    pub(crate) seen: Capture,
    pub(crate) inner: Flows,
    pub(crate) outer: Flows,
}

impl Metered {
    pub(crate) fn of(answer: &Answer) -> Self {
        Self {
            seen: Capture::read(answer),
            inner: flows(answer, KeyHeaders::Inner),
            outer: flows(answer, KeyHeaders::Outer),
        }
    }

    /// What may be compared with the records of a conversation: what the innermost headers say, then the outermost.
    fn candidates(&self, conversation: &Conversation) -> Vec<Candidate> {
        self.candidates_of(&|other| other == conversation)
    }

    /// The same of several conversations.
    pub(crate) fn candidates_of(&self, of: &dyn Fn(&Conversation) -> bool) -> Vec<Candidate> {
        let candidate = |(flows, packets): (&Flows, &BTreeMap<Conversation, Vec<Seen>>)| {
            let flows: Vec<_> = flows.iter().filter(|(key, _)| of(key)).flat_map(|(_, flows)| flows).copied().collect();
            let mut packets: Vec<_> =
                packets.iter().filter(|(key, _)| of(key)).flat_map(|(_, packets)| packets).copied().collect();
            packets.sort_by_key(|seen| seen.number);
            (!flows.is_empty()).then_some(Candidate { flows, packets })
        };
        [(&self.inner, &self.seen.inner), (&self.outer, &self.seen.outer)].into_iter().filter_map(candidate).collect()
    }
}

impl Verdict {
    /// Compares an answer.
    pub(crate) fn compare(&mut self, answer: &Answer) {
        self.captures.insert(answer.capture.clone());
        self.answers += 1;
        let metered = Metered::of(answer);
        self.recount(answer, &metered.inner, &metered.seen.inner);
        self.recount(answer, &metered.outer, &metered.seen.outer);
        let mut conversations = BTreeMap::<Conversation, Vec<&Expected>>::new();
        for record in &answer.records {
            conversations.entry(record.conversation).or_default().push(record);
        }
        let mut told = BTreeSet::new();
        for (conversation, records) in &conversations {
            let merged = self.conversation(answer, records, &metered);
            told.insert(*conversation);
            told.extend(
                metered.inner.keys().filter(|key| merged.is_some_and(|reason| reason.merges(key, conversation))),
            );
        }
        if !answer.is_partial {
            self.untold(answer, &metered, &told);
        }
    }

    /// The flows of a capture must add up to its packets, counted one by one, and begin and end with them.
    fn recount(&mut self, answer: &Answer, flows: &Flows, packets: &BTreeMap<Conversation, Vec<Seen>>) {
        let of_flows = |flows: &Vec<Flow>| {
            let (first, last) =
                (flows.iter().map(|flow| flow.first_ms).min(), flows.iter().map(|flow| flow.last_ms).max());
            (sum(flows), first, last)
        };
        let of_packets = |packets: &Vec<Seen>| {
            let times_ms = || packets.iter().map(|seen| seen.time_us.div_euclid(1_000));
            (sides(packets, |seen| seen.ip_octets), times_ms().min(), times_ms().max())
        };
        let ours: BTreeMap<_, _> = flows.iter().map(|(key, flows)| (key, of_flows(flows))).collect();
        let counted: BTreeMap<_, _> = packets.iter().map(|(key, packets)| (key, of_packets(packets))).collect();
        if ours != counted {
            let differing = ours.iter().find(|(key, flows)| counted.get(*key) != Some(*flows));
            let missing = counted.iter().find(|(key, _)| !ours.contains_key(*key));
            self.unexplained.push(format!("{}: flows and packets: {differing:?} {missing:?}", answer.name));
        }
    }

    /// Compares the records of a conversation; returns the reason for which it stands for others too.
    fn conversation(&mut self, answer: &Answer, records: &[&Expected], metered: &Metered) -> Option<Reason> {
        self.records += records.len();
        let candidates = metered.candidates(&records[0].conversation);
        if let Some(agreeing) = candidates.iter().find(|candidate| agrees(answer, records, candidate)) {
            self.agreeing += 1;
            self.packets += total(records).packets();
            self.values(answer, records, agreeing);
            return None;
        }
        let Some(reasons) = explain(answer, records, &candidates, metered) else {
            self.unexplained.push(describe(answer, records, &candidates));
            return None;
        };
        self.differing += 1;
        for reason in &reasons {
            *self.reasons.entry(*reason).or_default() += 1;
        }
        reasons.into_iter().find(|reason| matches!(reason, Reason::NoPorts | Reason::OfProtocol))
    }

    /// Compares what records tell beside packets and octets; both are put in the same order.
    fn values(&mut self, answer: &Answer, records: &[&Expected], candidate: &Candidate) {
        self.values.entry("packets and octets").or_default().0 += 4 * records.len();
        let (mut records, mut flows) = (records.to_vec(), candidate.flows.clone());
        let tells_times = records[0].first_us.is_some();
        records.sort_by_key(|record| (answer.count(record.sides), record.first_us, record.duration_us));
        flows.sort_by_key(|flow| {
            (answer.count(flow.sides), if tells_times { flow.first_ms } else { 0 }, flow.last_ms - flow.first_ms)
        });
        for (record, flow) in records.iter().zip(&flows) {
            for (what, same) in compare_values(answer, record, flow) {
                let counts = self.values.entry(what).or_default();
                counts.0 += 1;
                if same {
                    continue;
                }
                counts.1 += 1;
                match explain_value(what, answer, record, candidate).filter(|_| records.len() == 1) {
                    Some(reason) => *self.reasons.entry(reason).or_default() += 1,
                    None => self.unexplained.push(format!("{}: {what}: {record:?}, ours {flow:?}", answer.name)),
                }
            }
        }
    }

    /// Looks at the conversations that have no record: the other program must have reasons to count none of their packets.
    fn untold(&mut self, answer: &Answer, metered: &Metered, told: &BTreeSet<Conversation>) {
        for (conversation, packets) in &metered.seen.inner {
            let of_outer = packets.iter().all(|seen| seen.tunnels > 0) && !answer.looks_into_tunnels;
            if told.contains(conversation) || of_outer {
                continue;
            }
            let candidate = Candidate { flows: Vec::new(), packets: packets.clone() };
            match explain_untold(answer, conversation, &candidate) {
                Some(reasons) => {
                    self.untold += 1;
                    for reason in reasons {
                        *self.reasons.entry(reason).or_default() += 1;
                    }
                }
                None => self.unexplained.push(format!(
                    "{}: no record: {conversation:?}: {}",
                    answer.name,
                    short(candidate.total(answer.octets))
                )),
            }
        }
    }
}

/// What a record tells beside packets and octets, and whether the flow has the same.
fn compare_values(answer: &Answer, record: &Expected, flow: &Flow) -> Vec<(&'static str, bool)> {
    let ours_ms = flow.last_ms - flow.first_ms;
    let (forward, backward) = flow.tcp_flags;
    let (low, high) = if flow.by_low { (forward, backward) } else { (backward, forward) };
    let same = |what, same: Option<bool>| same.map(|same| (what, same));
    let values = [
        same("who began", record.by_low.map(|by_low| by_low == flow.by_low)),
        same("first packet", record.first_us.map(|first| first.div_euclid(1_000) == flow.first_ms)),
        same("last packet", record.last_us.map(|last| last.div_euclid(1_000) == flow.last_ms)),
        same("duration", record.duration_us.map(|us| answer.is_same_duration(us, ours_ms * 1_000))),
        same("TCP flags", record.tcp_flags.map(|flags| (low & 0xff, high & 0xff) == flags)),
        same("SYN, FIN and RST", record.ends_of_tcp.map(|ends| (low & 7, high & 7) == ends)),
        same("TCP flags", record.tcp_flags_of_both.map(|flags| (low | high) & 0x2f == flags)),
    ];
    values.into_iter().flatten().collect()
}

fn sum(flows: &[Flow]) -> Sides {
    flows.iter().fold(Sides::default(), |sum, flow| sum.and(flow.sides))
}

pub(crate) fn total(records: &[&Expected]) -> Sides {
    records.iter().fold(Sides::default(), |sum, record| sum.and(record.sides))
}

/// Whether there are as many flows as records, with the same packets and octets. Octets of frames are compared over all
/// records, with those of the packets.
fn agrees(answer: &Answer, records: &[&Expected], candidate: &Candidate) -> bool {
    let mut theirs: Vec<_> = records.iter().map(|record| answer.count(record.sides)).collect();
    let mut ours: Vec<_> = candidate.flows.iter().map(|flow| answer.count(flow.sides)).collect();
    theirs.sort();
    ours.sort();
    theirs == ours && total(records) == candidate.total(answer.octets)
}

fn describe(answer: &Answer, records: &[&Expected], candidates: &[Candidate]) -> String {
    let mut lines = vec![
        format!("{} {:?}", answer.name, records[0].conversation),
        format!("   theirs {} records {}", records.len(), short(total(records))),
    ];
    let ours = |candidate: &Candidate| {
        format!("   ours   {} flows   {}", candidate.flows.len(), short(candidate.total(answer.octets)))
    };
    lines.extend(candidates.iter().map(ours));
    lines.join("\n")
}

fn short(sides: Sides) -> String {
    format!("{}/{} and {}/{}", sides.low.packets, sides.low.octets, sides.high.packets, sides.high.octets)
}
