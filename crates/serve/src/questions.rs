//! Questions that run: how many at once, for whom, and how they end.
//!
//! A question runs in a thread that gives way to those that collect. So many are answered at a time, and half as many that read few
//! rows besides: what a page of the last minutes asks does not wait for statements about a year. The others wait for
//! their turn, and when too many wait, or too many are of one user, the next is refused at once rather than late. A client
//! that leaves, an operator who cancels and the time limit end a question in one way: its [`Progress`] is stopped.
//!
//! Threads of the engine cannot be interrupted while they plan or compute. Where some are still busy when a question has ended, it
//! is answered, and keeps its turn and its place in the list until they have ended too: whoever asks such questions one after the
//! other would else use more of the machine than all limits allow.

use std::any::Any;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;
use utoipa::ToSchema;
use weir_query::{Admission, Admitted, Progress};
use weir_sql::{BusyThreads, QueryControl};

use crate::access::Asker;
use crate::audit::{AuditCost, AuditLine, AuditLog, beginning};
use crate::config::QuestionOptions;
use crate::moment::now_ms;
use crate::priority::give_way;
use crate::problem::{Answered, Problem};
use crate::rate_limit::{RateLimit, site};

/// Rows that are read in some milliseconds.
const QUICK_ROWS: u64 = 500_000;
/// Letters of a question that are listed. The audit has all of them.
const LISTED_LETTERS_MAX: usize = 2000;
/// Stack of the thread of a question: statements are parsed in it, and deep expressions dropped recursively.
const STACK_OCTETS: usize = 8 << 20;

/// Questions that run, and how many may.
#[derive(Debug, Clone)]
pub struct Questions {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    admission: Admission,
    /// For questions that read little.
    quick: Admission,
    /// Of each kind.
    waiting_max: usize,
    /// Of both kinds, those that wait among them.
    running_max: usize,
    per_user_max: usize,
    time_max: Duration,
    running: Mutex<BTreeMap<u64, Running>>,
    next_id: AtomicU64,
    counts: Counts,
    of_user: RateLimit<String>,
    from_address: RateLimit<IpAddr>,
    audit: Arc<AuditLog>,
}

#[derive(Debug, Clone)]
struct Running {
    user: String,
    from: Option<IpAddr>,
    /// All of it: a comment that is longer than what is listed hides nothing from the audit.
    text: Arc<str>,
    since_ms: i64,
    progress: Arc<Progress>,
    /// Rows of its answer, once there is one.
    rows: Arc<AtomicU64>,
    /// Whether it was refused when its turn was asked for.
    is_refused: Arc<AtomicBool>,
}

/// What became of questions.
#[derive(Debug, Default)]
struct Counts {
    asked: AtomicU64,
    answered: AtomicU64,
    cached: AtomicU64,
    cancelled: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    busy_us: AtomicU64,
}

/// What became of questions, at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuestionCounts {
    /// Questions that came.
    pub asked: u64,
    /// Those that were answered, from the cache too.
    pub answered: u64,
    /// Those that were answered from the cache.
    pub cached: u64,
    /// Those that were cancelled, by their client, by an operator or by the time limit.
    pub cancelled: u64,
    /// Those that failed otherwise.
    pub failed: u64,
    /// Those that were refused, because too many waited or were of one user.
    pub refused: u64,
    /// Time that questions took, in microseconds.
    pub busy_us: u64,
    /// Those that are being answered.
    pub running: u64,
    /// Those that wait for their turn.
    pub waiting: u64,
}

/// A question that runs or waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunningQuestion {
    /// Its number.
    pub id: u64,
    /// Who asked.
    pub user: String,
    /// What was asked; of a long question its beginning, and how many letters follow.
    pub text: String,
    /// When, in milliseconds since the epoch.
    pub since_ms: i64,
    /// Rows that were looked at.
    pub rows_read: u64,
    /// Octets that were read from segments.
    pub octets_read: u64,
    /// Rows of the archive; 0 before it is known.
    pub rows_all: u64,
}

/// A question at work, in its thread.
pub(crate) struct Turn {
    inner: Arc<Inner>,
    pub(crate) control: QueryControl,
    pub(crate) began: Instant,
    rows: Arc<AtomicU64>,
    is_refused: Arc<AtomicBool>,
    leftover: Mutex<Leftover>,
}

/// What a question that has ended still has.
#[derive(Default)]
struct Leftover {
    turns: Vec<Admitted>,
    /// Each waits for something that is still busy.
    waits: Vec<Box<dyn FnOnce() + Send>>,
}

impl Turn {
    /// Waits until it may be answered. A question that reads few rows does not wait for those that read many; the others
    /// let those go first that read less, for as long as they have patience.
    pub(crate) fn enter(&self, rows_max: u64) -> Answered<Admitted> {
        let admission = if rows_max <= QUICK_ROWS { &self.inner.quick } else { &self.inner.admission };
        let (_, waiting) = admission.counts();
        if waiting >= self.inner.waiting_max {
            self.is_refused.store(true, Ordering::Relaxed);
            return Err(Problem::unavailable(format!("{waiting} questions wait already")));
        }
        Ok(admission.enter_to_read(rows_max, &self.control.progress)?)
    }

    /// The same for a question that reads no flows.
    pub(crate) fn enter_quick(&self) -> Answered<Admitted> {
        self.enter(0)
    }

    /// Notes threads of an engine that was closed, which the question has until they have ended.
    pub(crate) fn note_busy(&self, busy: Option<BusyThreads>) {
        if let Some(busy) = busy {
            self.note_wait(move || busy.wait());
        }
    }

    fn note_wait(&self, wait: impl FnOnce() + Send + 'static) {
        self.leftover().waits.push(Box::new(wait));
    }

    /// Ends the turn, as soon as nothing that was noted is busy any more.
    pub(crate) fn leave(&self, admitted: Admitted) {
        let mut leftover = self.leftover();
        if !leftover.waits.is_empty() {
            leftover.turns.push(admitted);
        }
    }

    fn leftover(&self) -> MutexGuard<'_, Leftover> {
        // every step under the lock leaves whole values behind
        self.leftover.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts that its answer was there already.
    pub(crate) fn count_cached(&self) {
        self.inner.counts.cached.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes how many rows its answer has.
    pub(crate) fn note_rows(&self, rows: u64) {
        self.rows.store(rows, Ordering::Relaxed);
    }

    /// Milliseconds since it came.
    pub(crate) fn took_ms(&self) -> f64 {
        self.began.elapsed().as_secs_f64() * 1000.0
    }
}

/// Stops a question whose client has left.
struct StopWhenDropped(Arc<Progress>);

impl Drop for StopWhenDropped {
    fn drop(&mut self) {
        // a question that has ended does not look any more
        self.0.stop();
    }
}

/// The part of the time limit, as a divisor, for which a question that reads much lets others go first.
const PATIENT_PART: u32 = 3;

impl Questions {
    /// With these limits, written down by `audit`.
    pub(crate) fn new(options: &QuestionOptions, audit: Arc<AuditLog>) -> Self {
        let inner = Inner {
            // the time that a question may take runs while it waits
            admission: Admission::patient(options.at_once, options.time_limit.duration() / PATIENT_PART),
            quick: Admission::new(options.quick_at_once()),
            waiting_max: options.waiting_max,
            running_max: 2 * options.waiting_max + options.turns() as usize,
            per_user_max: options.per_user_max,
            time_max: options.time_limit.duration(),
            running: Mutex::default(),
            next_id: AtomicU64::new(1),
            counts: Counts::default(),
            of_user: RateLimit::new(options.user_per_minute_max),
            from_address: RateLimit::new(options.address_per_minute_max),
            audit,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Answers a question in a thread of its own. Dropping the future cancels it.
    pub(crate) async fn answer<T: Send + 'static>(
        &self,
        asker: &Asker,
        text: String,
        work: impl FnOnce(&Turn) -> Answered<T> + Send + 'static,
    ) -> Answered<T> {
        let control = QueryControl { progress: Arc::default(), time_max: Some(self.inner.time_max) };
        let entry = self.register(asker, &text, &control)?;
        let _stop = StopWhenDropped(Arc::clone(&control.progress));
        let (sender, answer) = oneshot::channel();
        let turn = Turn {
            inner: Arc::clone(&self.inner),
            control: control.clone(),
            began: Instant::now(),
            rows: Arc::clone(&entry.question.rows),
            is_refused: Arc::clone(&entry.question.is_refused),
            leftover: Mutex::default(),
        };
        let run = move || {
            give_way();
            let audited = || turn.inner.audit.check().and_then(|()| work(&turn));
            let answer = catch_unwind(AssertUnwindSafe(audited));
            let answer = answer.unwrap_or_else(|panic| {
                Err(Problem::internal(format!("the question panicked: {}", panic_text(&*panic))))
            });
            entry.end(&answer);
            let Leftover { turns, waits } = std::mem::take(&mut *turn.leftover());
            // a user who asks again at once is not refused because of a question that has ended
            let entry = Some(entry).filter(|_| !waits.is_empty());
            // a client that has left takes nothing
            let _ = sender.send(answer);
            for wait in waits {
                wait();
            }
            drop((turns, entry));
        };
        thread::Builder::new()
            .name("weir-question".to_owned())
            .stack_size(STACK_OCTETS)
            .spawn(run)
            .map_err(|error| Problem::unavailable(format!("no thread can be started: {error}")))?;
        tokio::select! {
            answer = answer => answer.unwrap_or_else(|_| Err(Problem::internal("the question ended without an answer"))),
            () = tokio::time::sleep(self.inner.time_max) => {
                control.progress.stop();
                let seconds = self.inner.time_max.as_secs_f64();
                Err(Problem::time(format!("the question ran longer than {seconds} s"))
                    .with_hint("narrow the question by time or by a filter"))
            }
        }
    }

    /// Refuses who asks too often. Where there are no users, whoever is on this machine asks as often as they wish.
    fn check_rate(&self, asker: &Asker) -> Answered<()> {
        let Some(from) = asker.from.filter(|_| !asker.is_local()) else { return Ok(()) };
        let refused = |wait| Problem::limited(format!("'{}' asks too often", asker.name)).after(wait);
        self.inner.from_address.take(&site(from)).map_err(refused)?;
        self.inner.of_user.take(&asker.name).map_err(refused)
    }

    fn register(&self, asker: &Asker, text: &str, control: &QueryControl) -> Answered<Entry> {
        let user = asker.name.as_str();
        let Inner { running_max, per_user_max, counts, .. } = &*self.inner;
        counts.asked.fetch_add(1, Ordering::Relaxed);
        if let Err(problem) = self.check_rate(asker) {
            counts.refused.fetch_add(1, Ordering::Relaxed);
            return Err(problem);
        }
        let mut running = self.inner.running();
        let of_user = running.values().filter(|question| question.user == user).count();
        let refused = |problem: Problem| {
            counts.refused.fetch_add(1, Ordering::Relaxed);
            Err(problem)
        };
        if of_user >= *per_user_max {
            return refused(Problem::too_many(format!("{of_user} questions of '{user}' run or wait already")));
        }
        if running.len() >= *running_max {
            return refused(Problem::unavailable(format!("{} questions run or wait already", running.len())));
        }
        let id = self.inner.next_id.fetch_add(1, Ordering::Relaxed);
        let question = Running {
            user: user.to_owned(),
            from: asker.from,
            text: text.into(),
            since_ms: now_ms(),
            progress: Arc::clone(&control.progress),
            rows: Arc::default(),
            is_refused: Arc::default(),
        };
        running.insert(id, question.clone());
        Ok(Entry { inner: Arc::clone(&self.inner), id, question, began: Instant::now() })
    }

    /// Questions that run or wait.
    pub fn list(&self) -> Vec<RunningQuestion> {
        let running = self.inner.running();
        let body = |(id, question): (&u64, &Running)| {
            let counts = question.progress.counts();
            RunningQuestion {
                id: *id,
                user: question.user.clone(),
                text: beginning(&question.text, LISTED_LETTERS_MAX),
                since_ms: question.since_ms,
                rows_read: counts.rows_done,
                octets_read: counts.octets_read,
                rows_all: counts.rows_all,
            }
        };
        running.iter().map(body).collect()
    }

    /// Cancels a question that `may` be cancelled. Others are not found: their numbers would tell who asks.
    pub(crate) fn cancel(&self, id: u64, may: impl FnOnce(&str) -> bool) -> Answered<()> {
        let running = self.inner.running();
        let question = running.get(&id).filter(|question| may(&question.user));
        let question = question.ok_or_else(|| Problem::not_found(format!("no question {id} runs")))?;
        question.progress.stop();
        Ok(())
    }

    /// Cancels all that run or wait and are of these users.
    pub(crate) fn cancel_of(&self, users: &[String]) {
        let running = self.inner.running();
        running
            .values()
            .filter(|question| users.contains(&question.user))
            .for_each(|question| question.progress.stop());
    }

    /// Cancels all, and waits for them to end, at most so long.
    pub(crate) fn end(&self, wait_max: Duration) {
        self.inner.running().values().for_each(|question| question.progress.stop());
        let began = Instant::now();
        while began.elapsed() < wait_max && !self.inner.running().is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// What became of questions.
    pub fn counts(&self) -> QuestionCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = &self.inner.counts;
        let (running, waiting) = self.inner.admitted();
        QuestionCounts {
            asked: of(&counts.asked),
            answered: of(&counts.answered),
            cached: of(&counts.cached),
            cancelled: of(&counts.cancelled),
            failed: of(&counts.failed),
            refused: of(&counts.refused),
            busy_us: of(&counts.busy_us),
            running: running as u64,
            waiting: waiting as u64,
        }
    }
}

impl Inner {
    /// Questions that are being answered, and those that wait.
    fn admitted(&self) -> (usize, usize) {
        let (long, quick) = (self.admission.counts(), self.quick.counts());
        (long.0 + quick.0, long.1 + quick.1)
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<u64, Running>> {
        // every step under the lock leaves whole values behind
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question in the list, until it and its threads have ended.
struct Entry {
    inner: Arc<Inner>,
    id: u64,
    question: Running,
    began: Instant,
}

impl Entry {
    /// Counts how it ended, and writes the line of the audit.
    fn end<T>(&self, answer: &Answered<T>) {
        let counts = &self.inner.counts;
        let status = answer.as_ref().err().map(|problem| problem.status);
        let (outcome, counter) = match answer {
            Ok(_) => ("answered", &counts.answered),
            Err(_) if self.question.is_refused.load(Ordering::Relaxed) => ("refused", &counts.refused),
            Err(_) if self.question.progress.is_stopped() => ("cancelled", &counts.cancelled),
            Err(_) => ("failed", &counts.failed),
        };
        counter.fetch_add(1, Ordering::Relaxed);
        let took = self.began.elapsed();
        counts.busy_us.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
        let read = self.question.progress.counts();
        let Running { user, from, text, rows, .. } = &self.question;
        let cost = AuditCost {
            took_us: took.as_micros() as u64,
            rows: rows.load(Ordering::Relaxed),
            rows_read: read.rows_done,
            octets_read: read.octets_read,
        };
        let line = AuditLine::now("question", user, *from, text, outcome);
        self.inner.audit.write(&AuditLine { status, cost: Some(cost), ..line });
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.inner.running().remove(&self.id);
    }
}

/// What a panic said.
fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no reason given").to_owned()
}

#[cfg(test)]
mod tests;
