//! `weir config`: the configuration of `weir serve`, checked, shown and begun.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use serde_json::{Map, Value, json};
use weir_chain::options::{OptionSpec, schema};
use weir_serve::ConfigFile;

use super::serve::origin::{in_file, of_environment};
use super::serve::sections::{SECTIONS, specs};
use super::serve::settings::check;

/// Sections that a file has several times.
const LISTS: [&str; 6] = ["meter", "snmp", "chain", "download", "roles", "users"];
/// Letters of a line of comments.
const LINE_LETTERS: usize = 100;

const EXAMPLES: &str = "\
Examples:
  Begin a configuration, with every option and what it does as a comment:
    weir config init weir.toml
  See what is wrong with it, and what it says:
    weir config check weir.toml
    weir config show weir.toml
  Have an editor complete and check it:
    weir config schema > weir.schema.json";

/// Begin, check and show the configuration of weir serve
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Report what is wrong with a configuration, for this user and on this machine
    ///
    /// Its folders, files, certificates and interfaces are looked for here, with the rights of who runs this: check a configuration
    /// as the user of the service, on the machine that it is for.
    #[command(after_long_help = EXAMPLES)]
    Check {
        /// The configuration
        #[arg(value_name = "CONFIG")]
        config: PathBuf,
    },
    /// Print every option and its value; those that the file does not set are comments
    #[command(after_long_help = EXAMPLES)]
    Show {
        /// The configuration; without it the defaults
        #[arg(value_name = "CONFIG")]
        config: Option<PathBuf>,
    },
    /// Print a JSON schema of configurations, for editors
    #[command(after_long_help = EXAMPLES)]
    Schema,
    /// Write a sample in which every option is a comment; a file that is there is kept
    #[command(after_long_help = EXAMPLES)]
    Init {
        /// Write here instead of to standard output
        #[arg(value_name = "CONFIG")]
        config: Option<PathBuf>,
    },
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Check { config } => {
            checked(config)?;
            super::serve::check(config)?;
            println!("the configuration is right");
        }
        Command::Show { config } => {
            let file = config.as_ref().map(|path| checked(path)).transpose()?.unwrap_or_default();
            print!("{}", shown(&file));
        }
        Command::Schema => println!("{}", serde_json::to_string_pretty(&config_schema())?),
        Command::Init { config: None } => print!("{}", sample()),
        Command::Init { config: Some(path) } => init(path)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn checked(path: &Path) -> anyhow::Result<ConfigFile> {
    check(path).map_err(|error| in_file(Some(path), &error))
}

fn init(path: &Path) -> anyhow::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = file.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => anyhow!("{} is there already\nhint: name another file", path.display()),
        _ => anyhow::Error::new(error).context(format!("cannot write {}", path.display())),
    })?;
    file.write_all(sample().as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

fn heading(section: &str) -> String {
    if LISTS.contains(&section) { format!("[[{section}]]") } else { format!("[{section}]") }
}

/// A sample of which nothing is set.
fn sample() -> String {
    let mut text = String::from(
        "# The configuration of weir serve. What is a comment has its default; weir config check finds what is wrong.\n",
    );
    for (section, doc) in SECTIONS {
        text.extend(["\n# ", doc, ".\n# ", &heading(section), "\n"]);
        for spec in specs(section) {
            text += &comment(&format!("{}{}", spec.doc, values(&spec)));
            text.extend(["# ", &line(&spec, None), "\n"]);
        }
    }
    text
}

/// What a value may be, where the default does not show it.
fn values(spec: &OptionSpec) -> String {
    match &spec.range {
        Some(range) if *range.end() != u64::MAX => format!(" From {} to {}.", range.start(), range.end()),
        _ => String::new(),
    }
}

/// `key = value`: what is set, else the default, else an empty place.
fn line(spec: &OptionSpec, set: Option<&toml::Value>) -> String {
    let value = set.map(ToString::to_string).or_else(|| spec.default.clone());
    format!("{} = {}", spec.key, value.unwrap_or_else(|| "…".to_owned()))
}

/// Lines of comments.
fn comment(text: &str) -> String {
    let mut lines = String::new();
    let mut letters = LINE_LETTERS;
    for word in text.split_whitespace() {
        if letters + 1 + word.chars().count() > LINE_LETTERS {
            lines += if lines.is_empty() { "#" } else { "\n#" };
            letters = 1;
        }
        lines += " ";
        lines += word;
        letters += 1 + word.chars().count();
    }
    lines + "\n"
}

/// Every option and its value. Hashes are shown as words: they are secrets enough.
fn shown(file: &ConfigFile) -> String {
    let mut text = String::new();
    for (section, _) in SECTIONS {
        let tables = file.tables(section);
        if tables.is_empty() && LISTS.contains(section) {
            continue;
        }
        let none = toml::Table::new();
        let tables = if tables.is_empty() { vec![&none] } else { tables };
        for table in tables {
            text.extend([&heading(section), "\n"]);
            for spec in specs(section) {
                let is_secret = matches!(spec.key, "password" | "tokens" | "scram");
                if let Some((variable, taken)) = of_environment(section, spec.key) {
                    text += &environment_value(&spec, variable, &taken.to_string_lossy(), table.get(spec.key));
                    continue;
                }
                let (mark, shown) = match table.get(spec.key) {
                    Some(_) if is_secret => ("", format!("{} = \"…\"", spec.key)),
                    Some(value) => ("", line(&spec, Some(value))),
                    None => ("# ", line(&spec, None)),
                };
                text.extend([mark, &shown, "\n"]);
            }
            text.push('\n');
        }
    }
    text
}

/// An option that the environment sets, whatever the file says.
fn environment_value(spec: &OptionSpec, variable: &str, taken: &str, of_file: Option<&toml::Value>) -> String {
    let replaced = of_file.map(|of_file| format!("; the file has {of_file}")).unwrap_or_default();
    format!("# set by {variable}{replaced}\n{}\n", line(spec, Some(&toml::Value::from(taken))))
}

/// A JSON schema of configurations.
fn config_schema() -> Value {
    let section = |(name, doc): &(&str, &str)| {
        let specs = specs(name);
        let properties: Map<String, Value> =
            specs.iter().map(|spec| (spec.key.to_owned(), schema::option(spec))).collect();
        let required: Vec<&str> = specs.iter().filter(|spec| spec.is_required).map(|spec| spec.key).collect();
        let table = json!({
            "type": "object",
            "description": format!("{doc}."),
            "additionalProperties": false,
            "required": required,
            "properties": properties,
        });
        let is_list = LISTS.contains(name);
        ((*name).to_owned(), if is_list { json!({ "type": "array", "items": table }) } else { table })
    };
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "weir serve",
        "type": "object",
        "additionalProperties": false,
        "properties": SECTIONS.iter().map(section).collect::<Map<_, _>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without `# ` before options and headings the sample is a configuration, but for what has no default.
    #[test]
    fn every_option_of_the_sample_can_be_set() {
        let sample = sample();
        for (section, _) in SECTIONS {
            assert!(sample.contains(&format!("\n# {}\n", heading(section))), "{section}");
            assert!(!specs(section).is_empty(), "{section} has no options");
            let set = specs(section).into_iter().filter(|spec| spec.default.is_some());
            let lines: Vec<String> = set.map(|spec| line(&spec, None)).collect();
            let table: toml::Table = lines.join("\n").parse().unwrap_or_else(|error| panic!("{section}: {error}"));
            assert_eq!(table.len(), lines.len());
        }
        assert!(sample.lines().all(|line| line.is_empty() || line.starts_with('#')));
    }

    #[test]
    fn the_schema_has_every_key() {
        let schema = config_schema();
        assert_eq!(schema["properties"]["http"]["properties"]["listen"]["default"], "127.0.0.1:2080");
        let user = &schema["properties"]["users"]["items"];
        assert_eq!((&user["required"], &user["additionalProperties"]), (&json!(["name"]), &json!(false)));
    }

    #[test]
    fn what_the_environment_sets_is_shown_with_what_it_replaces() {
        let specs = specs("archive");
        let folder = specs.iter().find(|spec| spec.key == "folder").expect("a folder");
        let shown = |of_file: Option<&str>| {
            environment_value(folder, "WEIR_ARCHIVE", "/b", of_file.map(toml::Value::from).as_ref())
        };
        let both = "# set by WEIR_ARCHIVE; the file has \"/a\"\nfolder = \"/b\"\n";
        assert_eq!(shown(Some("/a")), both);
        assert_eq!(shown(None), "# set by WEIR_ARCHIVE\nfolder = \"/b\"\n");
    }

    #[test]
    fn hashes_are_not_shown() {
        let text = "[http]\nlisten = '[::1]:80'\n[[users]]\nname = 'ann'\npassword = '$argon2id$secret'\n";
        let shown = shown(&ConfigFile::parse(text, Path::new(""), SECTIONS).expect("a file"));
        assert!(shown.contains("listen = \"[::1]:80\"\n") && shown.contains("name = \"ann\"\n"), "{shown}");
        assert!(!shown.contains("argon2") && shown.contains("# session_length = \"12h\"\n"), "{shown}");
    }
}
