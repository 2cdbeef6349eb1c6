//! Where collectors are, and how they are reached.

use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use weir_chain::{ComponentError, OptionError};
use weir_collect::Transport;

/// A collector. As text: `udp://192.0.2.1:2055`, `tcp://collector.example:4739`, `tls://…`, `sctp://…`; without a scheme
/// it is UDP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// What messages go over.
    pub transport: Transport,
    /// Address or name, IPv6 without brackets.
    pub host: String,
    port: u16,
}

/// What messages are sent over. DTLS is only received.
const TRANSPORTS: [Transport; 4] = [Transport::Udp, Transport::Tcp, Transport::Tls, Transport::Sctp];

impl Target {
    /// A collector that nobody named.
    pub(super) fn unspecified() -> Self {
        Self { transport: Transport::Udp, host: String::new(), port: 0 }
    }

    /// Whether messages go over a connection, which loses and reorders none of them while it lasts.
    pub(super) fn is_connection(&self) -> bool {
        self.transport != Transport::Udp
    }

    /// Its addresses, looked up when it has a name. With `from` those that can be reached from there.
    pub(super) fn addresses(&self, from: Option<IpAddr>) -> Result<Vec<SocketAddr>, ComponentError> {
        let cannot = |error| ComponentError::caused(format!("cannot find the address of '{}'", self.host), error);
        let addresses = (self.host.as_str(), self.port).to_socket_addrs().map_err(cannot)?;
        let is_in_reach = |address: &SocketAddr| from.is_none_or(|from| from.is_ipv4() == address.is_ipv4());
        let addresses: Vec<_> = addresses.filter(is_in_reach).collect();
        match (addresses.is_empty(), from) {
            (false, _) => Ok(addresses),
            (true, Some(from)) => {
                Err(ComponentError::new(format!("nothing can be sent from {from} to '{}'", self.host)))
            }
            (true, None) => Err(ComponentError::new(format!("'{}' has no address", self.host))),
        }
    }

    /// Its address, when it is told by one.
    pub(super) fn literal(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.host.parse().ok()?, self.port))
    }
}

/// Whether an address is of another machine than this one.
pub(super) fn is_remote(address: &SocketAddr) -> bool {
    !address.ip().to_canonical().is_loopback()
}

impl FromStr for Target {
    type Err = OptionError;

    fn from_str(text: &str) -> Result<Self, OptionError> {
        let (scheme, address) = text.split_once("://").unwrap_or(("udp", text));
        let transport = TRANSPORTS.into_iter().find(|transport| transport.name() == scheme).ok_or_else(|| {
            let error = OptionError::new("to", format!("'{}' is no transport", scheme.escape_debug()));
            error.with_hint("flows are sent over udp, tcp, tls and sctp")
        })?;
        let place = || {
            let (host, port) = address.rsplit_once(':')?;
            let port = port.parse().ok().filter(|port| *port > 0)?;
            let host = match host.strip_prefix('[') {
                Some(host) => host.strip_suffix(']').filter(|host| host.parse::<IpAddr>().is_ok())?,
                None if host.is_empty() || host.contains(|c: char| c == ':' || c == '/' || c.is_whitespace()) => {
                    return None;
                }
                None => host,
            };
            Some((host.to_owned(), port))
        };
        let (host, port) = place().ok_or_else(|| {
            let error = OptionError::new("to", format!("'{}' is no address with a port", text.escape_debug()));
            error.with_hint("write 127.0.0.1:2055, [::1]:2055 for IPv6, or tcp://collector.example:4739")
        })?;
        Ok(Self { transport, host, port })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.host.contains(':') { ("[", "]") } else { ("", "") };
        write!(f, "{}://{open}{}{close}:{}", self.transport.name(), self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_and_back() {
        for (text, shown) in [
            ("127.0.0.1:2055", "udp://127.0.0.1:2055"),
            ("[::1]:4739", "udp://[::1]:4739"),
            ("tcp://[2001:db8::1]:4739", "tcp://[2001:db8::1]:4739"),
            ("tls://collector.example:4740", "tls://collector.example:4740"),
            ("sctp://192.0.2.1:4739", "sctp://192.0.2.1:4739"),
        ] {
            assert_eq!(text.parse::<Target>().map(|target| target.to_string()).as_deref(), Ok(shown));
        }
        for wrong in ["", ":1", "collector", "1.2.3.4", "1.2.3.4:0", "::1:70", "[name]:1", "tcp://a b:1", "a:65536"] {
            let error = wrong.parse::<Target>().expect_err(wrong);
            assert_eq!(error.message, format!("'{wrong}' is no address with a port"));
        }
        let error = "dtls://192.0.2.1:4740".parse::<Target>().expect_err("not sent");
        assert_eq!(error.message, "'dtls' is no transport");
    }

    #[test]
    fn names_are_looked_up() {
        let target: Target = "tcp://localhost:4739".parse().expect("a target");
        let from = "127.0.0.1".parse().expect("an address");
        assert_eq!(target.addresses(Some(from)).expect("an address")[0].to_string(), "127.0.0.1:4739");
        let target: Target = "tcp://no-such-host.invalid:4739".parse().expect("a target");
        assert_eq!(
            target.addresses(None).expect_err("none").to_string(),
            "cannot find the address of 'no-such-host.invalid'"
        );
    }
}
