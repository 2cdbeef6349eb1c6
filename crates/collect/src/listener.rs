//! Where to listen, and over which transport.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use crate::Transport;

/// An address to listen on. As text: `udp://0.0.0.0:2055`, `tcp://[::]:4739`, `tls://…`, `dtls://…`, `sctp://…`;
/// without a scheme it is UDP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Listener {
    /// What carries the messages there.
    pub transport: Transport,
    /// Address and port; port 0 takes a free one.
    pub address: SocketAddr,
}

/// Why a text does not say where to listen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListenerError {
    /// The scheme is none of ours.
    #[error("'{}' is no transport\nhint: the transports are udp, tcp, tls, dtls and sctp", scheme.escape_debug())]
    Transport {
        /// The text before `://`.
        scheme: String,
    },
    /// No address and port.
    #[error("'{}' is no address and port\nhint: write 0.0.0.0:{port} or [::]:{port}; names are not looked up", address.escape_debug())]
    Address {
        /// The text in its place.
        address: String,
        /// The usual port of the transport.
        port: u16,
    },
}

impl Listener {
    /// The transports that can be listened on.
    const TRANSPORTS: [Transport; 5] =
        [Transport::Udp, Transport::Tcp, Transport::Tls, Transport::Dtls, Transport::Sctp];

    /// Plain UDP.
    pub const fn udp(address: SocketAddr) -> Self {
        Self { transport: Transport::Udp, address }
    }

    /// Whether exporters make themselves known by certificates here.
    pub const fn is_secure(self) -> bool {
        matches!(self.transport, Transport::Tls | Transport::Dtls)
    }
}

/// The port that RFC 7011 section 10 has for a transport; NetFlow's customary one for UDP.
const fn usual_port(transport: Transport) -> u16 {
    match transport {
        Transport::Udp | Transport::File => 2055,
        Transport::Tcp | Transport::Sctp => 4739,
        Transport::Tls | Transport::Dtls => 4740,
    }
}

impl FromStr for Listener {
    type Err = ListenerError;

    fn from_str(text: &str) -> Result<Self, ListenerError> {
        let (scheme, address) = text.split_once("://").unwrap_or(("udp", text));
        let transport = Self::TRANSPORTS
            .into_iter()
            .find(|transport| transport.name() == scheme)
            .ok_or_else(|| ListenerError::Transport { scheme: scheme.to_owned() })?;
        let wrong = |_| ListenerError::Address { address: address.to_owned(), port: usual_port(transport) };
        Ok(Self { transport, address: address.parse().map_err(wrong)? })
    }
}

impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.transport.name(), self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_back() {
        for (text, transport, shown) in [
            ("0.0.0.0:2055", Transport::Udp, "udp://0.0.0.0:2055"),
            ("udp://[::1]:0", Transport::Udp, "udp://[::1]:0"),
            ("tcp://127.0.0.1:4739", Transport::Tcp, "tcp://127.0.0.1:4739"),
            ("tls://[::]:4740", Transport::Tls, "tls://[::]:4740"),
            ("dtls://192.0.2.1:4740", Transport::Dtls, "dtls://192.0.2.1:4740"),
            ("sctp://192.0.2.1:4739", Transport::Sctp, "sctp://192.0.2.1:4739"),
        ] {
            let listener: Listener = text.parse().expect(text);
            assert_eq!((listener.transport, listener.to_string().as_str()), (transport, shown));
        }
    }

    #[test]
    fn errors_name_what_is_wrong() {
        let error = |text: &str| text.parse::<Listener>().expect_err(text).to_string();
        assert!(error("http://0.0.0.0:80").starts_with("'http' is no transport\nhint: "));
        assert!(error("file://0.0.0.0:80").starts_with("'file' is no transport"));
        assert!(error("tls://example.net:4740").starts_with("'example.net:4740' is no address and port\nhint: "));
        assert!(error("tls://0.0.0.0").contains("0.0.0.0:4740"));
        assert!(error("").starts_with("'' is no address"));
    }
}
