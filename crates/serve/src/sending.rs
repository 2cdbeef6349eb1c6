//! Answers on their way to clients, and how much memory they may take.
//!
//! An answer is whole before it is sent, and its question has ended by then: what a client does not take is in none of the
//! limits of questions. So each large body has a permit for its octets, which goes with these until the last of them is
//! written, and an answer for which there is no room is refused. It does not wait for room: whoever reads slowly would then
//! hold the turns of others. Bodies are handed on in pieces, because a connection may copy what it is given.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::{IntoResponse, Response};
use hyper::body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::problem::Problem;

/// Octets of a permit.
const UNIT_OCTETS: u64 = 1 << 10;
/// Bodies up to this are not counted: so many connections as there may be take little memory with them, and pages go on.
const FREE_OCTETS: u64 = 64 << 10;
/// Octets that are handed to a connection at a time.
const PIECE_OCTETS: usize = 64 << 10;

/// Answers on their way, together at most as many octets as were asked for.
#[derive(Debug)]
pub(crate) struct Sending {
    units: Arc<Semaphore>,
    units_max: u32,
    refused: AtomicU64,
}

impl Sending {
    pub(crate) fn new(octets_max: u64) -> Self {
        let units_max = u32::try_from(octets_max / UNIT_OCTETS).unwrap_or(u32::MAX).max(1);
        Self { units: Arc::new(Semaphore::new(units_max as usize)), units_max, refused: AtomicU64::new(0) }
    }

    /// The same response, whose body counts until it is written; a refusal when there is no room for it. One that is larger than
    /// all that may be on their way takes all of it.
    pub(crate) fn counted(&self, response: Response) -> Response {
        let octets = response.body().size_hint().exact().unwrap_or(0);
        if octets <= FREE_OCTETS {
            return response;
        }
        let units = u32::try_from(octets.div_ceil(UNIT_OCTETS)).unwrap_or(u32::MAX).min(self.units_max);
        let Ok(permit) = Arc::clone(&self.units).try_acquire_many_owned(units) else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            let detail = format!("answers of {} octets wait for clients to take them", self.octets());
            return Problem::unavailable(detail)
                .with_hint("ask again when others have read theirs; the option 'sending_max' sets how much may wait")
                .into_response();
        };
        response.map(|body| Body::new(CountedBody { body, piece: Bytes::new(), permit: Arc::new(permit) }))
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

/// A body that counts.
struct CountedBody {
    body: Body,
    /// What is left of its frame.
    piece: Bytes,
    permit: Arc<OwnedSemaphorePermit>,
}

/// Octets and their permit, until the last piece of them is gone.
struct CountedOctets {
    octets: Bytes,
    _permit: Arc<OwnedSemaphorePermit>,
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
