//! Which ports of a capture exports are sent to.

/// Port of IPFIX, and of IPFIX over TLS and DTLS (RFC 7011 section 10.1).
const PORT: u16 = 4739;
const PORT_TLS: u16 = 4740;

/// The port whose connections and associations are read, or all that look like exports.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ExportPort(Option<u16>);

impl ExportPort {
    /// This port and no other; `None`: any.
    pub(super) fn new(only: Option<u16>) -> Self {
        Self(only)
    }

    /// Whether one was asked for.
    pub(super) fn is_given(self) -> bool {
        self.0.is_some()
    }

    /// Whether anything that is sent to this port is read.
    pub(super) fn is_read(self, port: u16) -> bool {
        self.0.is_none_or(|only| only == port)
    }

    /// Whether this port is one of exports, so that all that is sent to it is looked at.
    pub(super) fn is_of_exports(self, port: u16) -> bool {
        port == self.0.unwrap_or(PORT)
    }

    /// Whether exports to this port may be encrypted.
    pub(super) fn is_of_tls(self, port: u16) -> bool {
        self.is_of_exports(port) || self.0.is_none() && port == PORT_TLS
    }
}
