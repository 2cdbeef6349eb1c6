//! A task for each agent, which asks it at an interval.

use std::mem::discriminant;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use async_snmp::{Client, DecodeConfig, Retry, UdpHandle, Version};
use tokio::time::{MissedTickBehavior, interval_at};
use weir_chain::{Counter, Counters};
use weir_flow::SideTables;

use crate::error::PollError;
use crate::interfaces::{self, Limits, Polled, within};
use crate::options::{PolledExporter, SnmpOptions};
use crate::poll_order::PollOrder;
use crate::tables::RowMaker;
use crate::texts::{ByText, Text, WRONG_POLLS_MAX, WrongTexts};

/// Agents begin one after the other, so that they do not all answer at once.
const BEGIN_APART: Duration = Duration::from_millis(20);
/// An agent whose state changes all the time is not logged more often.
const LOG_APART: Duration = Duration::from_mins(1);
/// A poll takes no longer than this, whatever the interval is: the clock of the runtime has an end.
const POLL_MAX: Duration = Duration::from_hours(24);

/// Counts of all agents of a component.
#[derive(Debug)]
pub(crate) struct PollCounters {
    polls: Counter,
    unanswered: Counter,
    refused: Counter,
    failed: Counter,
    cut: Counter,
    incomplete: Counter,
    dropped: Counter,
    columns_bad: Counter,
    interfaces: Counter,
    names: Counter,
}

impl PollCounters {
    pub(crate) fn new(counters: &Counters) -> Self {
        let counter = |name| counters.counter(name);
        Self {
            polls: counter("polls"),
            unanswered: counter("polls_unanswered"),
            refused: counter("polls_refused"),
            failed: counter("polls_failed"),
            cut: counter("polls_cut"),
            incomplete: counter("polls_incomplete"),
            dropped: counter("polls_dropped"),
            columns_bad: counter("columns_bad"),
            interfaces: counter("interfaces_read"),
            names: counter("names_written"),
        }
    }
}

/// Asks an agent for ever, or until nobody takes what it says.
pub(crate) async fn poll_for_ever(
    number: usize,
    polled: PolledExporter,
    options: Arc<SnmpOptions>,
    counters: Arc<PollCounters>,
    found: SyncSender<SideTables>,
) {
    let mut poller = Poller::new(polled, options, counters);
    let every = poller.options.interval.duration();
    let begin = (BEGIN_APART * u32::try_from(number).unwrap_or(u32::MAX)).min(every);
    let mut ticks = interval_at(tokio::time::Instant::now() + begin, every);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let Some(tables) = poller.poll().await else { continue };
        match found.try_send(tables) {
            Ok(()) => {}
            Err(TrySendError::Full(_)) => {
                poller.counters.dropped.add(1);
                // what was lost is written again
                poller.rows.forget_written();
            }
            Err(TrySendError::Disconnected(_)) => return,
        }
    }
}

struct Poller {
    polled: PolledExporter,
    options: Arc<SnmpOptions>,
    counters: Arc<PollCounters>,
    /// Kept from poll to poll; a poll that failed begins anew, with the secrets as they are then.
    client: Option<Client<UdpHandle>>,
    order: PollOrder,
    texts: WrongTexts,
    rows: RowMaker,
    log: StateLog,
}

impl Poller {
    fn new(polled: PolledExporter, options: Arc<SnmpOptions>, counters: Arc<PollCounters>) -> Self {
        let (order, texts, rows, log) =
            (PollOrder::default(), WrongTexts::default(), RowMaker::new(&polled), StateLog::default());
        Self { polled, options, counters, client: None, order, texts, rows, log }
    }

    /// The rows of a poll; `None` when it came to nothing, which is counted and logged.
    async fn poll(&mut self) -> Option<SideTables> {
        self.counters.polls.add(1);
        let mut polled = Polled::default();
        let read = self.read(&mut polled).await;
        self.counters.columns_bad.add(polled.columns_bad);
        match read {
            Ok(()) => {
                let unread = self.texts.note(polled.texts);
                self.counters.cut.add(u64::from(polled.is_cut));
                self.counters.interfaces.add(polled.interfaces.len() as u64);
                let (tables, names) = self.rows.rows(&polled, unread, now_ms());
                self.counters.names.add(names);
                match polled.ended {
                    Some(error) => {
                        self.counters.incomplete.add(1);
                        self.log.incomplete(&self.polled, &error);
                    }
                    None => self.log.answered(&self.polled),
                }
                self.log.texts(&self.polled, self.texts.given_up());
                Some(tables).filter(|tables| !tables.is_empty())
            }
            Err(error) => {
                self.client = None;
                let counter = match &error {
                    PollError::Unanswered | PollError::TooSlow => &self.counters.unanswered,
                    PollError::Refused(_) | PollError::NotAuthentic => &self.counters.refused,
                    _ => &self.counters.failed,
                };
                counter.add(1);
                self.log.failed(&self.polled, error);
                None
            }
        }
    }

    async fn read(&mut self, polled: &mut Polled) -> Result<(), PollError> {
        // the next poll does not wait for this one
        let until = tokio::time::Instant::now() + self.options.interval.duration().min(POLL_MAX);
        let client = if let Some(client) = self.client.take() {
            client
        } else {
            let connected = within(until, self.connect()).await;
            connected.inspect_err(|_| self.order.begin_anew())?
        };
        let SnmpOptions { interfaces_max, counters, .. } = *self.options;
        interfaces::read(&client, Limits { interfaces_max, counters, until }, &mut self.order, polled).await?;
        // one that was silent for a while is asked by the same client, which knows its engine
        self.client = Some(client).filter(|_| polled.ended.as_ref().is_none_or(PollError::is_silence));
        Ok(())
    }

    async fn connect(&self) -> Result<Client<UdpHandle>, PollError> {
        let retry = Retry::fixed(self.options.retries, Duration::ZERO);
        let retry = retry.map_err(|error| PollError::Security(error.to_string()))?;
        let client = Client::builder(self.polled.agent, self.options.security.auth()?);
        let client = client.request_timeout(self.options.timeout.duration()).retry(retry).strict_source(true);
        let mut decoding = DecodeConfig::DEFAULT;
        // a text that says it is longer than what has it is none
        decoding.clamp_bounded_strings = false;
        let client = client.decode_config(decoding).connect().await?;
        if client.version() == Version::V3 {
            client.rediscover_engine().await?;
            // who is there and gives no authentic answer is not silent
            let first = interfaces::is_answering(&client).await;
            first.map_err(|error| if error.is_silence() { PollError::NotAuthentic } else { error })?;
        }
        Ok(client)
    }
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// What was logged of an agent.
#[derive(Debug, Default)]
enum LoggedState {
    #[default]
    Whole,
    /// It does not send all.
    Incomplete,
    Failed(PollError),
}

/// Logs when an agent fails in another way than before, does not send all, or answers again, within a rate.
#[derive(Debug, Default)]
struct StateLog {
    state: LoggedState,
    /// Columns of texts that were logged as always wrong.
    wrong: ByText<bool>,
    logged: Option<Instant>,
}

impl StateLog {
    fn may_log(&mut self) -> bool {
        let may = self.logged.is_none_or(|logged| logged.elapsed() >= LOG_APART);
        if may {
            self.logged = Some(Instant::now());
        }
        may
    }

    fn answered(&mut self, polled: &PolledExporter) {
        if !matches!(self.state, LoggedState::Whole) && self.may_log() {
            self.state = LoggedState::Whole;
            tracing::info!("the SNMP agent of {} at {} answers again", polled.exporter, polled.agent);
        }
    }

    fn incomplete(&mut self, polled: &PolledExporter, error: &PollError) {
        if !matches!(self.state, LoggedState::Incomplete) && self.may_log() {
            let PolledExporter { exporter, agent, .. } = polled;
            tracing::warn!("the SNMP agent of {exporter} at {agent} does not send all that it is asked for: {error}");
            self.state = LoggedState::Incomplete;
        }
    }

    fn failed(&mut self, polled: &PolledExporter, error: PollError) {
        let is_new = match &self.state {
            LoggedState::Failed(before) => discriminant(before) != discriminant(&error),
            _ => true,
        };
        if is_new && self.may_log() {
            tracing::warn!("no names of {} by SNMP from {}: {error}", polled.exporter, polled.agent);
            self.state = LoggedState::Failed(error);
        }
    }

    /// Columns of texts that the agent has answered wrongly so often that names and descriptions are made without them.
    fn texts(&mut self, polled: &PolledExporter, given_up: ByText<bool>) {
        for text in Text::ALL {
            let place = text as usize;
            if !given_up[place] {
                self.wrong[place] = false;
            } else if !self.wrong[place] && self.may_log() {
                self.wrong[place] = true;
                let (column, PolledExporter { exporter, agent, .. }) = (text.name(), polled);
                tracing::warn!(
                    "the SNMP agent of {exporter} at {agent} has answered {column} wrongly or not at all {WRONG_POLLS_MAX} times: interfaces are named without it"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_chain::OptionText;

    use super::*;

    #[test]
    fn what_stays_the_same_is_logged_once_and_what_changes_within_a_rate() {
        let polled = PolledExporter::parse_text("192.0.2.1").expect("an exporter");
        let mut log = StateLog::default();
        log.failed(&polled, PollError::Unanswered);
        let first = log.logged.expect("it was logged");
        log.failed(&polled, PollError::Unanswered);
        log.failed(&polled, PollError::Empty);
        log.answered(&polled);
        assert_eq!((log.logged, matches!(log.state, LoggedState::Failed(PollError::Unanswered))), (Some(first), true));
        log.logged = first.checked_sub(LOG_APART);
        log.failed(&polled, PollError::Unanswered);
        assert_eq!(log.logged, first.checked_sub(LOG_APART), "it is the same as before");
        log.answered(&polled);
        assert!(log.logged >= Some(first) && matches!(log.state, LoggedState::Whole));
    }

    #[test]
    fn an_agent_that_does_not_send_all_is_logged_once() {
        let polled = PolledExporter::parse_text("192.0.2.1").expect("an exporter");
        let mut log = StateLog::default();
        log.incomplete(&polled, &PollError::TooSlow);
        let first = log.logged.expect("it was logged");
        log.logged = first.checked_sub(LOG_APART);
        log.incomplete(&polled, &PollError::Unanswered);
        assert_eq!(log.logged, first.checked_sub(LOG_APART), "it is the same as before");
        log.failed(&polled, PollError::Unanswered);
        assert!(matches!(log.state, LoggedState::Failed(PollError::Unanswered)));
    }

    #[test]
    fn a_column_that_is_given_up_is_logged_once_until_it_is_right_again() {
        let polled = PolledExporter::parse_text("192.0.2.1").expect("an exporter");
        let mut log = StateLog::default();
        log.texts(&polled, [false; 3]);
        assert_eq!(log.logged, None);
        log.texts(&polled, [true, false, false]);
        let first = log.logged.expect("it was logged");
        log.logged = first.checked_sub(LOG_APART);
        log.texts(&polled, [true, false, false]);
        assert_eq!(log.logged, first.checked_sub(LOG_APART), "it is the same as before");
        log.texts(&polled, [false; 3]);
        log.texts(&polled, [true, false, false]);
        assert!(log.logged >= Some(first));
    }
}
