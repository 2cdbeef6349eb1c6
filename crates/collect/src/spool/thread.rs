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
use crate::waiting::spooled::SpoolRequest;
use crate::{Decoder, Limits};

/// Requests, and answers for each decoder, on their way.
const QUEUE_MAX: usize = 1_024;
/// How often sets that have waited too long are looked for.
const EXPIRE_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time that a decoder which ends waits for the disk.
const CLOSE_MAX: Duration = Duration::from_secs(5);
/// How often it is looked whether the thread can be asked, when its queue is full.
const CONFIRM_EVERY: Duration = Duration::from_millis(5);

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

    /// Waits until the disk has taken, or given back, everything that was sent to it. False when it hangs.
    fn confirm(&self, decoder: &mut Decoder, until: Instant) -> bool {
        let mut question = Some(Request(SpoolRequest::Confirm));
        while Instant::now() < until && !decoder.is_full() {
            if let Some(request) = question.take()
                && let Err(TrySendError::Full((_, request))) = self.requests.try_send((self.decoder, request))
            {
                question = Some(request);
            }
            match self.answers.recv_timeout(CONFIRM_EVERY) {
                Ok(Answer(SpoolAnswer::Confirmed)) => return true,
                Ok(answer) => decoder.spool_answer(answer),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        false
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
            let is_sent =
                |port: &Self, decoder: &Decoder| decoder.statistics().sets_waiting == 0 && port.next.is_none();
            // what the disk did not take is in memory again
            if is_sent(&self, decoder) && self.confirm(decoder, until) && is_sent(&self, decoder) {
                deliver(decoder);
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

#[cfg(test)]
mod tests {
    use weir_flow::Counter;

    use super::*;

    /// A message of IPFIX (RFC 7011) with a Data Set of a Template that is not known.
    const MESSAGE: [u8; 24] = [0, 10, 0, 24, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 8, 1, 2, 3, 4];

    #[test]
    fn what_the_disk_refuses_at_the_end_is_counted_and_said() {
        for refuses in [true, false] {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("spool");
            let failures = Arc::<WriteFailures>::default();
            let (thread, mut ports) =
                start(&path, &Limits::default(), 1, Arc::clone(&failures)).expect("a folder that can be used");
            if refuses {
                std::fs::remove_dir(&path).expect("removed");
                std::fs::write(&path, []).expect("a file in its place");
            }
            let mut decoder = Decoder::new(Limits::default()).with_spool();
            decoder.datagram(([192, 0, 2, 1], 4739).into(), crate::socket::now_ms(), &MESSAGE);
            assert_eq!(decoder.statistics().sets_waiting, 1);
            ports.pop().expect("a port").close(&mut decoder, |_| ());
            thread.expect("a thread").join().expect("no panic");
            let seen = decoder.statistics();
            assert_eq!((seen.sets_waiting, seen.total(Counter::SetsExpired)), (0, u64::from(refuses)));
            assert_eq!((failures.count(), failures.take_notice().is_some()), (u64::from(refuses), refuses));
        }
    }
}
