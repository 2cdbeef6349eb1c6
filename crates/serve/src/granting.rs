//! Users as a configuration has them: roles, rules and keys put together.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use weir_chain::OptionError;
use weir_filter::Predicate;

use crate::api::filter_reader;
use crate::config::{AccessOptions, ConfigFile, RoleOptions, UserOptions};
use crate::users::{Role, User, check_name};
use crate::view::{PseudonymKey, View};

/// Roles of a configuration.
const ROLES_MAX: usize = 256;

/// The sections of a file of users.
const SECTIONS: &[(&str, &str)] = &[("users", "Who may ask")];

/// The roles that there always are.
const BUILT_IN: [Role; 4] = [Role::Ingest, Role::Viewer, Role::Analyst, Role::Admin];

/// What the users of a role may do and see.
#[derive(Debug, Clone)]
struct Grant {
    may: Role,
    rows: Predicate,
    has_pseudonyms: bool,
}

/// The users of a configuration, those of its file of users included.
pub fn users(file: &ConfigFile) -> Result<Vec<User>, OptionError> {
    let access: AccessOptions = file.section("access")?.unwrap_or_default();
    let grants = grants(file)?;
    let needs_key = grants.values().any(|grant| grant.has_pseudonyms);
    let in_access = |error: OptionError| file.placed("access", 0, error);
    let key = match &access.pseudonym_key_file {
        Some(path) => Some(PseudonymKey::read(path).map_err(in_access)?),
        None if needs_key => {
            let message = "a role has pseudonyms, and there is no 'pseudonym_key_file'";
            return Err(in_access(
                OptionError::new("pseudonym_key_file", message)
                    .with_hint("32 octets of 'head -c 32 /dev/urandom' make a key"),
            ));
        }
        None => None,
    };
    let mut users = Vec::new();
    add_users(file, &grants, key.as_ref(), &mut users)?;
    if let Some(path) = &access.users_file {
        // without users anybody may ask as an admin: who names a file of them does not mean that
        let missing = || {
            OptionError::new("users_file", format!("the file of users {} is not there", path.display()))
                .with_hint(format!("weir user add NAME --role admin --file {} makes it", path.display()))
        };
        let listed = parsed_users_file(path)?.ok_or_else(|| in_access(missing()))?;
        add_users(&listed, &grants, key.as_ref(), &mut users).map_err(|error| in_users_file(path, error))?;
        if users.is_empty() {
            let message = format!("{} has no users, and anybody could ask", path.display());
            return Err(in_access(OptionError::new("users_file", message).with_hint(
                "add one with weir user add, or leave 'users_file' out to serve this machine without users",
            )));
        }
    }
    Ok(users)
}

/// Adds the users that a file has to those that there are.
fn add_users(
    file: &ConfigFile,
    grants: &BTreeMap<String, Grant>,
    key: Option<&PseudonymKey>,
    users: &mut Vec<User>,
) -> Result<(), OptionError> {
    for (number, options) in file.list::<UserOptions>("users")?.into_iter().enumerate() {
        let placed = |error: OptionError| file.placed("users", number, error);
        let user = user(options, grants, key).map_err(placed)?;
        if users.iter().any(|other| other.name == user.name) {
            return Err(placed(OptionError::new("name", format!("two users are named '{}'", user.name))));
        }
        users.push(user);
    }
    Ok(())
}

/// The users that a file of users lists; `None` where the file is not there.
pub fn users_of_file(path: &Path) -> Result<Option<Vec<UserOptions>>, OptionError> {
    let listed = parsed_users_file(path)?.map(|file| file.list("users")).transpose();
    listed.map_err(|error| in_users_file(path, error))
}

fn in_users_file(path: &Path, error: OptionError) -> OptionError {
    OptionError { message: format!("{}: {}", path.display(), error.message), ..error }
}

fn parsed_users_file(path: &Path) -> Result<Option<ConfigFile>, OptionError> {
    let of_file = |error: OptionError| in_users_file(path, error);
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(of_file(OptionError::new("users_file", format!("it cannot be read: {error}")))),
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    ConfigFile::parse(&text, folder, SECTIONS).map(Some).map_err(of_file)
}

/// The roles: those that there always are, and those of the configuration.
fn grants(file: &ConfigFile) -> Result<BTreeMap<String, Grant>, OptionError> {
    let whole = |may: Role| Grant { may, rows: Predicate::True, has_pseudonyms: false };
    let mut grants = BTreeMap::from(BUILT_IN.map(|role| (role.name().to_owned(), whole(role))));
    for (number, role) in file.list::<RoleOptions>("roles")?.into_iter().enumerate() {
        let (name, grant) = grant(role, &grants).map_err(|error| file.placed("roles", number, error))?;
        grants.insert(name, grant);
    }
    Ok(grants)
}

/// A role of the configuration, next to those that there are.
fn grant(role: RoleOptions, grants: &BTreeMap<String, Grant>) -> Result<(String, Grant), OptionError> {
    let RoleOptions { name, may, rows, pseudonyms } = role;
    check_name(&name)?;
    if BUILT_IN.iter().any(|role| role.name() == name) {
        let message = format!("there is a role '{name}' in any case, which cannot be another one");
        return Err(OptionError::new("name", message).with_hint("give the role a name of its own"));
    }
    if grants.contains_key(&name) {
        return Err(OptionError::new("name", format!("two roles are named '{name}'")));
    }
    let rows = rows.map_or(Ok(Predicate::True), |rows| rule(&rows, &format!("role '{name}'")))?;
    if may == Role::Admin && (rows != Predicate::True || pseudonyms) {
        let message = format!("role '{name}' may do everything, and sees a part of the flows");
        return Err(OptionError::new("may", message).with_hint("let it be analyst or viewer"));
    }
    if may == Role::Ingest {
        let message = format!("role '{name}' may ingest, which no role of your own may");
        return Err(
            OptionError::new("may", message).with_hint("let it be analyst or viewer; users have the role ingest")
        );
    }
    if grants.len() >= ROLES_MAX {
        return Err(OptionError::new("", format!("there are more than {ROLES_MAX} roles")));
    }
    Ok((name, Grant { may, rows, has_pseudonyms: pseudonyms }))
}

fn user(
    options: UserOptions,
    grants: &BTreeMap<String, Grant>,
    key: Option<&PseudonymKey>,
) -> Result<User, OptionError> {
    let UserOptions { name, role, rows, password, tokens, scram } = options;
    let Some(grant) = grants.get(&role) else {
        let known: Vec<(&str, &str)> = grants.keys().map(|name| (name.as_str(), "")).collect();
        let weir_chain::Problem::Because(message, hint) = weir_chain::Problem::no_choice(&role, &known) else {
            return Err(OptionError::new("role", format!("'{role}' is no role")));
        };
        return Err(OptionError { hint, ..OptionError::new("role", format!("user '{name}': role {message}")) });
    };
    let user = User::new(&name, grant.may, password, tokens)?.proving(scram)?;
    let own = rows.map_or(Ok(Predicate::True), |rows| rule(&rows, &format!("user '{name}'")))?;
    if grant.may == Role::Admin && own != Predicate::True {
        let message = format!("user '{name}' is admin, and sees a part of the flows");
        return Err(OptionError::new("rows", message).with_hint("let the user be analyst or viewer"));
    }
    let key = key.filter(|_| grant.has_pseudonyms);
    let view = View::of(Predicate::and([grant.rows.clone(), own]), key);
    Ok(user.who_sees(Arc::new(view)))
}

/// Reads a rule. An empty one is an error: who wrote it did not mean all flows.
fn rule(text: &str, of: &str) -> Result<Predicate, OptionError> {
    if text.trim().is_empty() {
        return Err(
            OptionError::new("rows", format!("{of}: the filter 'rows' is empty")).with_hint("any takes all flows")
        );
    }
    filter_reader().parse(text).map_err(|error| {
        let message = format!("{of}: the filter 'rows' is wrong: {}", error.message);
        OptionError { hint: error.hint, ..OptionError::new("rows", message) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash_password;

    const KNOWN: &[(&str, &str)] = &[("access", ""), ("roles", ""), ("users", "")];

    fn of(text: &str, folder: &Path) -> Result<Vec<User>, OptionError> {
        users(&ConfigFile::parse(text, folder, KNOWN)?)
    }

    /// A misspelt name of the file must not open the service to everybody, nor one in which nobody is.
    #[test]
    fn a_file_of_users_is_there_and_has_users() {
        let folder = tempfile::tempdir().expect("a folder");
        let named = "[access]\nusers_file = 'usres.toml'\n";
        let missing = of(named, folder.path()).expect_err("no file");
        assert_eq!(missing.key, "users_file");
        assert!(missing.message.contains("usres.toml is not there"), "{missing:?}");
        assert!(missing.hint.is_some_and(|hint| hint.starts_with("weir user add")));
        std::fs::write(folder.path().join("usres.toml"), "").expect("written");
        let empty = of(named, folder.path()).expect_err("nobody");
        assert!(empty.message.contains("usres.toml has no users"), "{empty:?}");
        let hash = hash_password("correct horse").expect("a hash");
        let ann = format!("{named}[[users]]\nname = 'ann'\npassword = '{hash}'\n");
        assert_eq!(of(&ann, folder.path()).expect("ann is in the configuration").len(), 1);
    }

    #[test]
    fn users_have_roles_rules_and_hashes() {
        let folder = tempfile::tempdir().expect("a folder");
        let hash = hash_password("correct horse").expect("a hash");
        std::fs::write(folder.path().join("key"), [7; 32]).expect("written");
        let ann = format!("[[users]]\nname = 'ann'\nrole = 'admin'\npassword = '{hash}'\n");
        let tenant = "[access]\npseudonym_key_file = 'key'\nusers_file = 'more.toml'\n[[roles]]\nname = 'tenant'\nmay = 'analyst'\nrows = 'net 10.0.0.0/8'\npseudonyms = true\n";
        let bob = format!("[[users]]\nname = 'bob'\nrole = 'tenant'\nrows = 'port 53'\npassword = '{hash}'\n");
        std::fs::write(folder.path().join("more.toml"), &bob).expect("written");
        let users = of(&format!("{tenant}{ann}"), folder.path()).expect("users");
        let seen: Vec<_> = users.iter().map(|user| (user.name.as_str(), user.role, user.view.is_whole())).collect();
        assert_eq!(seen, [("ann", Role::Admin, true), ("bob", Role::Analyst, false)]);
        let expected = weir_filter::parse("net 10.0.0.0/8 and port 53").expect("a filter");
        assert_eq!(users[1].view.flows.rows, expected);
        assert!(users[1].view.flows.pseudonyms.is_some());
        let refused = |text: &str| of(text, folder.path()).expect_err(text);
        assert!(refused(&format!("{tenant}{ann}{bob}")).message.contains("two users are named 'bob'"));
        let built_in = refused("[[roles]]\nname = 'own'\n[[roles]]\nname = 'admin'\n");
        assert!(
            built_in.message.starts_with("line 4: [roles] 'name': there is a role 'admin' in any case"),
            "{built_in:?}"
        );
        let twice = refused("[[roles]]\nname = 'own'\n[[roles]]\nname = 'own'\n");
        assert_eq!(twice.message, "line 4: [roles] 'name': two roles are named 'own'");
        assert!(refused(&ann.replace("admin", "root")).message.contains("'root' is not known here"));
        assert!(refused(&tenant.replace("10.0.0.0/8", "10.0.0.0/99")).message.contains("role 'tenant'"));
        assert!(refused(&tenant.replace("net 10.0.0.0/8", " ")).message.contains("is empty"));
        assert!(refused(&tenant.replace("analyst", "ingest")).message.contains("no role of your own"));
        assert!(refused(&tenant.replace("analyst", "admin")).message.contains("may do everything"));
        assert!(refused(&tenant.replace("pseudonym_key_file = 'key'", "")).hint.is_some());
        assert!(refused(&ann.replace("role", "rows = 'proto tcp'\nrole")).message.contains("sees a part"));
        let plain = refused("[[users]]\nname = 'bob'\npassword = 'secret'\n");
        assert!(!plain.message.contains("secret") && plain.hint.is_some(), "{plain:?}");
    }
}
