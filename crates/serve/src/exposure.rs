//! Who may reach a service that has no users.

use std::net::SocketAddr;

use crate::users::User;

/// A service without users would be open to the network.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0} is not an address of this machine only, and there are no users\nhint: add [[users]] to the configuration, or \
     listen on 127.0.0.1"
)]
pub struct Unprotected(pub SocketAddr);

/// Refuses to be open to others than this machine where there are no users.
pub(crate) fn check(address: SocketAddr, users: &[User]) -> Result<(), Unprotected> {
    if users.is_empty() && !address.ip().is_loopback() {
        return Err(Unprotected(address));
    }
    Ok(())
}
