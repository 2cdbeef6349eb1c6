//! The live collector: sockets, threads and the queues between them.
//!
//! Each socket has a receive thread and a decode thread. The kernel spreads exporters over the sockets that share
//! the port, and all datagrams of one exporter reach the same socket, so a decoder owns what it knows of its
//! exporters and nothing is locked. Whoever owns the collector takes the deliveries of all decoders from one queue.
//!
//! ```text
//! kernel ─▶ receive ─▶ [bursts] ─▶ decode ─▶ [deliveries] ─▶ next
//!           drops and counts       waits
//!           when full              when full
//! ```

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded, unbounded};
use weir_flow::{Counter, Delivery};

use crate::burst::Burst;
use crate::socket::{self, Headers, ReceiveSocket, SocketInfo};
use crate::{Decoder, DecoderStatistics, Limits};

/// How to collect.
#[derive(Debug, Clone)]
pub struct CollectorOptions {
    /// Address and port to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Sockets that share the port, each with two threads.
    pub sockets: usize,
    /// Receive buffer to ask for, in octets per socket.
    pub buffer_octets: usize,
    /// Bursts of up to 64 datagrams between a socket and its decoder; when full, datagrams are dropped and counted
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
}

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
        for (number, socket) in sockets.into_iter().enumerate() {
            let (bursts, from_socket) = bounded(options.queue_bursts_max.max(1));
            let (free, to_fill) = unbounded();
            let shared = Arc::clone(&collector.shared);
            let receive = move || receive(socket, &bursts, &to_fill, &shared);
            collector.receivers.push(spawn("weir-receive", receive)?);
            let work = DecodeThread {
                number,
                bursts: from_socket,
                free,
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

/// The receive thread: from the socket into the queue, and never waiting for the queue.
fn receive(socket: ReceiveSocket, queue: &Sender<Burst>, free: &Receiver<Burst>, shared: &Shared) -> ReceiveSocket {
    let (mut headers, mut burst) = (Headers::new(), Burst::new());
    let mut drain_until = None;
    loop {
        if burst.is_full() {
            // Queue and burst are full. Taking datagrams from the kernel only to drop them keeps the ones that come
            // fresh, and the count exact.
            shared.queue_drops.fetch_add(burst.len() as u64, Ordering::Relaxed);
            burst.clear();
        }
        let received = match socket.receive(&mut headers, &mut burst) {
            Ok(received) => received,
            Err(error) => {
                *lock(&shared.failure) = Some(CollectError::Receive(error));
                // what a full queue has not taken yet ends with this thread
                shared.queue_drops.fetch_add(burst.len() as u64, Ordering::Relaxed);
                return socket;
            }
        };
        if burst.len() > 0 {
            match queue.try_send(burst) {
                Ok(()) => burst = free.try_recv().unwrap_or_else(|_| Burst::new()),
                Err(TrySendError::Full(back)) => burst = back,
                Err(TrySendError::Disconnected(_)) => return socket,
            }
        }
        if shared.stop.load(Ordering::Acquire) {
            let until = *drain_until.get_or_insert_with(|| Instant::now() + DRAIN_MAX);
            if received == 0 || Instant::now() >= until {
                break;
            }
        }
    }
    if burst.len() > 0 {
        // nothing comes any more, so waiting for room costs nothing
        let datagrams = burst.len() as u64;
        if queue.send(burst).is_err() {
            shared.queue_drops.fetch_add(datagrams, Ordering::Relaxed);
        }
    }
    socket
}

struct DecodeThread {
    number: usize,
    bursts: Receiver<Burst>,
    free: Sender<Burst>,
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
                Ok(mut burst) => {
                    for (arrival, payload) in burst.datagrams() {
                        decoder.datagram(arrival.source, arrival.received_ms, payload);
                        if decoder.is_full() {
                            self.deliver(&mut decoder);
                        }
                    }
                    burst.clear();
                    // the receiver may have ended already
                    let _ = self.free.send(burst);
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
