//! The live collector: sockets, threads and the queues between them.
//!
//! There are as many receive threads, each with a socket, as decode threads. The kernel deals datagrams out evenly
//! over the sockets that share the port, because most may come from one exporter. A decode thread is given every
//! burst and takes the datagrams of its own exporters from it, so it owns what it knows of them and nothing is locked.
//! Datagrams of one exporter that came by two sockets may change places on the way, by some milliseconds. Whoever owns
//! the collector takes the deliveries of all decoders from one queue.
//!
//! ```text
//! kernel ─▶ receive ─▶ [bursts] ─▶ decode ─▶ [deliveries] ─▶ next
//!           drops and counts       waits
//!           when full              when full
//! ```
//!
//! A receive thread that has found few datagrams sleeps for a millisecond before it asks for more. The kernel holds
//! them as well as we do, and waking up for each datagram costs more than reading it.

use std::hash::BuildHasher;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use weir_flow::{Counter, Delivery};

use crate::burst::{BURST_DATAGRAMS, Burst, Pool};
use crate::socket::{self, ReceiveSocket, Room, SocketInfo};
use crate::{Decoder, DecoderStatistics, Limits};

/// How to collect.
#[derive(Debug, Clone)]
pub struct CollectorOptions {
    /// Address and port to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Sockets that share the port, each with a receive thread; also the number of decode threads.
    pub sockets: usize,
    /// Receive buffer to ask for, in octets per socket.
    pub buffer_octets: usize,
    /// Bursts of up to 64 datagrams that wait for a decoder; when full, datagrams are dropped and counted
    /// under `queue_drops`.
    pub queue_bursts_max: usize,
    /// Deliveries between the decoders and whoever takes them.
    pub queue_deliveries_max: usize,
    /// Flows of a delivery, about.
    pub delivery_rows_max: usize,
    /// Longest time that a flow waits for others to join its delivery.
    pub delivery_interval: Duration,
    /// Limits of each decoder.
    pub limits: Limits,
}

impl CollectorOptions {
    /// Defaults for listening on an address.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            sockets: 1,
            buffer_octets: 64 << 20,
            queue_bursts_max: 256,
            queue_deliveries_max: 8,
            delivery_rows_max: 32_768,
            delivery_interval: Duration::from_millis(200),
            limits: Limits::default(),
        }
    }
}

/// Why collecting could not begin or go on.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// A socket could not be opened.
    #[error("cannot listen on {listen}")]
    Bind {
        /// The address asked for.
        listen: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A socket failed.
    #[error("cannot receive")]
    Receive(#[source] io::Error),
    /// A thread could not be started.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
    /// A thread ended by a panic.
    #[error("thread {0} ended by a panic")]
    Panicked(&'static str),
}

/// What a call of [`Collector::next`] came to.
#[derive(Debug)]
pub enum Next {
    /// A delivery.
    Delivery(Delivery),
    /// None came within the time.
    Nothing,
    /// The collector was stopped, and everything that it had received was handed on.
    Ended,
}

/// A running collector. Dropping it stops it; what was not taken is lost then.
#[derive(Debug)]
pub struct Collector {
    shared: Arc<Shared>,
    sockets: Vec<SocketInfo>,
    receivers: Vec<JoinHandle<ReceiveSocket>>,
    decoders: Vec<JoinHandle<()>>,
    /// `None` once the collector has ended.
    deliveries: Option<Receiver<Delivery>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// Datagrams that found their queue full.
    queue_drops: AtomicU64,
    /// Drops of queue and kernel that are in the books.
    queue_drops_booked: AtomicU64,
    kernel_drops_booked: AtomicU64,
    inodes: Vec<u64>,
    statistics: Mutex<Vec<Option<DecoderStatistics>>>,
    /// Why nothing more can be collected.
    failure: Mutex<Option<CollectError>>,
    pool: Pool,
    /// Who decodes what, seeded so that nobody can choose addresses that all go to one decoder.
    seed: foldhash::fast::RandomState,
}

impl Shared {
    /// The decoder of everything that comes from an address.
    fn owner(&self, source: SocketAddr, decoders: usize) -> usize {
        if decoders == 1 { 0 } else { self.seed.hash_one(source.ip()) as usize % decoders }
    }
}

/// How long a receive thread lets datagrams gather in the kernel when it has found few.
const GATHER: Duration = Duration::from_millis(1);
/// Longest time that stopping goes on reading what the kernel still holds.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// How often the kernel's drop counters are read.
const DROPS_INTERVAL: Duration = Duration::from_secs(1);

impl Collector {
    /// Opens the sockets and starts the threads.
    pub fn start(options: &CollectorOptions) -> Result<Self, CollectError> {
        let sockets = bind_all(options)?;
        let shared = Arc::new(Shared {
            inodes: sockets.iter().filter_map(ReceiveSocket::inode).collect(),
            statistics: Mutex::new(vec![None; sockets.len()]),
            ..Shared::default()
        });
        let (deliveries, from_decoders) = bounded(options.queue_deliveries_max.max(1));
        let mut collector = Self {
            sockets: sockets.iter().map(|socket| socket.info).collect(),
            receivers: Vec::new(),
            decoders: Vec::new(),
            deliveries: Some(from_decoders),
            shared,
        };
        let decoders = sockets.len();
        let queues: Vec<_> = (0..decoders).map(|_| bounded(options.queue_bursts_max.max(1))).collect();
        let senders: Vec<Sender<_>> = queues.iter().map(|(bursts, _)| bursts.clone()).collect();
        for socket in sockets {
            let work = ReceiveThread { socket, queues: senders.clone(), shared: Arc::clone(&collector.shared) };
            collector.receivers.push(spawn("weir-receive", move || work.run())?);
        }
        drop(senders);
        for (number, (_, bursts)) in queues.into_iter().enumerate() {
            let work = DecodeThread {
                number,
                decoders,
                bursts,
                deliveries: deliveries.clone(),
                shared: Arc::clone(&collector.shared),
                options: options.clone(),
            };
            collector.decoders.push(spawn("weir-decode", move || work.run())?);
        }
        Ok(collector)
    }

    /// The sockets in use.
    pub fn sockets(&self) -> &[SocketInfo] {
        &self.sockets
    }

    /// What the decoders have seen up to now, at most a delivery interval ago.
    pub fn statistics(&self) -> Vec<DecoderStatistics> {
        lock(&self.shared.statistics).iter().flatten().cloned().collect()
    }

    /// Asks the collector to end: [`next`](Self::next) then hands on what the kernel still holds and says when that was
    /// all.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Release);
    }

    /// The next delivery, for which it waits so long. An error ends the collector; it comes after everything that was
    /// received has been handed on.
    pub fn next(&mut self, wait: Duration) -> Result<Next, CollectError> {
        let Some(deliveries) = &self.deliveries else { return self.ended() };
        if self.receivers.iter().any(JoinHandle::is_finished) || self.decoders.iter().any(JoinHandle::is_finished) {
            // one socket that has ended ends the others; why is told when all has been handed on
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
        // Other sockets may have gone on dropping after the decoder that books drops had ended: they are closed when
        // these counts have been read.
        let mut sockets = Vec::new();
        for receiver in self.receivers.drain(..) {
            match receiver.join() {
                Ok(socket) => sockets.push(socket),
                Err(_) => panicked = Some(CollectError::Panicked("weir-receive")),
            }
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
        // decoders that wait for room in the queue find that nobody takes anything any more
        self.deliveries = None;
        for decoder in self.decoders.drain(..) {
            let _ = decoder.join();
        }
        for receiver in self.receivers.drain(..) {
            let _ = receiver.join();
        }
    }
}

fn bind_all(options: &CollectorOptions) -> Result<Vec<ReceiveSocket>, CollectError> {
    let bind = |listen| {
        let share = options.sockets > 1;
        ReceiveSocket::bind(listen, options.buffer_octets, share)
            .map_err(|source| CollectError::Bind { listen, source })
    };
    if options.listen.port() != 0 {
        // Sockets that share a port would share it with another collector as well, and split its exporters with it.
        drop(UdpSocket::bind(options.listen).map_err(|source| CollectError::Bind { listen: options.listen, source })?);
    }
    let first = bind(options.listen)?;
    // the others share whatever port the first one got
    let shared = SocketAddr::new(options.listen.ip(), first.info.local.port());
    let mut sockets = vec![first];
    for _ in 1..options.sockets.max(1) {
        sockets.push(bind(shared)?);
    }
    if sockets.len() > 1 {
        // Kernels that cannot (before 4.5) send all datagrams of one exporter to the same socket, as they always did.
        let _ = sockets[0].deal_out_over(sockets.len());
    }
    Ok(sockets)
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, CollectError> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map_err(CollectError::Thread)
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The receive thread: from the socket into the queues, and never waiting for a queue.
struct ReceiveThread {
    socket: ReceiveSocket,
    /// One for each decoder.
    queues: Vec<Sender<Arc<Burst>>>,
    shared: Arc<Shared>,
}

impl ReceiveThread {
    fn run(self) -> ReceiveSocket {
        let mut room = Room::new();
        let mut drain_until = None;
        loop {
            let mut burst = self.shared.pool.take();
            let received = match self.socket.receive(&mut room, &mut burst) {
                Ok(received) => received,
                Err(error) => {
                    *lock(&self.shared.failure) = Some(CollectError::Receive(error));
                    return self.socket;
                }
            };
            let is_stopped = self.shared.stop.load(Ordering::Acquire);
            // nothing comes any more after the last one, so waiting for room costs nothing then
            self.hand_on(burst, is_stopped);
            if is_stopped {
                let until = *drain_until.get_or_insert_with(|| Instant::now() + DRAIN_MAX);
                if received == 0 || Instant::now() >= until {
                    return self.socket;
                }
            } else if (1..BURST_DATAGRAMS / 2).contains(&received) {
                thread::sleep(GATHER);
            }
        }
    }

    /// Gives the burst to every decoder that has datagrams in it. When a queue is full they are dropped: taking
    /// datagrams from the kernel only to drop them keeps the ones that come fresh, and the count exact.
    fn hand_on(&self, burst: Burst, may_wait: bool) {
        let burst = Arc::new(burst);
        for (number, queue) in self.queues.iter().enumerate() {
            let owned = burst.datagrams().filter(|(arrival, _)| self.owner(arrival.source) == number).count();
            if owned == 0 {
                continue;
            }
            let share = Arc::clone(&burst);
            let dropped = if may_wait {
                queue.send(share).map_err(|unsent| unsent.0)
            } else {
                queue.try_send(share).map_err(TrySendError::into_inner)
            };
            if let Err(share) = dropped {
                self.shared.queue_drops.fetch_add(owned as u64, Ordering::Relaxed);
                self.shared.pool.give_back(share);
            }
        }
        self.shared.pool.give_back(burst);
    }

    fn owner(&self, source: SocketAddr) -> usize {
        self.shared.owner(source, self.queues.len())
    }
}

struct DecodeThread {
    number: usize,
    decoders: usize,
    bursts: Receiver<Arc<Burst>>,
    deliveries: Sender<Delivery>,
    shared: Arc<Shared>,
    options: CollectorOptions,
}

impl DecodeThread {
    fn run(self) {
        let mut decoder = Decoder::new(self.options.limits.clone());
        let mut due = Instant::now() + self.options.delivery_interval;
        let mut drops_read_at: Option<Instant> = None;
        loop {
            match self.bursts.recv_deadline(due) {
                Ok(burst) => {
                    for (arrival, payload) in burst.datagrams() {
                        if self.shared.owner(arrival.source, self.decoders) != self.number {
                            continue;
                        }
                        decoder.datagram(arrival.source, arrival.received_ms, payload);
                        if decoder.is_full() {
                            self.deliver(&mut decoder);
                        }
                    }
                    self.shared.pool.give_back(burst);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if decoder.rows() >= self.options.delivery_rows_max || Instant::now() >= due {
                decoder.expire(socket::now_ms());
                // The first decoder keeps the books on what cannot be told apart by exporter.
                if self.number == 0 && drops_read_at.is_none_or(|at| at.elapsed() >= DROPS_INTERVAL) {
                    book_drops(&self.shared, &mut decoder);
                    drops_read_at = Some(Instant::now());
                }
                self.deliver(&mut decoder);
                due = Instant::now() + self.options.delivery_interval;
            }
        }
        self.deliver(&mut decoder);
    }

    fn deliver(&self, decoder: &mut Decoder) {
        loop {
            let delivery = decoder.take_delivery();
            if delivery.is_empty() {
                break;
            }
            // nobody takes it only when the collector was dropped
            let _ = self.deliveries.send(delivery);
        }
        if let Some(slot) = lock(&self.shared.statistics).get_mut(self.number) {
            *slot = Some(decoder.statistics());
        }
    }
}

/// Enters the drops of queue and kernel that are not in the books yet.
fn book_drops(shared: &Shared, decoder: &mut Decoder) {
    let now_ms = socket::now_ms();
    let drops = [
        (Counter::QueueDrops, shared.queue_drops.load(Ordering::Relaxed), &shared.queue_drops_booked),
        (Counter::KernelDrops, socket::kernel_drops(&shared.inodes), &shared.kernel_drops_booked),
    ];
    for (counter, seen, booked) in drops {
        let before = booked.fetch_max(seen, Ordering::Relaxed);
        decoder.count_unassigned(now_ms, counter, seen.saturating_sub(before));
    }
}
