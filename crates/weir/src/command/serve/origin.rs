//! Where options of the service come from: the file, the command line, the environment. Errors and the log name it.

use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use weir_chain::{ComponentError, OptionError};
use weir_serve::{ConfigFile, ServeError};

/// Options that a variable of the environment sets, whatever the file says: section, key, variable.
const ENVIRONMENT: [(&str, &str, &str); 2] =
    [("archive", "folder", "WEIR_ARCHIVE"), ("questions", "sampling_corrections", "WEIR_SAMPLING_CORRECTIONS")];

/// The variable that sets an option, and its value; `None` where the environment does not.
pub(in crate::command) fn of_environment(section: &str, key: &str) -> Option<(&'static str, OsString)> {
    let (.., variable) = ENVIRONMENT.into_iter().find(|(of, name, _)| (*of, *name) == (section, key))?;
    env::var_os(variable).filter(|value| !value.is_empty()).map(|value| (variable, value))
}

/// Logs that the environment or the command line replaces what the file has, where they differ: who set a variable for commands
/// may not know that the service has it too.
pub(super) fn log_replaced(section: &str, key: &str, taken: Option<&Path>, of_file: Option<&Path>) {
    let (Some(taken), Some(of_file)) = (taken, of_file) else { return };
    if taken == of_file {
        return;
    }
    let variable = of_environment(section, key).filter(|(_, value)| taken.as_os_str() == value);
    let by = variable.map_or("the command line", |(variable, _)| variable);
    tracing::warn!("{key} of [{section}] is {}, set by {by}; the file has {}", taken.display(), of_file.display());
}

/// The file of the configuration, if there is one, and what of it the command line replaces.
#[derive(Debug, Clone, Default)]
pub(super) struct Origin {
    pub(super) file: Option<(PathBuf, Arc<ConfigFile>)>,
    /// Sections of which an option is on the command line: what is wrong may be there.
    pub(super) replaced: Vec<&'static str>,
}

impl Origin {
    /// What is wrong with an option of a component of the chain that collects.
    pub(super) fn wrong_option(&self, component: &str, error: &OptionError) -> anyhow::Error {
        let (section, number) = section_of(component);
        if section == "collect" && error.key == "listen" && self.replaced.contains(&section) {
            let error = OptionError { message: format!("--collect: {}", error.message), ..error.clone() };
            return in_file(None, &error);
        }
        match &self.file {
            Some((path, file)) => in_file(Some(path), &file.placed(section, number, error.clone())),
            None => in_file(None, error),
        }
    }

    /// Why a component could not begin.
    pub(super) fn cannot_begin(&self, section: &'static str, error: &ComponentError) -> anyhow::Error {
        anyhow!("{}{}", self.place(section), error.chain())
    }

    /// Why the service cannot answer.
    pub(super) fn cannot_serve(&self, error: ServeError) -> anyhow::Error {
        let section = match &error {
            ServeError::Option(option) if self.file.is_some() => return self.wrong_option("http", option),
            ServeError::Option(_)
            | ServeError::Unprotected(_)
            | ServeError::Listen { .. }
            | ServeError::Certificate(_) => "http",
            ServeError::Archive(_) => "archive",
            ServeError::Audit { .. } => "audit",
            ServeError::Watches { .. } => "watch",
            ServeError::Enrichment(_) => "enrichment",
            ServeError::Corrections(_) => "questions",
            ServeError::Postgres(_) => "postgres",
            ServeError::Flight(_) => "flight",
            ServeError::Thread(_) => return error.into(),
        };
        PlacedError { place: self.place(section), error }.into()
    }

    /// File and section for in front of an error; nothing where it may be about the command line.
    fn place(&self, section: &'static str) -> String {
        match &self.file {
            Some((path, _)) if !self.replaced.contains(&section) => format!("{}: [{section}] ", path.display()),
            _ => String::new(),
        }
    }
}

/// An error of the service with its place in front. What caused it stays known: remedies go by that.
#[derive(Debug)]
struct PlacedError {
    place: String,
    error: ServeError,
}

impl Display for PlacedError {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.place, self.error)
    }
}

impl Error for PlacedError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error.source()
    }
}

/// The section whose options a component of the chain that collects has, and the number of the table in it.
fn section_of(component: &str) -> (&str, usize) {
    let (name, number) = component.rsplit_once('-').unwrap_or((component, "1"));
    let number = number.parse::<usize>().unwrap_or(1).saturating_sub(1);
    match name {
        "collector" => ("collect", 0),
        "enrich" => ("enrichment", 0),
        name => (name, number),
    }
}

/// An error of an option of a file, with the remedy on its own line.
pub(in crate::command) fn in_file(path: Option<&Path>, error: &OptionError) -> anyhow::Error {
    let place = path.map(|path| format!("{}: ", path.display())).unwrap_or_default();
    let hint = error.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    anyhow!("{place}{}{hint}", error.message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_have_options_of_sections() {
        assert_eq!(section_of("collector"), ("collect", 0));
        assert_eq!(["meter", "meter-2", "snmp-3"].map(section_of), [("meter", 0), ("meter", 1), ("snmp", 2)]);
        assert_eq!(section_of("enrich"), ("enrichment", 0));
    }

    #[test]
    fn errors_name_file_and_section_unless_they_are_about_the_command_line() {
        let file = ConfigFile::parse("[collect]\nlisten = 'x'\n", Path::new(""), &[("collect", "")]).expect("a file");
        let wrong = OptionError::new("listen", "'x' is no address and port").with_hint("write one");
        let of_file = Origin { file: Some(("weir.toml".into(), Arc::new(file))), replaced: Vec::new() };
        let text = of_file.wrong_option("collector", &wrong).to_string();
        assert_eq!(text, "weir.toml: line 2: [collect] 'listen': 'x' is no address and port\nhint: write one");
        let failed = ComponentError::new("cannot collect");
        assert_eq!(of_file.cannot_begin("collect", &failed).to_string(), "weir.toml: [collect] cannot collect");
        let of_both = Origin { replaced: vec!["collect"], ..of_file };
        let text = of_both.wrong_option("collector", &wrong).to_string();
        assert_eq!(text, "--collect: 'x' is no address and port\nhint: write one");
        assert_eq!(of_both.cannot_begin("collect", &failed).to_string(), "cannot collect");
        assert_eq!(Origin::default().cannot_begin("collect", &failed).to_string(), "cannot collect");
    }
}
