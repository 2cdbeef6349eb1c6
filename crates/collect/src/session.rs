//! Transport sessions: what carries export messages, and from where.

use std::net::SocketAddr;

/// What carries export messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Transport {
    /// Datagrams, which may be lost, doubled or late (RFC 7011 section 10.3).
    Udp,
    /// A connection (RFC 7011 section 10.4).
    Tcp,
    /// An association (RFC 7011 section 10.2).
    Sctp,
    /// A connection with TLS (RFC 7011 section 11.1).
    Tls,
    /// Datagrams with DTLS (RFC 7011 section 11.1).
    Dtls,
    /// A file of messages (RFC 5655).
    File,
}

impl Transport {
    /// Name as in the text of a [`crate::Listener`].
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Sctp => "sctp",
            Self::Tls => "tls",
            Self::Dtls => "dtls",
            Self::File => "file",
        }
    }

    /// Whether messages may come late, twice or not at all.
    pub(crate) const fn is_datagrams(self) -> bool {
        matches!(self, Self::Udp | Self::Dtls)
    }

    /// Whether the address that messages come from has answered: nobody can forge it.
    pub(crate) const fn is_connection(self) -> bool {
        matches!(self, Self::Tcp | Self::Sctp | Self::Tls)
    }

    /// Whether messages come one after the other, as they were sent. An association (SCTP) has streams, and one does not wait for
    /// another: Templates may come on one and their data on another (RFC 7011 section 10.2.4.3).
    pub(crate) const fn is_ordered(self) -> bool {
        matches!(self, Self::Tcp | Self::Tls)
    }

    /// Whether what comes after a withdrawal of a template was sent after it. An association has streams.
    pub(crate) const fn withdraws_in_order(self) -> bool {
        self.is_ordered() || matches!(self, Self::File)
    }

    /// Whether a template expires when it is not sent again: datagrams that withdraw it may be lost, so nothing else
    /// would end it (RFC 7011 section 8.4).
    pub(crate) const fn templates_expire(self) -> bool {
        matches!(self, Self::Udp | Self::Dtls)
    }
}

/// A transport session: templates are unique per session and Observation Domain (RFC 7011 section 8). The exporter's
/// address and port identify one of UDP (section 10.3.1), and a connection while it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Session {
    /// What carries the messages.
    pub transport: Transport,
    /// Where they come from.
    pub source: SocketAddr,
}

impl Session {
    /// The session of datagrams from this address and port.
    pub const fn udp(source: SocketAddr) -> Self {
        Self { transport: Transport::Udp, source }
    }

    /// The session of the file with this number. A file does not say who exported it: the address is unspecified.
    pub const fn file(number: u16) -> Self {
        let source = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), number);
        Self { transport: Transport::File, source }
    }
}
