//! Option structs as flags: long name, help, default and values of a flag are those of the option.
//!
//! A command flattens [`Flags<O>`] into its arguments. A key `idle_timeout` is the flag `--idle-timeout`; a switch that is
//! on by default is the flag `--no-…`; an option with several values is a flag that may be repeated. What was given is
//! read by the same code as a chain file, so both refuse the same with the same words.

use std::ffi::OsString;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use weir_blocks::sinks::archive::{RetentionOptions, SealingOptions};
use weir_blocks::sinks::export::options::{ExportTlsOptions, MessageOptions, PatienceOptions};
use weir_blocks::sources::collector::options::{
    ConnectionOptions, LimitOptions, ListenOptions, ListenerTlsOptions, RelayingOptions,
};
use weir_blocks::sources::meter::options::{FlowOptions, MeasureOptions, PacketOptions, RouteOptions};
use weir_blocks::transforms::enrich::{AddressFileOptions, ExporterFileOptions, RouteFileOptions};
use weir_chain::OptionError;
use weir_chain::options::{Given, OptionSpec, Options, ValueType, read};

/// The options of a struct, filled by flags.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags<O>(pub(crate) O);

/// An option struct that commands have as flags, under a heading of their help.
pub(crate) trait Section: Options {
    /// The heading.
    const HEADING: &'static str;
}

macro_rules! sections {
    ($($options:ty => $heading:literal),* $(,)?) => {
        $(impl Section for $options {
            const HEADING: &'static str = $heading;
        })*
    };
}

sections! {
    PacketOptions => "Packets",
    FlowOptions => "Flows",
    MeasureOptions => "Measures",
    RouteOptions => "Routes",
    MessageOptions => "Messages to collectors",
    PatienceOptions => "Slow collectors",
    ExportTlsOptions => "TLS",
    ListenOptions => "Receiving",
    ConnectionOptions => "Connections",
    ListenerTlsOptions => "TLS and DTLS",
    RelayingOptions => "Relay",
    LimitOptions => "Limits of decoders",
    SealingOptions => "Sealing",
    RetentionOptions => "Limits of the archive",
    AddressFileOptions => "Enrichment",
    ExporterFileOptions => "Enrichment",
    RouteFileOptions => "Enrichment",
}

impl<O: Section> Args for Flags<O> {
    fn augment_args(command: Command) -> Command {
        O::specs().iter().fold(command, |command, spec| command.arg(flag(spec).help_heading(O::HEADING)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<O: Section> FromArgMatches for Flags<O> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let specs = O::specs();
        let given = specs.iter().filter_map(|spec| Some((spec.key, words(spec, matches)?)));
        read(&Given::from_words(given.collect())).map(Self).map_err(|error| {
            // usage and the way to the help follow after an empty line
            Error::raw(ErrorKind::ValueValidation, error_text(&error))
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The flag of an option.
fn flag(spec: &OptionSpec) -> Arg {
    let doc = spec.doc.trim_end_matches('.');
    let flag = Arg::new(spec.key).long(spec.key.replace('_', "-"));
    if spec.value_type == ValueType::Boolean {
        let flag = flag.action(ArgAction::SetTrue);
        return match spec.default.as_deref() {
            Some("true") => flag.long(format!("no-{}", spec.key.replace('_', "-"))).help(spec.off.unwrap_or_default()),
            _ => flag.help(doc.to_owned()),
        };
    }
    let (value_type, is_list) = match &spec.value_type {
        ValueType::List(item) => (item.as_ref(), true),
        one => (one, false),
    };
    let flag = match value_type {
        ValueType::Choice(choices) => {
            let values =
                choices.iter().map(|(word, doc)| PossibleValue::new(word).help(doc.trim().trim_end_matches('.')));
            flag.value_parser(PossibleValuesParser::new(values))
        }
        _ => flag.value_parser(clap::value_parser!(OsString)),
    };
    let flag = match (is_list, value_type) {
        (true, ValueType::Choice(_)) => flag.action(ArgAction::Append).value_delimiter(','),
        (true, _) => flag.action(ArgAction::Append),
        _ => flag.action(ArgAction::Set),
    };
    flag.help(doc.to_owned()).value_name(value_name(value_type)).default_values(defaults(spec))
}

fn value_name(value_type: &ValueType) -> &'static str {
    match value_type {
        ValueType::Text(name) => name,
        ValueType::Choice(_) => "WORD",
        ValueType::Duration => "DURATION",
        ValueType::Size => "SIZE",
        ValueType::Path => "PATH",
        _ => "N",
    }
}

/// The default as words; it was written as a value of a chain file.
fn defaults(spec: &OptionSpec) -> Vec<String> {
    let word = |value: &toml::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let table = spec.default.as_ref().and_then(|text| format!("value = {text}").parse::<toml::Table>().ok());
    match table.as_ref().and_then(|table| table.get("value")) {
        Some(toml::Value::Array(values)) => values.iter().map(word).collect(),
        Some(value) => vec![word(value)],
        None => Vec::new(),
    }
}

/// The values that were given to a flag; `None` when it was not given.
fn words(spec: &OptionSpec, matches: &ArgMatches) -> Option<Vec<OsString>> {
    if matches.value_source(spec.key) != Some(ValueSource::CommandLine) {
        return None;
    }
    if spec.value_type == ValueType::Boolean {
        let is_on = spec.default.as_deref() != Some("true");
        return Some(vec![OsString::from(is_on.to_string())]);
    }
    matches.get_raw(spec.key).map(|words| words.map(OsString::from).collect())
}

/// What is wrong with the option of a flag, in the words of a chain file; there a message begins with the key in quotes,
/// for which the flag stands.
fn error_text(error: &OptionError) -> String {
    let flag = format!("--{}", error.key.replace('_', "-"));
    let hint = error.hint.as_ref().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    let of_key = error.message.strip_prefix(&format!("'{}'", error.key));
    match of_key.filter(|rest| rest.starts_with([':', ' '])) {
        Some(rest) => format!("{flag}{rest}{hint}"),
        None => format!("{flag}: {}{hint}", error.message),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use weir_blocks::sources::meter::options::FlowKey;

    use super::*;

    #[derive(Debug, Parser)]
    struct Sample {
        #[command(flatten)]
        flows: Flags<FlowOptions>,
        #[command(flatten)]
        packets: Flags<PacketOptions>,
    }

    fn parse(words: &[&str]) -> Result<Sample, String> {
        Sample::try_parse_from([&["sample"], words].concat()).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_are_options() {
        let sample =
            parse(&["--idle-timeout", "2m", "--keys", "src_addr,dst_addr", "--no-promiscuous"]).expect("flags");
        assert_eq!(sample.flows.0.idle_timeout, weir_chain::TimeSpan::from_secs(120));
        assert_eq!(sample.flows.0.keys, [FlowKey::SrcAddr, FlowKey::DstAddr]);
        assert!(!sample.packets.0.promiscuous && !sample.flows.0.biflow);
        let usual = parse(&[]).expect("flags");
        assert_eq!(usual.flows.0.keys, FlowOptions::default().keys);
        assert!(usual.packets.0.promiscuous);
    }

    #[test]
    fn a_flag_that_turns_something_off_says_what_happens_then() {
        let specs = [PacketOptions::specs(), SealingOptions::specs()].concat();
        let help = |key: &str| {
            let spec = specs.iter().find(|spec| spec.key == key).expect("an option");
            let flag = flag(spec);
            (flag.get_long().expect("a long name").to_owned(), flag.get_help().expect("a help").to_string())
        };
        let only_ours = "Receive only packets that are meant for this machine";
        assert_eq!(help("promiscuous"), ("no-promiscuous".to_owned(), only_ours.to_owned()));
        assert_eq!(help("merge"), ("no-merge".to_owned(), "Leave small segments as they are".to_owned()));
    }

    #[test]
    fn wrong_values_name_the_flag() {
        let error = parse(&["--idle-timeout", "15"]).expect_err("no unit");
        let expected = "error: --idle-timeout: '15' is not a duration\nhint: write a number with a unit: 250ms, 30s, ";
        assert!(error.starts_with(expected), "{error}");
        assert!(!error.contains("\n\n\n"), "{error}");
        let error = parse(&["--workers", "0"]).expect_err("too few");
        assert!(error.starts_with("error: --workers is 0, but a number from 1 to 256 is needed"), "{error}");
        let error = parse(&["--keys", "colour"]).expect_err("no key");
        assert!(error.contains("colour") && error.contains("src_addr"), "{error}");
    }
}
