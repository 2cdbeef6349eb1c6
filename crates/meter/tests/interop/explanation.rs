//! Finds the reasons of a difference by their rules.

use crate::comparison::{Candidate, Metered, total};
use crate::conversation::{Conversation, Side, Sides, is_icmp};
use crate::expected::{Answer, Expected, Octets};
use crate::reason::Reason;
use crate::seen::{Seen, sides};

const FIN: u16 = 1;
const SYN: u16 = 2;
const RST: u16 = 4;
const ACK: u16 = 16;
const TCP: u8 = 6;
const UDP: u8 = 17;
const NO_NEXT_HEADER: u8 = 59;
/// Ports of DHCP and `DHCPv6`.
const DHCP: [u16; 4] = [67, 68, 546, 547];

impl Reason {
    /// Whether a record of this conversation stands for that one too.
    pub(crate) fn merges(self, one: &Conversation, record: &Conversation) -> bool {
        match self {
            Self::NoPorts => {
                let ips = |conversation: &Conversation| {
                    let (low, high) = (conversation.low.ip(), conversation.high.ip());
                    (conversation.protocol, low.min(high), low.max(high))
                };
                ips(one) == ips(record)
            }
            Self::OfProtocol => {
                let is_dhcp = |key: &Conversation| DHCP.contains(&key.low.port()) && DHCP.contains(&key.high.port());
                let same = one.protocol == record.protocol;
                same && (!matches!(record.protocol, TCP | UDP) || is_dhcp(one) && is_dhcp(record))
            }
            _ => false,
        }
    }
}

/// The fewest reasons for which records differ from flows.
pub(crate) fn explain(
    answer: &Answer,
    records: &[&Expected],
    candidates: &[Candidate],
    metered: &Metered,
) -> Option<Vec<Reason>> {
    let of_packets = candidates.iter().find_map(|candidate| by_packets(answer, records, candidate, &[]));
    of_packets
        .or_else(|| answer.reasons.iter().find_map(|reason| special(*reason, answer, records, candidates, metered)))
}

/// The fewest reasons for which none of the packets would be counted.
pub(crate) fn explain_untold(
    answer: &Answer,
    conversation: &Conversation,
    candidate: &Candidate,
) -> Option<Vec<Reason>> {
    if conversation.protocol == NO_NEXT_HEADER && answer.reasons.contains(&Reason::NothingCarried) {
        return Some(vec![Reason::NothingCarried]);
    }
    sets(answer.reasons).into_iter().find(|set| applied(set, candidate).is_some_and(|packets| packets.is_empty()))
}

/// All sets of the reasons that change what is counted, the smallest first.
fn sets(reasons: &[Reason]) -> Vec<Vec<Reason>> {
    let mut sets: Vec<Vec<Reason>> = vec![Vec::new()];
    for reason in reasons.iter().filter(|reason| reason.is_of_packets()) {
        let with: Vec<_> = sets.iter().map(|set| [&set[..], &[*reason]].concat()).collect();
        sets.extend(with);
    }
    sets.sort_by_key(Vec::len);
    sets
}

fn applied(set: &[Reason], candidate: &Candidate) -> Option<Vec<Seen>> {
    set.iter().try_fold(candidate.packets.clone(), |packets, reason| reason.apply(&packets))
}

/// Packets that are not counted, or otherwise, and records that end elsewhere.
fn by_packets(
    answer: &Answer,
    records: &[&Expected],
    candidate: &Candidate,
    already: &[Reason],
) -> Option<Vec<Reason>> {
    let total = total(records);
    sets(answer.reasons).into_iter().find_map(|mut set| {
        let packets = applied(&set, candidate)?;
        if sides(&packets, |seen| answer.octets.of(seen)) != total {
            return None;
        }
        let is_cut = records.len() != candidate.flows.len() || set.is_empty() && already.is_empty();
        if is_cut {
            let allowed = answer.reasons.contains(&Reason::CutElsewhere);
            if !allowed || !is_cut_by_times(answer, records, &packets) {
                return None;
            }
            let of_types = is_icmp(records[0].conversation.protocol) && !answer.by_icmp_type;
            set.push(if of_types { Reason::OfTypes } else { Reason::CutElsewhere });
        }
        set.extend(already);
        Some(set)
    })
}

/// Whether each record has the packets between its times, where it tells these. What came just then may be in the record
/// before or after.
fn is_cut_by_times(answer: &Answer, records: &[&Expected], packets: &[Seen]) -> bool {
    records.iter().all(|record| {
        let Some((first, last)) = record.first_us.zip(record.last_us) else { return true };
        // times in milliseconds are cut off
        let step = if first % 1_000 == 0 && last % 1_000 == 0 { 999 } else { 0 };
        let between = |least: i64, most: i64| {
            let packets = packets.iter().filter(|seen| (least..=most).contains(&seen.time_us));
            sides(packets, |seen| answer.octets.of(seen))
        };
        let (least, most) = (between(first + 1, last - 1), between(first, last + step));
        let fits = |least: Side, record: Side, most: Side| {
            (least.packets..=most.packets).contains(&record.packets)
                && (least.octets..=most.octets).contains(&record.octets)
        };
        fits(least.low, record.sides.low, most.low) && fits(least.high, record.sides.high, most.high)
    })
}

fn special(
    reason: Reason,
    answer: &Answer,
    records: &[&Expected],
    candidates: &[Candidate],
    metered: &Metered,
) -> Option<Vec<Reason>> {
    let record = records[0];
    let theirs = total(records);
    let any = |holds: &dyn Fn(&Candidate) -> bool| candidates.iter().any(holds);
    let holds = match reason {
        Reason::LeavesOut => {
            let are_cut = |candidate: &Candidate| {
                record.first_us.is_some() && is_cut_by_times(answer, records, &candidate.packets)
            };
            let are_fewer =
                |candidate: &Candidate| records.len() < candidate.flows.len() && are_among(answer, records, candidate);
            answer.is_partial && any(&|candidate| are_fewer(candidate) || are_cut(candidate))
        }
        Reason::SomeFragments => any(&|candidate| {
            let least = Reason::FirstFragments.apply(&candidate.packets).unwrap_or_default();
            let least = both(sides(&least, |seen| answer.octets.of(seen)));
            let (theirs, most) = (both(theirs), both(candidate.total(answer.octets)));
            (least.packets..=most.packets).contains(&theirs.packets)
                && (least.octets..=most.octets).contains(&theirs.octets)
                && candidate.packets.iter().any(|seen| seen.fragment.is_some_and(|(_, offset)| offset > 0))
        }),
        Reason::Repeated => {
            let mut different = records.to_vec();
            different.dedup_by_key(|record| (record.sides, record.first_us, record.last_us));
            different.len() < records.len() && any(&|candidate| are_among(answer, &different, candidate))
        }
        Reason::InTunnel => any(&|candidate| is_in_tunnel(theirs, candidate)),
        Reason::NoPorts if record.conversation.low.port() == 0 && record.conversation.high.port() == 0 => {
            let merged = metered.candidates_of(&|key| reason.merges(key, &record.conversation));
            let explained = merged.iter().find_map(|candidate| by_packets(answer, records, candidate, &[reason]));
            let same = |candidate: &Candidate| both(candidate.total(answer.octets)) == both(theirs);
            return explained.or_else(|| merged.iter().any(same).then(|| vec![reason]));
        }
        Reason::OfProtocol => {
            let of_all = answer.records.iter().filter(|other| reason.merges(&other.conversation, &record.conversation));
            let theirs = total(&of_all.collect::<Vec<_>>());
            let merged = metered.candidates_of(&|key| reason.merges(key, &record.conversation));
            merged.iter().any(|candidate| both(candidate.total(answer.octets)) == both(theirs))
        }
        Reason::Between => {
            let tunnelled = metered.seen.inner.values().flatten().filter(|seen| seen.tunnels > 1);
            candidates.is_empty() && tunnelled.count() as u64 >= theirs.packets()
        }
        Reason::LinkIgnored => {
            let with_ip: usize = metered.seen.inner.values().map(Vec::len).sum();
            candidates.is_empty() && (metered.seen.frames - with_ip) as u64 >= theirs.packets()
        }
        Reason::Counted => {
            let ours = candidates.iter().map(|candidate| candidate.total(answer.octets));
            let less = |one: Side, other: Side| one.packets <= other.packets && one.octets <= other.octets;
            record.stopped_to_count && ours.into_iter().any(|ours| less(both(theirs), both(ours)))
        }
        Reason::Turned => any(&|candidate| {
            let turned = Sides { low: theirs.high, high: theirs.low };
            !begins_with_syn(candidate) && candidate.total(answer.octets) == turned
        }),
        Reason::TurnedLate => {
            record.conversation.protocol == UDP
                && any(&|candidate| both(candidate.total(answer.octets)) == both(theirs))
        }
        _ => false,
    };
    holds.then(|| vec![reason])
}

fn both(sides: Sides) -> Side {
    Side { packets: sides.packets(), octets: sides.low.octets + sides.high.octets }
}

/// Whether each record is one of the flows.
fn are_among(answer: &Answer, records: &[&Expected], candidate: &Candidate) -> bool {
    let mut ours: Vec<_> = candidate.flows.iter().map(|flow| answer.count(flow.sides)).collect();
    records.iter().all(|record| {
        let found = ours.iter().position(|sides| *sides == answer.count(record.sides));
        found.map(|found| ours.swap_remove(found)).is_some()
    })
}

fn is_in_tunnel(theirs: Sides, candidate: &Candidate) -> bool {
    let (least, most) = (candidate.total(Octets::Ip), candidate.total(Octets::Frames));
    let between = |theirs: Side, least: Side, most: Side| {
        theirs.packets == least.packets && (least.octets..=most.octets).contains(&theirs.octets)
    };
    candidate.packets.iter().all(|seen| seen.tunnels > 0)
        && between(theirs.low, least.low, most.low)
        && between(theirs.high, least.high, most.high)
}

fn begins_with_syn(candidate: &Candidate) -> bool {
    candidate.packets.first().is_some_and(|seen| seen.tcp_flags & (SYN | ACK) == SYN)
}

/// Why a value differs of a conversation of one record.
pub(crate) fn explain_value(what: &str, answer: &Answer, record: &Expected, candidate: &Candidate) -> Option<Reason> {
    let may = |reason: Reason, holds: bool| (holds && answer.reasons.contains(&reason)).then_some(reason);
    let (first, last) = (candidate.packets.first()?, candidate.packets.last()?);
    match what {
        "who began" => {
            let answers = first.tcp_flags & (SYN | ACK) == SYN | ACK;
            let is_known = first.ports.0 < first.ports.1;
            may(Reason::Swapped, !begins_with_syn(candidate) && (answers || is_known))
        }
        "first packet" => may(Reason::InFileOrder, record.first_us? == first.time_us.div_euclid(1_000) * 1_000),
        "last packet" => may(Reason::InFileOrder, record.last_us? == last.time_us.div_euclid(1_000) * 1_000),
        "duration" => {
            let theirs = record.duration_us?;
            may(Reason::EndedEarlier, ended_after(theirs, first, candidate)).or_else(|| {
                let lasted = last.never_back_us - first.never_back_us;
                may(Reason::NeverBack, answer.is_same_duration(theirs, lasted))
            })
        }
        _ => None,
    }
}

/// Whether a packet comes so long after the first, and TCP had ended by then.
fn ended_after(duration_us: i64, first: &Seen, candidate: &Candidate) -> bool {
    let mut flags = 0;
    candidate.packets.iter().any(|seen| {
        flags |= seen.tcp_flags;
        seen.time_us - first.time_us == duration_us && flags & (FIN | RST) != 0
    })
}
