//! The thread that waits for the disk, and the ports by which decoders reach it.
//!
//! Both ways are bounded queues. A decoder never waits for its port: what does not fit stays in the decoder's outbox,
//! which is bounded as well. The thread does wait for decoders, so that what comes back from disk does not fill the
//! memory.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};

use super::{Answer, Request, Spool, SpoolError};
use crate::state::file::WriteFailures;
use crate::waiting::SpoolAnswer;
use crate::{Decoder, Limits};

/// Requests, and answers for each decoder, on their way.
const QUEUE_MAX: usize = 1_024;
/// How often sets that have waited too long are looked for.
const EXPIRE_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time that a decoder which ends waits for the disk.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// How one decoder reaches the spool.
#[derive(Debug)]
pub(crate) struct SpoolPort {
    decoder: u16,
    requests: Sender<(u16, Request)>,
    answers: Receiver<Answer>,
    /// A request that found the queue full.
    next: Option<Request>,
}

/// Opens a folder and starts the thread, which ends when all ports are gone.
pub(crate) fn start(
    folder: &Path,
    limits: &Limits,
    decoders: usize,
    failures: Arc<WriteFailures>,
) -> Result<(io::Result<JoinHandle<()>>, Vec<SpoolPort>), SpoolError> {
    let mut spool = Spool::open(folder, limits, decoders as u16)?;
    let (requests, from_decoders) = bounded(QUEUE_MAX);
    let (senders, ports): (Vec<_>, Vec<_>) = (0..decoders as u16)
        .map(|decoder| {
            let (sender, answers) = bounded(QUEUE_MAX);
            (sender, SpoolPort { decoder, requests: requests.clone(), answers, next: None })
        })
        .unzip();
    let failures = Failures { path: folder.to_owned(), counted: 0, failures };
    let work = move || serve(&mut spool, &from_decoders, &senders, failures);
    Ok((thread::Builder::new().name("weir-spool".to_owned()).spawn(work), ports))
}

/// Failed attempts to write, as they are counted and said.
struct Failures {
    path: PathBuf,
    /// How many are counted.
    counted: u64,
    failures: Arc<WriteFailures>,
}

impl Failures {
    fn look(&mut self, spool: &mut Spool) {
        let failed = spool.statistics().writes_failed;
        if failed == self.counted {
            return;
        }
        self.failures.count_more(failed - self.counted);
        self.counted = failed;
        if let Some(error) = spool.take_failure() {
            self.failures.say(format!(
                "cannot write data that wait for their Template to {}: {error}; they wait in memory, as many as there is room \
                 for, and the disk is tried again in a minute\nhint: free space on the disk, or set another folder with \
                 state",
                self.path.display()
            ));
        }
    }
}

fn serve(spool: &mut Spool, requests: &Receiver<(u16, Request)>, senders: &[Sender<Answer>], mut failures: Failures) {
    let mut answer_to = |decoder: u16, answer| {
        senders.get(usize::from(decoder)).is_some_and(|sender: &Sender<Answer>| sender.send(answer).is_ok())
    };
    spool.report_found(&mut answer_to);
    spool.keep_ages();
    let mut due = Instant::now() + EXPIRE_INTERVAL;
    loop {
        match requests.recv_deadline(due) {
            Ok((decoder, request)) => {
                spool.serve(decoder, request, &mut answer_to);
                failures.look(spool);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if Instant::now() >= due {
            spool.expire_now(&mut answer_to);
            due = Instant::now() + EXPIRE_INTERVAL;
        }
    }
}

impl SpoolPort {
    /// Hands on what the decoder asks and gives it what was answered, as much as goes without waiting. A decoder that
    /// is full gets nothing more.
    pub(crate) fn exchange(&mut self, decoder: &mut Decoder) {
        while !decoder.is_full()
            && let Ok(answer) = self.answers.try_recv()
        {
            decoder.spool_answer(answer);
        }
        while let Some(request) = self.next.take().or_else(|| decoder.spool_request()) {
            match self.requests.try_send((self.decoder, request)) {
                Ok(()) => {}
                Err(TrySendError::Full((_, request))) => {
                    self.next = Some(request);
                    return;
                }
                // the thread panicked, which is reported when it is joined
                Err(TrySendError::Disconnected(_)) => return,
            }
        }
    }

    /// Whether answers wait to be taken.
    pub(crate) fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Sends what waits in memory to disk, for the process after this one. `deliver` takes what the decoder has made.
    pub(crate) fn close(mut self, decoder: &mut Decoder, mut deliver: impl FnMut(&mut Decoder)) {
        let until = Instant::now() + CLOSE_MAX;
        while decoder.is_recalling() && Instant::now() < until {
            self.exchange(decoder);
            deliver(decoder);
            thread::yield_now();
        }
        while Instant::now() < until {
            decoder.spool_all();
            self.exchange(decoder);
            deliver(decoder);
            let waiting = decoder.statistics().sets_waiting;
            if waiting == 0 && self.next.is_none() {
                return;
            }
            thread::yield_now();
        }
        // the disk hangs; what it has returned is not lost for that, and what is in memory is counted
        while let Ok(answer) = self.answers.try_recv() {
            decoder.spool_answer(answer);
            deliver(decoder);
        }
        decoder.spool_answer(Answer(SpoolAnswer::TakesNone));
        decoder.spool_all();
        deliver(decoder);
    }
}
