//! The live collector: sockets, threads and the queues between them.
//!
//! For UDP there are as many receive threads, each with a socket, as decode threads. The kernel deals datagrams out
//! evenly over the sockets that share the port, because most may come from one exporter. A decode thread gets every
//! burst and takes the datagrams of its own exporters from it, so it alone has their state and nothing is locked.
//! Datagrams of one exporter that came by two sockets may change places on the way, by some milliseconds. The owner
//! of the collector takes the deliveries of all decoders from one queue.
//!
//! ```text
//! kernel ─▶ receive ─▶ [bursts] ─▶ decode ─▶ [deliveries] ─▶ next
//!           leaves them in         waits
//!           the kernel when full   when full
//! ```
//!
//! A receive thread that has found few datagrams sleeps for a millisecond before it asks for more. The kernel holds
//! them as well as we do, and waking up for each datagram costs more than reading it.
//!
//! Sessions over TCP, TLS, SCTP and DTLS have threads of their own and share one decoder: see [`crate::stream`].

mod queue;
mod udp;

use std::hash::BuildHasher;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, bounded};
use queue::{BurstSender, burst_queue};
use weir_flow::{Counter, Delivery, SequenceRow};
use weir_secure::{TlsError, TlsServerOptions};

use self::udp::{DecodeThread, ReceiveThread};
use crate::burst::Pool;
use crate::deliver::Outgoing;
use crate::listening::SecureServers;
use crate::rate::{RateLimiter, source_of};
use crate::relay::network::Allowed;
use crate::relay::{AgentRule, Network, Relay, RelayError, RelayOptions};
use crate::socket::{self, ReceiveSocket, SocketInfo};
use crate::spool::SpoolError;
use crate::state::file::WriteFailures;
use crate::state::persistence::Persistence;
use crate::stream::{SessionLimits, Sessions, Tally};
use crate::{Decoder, DecoderStatistics, Diagnosis, Limits, Listener, ListenerInfo, listening};

/// Who may send.
#[derive(Debug, Clone, Default)]
pub struct Senders {
    /// Networks of those who may; everybody when there is none. What others send is counted under
    /// `datagrams_not_allowed` and `connections_refused`, and not looked at.
    pub allowed: Vec<Network>,
    /// The same for each listener, in the order of the listeners. One that has none here goes by `allowed`.
    pub allowed_by_listener: Vec<Vec<Network>>,
    /// Who may speak for agents of sFlow besides themselves; `None`: everybody for all.
    pub agent_rules: Option<Vec<AgentRule>>,
    /// Most datagrams a second, of UDP and DTLS, from one source: an address, or the 64 bits of an IPv6 network in front of
    /// it. It may send [`RATE_DEPTH`](crate::RATE_DEPTH) of that at once; what is more is counted under
    /// `datagrams_over_rate`, and not looked at. `None`: no limit.
    pub rate_per_source: Option<NonZeroU32>,
}

impl Senders {
    /// Networks of those who may send to the listener of this number; everybody when there is none.
    fn networks_of(&self, listener: usize) -> &[Network] {
        let own = self.allowed_by_listener.get(listener).filter(|networks| !networks.is_empty());
        own.unwrap_or(&self.allowed)
    }
}

/// How to collect.
#[derive(Debug, Clone)]
pub struct CollectorOptions {
    /// Where to listen, over any transports.
    pub listeners: Vec<Listener>,
    /// Who may send.
    pub senders: Senders,
    /// Sockets that share the port of a UDP listener, each with a receive thread; also the number of decode threads.
    pub sockets: usize,
    /// Receive buffer to ask for, in octets per socket.
    pub buffer_octets: usize,
    /// Bursts of up to 64 datagrams that wait for a decoder, 64 MiB of them at most; when there is no room, datagrams stay
    /// in the buffer of the kernel.
    pub queue_bursts_max: usize,
    /// Deliveries between the decoders and the owner of the collector.
    pub queue_deliveries_max: usize,
    /// Flows of a delivery, about.
    pub delivery_rows_max: usize,
    /// Longest time that a flow waits for others to join its delivery.
    pub delivery_interval: Duration,
    /// Limits of each decoder.
    pub limits: Limits,
    /// Limits of connections and DTLS sessions.
    pub sessions: SessionLimits,
    /// Our certificate; must be there for listeners of TLS and DTLS.
    pub tls: Option<TlsServerOptions>,
    /// Other collectors that get everything as well.
    pub relay: Option<RelayOptions>,
    /// Folder in which templates, samplers and waiting data are kept from one process to the next; made when it is not
    /// there. `None`: nothing is kept, and data waits in memory only.
    pub state: Option<PathBuf>,
    /// Where the sequence numbers of exporters stood in what is kept of a process before this one, empty when it is
    /// not known; deliveries tell where they stand then. `None`: nobody keeps it.
    pub sequences: Option<Arc<[SequenceRow]>>,
    /// Whether data may be read by templates, and scaled by samplers, that the exporter has sent from another port.
    pub templates_across_ports: bool,
}

impl CollectorOptions {
    /// Defaults for listening to UDP on an address; port 0 takes a free one.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listeners: vec![Listener::udp(listen)],
            senders: Senders::default(),
            sockets: 1,
            buffer_octets: 64 << 20,
            queue_bursts_max: 256,
            queue_deliveries_max: 8,
            delivery_rows_max: 32_768,
            delivery_interval: Duration::from_millis(200),
            limits: Limits::default(),
            sessions: SessionLimits::default(),
            tls: None,
            relay: None,
            state: None,
            sequences: None,
            templates_across_ports: false,
        }
    }
}

/// Why a collector cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// A socket could not be opened.
    #[error("cannot listen on {listen}")]
    Bind {
        /// The listener.
        listen: Listener,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The kernel does not know the transport.
    #[error("cannot listen on {listen}: this kernel has no SCTP\nhint: modprobe sctp loads it where it is a module")]
    NoSctp {
        /// The listener.
        listen: Listener,
    },
    /// A listener of TLS or DTLS without a certificate.
    #[error(
        "cannot listen on {listen} without a certificate\nhint: give the files of a certificate and its private key"
    )]
    NoCertificate {
        /// The listener.
        listen: Listener,
    },
    /// The certificate, its key or the names of peers.
    #[error("cannot offer TLS")]
    Tls(#[from] TlsError),
    /// The relay.
    #[error("cannot relay")]
    Relay(#[from] RelayError),
    /// There is no listener.
    #[error("no address to listen on")]
    NoListener,
    /// A socket failed.
    #[error("cannot receive datagrams")]
    Receive(#[source] io::Error),
    /// The state folder cannot be used.
    #[error("cannot use state folder {path}")]
    State {
        /// The folder.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The folder of waiting data cannot be used.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// A thread could not be started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    /// A thread panicked.
    #[error("thread {0} panicked")]
    Panicked(&'static str),
}

/// What [`Collector::next`] returns.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "one at a time, of a thousand flows and more")]
pub enum Next {
    /// A delivery.
    Delivery(Delivery),
    /// There was none within the time.
    Nothing,
    /// The collector was stopped, and everything that it had received was handed on.
    Ended,
}

/// A running collector. Dropping it stops it; what was not taken is lost then.
#[derive(Debug)]
pub struct Collector {
    shared: Arc<Shared>,
    sockets: Vec<SocketInfo>,
    listeners: Vec<ListenerInfo>,
    receivers: Vec<JoinHandle<ReceiveSocket>>,
    decoders: Vec<JoinHandle<()>>,
    /// Threads that listen for sessions; those of the sessions end before their decoder does.
    acceptors: Vec<JoinHandle<()>>,
    /// The relay's thread, which ends after the decoders.
    relay: Option<JoinHandle<()>>,
    /// The threads that write the state and the spool; they end after the decoders.
    keepers: Vec<JoinHandle<()>>,
    notices: Vec<String>,
    servers: SecureServers,
    /// Failures to store the state.
    unwritten: Arc<WriteFailures>,
    /// Writes of data that wait for their Template that have failed.
    unspooled: Arc<WriteFailures>,
    /// `None` once the collector has ended.
    deliveries: Option<Receiver<Delivery>>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    stop: AtomicBool,
    /// Datagrams of DTLS dropped because their queue was full, and datagrams of UDP whose decoder had ended (`queue_drops`).
    pub(crate) queue_drops: AtomicU64,
    /// Drops of queue and kernel that are in the books.
    queue_drops_booked: AtomicU64,
    kernel_drops_booked: AtomicU64,
    inodes: Vec<u64>,
    /// What the kernel had dropped on sockets that were open before this process.
    kernel_drops_before: u64,
    pub(crate) statistics: Mutex<Vec<Option<DecoderStatistics>>>,
    /// What decoders that have ended saw of each Observation Domain.
    pub(crate) diagnoses: Mutex<Vec<Diagnosis>>,
    /// Why nothing more can be collected.
    failure: Mutex<Option<CollectError>>,
    pool: Pool,
    /// Which decoder decodes what, seeded so that no sender can choose addresses that all go to one decoder.
    seed: foldhash::fast::RandomState,
    rate_per_source: Option<NonZeroU32>,
    /// Counts of connections and relayed datagrams.
    tally: Arc<Tally>,
    pub(crate) sessions: Arc<Sessions>,
}

impl Shared {
    fn new(inodes: Vec<u64>, decoders: usize, options: &CollectorOptions) -> Arc<Self> {
        let allowed = Allowed::new(options.listeners.len(), |listener| options.senders.networks_of(listener));
        let tally = Arc::<Tally>::default();
        Arc::new(Self {
            stop: AtomicBool::new(false),
            queue_drops: AtomicU64::new(0),
            queue_drops_booked: AtomicU64::new(0),
            kernel_drops_booked: AtomicU64::new(0),
            kernel_drops_before: socket::kernel_drops(&inodes),
            inodes,
            statistics: Mutex::new(vec![None; decoders]),
            diagnoses: Mutex::default(),
            failure: Mutex::new(None),
            pool: Pool::default(),
            seed: foldhash::fast::RandomState::default(),
            rate_per_source: options.senders.rate_per_source,
            sessions: Sessions::new(options.sessions.clone(), allowed, Arc::clone(&tally)),
            tally,
        })
    }

    /// What queue and kernel have dropped so far.
    fn drops(&self) -> [(Counter, u64); 2] {
        [
            (Counter::QueueDrops, self.queue_drops.load(Ordering::Relaxed)),
            (Counter::KernelDrops, socket::kernel_drops(&self.inodes).saturating_sub(self.kernel_drops_before)),
        ]
    }

    /// The decoder of everything that comes from an address.
    fn owner(&self, source: SocketAddr, decoders: usize) -> usize {
        if decoders == 1 {
            return 0;
        }
        // a source whose datagrams are counted must not be spread over several counts
        let address = if self.rate_per_source.is_some() { source_of(source.ip()) } else { source.ip().to_canonical() };
        self.seed.hash_one(address) as usize % decoders
    }

    /// A limit on what each source sends, if there is one, for one thread that has the whole of a source.
    pub(crate) fn rate_limiter(&self) -> Option<RateLimiter> {
        self.rate_per_source.map(RateLimiter::new)
    }
}

/// Reads what this machine has dropped so far, while nobody takes deliveries.
#[derive(Debug, Clone)]
pub struct Drops(Arc<Shared>);

impl Drops {
    /// The counters of drops with their values since the start. The kernel's is 0 once the sockets are closed.
    pub fn read(&self) -> [(Counter, u64); 2] {
        self.0.drops()
    }
}

/// Failed attempts to store the state are counted under this name, among the problems of decoders.
const UNWRITTEN: &str = "state_unwritten";
/// And Data Sets that could not be written to wait on disk under this one.
const UNSPOOLED: &str = "spool_unwritten";
/// How often the kernel's drop counters are read.
pub(crate) const DROPS_INTERVAL: Duration = Duration::from_secs(1);

impl Collector {
    /// Finds out whether it could start: whether the files of certificates can be used, and whether the names of other collectors
    /// are known. No socket is opened, and nothing is written.
    pub fn check(options: &CollectorOptions) -> Result<(), CollectError> {
        Self::check_certificates(options)?;
        options.relay.as_ref().map_or(Ok(()), Relay::check).map_err(CollectError::Relay)
    }

    /// Finds out whether [`reload`](Self::reload) could use the files of certificates.
    pub fn check_certificates(options: &CollectorOptions) -> Result<(), CollectError> {
        if options.listeners.is_empty() {
            return Err(CollectError::NoListener);
        }
        listening::check(options)
    }

    /// Opens the sockets and starts the threads.
    pub fn start(options: &CollectorOptions) -> Result<Self, CollectError> {
        Self::check_certificates(options)?;
        let sockets = udp::bind_all(options)?;
        let persistence = Persistence::open(options, sockets.len())?;
        let mut listening = listening::bind(options)?;
        let inodes = sockets.iter().filter_map(ReceiveSocket::inode).chain(listening.inodes()).collect();
        let decoders = sockets.len() + usize::from(!listening.is_empty());
        let shared = Shared::new(inodes, decoders, options);
        let relay = match &options.relay {
            Some(relay) => Some(Relay::start(relay, &shared.tally)?),
            None => None,
        };
        let (relay, relay_thread) = relay.unzip();
        let (deliveries, from_decoders) = bounded(options.queue_deliveries_max.max(1));
        let mut collector = Self {
            sockets: sockets.iter().map(|socket| socket.info).collect(),
            listeners: listening.in_order_of(&options.listeners, &sockets),
            receivers: Vec::new(),
            decoders: Vec::new(),
            acceptors: Vec::new(),
            relay: relay_thread,
            keepers: persistence.threads,
            notices: persistence
                .notice
                .into_iter()
                .chain(listening.notice(&shared.sessions))
                .chain(udp::notice(&sockets, options.sockets))
                .collect(),
            servers: std::mem::take(&mut listening.servers),
            unwritten: persistence.failures,
            unspooled: persistence.spool_failures,
            deliveries: Some(from_decoders),
            shared,
        };
        // Dropped before the collector when a thread cannot be started: the keepers end when all ports are gone.
        let mut ports = persistence.ports;
        let shared = Arc::clone(&collector.shared);
        let queues: Vec<_> = sockets.iter().map(|_| burst_queue(options.queue_bursts_max)).collect();
        let senders: Vec<BurstSender> = queues.iter().map(|(bursts, _)| bursts.clone()).collect();
        let udp_decoders = sockets.len();
        for socket in sockets {
            let work = ReceiveThread { socket, queues: senders.clone(), shared: Arc::clone(&shared) };
            collector.receivers.push(spawn("weir-receive", move || work.run())?);
        }
        drop(senders);
        for (number, (_, bursts)) in queues.into_iter().enumerate() {
            let outgoing = Outgoing::new(number, &deliveries, &shared, options).with_persistence(ports.of_decoder());
            let work = DecodeThread { decoders: udp_decoders, bursts, outgoing, relay: relay.clone() };
            collector.decoders.push(spawn("weir-decode", move || work.run())?);
        }
        if !listening.is_empty() {
            let outgoing = Outgoing::new(decoders - 1, &deliveries, &shared, options);
            listening.start(outgoing, relay, &mut collector.acceptors, &mut collector.decoders)?;
        }
        Ok(collector)
    }

    /// All listeners in the order of the options, with the ports that they got.
    pub fn listeners(&self) -> &[ListenerInfo] {
        &self.listeners
    }

    /// The UDP sockets in use.
    pub fn sockets(&self) -> &[SocketInfo] {
        &self.sockets
    }

    /// Warnings from the start, a line each, some with a hint.
    pub fn notices(&self) -> &[String] {
        &self.notices
    }

    /// A warning since the start, returned once; a line, perhaps with a hint.
    pub fn take_notice(&self) -> Option<String> {
        let of_writes = self.unwritten.take_notice().or_else(|| self.unspooled.take_notice());
        of_writes.or_else(|| self.shared.tally.take_notice())
    }

    /// Takes the networks of these options for those who may send from now on, and reads the files of certificates again.
    /// Sessions that have begun go on. When the files cannot be used, certificates stay as they were: who may send does not wait
    /// for them.
    pub fn reload(&self, options: &CollectorOptions) -> Result<(), CollectError> {
        self.shared.sessions.allowed.replace(|listener| options.senders.networks_of(listener));
        if let Some(tls) = &options.tls {
            self.servers.reload(tls)?;
        }
        Ok(())
    }

    /// What the decoders have seen up to now, at most a delivery interval ago.
    pub fn statistics(&self) -> Vec<DecoderStatistics> {
        let mut statistics: Vec<_> = lock(&self.shared.statistics).iter().flatten().cloned().collect();
        let mut problems = self.shared.tally.problems();
        let unwritten = [(UNWRITTEN, self.unwritten.count()), (UNSPOOLED, self.unspooled.count())];
        problems.extend(unwritten.into_iter().filter(|(_, count)| *count > 0));
        if !problems.is_empty() {
            statistics.push(DecoderStatistics { problems, ..Decoder::new(Limits::default()).statistics() });
        }
        statistics
    }

    /// Where drops can be read as they happen; [`statistics`](Self::statistics) has them when they are in the books, for
    /// which deliveries must be taken.
    pub fn drops(&self) -> Drops {
        Drops(Arc::clone(&self.shared))
    }

    /// What was seen of each Observation Domain, once the collector has ended.
    pub fn diagnoses(&self) -> Vec<Diagnosis> {
        lock(&self.shared.diagnoses).clone()
    }

    /// Asks the collector to end: [`next`](Self::next) then hands on what the kernel still holds and says when that was
    /// all.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.sessions.stop();
    }

    /// The next delivery; waits for it up to `wait`. An error ends the collector; it comes after everything that was
    /// received has been handed on.
    pub fn next(&mut self, wait: Duration) -> Result<Next, CollectError> {
        let Some(deliveries) = &self.deliveries else { return self.ended() };
        if self.receivers.iter().any(JoinHandle::is_finished)
            || self.acceptors.iter().chain(&self.decoders).any(JoinHandle::is_finished)
            || self.keepers.iter().chain(&self.relay).any(JoinHandle::is_finished)
        {
            // one thread that has ended ends the others; the error is returned when all has been handed on
            self.stop();
        }
        match deliveries.recv_timeout(wait) {
            Ok(delivery) => Ok(Next::Delivery(delivery)),
            Err(RecvTimeoutError::Timeout) => Ok(Next::Nothing),
            Err(RecvTimeoutError::Disconnected) => Ok(self.finish()),
        }
        .and_then(|next| if matches!(next, Next::Ended) { self.ended() } else { Ok(next) })
    }

    /// All decoders have ended: closes the sockets and enters in the books what was dropped last.
    fn finish(&mut self) -> Next {
        self.deliveries = None;
        let mut panicked = None;
        for decoder in self.decoders.drain(..) {
            if decoder.join().is_err() {
                panicked = Some(CollectError::Panicked("weir-decode"));
            }
        }
        for keeper in self.keepers.drain(..) {
            if keeper.join().is_err() {
                panicked = Some(CollectError::Panicked("weir-state"));
            }
        }
        // Other sockets may have gone on dropping after the decoder that books drops had ended: they are closed when
        // these counts have been read.
        let mut sockets = Vec::new();
        for receiver in self.receivers.drain(..) {
            match receiver.join() {
                Ok(socket) => sockets.push(socket),
                Err(_) => panicked = Some(CollectError::Panicked("weir-receive")),
            }
        }
        for acceptor in self.acceptors.drain(..) {
            if acceptor.join().is_err() {
                panicked = Some(CollectError::Panicked("weir-accept"));
            }
        }
        if self.relay.take().is_some_and(|relay| relay.join().is_err()) {
            panicked = Some(CollectError::Panicked("weir-relay"));
        }
        if let Some(panicked) = panicked {
            lock(&self.shared.failure).get_or_insert(panicked);
        }
        let mut books = Decoder::new(Limits::default());
        book_drops(&self.shared, &mut books);
        drop(sockets);
        let delivery = books.take_delivery();
        if delivery.is_empty() {
            return Next::Ended;
        }
        lock(&self.shared.statistics).push(Some(books.statistics()));
        Next::Delivery(delivery)
    }

    fn ended(&self) -> Result<Next, CollectError> {
        match lock(&self.shared.failure).take() {
            Some(failure) => Err(failure),
            None => Ok(Next::Ended),
        }
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.stop();
        // decoders that wait for the queue find that it is closed
        self.deliveries = None;
        for decoder in self.decoders.drain(..) {
            let _ = decoder.join();
        }
        for receiver in self.receivers.drain(..) {
            let _ = receiver.join();
        }
        for thread in self.acceptors.drain(..).chain(self.relay.take()).chain(self.keepers.drain(..)) {
            let _ = thread.join();
        }
    }
}

pub(crate) fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, CollectError> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map_err(CollectError::Thread)
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Enters the drops of queue and kernel that are not in the books yet.
pub(crate) fn book_drops(shared: &Shared, decoder: &mut Decoder) {
    let now_ms = socket::now_ms();
    let booked = [&shared.queue_drops_booked, &shared.kernel_drops_booked];
    for ((counter, seen), booked) in shared.drops().into_iter().zip(booked) {
        let before = booked.fetch_max(seen, Ordering::Relaxed);
        decoder.count_unassigned(now_ms, counter, seen.saturating_sub(before));
    }
    for (counter, count) in shared.tally.not_booked() {
        decoder.count_unassigned(now_ms, counter, count);
    }
}
