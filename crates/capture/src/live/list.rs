//! The interfaces of this machine.

use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::net::if_::{InterfaceFlags, if_nametoindex};
use nix::sys::socket::SockaddrStorage;

use crate::source::SourceError;

/// An interface of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemInterface {
    /// The system's number of it.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Whether it is set up; a cable may be missing all the same.
    pub is_up: bool,
    /// Whether it leads back to this machine.
    pub is_loopback: bool,
}

/// Lists the interfaces of this machine by their numbers. Needs no rights.
pub fn list_interfaces() -> Result<Vec<SystemInterface>, SourceError> {
    let failed =
        |error: nix::Error| SourceError::Io { what: "cannot list interfaces".to_owned(), source: error.into() };
    let mut list: Vec<SystemInterface> = Vec::new();
    for entry in getifaddrs().map_err(failed)? {
        let address = entry.address.as_ref().and_then(ip_address);
        if let Some(known) = list.iter_mut().find(|known| known.name == entry.interface_name) {
            known.addresses.extend(address);
            continue;
        }
        // one that is gone since has no number, and aliases of old times have none either
        let Ok(index) = if_nametoindex(entry.interface_name.as_str()) else { continue };
        list.push(SystemInterface {
            index,
            name: entry.interface_name,
            addresses: address.into_iter().collect(),
            is_up: entry.flags.contains(InterfaceFlags::IFF_UP),
            is_loopback: entry.flags.contains(InterfaceFlags::IFF_LOOPBACK),
        });
    }
    list.sort_by_key(|interface| interface.index);
    Ok(list)
}

fn ip_address(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| IpAddr::V4(address.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|address| IpAddr::V6(address.ip())))
}
