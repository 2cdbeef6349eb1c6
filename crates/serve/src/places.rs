//! Places of connections: so many in all, and of these a share for each address.
//!
//! Connections over the limit are refused, so a client that takes all places locks out all others, and needs no password for it. One
//! address gets a part of the places only. What speaks against it: many people may have one address, behind a translation
//! of addresses or a proxy. So the part is large, proxies that the configuration names have no limit of their own, and
//! neither has this machine, where a proxy may be that nobody named.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::rate_limit::site;

/// The part of all places, as a divisor, that one address gets without an option.
const ADDRESS_PART: usize = 4;
/// Places that one address gets at least without an option: a browser takes six and one for events.
const ADDRESS_MIN: usize = 8;

/// Places of connections.
#[derive(Debug)]
pub(crate) struct Places {
    all: Arc<Semaphore>,
    of_address_max: usize,
    /// Connections of each address that has some; there are never more entries than places.
    of_address: Mutex<HashMap<IpAddr, usize>>,
    proxies: Vec<IpAddr>,
}

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    /// Where it counts for an address.
    of_address: Option<(Arc<Places>, IpAddr)>,
    _of_all: OwnedSemaphorePermit,
}

impl Places {
    /// So many places; of them so many for one address, or a part.
    pub(crate) fn new(all_max: usize, of_address_max: Option<usize>, proxies: &[IpAddr]) -> Self {
        Self {
            all: Arc::new(Semaphore::new(all_max)),
            of_address_max: of_address_max.unwrap_or_else(|| (all_max / ADDRESS_PART).max(ADDRESS_MIN)).max(1),
            of_address: Mutex::default(),
            proxies: proxies.to_vec(),
        }
    }

    /// A place for a connection from an address; `None` when it has none left, or there is none.
    pub(crate) fn take(self: &Arc<Self>, from: IpAddr) -> Option<Place> {
        let of_all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        let address = from.to_canonical();
        if address.is_loopback() || self.proxies.contains(&address) {
            return Some(Place { of_address: None, _of_all: of_all });
        }
        let site = site(address);
        let mut of_address = self.of_address();
        let taken = of_address.entry(site).or_insert(0);
        if *taken >= self.of_address_max {
            return None;
        }
        *taken += 1;
        Some(Place { of_address: Some((Arc::clone(self), site)), _of_all: of_all })
    }

    fn of_address(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        // every step under the lock leaves whole values behind
        self.of_address.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((places, site)) = &self.of_address else { return };
        let mut of_address = places.of_address();
        if let Some(taken) = of_address.get_mut(site) {
            *taken -= 1;
            if *taken == 0 {
                of_address.remove(site);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn places(of_address_max: Option<usize>) -> Arc<Places> {
        Arc::new(Places::new(64, of_address_max, &[address("192.0.2.80")]))
    }

    #[test]
    fn one_address_does_not_get_all_places() {
        let places = places(None);
        let taken: Vec<Place> = std::iter::from_fn(|| places.take(address("192.0.2.1"))).collect();
        assert_eq!(taken.len(), 16);
        assert!(places.take(address("::ffff:192.0.2.1")).is_none(), "the same address written otherwise");
        let other = places.take(address("192.0.2.2")).expect("a place");
        drop(taken);
        let again: Vec<Place> = std::iter::from_fn(|| places.take(address("192.0.2.1"))).collect();
        assert_eq!(again.len(), 16, "they came back");
        drop((again, other));
        assert!(places.of_address().is_empty(), "nothing is kept of who has no connection");
    }

    #[test]
    fn a_host_has_the_places_of_its_network() {
        let places = places(Some(2));
        let _first = places.take(address("2001:db8::1")).expect("a place");
        let _second = places.take(address("2001:db8::2")).expect("a place");
        assert!(places.take(address("2001:db8::3")).is_none());
        assert!(places.take(address("2001:db8:0:1::1")).is_some());
    }

    #[test]
    fn proxies_and_this_machine_have_all_places() {
        let own = ["127.0.0.1", "::1", "192.0.2.80"];
        for from in own {
            let places = places(Some(2));
            let taken: Vec<Place> = std::iter::from_fn(|| places.take(address(from))).collect();
            assert_eq!(taken.len(), 64, "{from}");
            assert!(places.take(address("192.0.2.1")).is_none(), "there are not more than all");
        }
    }
}
