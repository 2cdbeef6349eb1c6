//! What an exporter's sequence numbers count, found out by looking.
//!
//! The standards say what is to be counted, and exporters are known that count something else: datagrams where it
//! should be records, records where it should be datagrams, Template Records as well, or nothing at all. Taken at
//! their word they would seem to lose most of what they send. Each datagram that follows another says how far the
//! number moved, and that is compared with what each rule would have it move. A rule replaces the standard's only when
//! nearly all steps follow it and hardly any follow the standard's, so that no pattern of loss can look like a fault. Messages
//! with as many records as the one before say nothing of whether those of the message itself are counted, and of softflowd
//! most are such: there the steps decide that distinguish the two.
//!
//! What was counted as lost while the latest steps followed the rule in force, and not the one that replaces it, was lost:
//! exporters are upgraded, and numbers are forged.

use super::Arrival;

/// What a sequence number counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SequenceUnit {
    /// Data Records, those of options included: NetFlow v5 (flows), IPFIX.
    Records,
    /// Datagrams: NetFlow v9, sFlow.
    Datagrams,
    /// Data Records and Template Records.
    AllRecords,
    /// Data Records up to and including those of the message itself, as softflowd counts in IPFIX; RFC 7011 section 3.1 has
    /// those before it.
    RecordsThrough,
    /// Nothing: the number stays as it is.
    Nothing,
    /// Nothing that could be found out: the numbers follow no rule.
    Unknown,
}

impl SequenceUnit {
    const RULES: [Self; RULE_COUNT] =
        [Self::Records, Self::Datagrams, Self::AllRecords, Self::RecordsThrough, Self::Nothing];

    /// What the standard of a protocol has its sequence numbers count.
    pub(crate) fn of_protocol(version: u8) -> Self {
        match version {
            // NetFlow v1 has no sequence numbers
            1 => Self::Nothing,
            5 | 7 | 10 => Self::Records,
            _ => Self::Datagrams,
        }
    }

    /// Name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Records => "data records",
            Self::Datagrams => "datagrams",
            Self::AllRecords => "data records and template records",
            Self::RecordsThrough => "data records, those of the message included",
            Self::Nothing => "nothing",
            Self::Unknown => "nothing recognizable",
        }
    }

    /// The unit of this name.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        [Self::Records, Self::Datagrams, Self::AllRecords, Self::RecordsThrough]
            .into_iter()
            .find(|unit| unit.name() == name)
    }

    /// Where arrays have what is known of this rule; `None` when it is none.
    pub(super) fn index(self) -> Option<usize> {
        Self::RULES.iter().position(|rule| *rule == self)
    }

    /// Whether gaps in such numbers show loss.
    pub fn shows_loss(self) -> bool {
        !matches!(self, Self::Nothing | Self::Unknown)
    }

    /// Units of a datagram.
    pub(crate) fn of(self, arrival: &Arrival) -> u32 {
        match self {
            Self::Records | Self::RecordsThrough => arrival.records,
            Self::Datagrams => 1,
            Self::AllRecords => arrival.all_records,
            Self::Nothing | Self::Unknown => 0,
        }
    }
}

/// How many rules there are, and which of them looks at the message itself rather than at the one before.
pub(super) const RULE_COUNT: usize = 5;
const THROUGH: usize = 3;
/// A message that cannot be counted follows no rule that looks at the message itself.
const NOT_KNOWN: u32 = u32::MAX;
/// Steps that must have been seen before a rule is replaced.
const STEPS_MIN: u32 = 16;
/// Steps that must have been seen, and those that must have distinguished, before records are taken to be counted up to and
/// including those of the message.
const THROUGH_MIN: (u32, u32) = (8, 2);
/// Steps after which older ones begin to be forgotten: exporters are upgraded.
const STEPS_MAX: u32 = 1_024;

/// How many steps followed each rule.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Steps {
    before: Option<(u32, [u32; RULE_COUNT])>,
    /// Steps that distinguish rules.
    seen: u32,
    follow: [u32; RULE_COUNT],
    /// Steps of which only one can be true, that numbers include their message or that they do not, and those where they do.
    apart: (u32, u32),
    /// Steps that no rule explains and that led to no place of a line.
    astray: u32,
    /// The number of records was not always the same.
    varied: bool,
    /// Whether the last datagram's number is the one that the rule in force expects.
    is_followed: bool,
    /// For each other rule the latest steps that distinguish the rule in force from it: a bit each, set where the step followed
    /// the rule in force, the last one lowest. At the place of the rule in force itself the latest steps of all.
    latest: [u16; RULE_COUNT],
}

impl Steps {
    /// Looks at the next datagram in the order of arrival, while this rule is in force.
    pub(super) fn look(&mut self, arrival: &Arrival, now: SequenceUnit) {
        self.is_followed = false;
        let units = SequenceUnit::RULES.map(|rule| rule.of(arrival));
        let after = arrival.complete.then_some((arrival.sequence, units));
        let Some((sequence, mut expected)) = std::mem::replace(&mut self.before, after) else { return };
        // the number moves by what this message has
        expected[THROUGH] = if arrival.complete { units[THROUGH] } else { NOT_KNOWN };
        self.varied |= expected[0] != units[0];
        let step = arrival.sequence.wrapping_sub(sequence);
        self.note_latest(step, &expected, now);
        if expected[0] == expected[1] && expected[1] == expected[2] {
            // A single record in a datagram: only a number that stays is distinguished from one that moves.
            if step != 0 {
                return;
            }
        }
        self.seen += 1;
        for (count, expected) in self.follow.iter_mut().zip(expected) {
            *count += u32::from(expected == step);
        }
        if expected[0] != expected[THROUGH] && arrival.complete {
            self.apart.0 += 1;
            self.apart.1 += u32::from(expected[THROUGH] == step);
        }
        if self.seen >= STEPS_MAX {
            self.apart = (self.apart.0 / 2, self.apart.1 / 2);
            self.seen /= 2;
            self.astray /= 2;
            self.follow.iter_mut().for_each(|count| *count /= 2);
        }
    }

    /// Notes whether a step followed the rule in force.
    fn note_latest(&mut self, step: u32, expected: &[u32; RULE_COUNT], now: SequenceUnit) {
        let Some(at) = now.index() else { return };
        let by_rule = expected[at];
        if by_rule == NOT_KNOWN {
            return;
        }
        self.is_followed = step == by_rule;
        for (other, (latest, by_other)) in self.latest.iter_mut().zip(expected).enumerate() {
            let is_distinguished = *by_other != by_rule && *by_other != NOT_KNOWN;
            if other == at || is_distinguished {
                *latest = (*latest << 1) | u16::from(self.is_followed);
            }
        }
    }

    /// Against which rules the one in force holds, see [`SequenceUnit::index`]; at its own place, against there being none. One
    /// step shows nothing: loss makes some that follow a wrong rule.
    pub(super) fn holds_against(&self) -> [bool; RULE_COUNT] {
        self.latest.map(|latest| self.is_followed && latest & 1 == 1 && latest.count_ones() * 2 > u16::BITS)
    }

    /// Another rule is in force now.
    pub(super) fn forget_latest(&mut self) {
        self.is_followed = false;
        self.latest = [0; RULE_COUNT];
    }

    /// Notes that the last datagram had no place in any line.
    pub(super) fn note_astray(&mut self) {
        self.astray += 1;
    }

    /// Whether numbers include the records of their message.
    fn is_through(&self) -> bool {
        let (seen_min, apart_min) = THROUGH_MIN;
        let (apart, included) = self.apart;
        let is_known = self.seen >= seen_min && apart >= apart_min;
        is_known && included * 10 >= apart * 9 && self.follow[THROUGH] * 10 >= self.seen * 9
    }

    /// Whether most steps say that numbers do not include the records of their message.
    fn is_not_through(&self) -> bool {
        let (apart, included) = self.apart;
        apart >= THROUGH_MIN.0 && included * 2 < apart
    }

    /// The rule to go by, given the one of the standard and the one in force.
    pub(super) fn rule(&self, standard: SequenceUnit, now: SequenceUnit) -> SequenceUnit {
        // loss makes steps that follow no rule, and must not change one that is known
        let stays = now == SequenceUnit::RecordsThrough && !self.is_not_through();
        if standard == SequenceUnit::Records && (stays || self.is_through()) {
            return SequenceUnit::RecordsThrough;
        }
        if self.seen < STEPS_MIN {
            // that of the standard, or of a process before this one
            return now;
        }
        let follow =
            |rule| SequenceUnit::RULES.iter().zip(self.follow).find(|(r, _)| **r == rule).map_or(0, |(_, n)| n);
        // Nothing goes astray while no line is followed: it takes numbers that follow the standard to go by it again.
        let unknown = now == SequenceUnit::Unknown;
        if follow(standard) * if unknown { 2 } else { 10 } > self.seen {
            return standard;
        }
        let nearly_all = |rule: &SequenceUnit| follow(*rule) * 10 >= self.seen * 9;
        // Loss of every second datagram looks like two records in each: counts that vary rule that out.
        let sure =
            |rule: &SequenceUnit| standard != SequenceUnit::Datagrams || *rule == SequenceUnit::Nothing || self.varied;
        match SequenceUnit::RULES.iter().find(|rule| nearly_all(rule) && sure(rule)) {
            Some(rule) => *rule,
            None if unknown || self.astray * 2 > self.seen => SequenceUnit::Unknown,
            None => standard,
        }
    }
}
