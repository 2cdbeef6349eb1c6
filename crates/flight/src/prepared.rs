//! Prepared statements.
//!
//! There is a limit to their number, and one to the octets of each user. Beyond them statements are forgotten, those that were
//! used longest ago first: of the user who has most, or of the user who has too many octets.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arrow::datatypes::SchemaRef;
use openssl::rand::rand_bytes;
use tonic::Status;
use weir_sql::ParameterValue;

use crate::counts::FlightCounts;
use crate::shares::most_frequent;

const HANDLE_OCTETS: usize = 16;
/// Octets of statements, their columns and their values that are kept of one user.
const USER_OCTETS_MAX: usize = 16 << 20;
/// Octets that a statement takes besides its text, columns and values.
const STATEMENT_OCTETS: usize = 512;

/// Prepared statements of all users.
#[derive(Debug)]
pub(crate) struct PreparedStatements {
    statements_max: usize,
    counts: Arc<FlightCounts>,
    statements: Mutex<HashMap<Vec<u8>, Kept>>,
}

#[derive(Debug)]
struct Kept {
    user: String,
    used: Instant,
    statement: Prepared,
}

/// A prepared statement.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub(crate) text: String,
    pub(crate) columns: SchemaRef,
    /// Values of its parameters, once they have come.
    pub(crate) values: Vec<ParameterValue>,
}

impl Prepared {
    fn octets(&self) -> usize {
        let value = |value: &ParameterValue| {
            let held = match value {
                ParameterValue::Text(text) => text.len(),
                ParameterValue::Typed(value) => value.size(),
            };
            size_of::<ParameterValue>() + held
        };
        let values: usize = self.values.iter().map(value).sum();
        STATEMENT_OCTETS + self.text.len() + self.columns.fields().size() + values
    }
}

impl PreparedStatements {
    pub(crate) fn new(statements_max: usize, counts: Arc<FlightCounts>) -> Self {
        Self { statements_max, counts, statements: Mutex::default() }
    }

    /// Keeps a statement of a user, and gives its handle.
    pub(crate) fn keep(&self, user: &str, statement: Prepared) -> Result<Vec<u8>, Status> {
        let mut handle = vec![0; HANDLE_OCTETS];
        rand_bytes(&mut handle).map_err(|_| Status::internal("the system has no random numbers"))?;
        check_octets(&statement)?;
        let mut statements = self.locked();
        if statements.len() >= self.statements_max {
            let most = most_frequent(statements.values().map(|kept| kept.user.as_str())).map(str::to_owned);
            if let Some(most) = most {
                self.forget_oldest(&mut statements, &most, &handle);
            }
        }
        statements.insert(handle.clone(), Kept { user: user.to_owned(), used: Instant::now(), statement });
        self.forget_beyond(&mut statements, user, &handle);
        Ok(handle)
    }

    /// A statement of a user.
    pub(crate) fn get(&self, user: &str, handle: &[u8]) -> Result<Prepared, Status> {
        let mut statements = self.locked();
        let kept = statements.get_mut(handle).filter(|kept| kept.user == user).ok_or_else(unknown)?;
        kept.used = Instant::now();
        Ok(kept.statement.clone())
    }

    /// Refuses a handle that is not of a statement of this user.
    pub(crate) fn check(&self, user: &str, handle: &[u8]) -> Result<(), Status> {
        let is_own = self.locked().get(handle).is_some_and(|kept| kept.user == user);
        if is_own { Ok(()) } else { Err(unknown()) }
    }

    /// Sets the values of its parameters.
    pub(crate) fn bind(&self, user: &str, handle: &[u8], values: Vec<ParameterValue>) -> Result<(), Status> {
        let mut statements = self.locked();
        let kept = statements.get_mut(handle).filter(|kept| kept.user == user).ok_or_else(unknown)?;
        let statement = Prepared { values, ..kept.statement.clone() };
        check_octets(&statement)?;
        kept.statement = statement;
        self.forget_beyond(&mut statements, user, handle);
        Ok(())
    }

    /// Forgets a statement of a user; one that is not there is no error.
    pub(crate) fn close(&self, user: &str, handle: &[u8]) {
        let mut statements = self.locked();
        if statements.get(handle).is_some_and(|kept| kept.user == user) {
            statements.remove(handle);
        }
    }

    /// Forgets statements of a user until the others have no more octets than they may; not the one of `handle`.
    fn forget_beyond(&self, statements: &mut HashMap<Vec<u8>, Kept>, user: &str, handle: &[u8]) {
        let octets = |statements: &HashMap<Vec<u8>, Kept>| -> usize {
            let own = statements.values().filter(|kept| kept.user == user);
            own.map(|kept| kept.statement.octets()).sum()
        };
        while octets(statements) > USER_OCTETS_MAX {
            if !self.forget_oldest(statements, user, handle) {
                return;
            }
        }
    }

    /// Forgets the statement of a user that was used longest ago, but not the one of `handle`; false when there is none.
    fn forget_oldest(&self, statements: &mut HashMap<Vec<u8>, Kept>, user: &str, handle: &[u8]) -> bool {
        let own = statements.iter().filter(|(other, kept)| kept.user == user && other.as_slice() != handle);
        let oldest = own.min_by_key(|(_, kept)| kept.used).map(|(handle, _)| handle.clone());
        let Some(oldest) = oldest else { return false };
        statements.remove(&oldest);
        self.counts.prepared_forgotten.add_one();
        true
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Kept>> {
        // every step under the lock leaves whole values behind
        self.statements.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses a statement that is larger than all of a user may be.
fn check_octets(statement: &Prepared) -> Result<(), Status> {
    if statement.octets() > USER_OCTETS_MAX {
        let message = format!("the statement, its columns and its values have more than {USER_OCTETS_MAX} octets");
        return Err(Status::resource_exhausted(message));
    }
    Ok(())
}

fn unknown() -> Status {
    Status::not_found("there is no such prepared statement\nhint: it may have been forgotten: prepare it again")
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Schema;

    use super::*;

    fn statement(text: &str) -> Prepared {
        Prepared { text: text.to_owned(), columns: Arc::new(Schema::empty()), values: Vec::new() }
    }

    #[test]
    fn a_statement_is_of_its_user_and_the_oldest_is_forgotten() {
        let counts: Arc<FlightCounts> = Arc::default();
        let prepared = PreparedStatements::new(2, Arc::clone(&counts));
        let keep = |text| prepared.keep("ann", statement(text)).expect("random numbers");
        let (first, second) = (keep("1"), keep("2"));
        assert!(prepared.get("bob", &first).is_err() && prepared.get("ann", &first).is_ok());
        assert!(prepared.check("bob", &first).is_err() && prepared.check("ann", &first).is_ok());
        prepared.close("bob", &first);
        keep("3");
        assert!(prepared.get("ann", &first).is_ok() && prepared.get("ann", &second).is_err());
        assert_eq!(counts.prepared_forgotten.get(), 1);
        prepared.close("ann", &first);
        assert!(prepared.get("ann", &first).is_err());
    }

    #[test]
    fn who_keeps_many_statements_forgets_their_own() {
        let prepared = PreparedStatements::new(3, Arc::default());
        let keep = |user, text| prepared.keep(user, statement(text)).expect("random numbers");
        let bob = keep("bob", "1");
        let ann: Vec<_> = (0..8).map(|_| keep("ann", "1")).collect();
        assert!(prepared.get("bob", &bob).is_ok(), "the oldest of all");
        assert_eq!(ann.iter().filter(|handle| prepared.get("ann", handle).is_ok()).count(), 2);
        let second = keep("bob", "2");
        assert!(prepared.get("bob", &bob).is_ok() && prepared.get("bob", &second).is_ok());
    }

    #[test]
    fn octets_of_a_user_are_limited_and_others_keep_theirs() {
        let counts: Arc<FlightCounts> = Arc::default();
        let prepared = PreparedStatements::new(100, Arc::clone(&counts));
        let keep = |user, text: &str| prepared.keep(user, statement(text));
        let bob = keep("bob", "1").expect("kept");
        let third = "t".repeat(USER_OCTETS_MAX / 3);
        let handles: Vec<_> = (0..3).map(|_| keep("ann", &third).expect("kept")).collect();
        assert!(prepared.get("ann", &handles[0]).is_err() && prepared.get("ann", &handles[1]).is_ok());
        let values = || vec![ParameterValue::Text(third.clone())];
        prepared.bind("ann", &handles[2], values()).expect("bound");
        assert!(prepared.get("ann", &handles[1]).is_err() && prepared.get("ann", &handles[2]).is_ok());
        assert_eq!(counts.prepared_forgotten.get(), 2);
        let many = vec![ParameterValue::Text("v".repeat(USER_OCTETS_MAX))];
        assert!(prepared.bind("ann", &handles[2], many).is_err());
        assert!(keep("ann", &"t".repeat(USER_OCTETS_MAX)).is_err());
        assert_eq!(prepared.get("ann", &handles[2]).expect("kept").values.len(), 1, "as they were");
        assert!(prepared.get("bob", &bob).is_ok());
    }
}
