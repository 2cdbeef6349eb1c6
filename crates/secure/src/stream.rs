//! A session of TLS that has been established.

use std::fmt;
use std::io::{self, Read, Write};

use openssl::ssl::{ShutdownState, SslStream};

/// A session of TLS over a connection `S`. Dropping it closes the connection without `close_notify`.
pub struct TlsStream<S>(pub(crate) SslStream<S>);

impl<S: fmt::Debug> fmt::Debug for TlsStream<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TlsStream").field(self.0.get_ref()).finish()
    }
}

impl<S> TlsStream<S> {
    /// The connection that carries it.
    pub fn get_ref(&self) -> &S {
        self.0.get_ref()
    }

    /// The connection that carries it. Reading from it or writing to it breaks the session.
    pub fn get_mut(&mut self) -> &mut S {
        self.0.get_mut()
    }
}

impl<S: Read + Write> TlsStream<S> {
    /// Reports to the other end that nothing more will come (`close_notify`), once.
    ///
    /// # Errors
    ///
    /// When the connection is gone.
    pub fn close(&mut self) -> io::Result<()> {
        if self.0.get_shutdown().contains(ShutdownState::SENT) {
            return Ok(());
        }
        match self.0.shutdown() {
            Ok(_) => Ok(()),
            Err(error) => Err(error.into_io_error().unwrap_or_else(io::Error::other)),
        }
    }
}

impl<S: Read + Write> Read for TlsStream<S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<S: Read + Write> Write for TlsStream<S> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
