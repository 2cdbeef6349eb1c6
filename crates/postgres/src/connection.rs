//! Octets of a connection into messages, and messages into octets.

use std::io;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::errors::{IDLE, PgError};
use crate::replies::Replies;

/// Octets that are read at once.
const READ_OCTETS: usize = 8 << 10;
/// Octets of replies that wait at most before they are written.
const REPLIES_OCTETS_MAX: usize = 64 << 10;

/// A connection, plain or with TLS.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionEnd {
    /// The client has gone, or the network.
    #[error("the connection is lost")]
    Lost(#[from] io::Error),
    /// Nothing happened for too long.
    #[error("nothing happened for too long")]
    Idle,
    /// A message is over the limit.
    #[error("a message of {octets} octets is larger than {octets_max}")]
    TooLarge { octets: usize, octets_max: usize },
    /// It was said why.
    #[error("{0}")]
    Said(PgError),
}

impl ConnectionEnd {
    /// What the client gets to read, if anything.
    pub(crate) fn error(&self) -> Option<PgError> {
        match self {
            Self::Lost(_) => None,
            Self::Idle => Some(PgError::fatal(IDLE, "the connection was idle for too long")),
            Self::TooLarge { octets, octets_max } => {
                let message = format!("a message of {octets} octets is larger than {octets_max}");
                Some(PgError::protocol(message).with_hint("the option message_max sets the limit"))
            }
            Self::Said(error) => Some(error.clone()),
        }
    }
}

/// A connection that speaks in messages.
pub(crate) struct Connection {
    transport: Box<dyn Transport>,
    input: BytesMut,
    pub(crate) replies: Replies,
    message_octets_max: usize,
    /// How long the client may take to send the rest of a message, or to take what is written.
    pub(crate) patience: Duration,
}

impl Connection {
    pub(crate) fn new(transport: impl Transport + 'static, message_octets_max: usize, patience: Duration) -> Self {
        Self {
            transport: Box::new(transport),
            input: BytesMut::new(),
            replies: Replies::default(),
            message_octets_max,
            patience,
        }
    }

    /// The transport beneath, for a handshake of TLS; fails when the client has sent more already, which somebody between might
    /// have put there (CVE-2021-23214).
    pub(crate) fn into_transport(self) -> Option<Box<dyn Transport>> {
        self.input.is_empty().then_some(self.transport)
    }

    /// Whether something has come that was not read as a message yet.
    pub(crate) fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// Reads what has come. It may be dropped at any time without losing an octet. Waits for ever when the buffer is full.
    pub(crate) async fn fill(&mut self) -> Result<(), ConnectionEnd> {
        if self.input.len() > self.message_octets_max + READ_OCTETS {
            return std::future::pending().await;
        }
        self.input.reserve(READ_OCTETS);
        match self.transport.read_buf(&mut self.input).await? {
            0 => Err(ConnectionEnd::Lost(io::ErrorKind::UnexpectedEof.into())),
            _ => Ok(()),
        }
    }

    /// The message at the front, whose length is behind `before` octets; with these.
    async fn framed(&mut self, before: usize, octets_max: usize) -> Result<(u8, Bytes), ConnectionEnd> {
        let head = before + 4;
        while self.input.len() < head {
            self.fill().await?;
        }
        let length = u32::from_be_bytes([0, 1, 2, 3].map(|at| self.input[before + at])) as usize;
        if length < 4 {
            return Err(ConnectionEnd::Said(PgError::protocol("a message is shorter than its own length")));
        }
        if length > octets_max {
            return Err(ConnectionEnd::TooLarge { octets: length, octets_max });
        }
        while self.input.len() < before + length {
            self.fill().await?;
        }
        let kind = if before == 1 { self.input[0] } else { 0 };
        self.input.advance(head);
        Ok((kind, self.input.split_to(length - 4).freeze()))
    }

    /// The next message: its type and its fields.
    pub(crate) async fn message(&mut self) -> Result<(u8, Bytes), ConnectionEnd> {
        let octets_max = self.message_octets_max;
        let patience = self.patience;
        timeout(patience, self.framed(1, octets_max)).await.map_err(|_| ConnectionEnd::Idle)?
    }

    /// The next message of a client that has not logged in yet, which may be no larger than `octets_max`.
    pub(crate) async fn login_message(&mut self, octets_max: usize) -> Result<(u8, Bytes), ConnectionEnd> {
        self.framed(1, octets_max).await
    }

    /// The first message, which has no type.
    pub(crate) async fn startup_message(&mut self, octets_max: usize) -> Result<Bytes, ConnectionEnd> {
        self.framed(0, octets_max).await.map(|(_, octets)| octets)
    }

    /// Writes octets that are no message.
    pub(crate) async fn write(&mut self, octets: &[u8]) -> Result<(), ConnectionEnd> {
        let patience = self.patience;
        let write = async {
            self.transport.write_all(octets).await?;
            self.transport.flush().await
        };
        timeout(patience, write).await.map_err(|_| ConnectionEnd::Idle)?.map_err(ConnectionEnd::from)
    }

    /// Writes the replies that wait.
    pub(crate) async fn flush(&mut self) -> Result<(), ConnectionEnd> {
        if self.replies.0.is_empty() {
            return Ok(());
        }
        let octets = std::mem::take(&mut self.replies.0);
        self.write(&octets).await?;
        // the room is used again
        self.replies.0 = octets;
        self.replies.0.clear();
        Ok(())
    }

    /// Writes the replies that wait when they are many.
    pub(crate) async fn flush_many(&mut self) -> Result<(), ConnectionEnd> {
        if self.replies.0.len() >= REPLIES_OCTETS_MAX { self.flush().await } else { Ok(()) }
    }

    /// Writes rows behind the replies that wait.
    pub(crate) async fn write_rows(&mut self, rows: &[u8]) -> Result<(), ConnectionEnd> {
        self.flush().await?;
        let mut left = rows;
        let patience = self.patience;
        while !left.is_empty() {
            let written = timeout(patience, self.transport.write(left)).await.map_err(|_| ConnectionEnd::Idle)??;
            if written == 0 {
                return Err(ConnectionEnd::Lost(io::ErrorKind::WriteZero.into()));
            }
            left = &left[written..];
        }
        Ok(())
    }

    /// Says why the connection ends, and ends it.
    pub(crate) async fn end(mut self, error: Option<PgError>) {
        if let Some(error) = error {
            self.replies.error(&error);
        }
        // a client that has gone, or does not read, gets nothing
        let _ = timeout(Duration::from_secs(1), async {
            self.flush().await?;
            self.transport.shutdown().await.map_err(ConnectionEnd::from)
        })
        .await;
    }
}
