//! Sockets that were open before the process began.
//!
//! They belong to the process, as its environment does, so there is one list of them: whoever starts the process puts them
//! there, and the first listener of their address takes them. Whoever opened them keeps them open while the process restarts.

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Mutex, PoisonError};

static SOCKETS: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());

/// Has the listener of its address use a socket, in place of one of its own.
pub fn inherit(socket: UdpSocket) {
    SOCKETS.lock().unwrap_or_else(PoisonError::into_inner).push(socket);
}

/// The sockets of an address.
pub(crate) fn take(address: SocketAddr) -> Vec<UdpSocket> {
    let is_of = |socket: &mut UdpSocket| socket.local_addr().is_ok_and(|local| local == address);
    SOCKETS.lock().unwrap_or_else(PoisonError::into_inner).extract_if(.., is_of).collect()
}

/// Sockets that no listener has taken.
pub fn left() -> Vec<SocketAddr> {
    let sockets = SOCKETS.lock().unwrap_or_else(PoisonError::into_inner);
    sockets.iter().filter_map(|socket| socket.local_addr().ok()).collect()
}
