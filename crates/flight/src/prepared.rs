//! Prepared statements.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arrow::datatypes::SchemaRef;
use openssl::rand::rand_bytes;
use tonic::Status;
use weir_sql::ParameterValue;

use crate::counts::FlightCounts;

const HANDLE_OCTETS: usize = 16;

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

impl PreparedStatements {
    pub(crate) fn new(statements_max: usize, counts: Arc<FlightCounts>) -> Self {
        Self { statements_max, counts, statements: Mutex::default() }
    }

    /// Keeps a statement of a user, and gives its handle.
    pub(crate) fn keep(&self, user: &str, statement: Prepared) -> Result<Vec<u8>, Status> {
        let mut handle = vec![0; HANDLE_OCTETS];
        rand_bytes(&mut handle).map_err(|_| Status::internal("the system has no random numbers"))?;
        let mut statements = self.locked();
        if statements.len() >= self.statements_max {
            let oldest = statements.iter().min_by_key(|(_, kept)| kept.used).map(|(handle, _)| handle.clone());
            if let Some(oldest) = oldest {
                statements.remove(&oldest);
                self.counts.prepared_forgotten.add_one();
            }
        }
        statements.insert(handle.clone(), Kept { user: user.to_owned(), used: Instant::now(), statement });
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
        let statements = self.locked();
        statements.get(handle).filter(|kept| kept.user == user).map(drop).ok_or_else(unknown)
    }

    /// Sets the values of its parameters.
    pub(crate) fn bind(&self, user: &str, handle: &[u8], values: Vec<ParameterValue>) -> Result<(), Status> {
        let mut statements = self.locked();
        let kept = statements.get_mut(handle).filter(|kept| kept.user == user).ok_or_else(unknown)?;
        kept.statement.values = values;
        Ok(())
    }

    /// Forgets a statement of a user; one that is not there is no error.
    pub(crate) fn close(&self, user: &str, handle: &[u8]) {
        let mut statements = self.locked();
        if statements.get(handle).is_some_and(|kept| kept.user == user) {
            statements.remove(handle);
        }
    }

    fn locked(&self) -> MutexGuard<'_, HashMap<Vec<u8>, Kept>> {
        // every step under the lock leaves whole values behind
        self.statements.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
}
