//! Answers on their way to clients, and how much memory they may take.
//!
//! An answer is whole before it is sent, and its question has ended by then: what a client does not take is in none of the
//! limits of questions. So each large body has a permit for its octets, which goes with these until the last of them is
//! written, and an answer for which there is no room is refused. It does not wait for room: whoever reads slowly would then
//! hold the turns of others. Bodies are handed on in pieces, because a connection may copy what it is given.
//!
//! A client that reads a little from time to time keeps its permits as long as it likes. So each user has a share of the
//! memory, and so has each address of clients without a user: one of them does not make the answers of all others refused.
//! An answer that is larger than a share is sent nevertheless when its recipient has no other one. Where there are no users,
//! all clients are on this machine and may use all of the memory.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::access::Asker;
use crate::problem::{Answered, Problem};
use crate::rate_limit::site;

/// Octets of a permit.
const UNIT_OCTETS: u64 = 1 << 10;
/// Bodies up to this are not counted: so many connections as there may be take little memory with them, and pages go on.
const FREE_OCTETS: u64 = 64 << 10;
/// Octets that are handed to a connection at a time.
const PIECE_OCTETS: usize = 64 << 10;
/// The part of the memory, as a divisor, that one recipient may use.
const RECIPIENT_PART: u32 = 4;

/// Who has a share of the memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Recipient {
    /// A user.
    User(String),
    /// Clients of one address, or of one network of IPv6, that no user was needed for.
    Address(IpAddr),
}

impl Recipient {
    /// The recipient of an answer; `None` where there are no users, so that no share is counted.
    pub(crate) fn of(asker: Option<&Asker>, from: IpAddr) -> Option<Self> {
        match asker {
            Some(asker) if asker.is_local() => None,
            Some(asker) => Some(Self::User(asker.name.clone())),
            None => Some(Self::Address(site(from))),
        }
    }
}

/// Answers on their way, together at most as many octets as were asked for.
#[derive(Debug)]
pub(crate) struct Sending {
    units: Arc<Semaphore>,
    units_max: u32,
    shares: Arc<Shares>,
    refused: AtomicU64,
}

/// Units of each recipient that has an answer on its way; never more entries than units.
#[derive(Debug, Default)]
struct Shares(Mutex<HashMap<Recipient, u32>>);

impl Shares {
    fn lock(&self) -> MutexGuard<'_, HashMap<Recipient, u32>> {
        // every step under the lock leaves whole values behind
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sending {
    pub(crate) fn new(octets_max: u64) -> Self {
        let units_max = u32::try_from(octets_max / UNIT_OCTETS).unwrap_or(u32::MAX).max(1);
        let units = Arc::new(Semaphore::new(units_max as usize));
        Self { units, units_max, shares: Arc::default(), refused: AtomicU64::new(0) }
    }

    /// The same response, whose body counts until it is written; a refusal when there is no room for it, in all or in the share
    /// of its recipient. One that is larger than all that may be on their way takes all of it.
    pub(crate) fn counted(&self, response: Response, to: Option<Recipient>) -> Response {
        let octets = response.body().size_hint().exact().unwrap_or(0);
        if octets <= FREE_OCTETS {
            return response;
        }
        let units = u32::try_from(octets.div_ceil(UNIT_OCTETS)).unwrap_or(u32::MAX).min(self.units_max);
        match self.permit(units, to) {
            Ok(permit) => {
                response.map(|body| Body::new(CountedBody { body, piece: Bytes::new(), permit: Arc::new(permit) }))
            }
            Err(problem) => {
                self.refused.fetch_add(1, Ordering::Relaxed);
                problem.into_response()
            }
        }
    }

    fn permit(&self, units: u32, to: Option<Recipient>) -> Answered<Permit> {
        // held until the units are counted, so that two answers do not both take the rest of a share
        let mut shares = self.shares.lock();
        let taken = to.as_ref().and_then(|to| shares.get(to)).copied().unwrap_or(0);
        let with_this = taken.saturating_add(units);
        if taken > 0 && with_this > self.units_max / RECIPIENT_PART {
            let octets = u64::from(taken) * UNIT_OCTETS;
            return Err(Problem::unavailable(format!("answers of {octets} octets wait for you to take them"))
                .with_hint("read those first: you have a quarter of what the option 'sending_max' lets wait"));
        }
        let of_all = Arc::clone(&self.units).try_acquire_many_owned(units).map_err(|_| {
            Problem::unavailable(format!("answers of {} octets wait for clients to take them", self.octets()))
                .with_hint("ask again when others have read theirs; the option 'sending_max' sets how much may wait")
        })?;
        let share = to.map(|recipient| {
            shares.insert(recipient.clone(), with_this);
            Share { shares: Arc::clone(&self.shares), recipient, units }
        });
        Ok(Permit { _of_all: of_all, _share: share })
    }

    /// Octets on their way.
    pub(crate) fn octets(&self) -> u64 {
        (self.units_max as u64).saturating_sub(self.units.available_permits() as u64) * UNIT_OCTETS
    }

    /// Answers that were refused.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// What a body counts, until it is dropped.
struct Permit {
    _of_all: OwnedSemaphorePermit,
    _share: Option<Share>,
}

/// Units of a recipient, given back when it is dropped.
struct Share {
    shares: Arc<Shares>,
    recipient: Recipient,
    units: u32,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut shares = self.shares.lock();
        if let Some(taken) = shares.get_mut(&self.recipient) {
            *taken = taken.saturating_sub(self.units);
            if *taken == 0 {
                shares.remove(&self.recipient);
            }
        }
    }
}

/// A body that counts.
struct CountedBody {
    body: Body,
    /// What is left of its frame.
    piece: Bytes,
    permit: Arc<Permit>,
}

/// Octets and their permit, until the last piece of them is gone.
struct CountedOctets {
    octets: Bytes,
    _permit: Arc<Permit>,
}

impl AsRef<[u8]> for CountedOctets {
    fn as_ref(&self) -> &[u8] {
        &self.octets
    }
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        if this.piece.is_empty() {
            let frame = match ready!(Pin::new(&mut this.body).poll_frame(context)) {
                Some(Ok(frame)) => frame,
                other => return Poll::Ready(other),
            };
            match frame.into_data() {
                Ok(octets) => {
                    this.piece = Bytes::from_owner(CountedOctets { octets, _permit: Arc::clone(&this.permit) });
                }
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let octets = this.piece.len().min(PIECE_OCTETS);
        Poll::Ready(Some(Ok(Frame::data(this.piece.split_to(octets)))))
    }

    fn is_end_stream(&self) -> bool {
        self.piece.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let left = self.body.size_hint().exact();
        left.map_or_else(SizeHint::default, |left| SizeHint::with_exact(left + self.piece.len() as u64))
    }
}

#[cfg(test)]
mod tests;
