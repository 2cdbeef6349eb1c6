//! Users: who may ask, what they may do, and what of the flows they see.

use std::sync::Arc;

use argon2::password_hash::rand_core::OsRng;
use argon2::password_hash::{PasswordHash, SaltString};
use argon2::{Argon2, PasswordHasher, PasswordVerifier};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_chain::OptionError;

use crate::view::View;

/// Letters of a name.
const NAME_LETTERS_MAX: usize = 64;

/// What a user may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Push flows, and nothing else.
    Ingest,
    /// Look: every question but statements of SQL.
    Viewer,
    /// Ask everything, acknowledge reports, test watches.
    Analyst,
    /// Change watches, cancel questions of others, and have files read again.
    Admin,
}

impl Role {
    /// The words of all roles, each with its help.
    pub const WORDS: &'static [(&'static str, &'static str)] = &[
        ("admin", "Change watches, cancel questions of others, and have files read again"),
        ("analyst", "Ask everything, acknowledge reports, test watches"),
        ("ingest", "Push flows, and nothing else"),
        ("viewer", "Look: every question but statements of SQL"),
    ];

    /// Its word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Viewer => "viewer",
            Self::Analyst => "analyst",
            Self::Admin => "admin",
        }
    }

    /// The role of a word.
    pub fn by_name(name: &str) -> Option<Self> {
        [Self::Ingest, Self::Viewer, Self::Analyst, Self::Admin].into_iter().find(|role| role.name() == name)
    }
}

/// A user.
#[derive(Clone)]
pub struct User {
    /// The name.
    pub name: String,
    /// What the user may do.
    pub role: Role,
    /// What of the flows the user sees.
    pub(crate) view: Arc<View>,
    pub(crate) password: Option<String>,
    pub(crate) tokens: Vec<String>,
    /// What SCRAM-SHA-256 checks the password with.
    pub(crate) scram: Option<String>,
}

impl std::fmt::Debug for User {
    /// Without hashes: a log is no place for them.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("User").field("name", &self.name).field("role", &self.role).finish_non_exhaustive()
    }
}

/// Refuses what is no name of a user or of a role.
pub fn check_name(name: &str) -> Result<(), OptionError> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@');
    if name.is_empty() || name.len() > NAME_LETTERS_MAX || !name.chars().all(is_fit) {
        let message = format!("'{}' is no name of a user", name.escape_debug());
        return Err(OptionError::new("name", message).with_hint("use letters, digits and - _ . @"));
    }
    Ok(())
}

impl User {
    /// Whether this user, read later, lets go on what one of before has begun: it has the same name, may as much, sees the same,
    /// and whatever let that one in still lets in.
    pub(crate) fn upholds(&self, before: &Self) -> bool {
        let has_secrets = self.password == before.password
            && self.scram == before.scram
            && before.tokens.iter().all(|token| self.tokens.contains(token));
        self.name == before.name && self.role >= before.role && self.view.is_as_wide_as(&before.view) && has_secrets
    }

    /// A user with hashes of a password and of tokens, who sees all flows.
    pub fn new(name: &str, role: Role, password: Option<String>, tokens: Vec<String>) -> Result<Self, OptionError> {
        check_name(name)?;
        for hash in password.iter().chain(&tokens) {
            if PasswordHash::new(hash).is_err() {
                // what stands there may be the password itself
                let message = format!("the password or a token of '{name}' is not a hash");
                let hint = "weir serve --hash-password makes a hash of a password, weir user add a user";
                return Err(OptionError::new("password", message).with_hint(hint));
            }
        }
        Ok(Self { name: name.to_owned(), role, view: Arc::default(), password, tokens, scram: None })
    }

    /// The same, whose password SCRAM-SHA-256 checks with a verifier as Postgres has it.
    pub fn proving(self, scram: Option<String>) -> Result<Self, OptionError> {
        if scram.as_deref().is_some_and(|scram| !weir_postgres::is_scram_verifier(scram)) {
            // what stands there may be the password itself
            let message = format!("'scram' of '{}' is no verifier", self.name);
            let hint = "weir serve --scram-password makes one of a password";
            return Err(OptionError::new("scram", message).with_hint(hint));
        }
        if self.password.is_none() && self.tokens.is_empty() && scram.is_none() {
            let message = format!("'{}' has neither a password nor a token", self.name);
            return Err(OptionError::new("password", message));
        }
        Ok(Self { scram, ..self })
    }

    /// The same, who sees so much of the flows.
    #[must_use]
    pub fn who_sees(self, view: Arc<View>) -> Self {
        Self { view, ..self }
    }
}

/// The hash of a password or a token, for the configuration.
pub fn hash_password(password: &str) -> Result<String, argon2::password_hash::Error> {
    let salt = SaltString::generate(&mut OsRng);
    Argon2::default().hash_password(password.as_bytes(), &salt).map(|hash| hash.to_string())
}

/// Whether a password or a token is that of a hash. It takes long on purpose.
pub(crate) fn is_right(password: &str, hash: &str) -> bool {
    let hash = PasswordHash::new(hash);
    hash.is_ok_and(|hash| Argon2::default().verify_password(password.as_bytes(), &hash).is_ok())
}
