use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::options::{ByteSize, Given, Options, TimeSpan, ValueType, parse, read};

crate::choices! {
    /// A colour.
    pub(crate) enum Colour {
        /// As of roses.
        Red = "red",
        /// As of the sky.
        Blue = "blue",
    }
}

crate::options! {
    /// Options that several structs have.
    pub(crate) struct Shared {
        /// How long to wait.
        wait: TimeSpan = TimeSpan::from_secs(5),
    }
}

crate::options! {
    /// One option of each type.
    pub(crate) struct Sample {
        /// A text that must be given.
        name: String,
        /// A number. It has two
        /// sentences.
        threads: u32 = 4 => 1..=8,
        /// A size.
        memory: ByteSize = ByteSize::from_mib(64) => 1024..=u64::MAX,
        /// Perhaps a path.
        folder: Option<PathBuf>,
        /// A list.
        colours: Vec<Colour> = vec![Colour::Blue],
        /// A flag.
        merge: bool = true; off "No flag.",
        /// A fraction.
        share: f64 = 0.5,
    }
    includes {
        /// What is shared.
        shared: Shared,
    }
}

fn error(text: &str) -> (String, String, Option<String>) {
    let error = parse::<Sample>(text).expect_err("wrong");
    (error.key, error.message, error.hint)
}

#[test]
fn what_is_not_given_has_its_default() {
    let sample = parse::<Sample>("name = 'a'").expect("options");
    assert_eq!((sample.threads, sample.memory.bytes(), sample.folder), (4, 64 << 20, None));
    assert_eq!((sample.colours, sample.merge, sample.shared.wait.as_secs_f64()), (vec![Colour::Blue], true, 5.0));
    assert_eq!(error("threads = 1").1, "'name' must be given");
}

#[test]
fn values_of_a_file_are_checked() {
    let text = "name = 'a'\nthreads = 8\nmemory = '1GiB'\nfolder = 'x'\ncolours = 'red'\nwait = '1m'\nshare = 1";
    let given = Given::from_table(text.parse().expect("a table"), Path::new("/base"));
    let sample = read::<Sample>(&given).expect("options");
    assert_eq!((sample.threads, sample.memory.bytes()), (8, 1 << 30));
    assert_eq!((sample.folder, sample.colours), (Some(PathBuf::from("/base/x")), vec![Colour::Red]));
    assert_eq!((sample.shared.wait, sample.share), (TimeSpan::from_secs(60), 1.0));
    let message = |text: &str| error(&format!("name = 'a'\n{text}")).1;
    assert_eq!(message("threads = 9"), "'threads' is 9, but a number from 1 to 8 is needed");
    assert_eq!(message("threads = -1"), "'threads': it is -1, but a number from 0 to 4294967295 is needed");
    assert_eq!(message("threads = 'x'"), "'threads' is string, but a whole number is needed");
    assert_eq!(message("memory = '1B'"), "'memory' is 1B, but a size from 1KiB is needed");
    assert_eq!(message("memory = 0"), "'memory' is 0B, but a size from 1KiB is needed");
    assert_eq!(message("memory = 4096"), "'memory': '4096' is not a size");
    assert_eq!(message("memory = '4096'"), "'memory': '4096' is not a size");
    assert_eq!(message("merge = 1"), "'merge' is integer, but true or false is needed");
    assert_eq!(message("colours = ['red', 'blu']"), "'colours': 'blu' is not known here");
    assert_eq!(error("name = 'a'\ncolours = 'blu'").2.as_deref(), Some("did you mean 'blue'?"));
    assert_eq!(message("wait = 30"), "'wait': '30' is not a duration");
    let hint = error("name = 'a'\nwait = 30").2.expect("a remedy");
    assert!(hint.starts_with("write a number with a unit: 250ms, 30s"), "{hint}");
    assert_eq!(error("name = 'a'\nwaitt = '1s'").2.as_deref(), Some("did you mean 'wait'?"));
}

#[test]
fn words_of_a_command_line_are_the_same_options() {
    let words = |pairs: &[(&'static str, &[&str])]| {
        let words = pairs.iter().map(|(key, words)| (*key, words.iter().map(OsString::from).collect()));
        read::<Sample>(&Given::from_words(words.collect::<BTreeMap<_, _>>()))
    };
    let sample = words(&[("name", &["a"]), ("colours", &["red", "blue"]), ("merge", &["false"]), ("wait", &["2m"])]);
    let sample = sample.expect("options");
    assert_eq!((sample.colours.len(), sample.merge, sample.shared.wait.as_secs_f64()), (2, false, 120.0));
    assert_eq!(words(&[("name", &["a"]), ("threads", &["9"])]).expect_err("too many").key, "threads");
}

#[cfg(unix)]
#[test]
fn a_path_of_a_command_line_need_not_be_utf8() {
    use std::os::unix::ffi::OsStringExt;
    let path = OsString::from_vec(vec![b'a', 0xff]);
    let words = BTreeMap::from([("name", vec!["a".into()]), ("folder", vec![path.clone()])]);
    let sample = read::<Sample>(&Given::from_words(words)).expect("options");
    assert_eq!(sample.folder, Some(PathBuf::from(path)));
}

#[test]
fn specs_say_what_help_needs() {
    let specs = Sample::specs();
    let keys: Vec<_> = specs.iter().map(|spec| spec.key).collect();
    assert_eq!(keys, ["name", "threads", "memory", "folder", "colours", "merge", "share", "wait"]);
    assert!(specs[0].is_required && !specs[3].is_required);
    assert_eq!((specs[1].doc.as_str(), specs[1].summary()), ("A number. It has two sentences.", "A number"));
    assert_eq!(specs[2].default.as_deref(), Some("\"64MiB\""));
    assert_eq!((specs[1].off, specs[5].off), (None, Some("No flag.")));
    assert_eq!(specs[4].value_type, ValueType::List(Box::new(ValueType::Choice(Colour::WORDS))));
}

#[test]
fn what_was_changed_is_read_again() {
    let sample =
        Sample { name: "a".to_owned(), threads: 2, shared: Shared { wait: TimeSpan::ZERO }, ..Sample::default() };
    let changed = sample.changed();
    assert_eq!(changed.iter().map(|(key, _)| *key).collect::<Vec<_>>(), ["name", "threads", "wait"]);
    let table = changed.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let again = read::<Sample>(&Given::from_table(table, Path::new(""))).expect("options");
    assert_eq!((again.name.as_str(), again.threads, again.shared.wait), ("a", 2, TimeSpan::ZERO));
}
