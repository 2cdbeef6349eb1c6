//! Whose connections are open: one user must not take the places of all.
//!
//! Over a connection of Flight SQL each call says who calls, so a connection is of every user who was let in over it, from the first
//! call on until it ends. What speaks against it is that a proxy which shares one connection has a place for each of its
//! users; in return nobody is counted who has no connection.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// How many connections each user has.
#[derive(Debug)]
pub(crate) struct ConnectionUsers {
    per_user_max: usize,
    counts: Mutex<HashMap<String, usize>>,
}

impl ConnectionUsers {
    pub(crate) fn new(per_user_max: usize) -> Self {
        Self { per_user_max, counts: Mutex::default() }
    }
}

/// A connection of a user, which counts until it is dropped.
#[derive(Debug)]
struct UserPlace {
    users: Arc<ConnectionUsers>,
    name: String,
}

impl UserPlace {
    /// `None` when the user has too many connections.
    fn of(name: &str, users: &Arc<ConnectionUsers>) -> Option<Self> {
        let mut counts = users.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.get(name).copied().unwrap_or(0);
        if count >= users.per_user_max {
            return None;
        }
        counts.insert(name.to_owned(), count + 1);
        Some(Self { users: Arc::clone(users), name: name.to_owned() })
    }
}

impl Drop for UserPlace {
    fn drop(&mut self) {
        let mut counts = self.users.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.name);
            }
        }
    }
}

/// The users of one connection, until the last clone is dropped.
#[derive(Debug, Clone)]
pub(crate) struct UsersOfConnection {
    users: Arc<ConnectionUsers>,
    places: Arc<Mutex<Vec<UserPlace>>>,
}

impl UsersOfConnection {
    /// Of a connection over which nobody has called.
    pub(crate) fn new(users: Arc<ConnectionUsers>) -> Self {
        Self { users, places: Arc::default() }
    }

    /// Whether the user may call over this connection, which is then one of theirs.
    pub(crate) fn admit(&self, name: &str) -> bool {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        if places.iter().any(|place| place.name == name) {
            return true;
        }
        let place = UserPlace::of(name, &self.users);
        let is_admitted = place.is_some();
        places.extend(place);
        is_admitted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_so_many_connections_and_others_have_theirs() {
        let users = Arc::new(ConnectionUsers::new(2));
        let connection = || UsersOfConnection::new(Arc::clone(&users));
        let (first, second, third) = (connection(), connection(), connection());
        // each call says who calls, and the connection counts once
        assert!(first.admit("ann") && first.admit("ann") && second.admit("ann"));
        assert!(!third.admit("ann") && !third.admit("ann"));
        assert!(third.admit("bob") && second.admit("bob") && !first.admit("bob"));
        let clone = second.clone();
        drop(second);
        assert!(!third.admit("ann"), "a call of it is still answered");
        drop(clone);
        assert!(third.admit("ann"));
        drop((first, third));
        assert!(users.counts.lock().expect("counts").is_empty());
    }
}
