//! `weir user`: the users of a file that `weir serve` reads.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use weir_chain::{OptionError, Options};
use weir_disk::Replacement;
use weir_serve::config::UserOptions;
use weir_serve::{granting, hash_password, scram_verifier, users};

use super::report::counted;
use super::serve::origin::in_file;

/// Octets of a token.
const TOKEN_OCTETS: usize = 24;
/// What a file of users begins with.
const HEAD: &str = "# Users of weir serve, written by weir user. [access] users_file names this file.\n";

const EXAMPLES: &str = "\
Examples:
  A user who signs in with a password, which is asked for:
    weir user add ann --role admin --file /etc/weir/users.toml
  A program that sends a token, which is printed once:
    weir user add grafana --token --file /etc/weir/users.toml
  A user who sees the flows of one network:
    weir user add bob --role analyst --rows 'net 10.1.0.0/16' --file /etc/weir/users.toml
  See who there is, give somebody another password, and remove them:
    weir user ls --file /etc/weir/users.toml
    weir user password ann --file /etc/weir/users.toml
    weir user remove bob --file /etc/weir/users.toml
  The configuration names the file; it is read at the start, on SIGHUP and on POST /api/v1/reload:
    [access]
    users_file = \"/etc/weir/users.toml\"";

/// Add, list and remove users of weir serve
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
    /// The file of users, which [access] users_file of the configuration names; made when it is missing
    #[arg(long, value_name = "FILE", env = "WEIR_USERS", global = true, default_value = "users.toml")]
    file: PathBuf,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Add a user; the password is read from standard input
    #[command(after_long_help = EXAMPLES)]
    Add {
        /// The name
        name: String,
        /// What the user may do: admin, analyst, viewer, ingest, or a role of the configuration
        #[arg(long, default_value = "viewer")]
        role: String,
        /// Show only the flows that this filter takes, in nfdump's language
        #[arg(long, value_name = "FILTER")]
        rows: Option<String>,
        /// Make a token and print it, instead of reading a password
        #[arg(long)]
        token: bool,
    },
    /// List users
    #[command(after_long_help = EXAMPLES)]
    Ls,
    /// Remove a user
    #[command(after_long_help = EXAMPLES)]
    Remove {
        /// The name
        name: String,
    },
    /// Give a user another password, which is read from standard input
    #[command(after_long_help = EXAMPLES)]
    Password {
        /// The name
        name: String,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let path = &args.file;
    // printed once it is in the file: a token that nothing knows would look like a right one
    let mut printed = None;
    match &args.command {
        Command::Ls => {
            print_list(&existing(path)?);
            return Ok(ExitCode::SUCCESS);
        }
        Command::Add { name, role, rows, token } => {
            users::check_name(name).map_err(|error| in_file(None, &error))?;
            // before a password is asked for in vain
            check_free(path, &read(path)?, name)?;
            if let Some(rows) = rows {
                weir_filter::parse(rows).map_err(|error| anyhow!("wrong filter\n{}", error.render(rows)))?;
            }
            let mut user =
                UserOptions { name: name.clone(), role: role.clone(), rows: rows.clone(), ..UserOptions::default() };
            if *token {
                let token = new_token()?;
                user.tokens.push(hash(&token)?);
                printed = Some(format!("{name}:{token}"));
            } else {
                set_password(&mut user)?;
            }
            change(path, |all| {
                check_free(path, all, name)?;
                all.push(user);
                Ok(())
            })?;
        }
        Command::Remove { name } => {
            place_of(path, &existing(path)?, name)?;
            change(path, |all| {
                let place = place_of(path, all, name)?;
                all.remove(place);
                Ok(())
            })?;
        }
        Command::Password { name } => {
            place_of(path, &existing(path)?, name)?;
            let mut given = UserOptions::default();
            set_password(&mut given)?;
            change(path, |all| {
                let place = place_of(path, all, name)?;
                let user = &mut all[place];
                (user.password, user.scram) = (given.password, given.scram);
                Ok(())
            })?;
        }
    }
    if let Some(token) = printed {
        println!("{token}");
    }
    eprintln!("{} is written; SIGHUP has a running weir serve read it", path.display());
    Ok(ExitCode::SUCCESS)
}

fn print_list(all: &[UserOptions]) {
    for UserOptions { name, role, rows, password, tokens, .. } in all {
        let password = if password.is_some() { "password" } else { "" };
        let tokens = if tokens.is_empty() { String::new() } else { counted(tokens.len(), "token") };
        let signs_in: Vec<&str> = [password, &tokens].into_iter().filter(|one| !one.is_empty()).collect();
        let rows = rows.as_ref().map(|rows| format!(", sees {rows}")).unwrap_or_default();
        println!("{name}: {role}, {}{rows}", signs_in.join(" and "));
    }
}

/// The users of the file; none before the first one makes it.
fn read(path: &Path) -> anyhow::Result<Vec<UserOptions>> {
    let all = granting::users_of_file(path).map_err(|error| in_file(None, &error))?;
    Ok(all.unwrap_or_default())
}

/// The users of a file that is there.
fn existing(path: &Path) -> anyhow::Result<Vec<UserOptions>> {
    let Some(all) = granting::users_of_file(path).map_err(|error| in_file(None, &error))? else {
        bail!(
            "there is no file of users '{}'\nhint: weir user add makes it; --file or WEIR_USERS names another one",
            path.display()
        );
    };
    Ok(all)
}

/// Where a user is in the list.
fn place_of(path: &Path, all: &[UserOptions], name: &str) -> anyhow::Result<usize> {
    let place = all.iter().position(|user| user.name == name);
    place.ok_or_else(|| anyhow!("{} has no user '{name}'\nhint: weir user ls lists them", path.display()))
}

fn check_free(path: &Path, all: &[UserOptions], name: &str) -> anyhow::Result<()> {
    if all.iter().any(|user| user.name == name) {
        return Err(anyhow!("{} has a user '{name}' already\nhint: weir user password {name}", path.display()));
    }
    Ok(())
}

/// Reads a password, and keeps what it is checked with over HTTP and over the wire of Postgres.
fn set_password(user: &mut UserOptions) -> anyhow::Result<()> {
    let password = super::password::read_password()?;
    user.password = Some(hash(&password)?);
    user.scram = Some(scram_verifier(&password).context("there are no random numbers")?);
    Ok(())
}

fn hash(password: &str) -> anyhow::Result<String> {
    hash_password(password).map_err(|error| anyhow!("it cannot be hashed: {error}"))
}

/// Makes a token.
fn new_token() -> anyhow::Result<String> {
    let mut octets = [0; TOKEN_OCTETS];
    let mut random = fs::File::open("/dev/urandom").context("there are no random numbers")?;
    io::Read::read_exact(&mut random, &mut octets).context("there are no random numbers")?;
    Ok(octets.iter().fold(String::new(), |token, octet| token + &format!("{octet:02x}")))
}

/// Changes the users of the file as they are now: what others add or remove at the same time is waited for. Hashes are for
/// their owner only.
fn change(path: &Path, edit: impl FnOnce(&mut Vec<UserOptions>) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let unwritten = || format!("cannot write {}", path.display());
    let replacement = Replacement::begin(path).with_context(unwritten)?;
    let mut all = read(path)?;
    edit(&mut all)?;
    replacement.write(text_of(path, &all)?.as_bytes(), 0o600).with_context(unwritten)
}

/// The text of a file of these users.
fn text_of(path: &Path, users: &[UserOptions]) -> anyhow::Result<String> {
    let tables = users.iter().map(|user| {
        let table: toml::Table = user.changed().into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        toml::Value::Table(table)
    });
    let table = toml::Table::from_iter([("users".to_owned(), toml::Value::Array(tables.collect()))]);
    let text = format!("{HEAD}\n{}", if users.is_empty() { String::new() } else { table.to_string() });
    // what was written is what will be read
    let folder = path.parent().unwrap_or(Path::new(""));
    weir_serve::ConfigFile::parse(&text, folder, &[("users", "")])
        .and_then(|file| file.list::<UserOptions>("users"))
        .map_err(|error: OptionError| in_file(None, &error))?;
    Ok(text)
}
