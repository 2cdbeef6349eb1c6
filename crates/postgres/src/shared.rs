//! What all connections share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use weir_secure::TlsServer;
use weir_sql::QuestionService;

use crate::cancel::CancelKeys;
use crate::counts::PostgresCounts;
use crate::options::PostgresOptions;
use crate::scram::ScramSecret;

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) options: PostgresOptions,
    pub(crate) service: Arc<dyn QuestionService>,
    pub(crate) tls: Option<TlsServer>,
    pub(crate) counts: Arc<PostgresCounts>,
    pub(crate) cancel: Arc<CancelKeys>,
    of_user: Mutex<HashMap<String, usize>>,
}

impl Shared {
    pub(crate) fn new(
        options: PostgresOptions,
        service: Arc<dyn QuestionService>,
        tls: Option<TlsServer>,
        counts: Arc<PostgresCounts>,
    ) -> Self {
        Self { options, service, tls, counts, cancel: Arc::default(), of_user: Mutex::default() }
    }
}

/// A connection of a user, which counts until it is dropped.
pub(crate) struct UserPlace {
    shared: Arc<Shared>,
    name: String,
}

impl UserPlace {
    /// `None` when the user has too many connections.
    pub(crate) fn of(name: &str, shared: &Arc<Shared>) -> Option<Self> {
        let mut of_user = shared.of_user.lock().unwrap_or_else(PoisonError::into_inner);
        let count = of_user.entry(name.to_owned()).or_default();
        if *count >= shared.options.per_user_max {
            return None;
        }
        *count += 1;
        Some(Self { shared: Arc::clone(shared), name: name.to_owned() })
    }
}

impl Drop for UserPlace {
    fn drop(&mut self) {
        let mut of_user = self.shared.of_user.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = of_user.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                of_user.remove(&self.name);
            }
        }
    }
}

/// The secret that salts of nobody are made from: one for as long as the process runs.
pub(crate) fn scram_secret() -> Option<&'static ScramSecret> {
    static SECRET: OnceLock<Option<ScramSecret>> = OnceLock::new();
    SECRET.get_or_init(ScramSecret::new).as_ref()
}
