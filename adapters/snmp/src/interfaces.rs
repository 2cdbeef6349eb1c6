//! Walks of the IF-MIB, column by column, into interfaces.
//!
//! An agent is not trusted: an OID that is not larger than the one before it ends its column and makes it a wrong one (the client sees to
//! that), of which no row is kept; an instance that is no index of an interface is passed over, a value of another type is none, and there
//! are never more interfaces than the limit.
//!
//! Columns that belong together are kept together or not at all: a 10 Gbit/s interface without its `ifHighSpeed` has 4.3 Gbit/s. Columns of
//! texts are kept each by itself, and what depends on one that was not read is not known: a name without its `ifName` would be that of
//! `ifDescr`, which is another name.

use std::collections::BTreeMap;

use async_snmp::{Client, Oid, UdpHandle, Value, WalkMethod, WalkOptions};
use tokio::time::{Instant, timeout_at};

use crate::error::PollError;
use crate::poll_order::PollOrder;
use crate::texts::{ByText, ColumnEnd, Text, UnreadTexts};

/// `sysUpTime.0` (RFC 3418).
const UPTIME: [u32; 9] = [1, 3, 6, 1, 2, 1, 1, 3, 0];
/// `ifEntry` (RFC 2863).
const IF_ENTRY: [u32; 9] = [1, 3, 6, 1, 2, 1, 2, 2, 1];
/// `ifXEntry` (RFC 2863).
const IF_X_ENTRY: [u32; 10] = [1, 3, 6, 1, 2, 1, 31, 1, 1, 1];
/// The largest `InterfaceIndex` (RFC 2863).
const INDEX_MAX: u32 = i32::MAX as u32;
/// Rows of a column in an answer: with texts of 255 octets it still fits into what agents send.
const REPETITIONS: u32 = 20;
/// Octets of a text that are kept: as many as a `DisplayString` has (RFC 2579).
const TEXT_OCTETS_MAX: usize = 255;
/// `ifHighSpeed` is in units of 1,000,000 bits a second.
const MEGABIT: u64 = 1_000_000;
/// From this `ifHighSpeed` on it is taken: `ifSpeed` ends at 4.3 Gbit/s, and some agents let it wrap there.
const HIGH_SPEED_MIN: u64 = 20;
/// `up` of `ifAdminStatus` and `ifOperStatus`.
const UP: u32 = 1;

/// What an agent says about one of its interfaces.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Interface {
    /// `ifName`.
    name: Option<String>,
    /// `ifAlias`: what the operator wrote.
    alias: Option<String>,
    /// `ifDescr`.
    descr: Option<String>,
    /// `ifType`.
    pub(crate) kind: Option<u32>,
    /// `ifHighSpeed`.
    high_speed: Option<u64>,
    /// `ifSpeed`.
    speed: Option<u64>,
    /// `ifAdminStatus`.
    admin: Option<u32>,
    /// `ifOperStatus`.
    oper: Option<u32>,
    /// `ifHCInOctets`.
    pub(crate) in_octets: Option<u64>,
    /// `ifHCOutOctets`.
    pub(crate) out_octets: Option<u64>,
}

/// That a text depends on a column that was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unread;

impl Interface {
    /// The name: `ifName`, else `ifDescr`.
    pub(crate) fn name(&self, unread: UnreadTexts) -> Result<Option<&str>, Unread> {
        match self.name.as_deref() {
            Some(name) => Ok(Some(name)),
            None if unread.has(Text::Name) || unread.has(Text::Descr) => Err(Unread),
            None => Ok(self.descr.as_deref()),
        }
    }

    /// The description: `ifAlias`, else an `ifDescr` that is not the name.
    pub(crate) fn description(&self, unread: UnreadTexts) -> Result<Option<&str>, Unread> {
        match self.alias.as_deref() {
            Some(alias) => Ok(Some(alias)),
            None if unread.has(Text::Alias) || unread.has(Text::Descr) => Err(Unread),
            None => {
                let name = self.name(unread)?;
                Ok(self.descr.as_deref().filter(|descr| Some(*descr) != name))
            }
        }
    }

    /// The speed in bits a second; `None` when the agent does not know it.
    pub(crate) fn speed_bps(&self) -> Option<u64> {
        let high = self.high_speed.unwrap_or(0);
        let speed = self.speed.filter(|_| high < HIGH_SPEED_MIN).unwrap_or(0);
        Some(if speed > 0 { speed } else { high * MEGABIT }).filter(|speed| *speed > 0)
    }

    /// As sFlow has it: bit 0 administratively up, bit 1 operationally up.
    pub(crate) fn status(&self) -> Option<u32> {
        let bit = |state: Option<u32>| u32::from(state == Some(UP));
        self.admin.or(self.oper).map(|_| bit(self.admin) | bit(self.oper) << 1)
    }
}

/// What a poll of an agent came to.
#[derive(Debug, Default)]
pub(crate) struct Polled {
    /// Interfaces by their index.
    pub(crate) interfaces: BTreeMap<u32, Interface>,
    /// Milliseconds since the agent started, by an `sysUpTime` of hundredths of a second.
    pub(crate) uptime_ms: Option<u32>,
    /// Columns that were left because of what the agent sent.
    pub(crate) columns_bad: u64,
    /// Whether there were more interfaces than the limit.
    pub(crate) is_cut: bool,
    /// How columns of texts were answered: interfaces have no text of one that is not whole, which does not mean that they have none at the
    /// agent.
    pub(crate) texts: ByText<ColumnEnd>,
    /// Why the poll ended before all columns were read.
    pub(crate) ended: Option<PollError>,
}

impl Polled {
    /// Forgets what columns have set, and the interfaces of which nothing else is known.
    fn forget(&mut self, group: &ColumnGroup) {
        self.interfaces.retain(|_, interface| {
            (group.forget)(interface);
            *interface != Interface::default()
        });
    }

    fn note(&mut self, group: &ColumnGroup, end: ColumnEnd) {
        if let Some(text) = group.text {
            self.texts[text as usize] = end;
        }
    }
}

/// A column of the tables of interfaces.
struct IfColumn {
    entry: &'static [u32],
    number: u32,
    set: fn(&mut Interface, &Value),
}

const fn of(entry: &'static [u32], number: u32, set: fn(&mut Interface, &Value)) -> IfColumn {
    IfColumn { entry, number, set }
}

/// Columns that are kept together or not at all.
struct ColumnGroup {
    columns: &'static [IfColumn],
    /// Takes back what the columns have set.
    forget: fn(&mut Interface),
    /// Which text they are, when they are one.
    text: Option<Text>,
}

/// Columns that are always read: names first, as they are of most use when time does not suffice for all.
const GROUPS: &[ColumnGroup] = &[
    ColumnGroup {
        columns: &[of(&IF_X_ENTRY, 1, |interface, value| interface.name = text(value))],
        forget: |interface| interface.name = None,
        text: Some(Text::Name),
    },
    ColumnGroup {
        columns: &[of(&IF_ENTRY, 2, |interface, value| interface.descr = text(value))],
        forget: |interface| interface.descr = None,
        text: Some(Text::Descr),
    },
    ColumnGroup {
        columns: &[of(&IF_X_ENTRY, 18, |interface, value| interface.alias = text(value))],
        forget: |interface| interface.alias = None,
        text: Some(Text::Alias),
    },
    ColumnGroup {
        columns: &[of(&IF_ENTRY, 3, |interface, value| interface.kind = integer(value))],
        forget: |interface| interface.kind = None,
        text: None,
    },
    ColumnGroup {
        columns: &[
            of(&IF_ENTRY, 5, |interface, value| interface.speed = value.as_u32().map(u64::from)),
            of(&IF_X_ENTRY, 15, |interface, value| interface.high_speed = value.as_u32().map(u64::from)),
        ],
        forget: |interface| {
            interface.speed = None;
            interface.high_speed = None;
        },
        text: None,
    },
    ColumnGroup {
        columns: &[
            of(&IF_ENTRY, 7, |interface, value| interface.admin = integer(value)),
            of(&IF_ENTRY, 8, |interface, value| interface.oper = integer(value)),
        ],
        forget: |interface| {
            interface.admin = None;
            interface.oper = None;
        },
        text: None,
    },
];

/// Columns of counters.
const COUNTERS: &[ColumnGroup] = &[
    ColumnGroup {
        columns: &[of(&IF_X_ENTRY, 6, |interface, value| interface.in_octets = counter(value))],
        forget: |interface| interface.in_octets = None,
        text: None,
    },
    ColumnGroup {
        columns: &[of(&IF_X_ENTRY, 10, |interface, value| interface.out_octets = counter(value))],
        forget: |interface| interface.out_octets = None,
        text: None,
    },
];

/// Which interfaces are read, and how long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// So many interfaces at most.
    pub(crate) interfaces_max: usize,
    /// Whether columns of counters are read.
    pub(crate) counters: bool,
    /// What is not there by then is left out.
    pub(crate) until: Instant,
}

/// Reads the interfaces of an agent into a poll, in which columns that were answered wrongly are counted in any case.
///
/// # Errors
///
/// The agent does not answer, refuses or cannot be reached. A column that it answers wrongly is left out with those that belong to it; so
/// are those that are not read when something ends the poll before, such as silence or that time is over: the next poll begins with them.
/// When nothing is left, the last error is this one's, unless polls before this one have read something: that is still right then.
pub(crate) async fn read(
    client: &Client<UdpHandle>,
    limits: Limits,
    order: &mut PollOrder,
    polled: &mut Polled,
) -> Result<(), PollError> {
    let asked = async { client.get(&Oid::from_slice(&UPTIME)).await.map_err(PollError::from) };
    let uptime = within(limits.until, asked).await;
    let uptime = ignoring_malformed(uptime, polled).inspect_err(|_| order.begin_anew())?;
    polled.uptime_ms = uptime.and_then(|answer| uptime_ms(&answer.single()?.value));
    let groups: Vec<&ColumnGroup> = GROUPS.iter().chain(if limits.counters { COUNTERS } else { &[] }).collect();
    polled.texts = [ColumnEnd::Missing; Text::ALL.len()];
    let (first, is_resumed) = (order.first(), order.is_resumed());
    let mut wrong = None;
    for step in 0..groups.len() {
        let place = (first + step) % groups.len();
        let group = groups[place];
        match read_group(client, group, limits, polled).await {
            Ok(()) => polled.note(group, ColumnEnd::Whole),
            Err(error) if error.ends_poll() => {
                // all others were read, and it was not when it was the first: it is no better than one that is answered wrongly
                if error.is_silence() && order.is_hanging(place) && step + 1 == groups.len() {
                    polled.note(group, ColumnEnd::Wrong);
                }
                order.stopped_at(place, groups.len());
                polled.ended = Some(error);
                break;
            }
            Err(error) => {
                polled.columns_bad += 1;
                polled.note(group, ColumnEnd::Wrong);
                wrong = Some(error);
            }
        }
        order.answered(place);
    }
    if polled.ended.is_none() {
        order.begin_anew();
    } else if !polled.interfaces.is_empty() {
        order.found();
    }
    // the agent is there, as it has answered how long it runs
    let is_waiting = is_resumed && polled.ended.as_ref().is_some_and(PollError::is_silence);
    if polled.interfaces.is_empty() && !is_waiting {
        let error = polled.ended.take().or(wrong).unwrap_or(PollError::Empty);
        // who is silent about one column may answer about another
        if !error.is_silence() {
            order.begin_anew();
        }
        return Err(error);
    }
    Ok(())
}

/// Reads columns that belong together, all of them or none.
async fn read_group(
    client: &Client<UdpHandle>,
    group: &ColumnGroup,
    limits: Limits,
    polled: &mut Polled,
) -> Result<(), PollError> {
    for column in group.columns {
        let walked = within(limits.until, walk(client, column, limits.interfaces_max, polled)).await;
        if walked.is_err() {
            polled.forget(group);
            return walked;
        }
    }
    Ok(())
}

/// What is asked, or that it took too long.
pub(crate) async fn within<T>(
    until: Instant,
    asked: impl Future<Output = Result<T, PollError>>,
) -> Result<T, PollError> {
    timeout_at(until, asked).await.unwrap_or(Err(PollError::TooSlow))
}

/// Finds out whether an agent answers at all.
///
/// # Errors
///
/// As those of [`read`]; what it answers does not matter.
pub(crate) async fn is_answering(client: &Client<UdpHandle>) -> Result<(), PollError> {
    let answer = client.get(&Oid::from_slice(&UPTIME)).await.map_err(PollError::from);
    ignoring_malformed(answer, &mut Polled::default()).map(|_| ())
}

fn ignoring_malformed<T>(result: Result<T, PollError>, polled: &mut Polled) -> Result<Option<T>, PollError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.ends_poll() => Err(error),
        Err(_) => {
            polled.columns_bad += 1;
            Ok(None)
        }
    }
}

async fn walk(
    client: &Client<UdpHandle>,
    column: &IfColumn,
    interfaces_max: usize,
    polled: &mut Polled,
) -> Result<(), PollError> {
    let base = Oid::from_slice(column.entry).child(column.number);
    let method = WalkMethod::GetBulk;
    let options = WalkOptions { method, max_repetitions: REPETITIONS, ..WalkOptions::default() };
    let mut rows = client.walk_with(base.clone(), options)?;
    let mut seen = 0;
    while let Some(row) = rows.next().await {
        let row = row?;
        seen += 1;
        let Some(index) = index_of(&base, &row.oid) else {
            // what is no interface counts too: an agent may send such rows without end
            if seen > interfaces_max {
                polled.is_cut = true;
                break;
            }
            continue;
        };
        let has_room = polled.interfaces.len() < interfaces_max || polled.interfaces.contains_key(&index);
        if seen > interfaces_max || !has_room {
            polled.is_cut = true;
            break;
        }
        (column.set)(polled.interfaces.entry(index).or_default(), &row.value);
    }
    Ok(())
}

/// The index of an interface that a row is of.
fn index_of(base: &Oid, oid: &Oid) -> Option<u32> {
    match oid.arcs().strip_prefix(base.arcs())? {
        [index @ 1..=INDEX_MAX] => Some(*index),
        _ => None,
    }
}

/// A text as it is kept: what precedes an octet of 0, cut, and without what is no printable character; `None` when nothing is left.
fn text(value: &Value) -> Option<String> {
    let Value::OctetString(octets) = value else { return None };
    let end = octets.iter().position(|octet| *octet == 0).unwrap_or(octets.len());
    let octets = octets[..end.min(TEXT_OCTETS_MAX)].trim_ascii();
    let printable = |letter: char| if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter };
    let text: String = String::from_utf8_lossy(octets).chars().map(printable).collect();
    (!text.is_empty()).then_some(text)
}

fn integer(value: &Value) -> Option<u32> {
    value.as_i32().and_then(|number| u32::try_from(number).ok())
}

fn counter(value: &Value) -> Option<u64> {
    match value {
        Value::Counter64(count) => Some(*count),
        _ => None,
    }
}

fn uptime_ms(value: &Value) -> Option<u32> {
    match value {
        // it wraps as that of sFlow does, in 32 bits of milliseconds
        Value::TimeTicks(hundredths) => Some((u64::from(*hundredths) * 10) as u32),
        _ => None,
    }
}

#[cfg(test)]
impl Interface {
    /// One of which the name is known.
    pub(crate) fn named(name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..Self::default() }
    }

    /// The same with an `ifAlias`.
    pub(crate) fn described(self, alias: &str) -> Self {
        Self { alias: Some(alias.to_owned()), ..self }
    }

    /// One of which only the type is known.
    pub(crate) fn of_type(kind: u32) -> Self {
        Self { kind: Some(kind), ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn octets(text: &[u8]) -> Value {
        Value::OctetString(text.to_vec().into())
    }

    #[test]
    fn texts_are_cleaned_and_cut() {
        assert_eq!(text(&octets(b" Gi0/1 \0junk")).as_deref(), Some("Gi0/1"));
        assert_eq!(text(&octets(b"a\x1b[2Jb\xff")).as_deref(), Some("a\u{fffd}[2Jb\u{fffd}"));
        assert_eq!(text(&octets(&[b'x'; 9000])).map(|text| text.len()), Some(TEXT_OCTETS_MAX));
        assert_eq!((text(&octets(b" ")), text(&Value::Integer(7)), text(&Value::Null)), (None, None, None));
    }

    #[test]
    fn a_name_is_that_of_the_interface_and_a_description_that_of_the_operator() {
        let of = |name: &str, alias: &str, descr: &str| {
            let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            let interface =
                Interface { name: text(name), alias: text(alias), descr: text(descr), ..Interface::default() };
            let known = |text: Result<Option<&str>, Unread>| text.expect("all was read").map(str::to_owned);
            let unread = UnreadTexts::default();
            (known(interface.name(unread)), known(interface.description(unread)))
        };
        let both = |name: &str, description: &str| (Some(name.to_owned()), Some(description.to_owned()));
        assert_eq!(of("Gi0/1", "to Berlin", "GigabitEthernet0/1"), both("Gi0/1", "to Berlin"));
        assert_eq!(of("Gi0/1", "", "GigabitEthernet0/1"), both("Gi0/1", "GigabitEthernet0/1"));
        assert_eq!(of("lo", "", "lo"), (Some("lo".to_owned()), None));
        assert_eq!(of("", "", "lo"), (Some("lo".to_owned()), None));
        assert_eq!(of("", "", ""), (None, None));
    }

    #[test]
    fn what_depends_on_a_column_that_was_not_read_is_not_known() {
        let text = |text: &str| Some(text.to_owned());
        let all = Interface { name: text("lo"), alias: text("ours"), descr: text("Loopback"), ..Interface::default() };
        let texts = |interface: &Interface, unread: &[Text]| {
            let unread = UnreadTexts::of(unread);
            let owned = |text: Result<Option<&str>, Unread>| text.map(|text| text.map(str::to_owned));
            (owned(interface.name(unread)), owned(interface.description(unread)))
        };
        let without_name = Interface { name: None, ..all.clone() };
        assert_eq!(texts(&without_name, &[Text::Name]), (Err(Unread), Ok(text("ours"))));
        assert_eq!(texts(&without_name, &[]), (Ok(text("Loopback")), Ok(text("ours"))));
        let without_descr = Interface { descr: None, ..all.clone() };
        assert_eq!(texts(&without_descr, &[Text::Descr]), (Ok(text("lo")), Ok(text("ours"))));
        let without_alias = Interface { alias: None, ..all };
        assert_eq!(texts(&without_alias, &[Text::Alias]), (Ok(text("lo")), Err(Unread)));
        let nothing = Interface::default();
        assert_eq!(texts(&nothing, &[Text::Descr]), (Err(Unread), Err(Unread)));
        assert_eq!(texts(&nothing, &[]), (Ok(None), Ok(None)));
    }

    /// By RFC 2863: `ifSpeed` is in bits a second up to 4,294,967,295, `ifHighSpeed` in millions of them.
    #[test]
    fn a_speed_is_as_exact_as_the_agent_knows_it() {
        let of = |speed, high_speed| Interface { high_speed, speed, ..Interface::default() }.speed_bps();
        assert_eq!(of(Some(64_000), Some(0)), Some(64_000));
        assert_eq!(of(Some(1_544_000), Some(2)), Some(1_544_000));
        assert_eq!(of(Some(u32::MAX.into()), Some(10_000)), Some(10_000_000_000));
        assert_eq!(of(Some(1_410_065_408), Some(10_000)), Some(10_000_000_000), "it wrapped");
        assert_eq!(of(None, Some(10)), Some(10_000_000));
        assert_eq!((of(Some(0), Some(0)), of(None, None)), (None, None));
    }

    #[test]
    fn a_status_is_that_of_sflow() {
        let of = |admin, oper| Interface { admin, oper, ..Interface::default() }.status();
        assert_eq!([of(Some(1), Some(1)), of(Some(1), Some(2)), of(Some(2), Some(2))], [Some(3), Some(1), Some(0)]);
        assert_eq!(of(None, None), None);
    }

    #[test]
    fn an_instance_is_one_index() {
        let base = Oid::from_slice(&IF_X_ENTRY).child(1);
        assert_eq!(index_of(&base, &base.child(7)), Some(7));
        assert_eq!(index_of(&base, &base.child(INDEX_MAX)), Some(INDEX_MAX));
        for wrong in [base.clone(), base.child(0), base.child(INDEX_MAX + 1), base.child(7).child(1)] {
            assert_eq!(index_of(&base, &wrong), None, "{wrong}");
        }
        assert_eq!(uptime_ms(&Value::TimeTicks(123)), Some(1230));
    }
}
