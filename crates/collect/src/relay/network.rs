//! Networks of exporters.

use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{Arc, PoisonError, RwLock};

/// A network: an address and the number of bits that count. As text `192.0.2.0/24`, or an address for itself alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

/// A text that is no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is no network\nhint: write 192.0.2.0/24 or 2001:db8::/32", text.escape_debug())]
pub struct NetworkError {
    text: String,
}

impl Network {
    /// Whether an address is in it.
    pub fn contains(self, address: IpAddr) -> bool {
        let differ = match (self.address, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                (u32::from(network) ^ u32::from(address)).checked_shr(32 - u32::from(self.bits)).unwrap_or(0).into()
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                (u128::from(network) ^ u128::from(address)).checked_shr(128 - u32::from(self.bits)).unwrap_or(0)
            }
            _ => 1,
        };
        differ == 0
    }
}

/// Sources that may speak for agents of sFlow, whose addresses are in the datagrams. As text `198.51.100.0/24=192.0.2.7`: agents,
/// then sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentRule {
    agents: Network,
    sources: Network,
}

impl AgentRule {
    /// Whether this rule lets a source speak for an agent.
    pub(crate) fn allows(self, agent: IpAddr, source: IpAddr) -> bool {
        self.agents.contains(agent) && self.sources.contains(source)
    }
}

impl FromStr for AgentRule {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let (agents, sources) = text.split_once('=').ok_or_else(|| NetworkError { text: text.to_owned() })?;
        Ok(Self { agents: agents.trim().parse()?, sources: sources.trim().parse()? })
    }
}

/// Whether an address is in one of these networks; where none is named, all are.
pub(crate) fn is_allowed(networks: &[Network], address: IpAddr) -> bool {
    networks.is_empty() || networks.iter().any(|network| network.contains(address))
}

/// The networks of those who may send to each listener, as they are now; everybody when there is none.
#[derive(Debug)]
pub(crate) struct Allowed(RwLock<Vec<Arc<[Network]>>>);

impl Allowed {
    /// Those of as many listeners, by their numbers.
    pub(crate) fn new<'n>(listeners: usize, networks_of: impl Fn(usize) -> &'n [Network]) -> Self {
        Self(RwLock::new((0..listeners).map(|listener| networks_of(listener).into()).collect()))
    }

    /// Those of a listener.
    pub(crate) fn networks(&self, listener: usize) -> Arc<[Network]> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(listener).cloned().unwrap_or_default()
    }

    /// Takes others for the same listeners.
    pub(crate) fn replace<'n>(&self, networks_of: impl Fn(usize) -> &'n [Network]) {
        let mut lists = self.0.write().unwrap_or_else(PoisonError::into_inner);
        for (listener, networks) in lists.iter_mut().enumerate() {
            *networks = networks_of(listener).into();
        }
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let wrong = || NetworkError { text: text.to_owned() };
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_| wrong())?;
        if bits > most { Err(wrong()) } else { Ok(Self { address, bits }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn membership() {
        for (network, inside, outside) in [
            ("192.0.2.0/24", "192.0.2.255", "192.0.3.0"),
            ("192.0.2.77/24", "192.0.2.1", "::ffff:192.0.2.1"),
            ("192.0.2.1", "192.0.2.1", "192.0.2.0"),
            ("0.0.0.0/0", "255.255.255.255", "::1"),
            ("::/0", "2001:db8::1", "192.0.2.1"),
            ("2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::"),
        ] {
            let network: Network = network.parse().expect(network);
            assert!(network.contains(inside.parse().expect(inside)), "{inside}");
            assert!(!network.contains(outside.parse().expect(outside)), "{outside}");
        }
        for text in ["", "192.0.2.0/33", "192.0.2.0/-1", "192.0.2/24", "::/129", "x/8"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
