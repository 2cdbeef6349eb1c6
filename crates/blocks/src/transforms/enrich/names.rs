//! Names of addresses, asked for off the path of the rows.
//!
//! A component may not wait, and a name server may take seconds. So a row whose name is not known goes on without it, the
//! question goes to threads of its own, and the answer is there for the next row. What speaks against it is that the
//! same input gives more names the second time; for the same answer each time names must not be looked up.
//!
//! Threads cannot be called back from the resolver. When the component ends they are left alone and end after the lookup
//! that they are in.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use foldhash::HashMap;
use weir_chain::{ComponentError, Counter};

/// Finds the name of an address.
pub(super) type Resolver = Arc<dyn Fn(IpAddr) -> Option<String> + Send + Sync>;

/// Longest name that DNS allows.
const NAME_OCTETS_MAX: usize = 255;

/// Limits of the names.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) threads: usize,
    pub(super) entries_max: usize,
    pub(super) questions_max: usize,
    pub(super) ttl: Duration,
    pub(super) negative_ttl: Duration,
}

type Answer = (IpAddr, Option<String>);

/// The names known so far.
pub(super) struct Names {
    limits: Limits,
    questions: Sender<IpAddr>,
    answers: Receiver<Answer>,
    entries: HashMap<IpAddr, Entry>,
    /// Addresses in the order in which they came to `entries`, to make room.
    order: VecDeque<IpAddr>,
    now: Instant,
    counters: NameCounters,
}

#[derive(Debug, Default)]
struct Entry {
    name: Option<String>,
    is_asked: bool,
    /// When the name must be asked for again; `None` before the first answer.
    expires: Option<Instant>,
}

struct NameCounters {
    lookups: Counter,
    hits: Counter,
    unknown: Counter,
    dropped: Counter,
}

impl Names {
    /// Starts the threads.
    pub(super) fn start(
        limits: Limits,
        resolver: &Resolver,
        counters: &weir_chain::Counters,
    ) -> Result<Self, ComponentError> {
        let (questions, asked) = bounded::<IpAddr>(limits.questions_max);
        let (answered, answers) = bounded::<Answer>(limits.questions_max);
        for _ in 0..limits.threads {
            let (asked, answered, resolver) = (asked.clone(), answered.clone(), Arc::clone(resolver));
            let work = move || {
                for address in asked {
                    let name = resolver(address).filter(|name| is_name(name));
                    if answered.send((address, name)).is_err() {
                        break;
                    }
                }
            };
            thread::Builder::new()
                .name("enrich-names".to_owned())
                .spawn(work)
                .map_err(|error| ComponentError::caused("no thread for names can be started", error))?;
        }
        let counters = NameCounters {
            lookups: counters.counter("name_lookups"),
            hits: counters.counter("name_hits"),
            unknown: counters.counter("name_lookups_without_name"),
            dropped: counters.counter("name_questions_dropped"),
        };
        let (entries, order) = (HashMap::default(), VecDeque::new());
        Ok(Self { limits, questions, answers, entries, order, now: Instant::now(), counters })
    }

    /// Takes in the answers that have come.
    pub(super) fn refresh(&mut self) {
        self.now = Instant::now();
        while let Ok(answer) = self.answers.try_recv() {
            self.put(answer);
        }
    }

    fn put(&mut self, (address, name): Answer) {
        self.counters.lookups.add(1);
        self.counters.unknown.add(u64::from(name.is_none()));
        let ttl = if name.is_some() { self.limits.ttl } else { self.limits.negative_ttl };
        // it may have made room for others meanwhile
        if let Some(entry) = self.entries.get_mut(&address) {
            *entry = Entry { name, is_asked: false, expires: self.now.checked_add(ttl) };
        }
    }

    /// The name of an address, when it is known; otherwise it is asked for. A name that is too old is still told until
    /// the new answer comes.
    pub(super) fn find(&mut self, octets: &[u8]) -> Option<&str> {
        let address = weir_flow::address::to_ip(octets)?.to_canonical();
        let is_due = match self.entries.get(&address) {
            Some(entry) => !entry.is_asked && entry.expires.is_none_or(|expires| expires <= self.now),
            None => true,
        };
        if is_due {
            self.ask(address);
        }
        let name = self.entries.get(&address)?.name.as_deref();
        self.counters.hits.add(u64::from(name.is_some()));
        name
    }

    fn ask(&mut self, address: IpAddr) {
        if self.questions.try_send(address).is_err() {
            self.counters.dropped.add(1);
            return;
        }
        if let Some(entry) = self.entries.get_mut(&address) {
            entry.is_asked = true;
            return;
        }
        if self.entries.len() >= self.limits.entries_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
        self.order.push_back(address);
        self.entries.insert(address, Entry { is_asked: true, ..Entry::default() });
    }

    /// Number of addresses that a name is known of, asked for or known not to exist.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.order.clear();
    }

    /// Waits for one answer.
    #[cfg(test)]
    pub(super) fn wait(&mut self) {
        let answer = self.answers.recv().expect("threads that answer");
        self.put(answer);
    }

    /// Lets time go on.
    #[cfg(test)]
    pub(super) fn age(&mut self, time: Duration) {
        self.now += time;
    }
}

/// Whoever owns an address decides on its name, so only what a host name is made of is let through to terminals.
fn is_name(name: &str) -> bool {
    let is_letter = |letter: u8| letter.is_ascii_alphanumeric() || b"-._".contains(&letter);
    !name.is_empty() && name.len() <= NAME_OCTETS_MAX && name.bytes().all(is_letter)
}

/// Asks the resolver of the system.
pub(super) fn system_resolver() -> Resolver {
    Arc::new(|address| dns_lookup::lookup_addr(&address).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        threads: 2,
        entries_max: 3,
        questions_max: 2,
        ttl: Duration::from_mins(1),
        negative_ttl: Duration::from_secs(5),
    };

    /// Names `host-N` for 10.0.0.N, none for others.
    fn numbered() -> Resolver {
        Arc::new(|address| match address {
            IpAddr::V4(address) if address.octets()[..3] == [10, 0, 0] => Some(format!("host-{}", address.octets()[3])),
            IpAddr::V4(address) if address.octets()[0] == 9 => Some("\u{1b}[31mred".to_owned()),
            _ => None,
        })
    }

    fn counter(counters: &weir_chain::Counters, name: &'static str) -> u64 {
        counters.counter(name).get()
    }

    #[test]
    fn a_name_is_there_after_it_was_answered() {
        let meter = weir_chain::Counters::new();
        let mut names = Names::start(LIMITS, &numbered(), &meter).expect("threads");
        assert_eq!(names.find(&[10, 0, 0, 7]), None);
        assert_eq!(names.find(&[10, 0, 0, 7]), None, "asked once");
        names.wait();
        assert_eq!(names.find(&[10, 0, 0, 7]), Some("host-7"));
        let mapped = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 10, 0, 0, 7];
        assert_eq!(names.find(&mapped), Some("host-7"));
        assert_eq!(names.find(&[1, 2, 3]), None, "no address");
        assert_eq!(counter(&meter, "name_lookups"), 1);
        assert_eq!(counter(&meter, "name_hits"), 2);
    }

    #[test]
    fn that_there_is_no_name_is_known_for_a_while() {
        let meter = weir_chain::Counters::new();
        let mut names = Names::start(LIMITS, &numbered(), &meter).expect("threads");
        for address in [[8, 8, 8, 8], [9, 9, 9, 9]] {
            names.find(&address);
            names.wait();
            assert_eq!(names.find(&address), None);
        }
        assert_eq!(counter(&meter, "name_lookups_without_name"), 2, "control characters make no name");
        assert!(names.entries.values().all(|entry| !entry.is_asked), "nothing is asked again before its time");
        names.age(Duration::from_secs(6));
        names.find(&[8, 8, 8, 8]);
        names.wait();
        assert_eq!(counter(&meter, "name_lookups"), 3);
    }

    #[test]
    fn an_old_name_is_told_until_the_new_one_comes() {
        let mut names = Names::start(LIMITS, &numbered(), &weir_chain::Counters::new()).expect("threads");
        names.find(&[10, 0, 0, 7]);
        names.wait();
        names.age(Duration::from_secs(61));
        assert_eq!(names.find(&[10, 0, 0, 7]), Some("host-7"));
        assert!(names.entries.values().all(|entry| entry.is_asked));
        names.wait();
        assert!(names.entries.values().all(|entry| !entry.is_asked));
    }

    #[test]
    fn entries_and_questions_are_bounded() {
        let meter = weir_chain::Counters::new();
        let (go, wait) = bounded::<()>(0);
        let stuck: Resolver = Arc::new(move |_| wait.recv().ok().and(Some("late".to_owned())));
        let mut names = Names::start(Limits { threads: 1, ..LIMITS }, &stuck, &meter).expect("a thread");
        // one question is in the thread sooner or later, two are in the queue
        for last in 0..10 {
            assert_eq!(names.find(&[10, 0, 0, last]), None);
        }
        let dropped = counter(&meter, "name_questions_dropped");
        assert!((7..=8).contains(&dropped), "{dropped}");
        let asked = names.len();
        for _ in 0..asked {
            go.send(()).expect("a thread that waits");
            names.wait();
        }
        for last in 100..110 {
            names.find(&[10, 0, 0, last]);
            go.send(()).expect("a thread that waits");
            names.wait();
            assert!(names.len() <= 3);
        }
        assert_eq!(names.find(&[10, 0, 0, 107]), Some("late"));
        assert_eq!(names.entries.len(), names.order.len());
    }

    #[test]
    fn the_system_is_asked() {
        match system_resolver()(IpAddr::from([127, 0, 0, 1])) {
            Some(name) => assert!(name.contains("localhost") && is_name(&name), "{name}"),
            None => weir_testkit::skip("localhost-name", "this machine has no name for 127.0.0.1"),
        }
    }
}
