//! Chains made of option structs.

use std::path::Path;

use weir_chain::config::ThreadChoice;
use weir_chain::{Chain, ChainBuilder, ComponentKind, NoOptions, ONE_INPUT, OptionError, Role};

use crate::components::{NOTE, NUMBERS, NoteOptions, NumbersOptions, PASS, PassOptions, parse, registry, taken};

/// A kind that is content with no options.
const PICKY: ComponentKind<NoOptions> = ComponentKind {
    name: "picky",
    role: Role::Transform,
    inputs: ONE_INPUT,
    doc: "Refuses.",
    configure: |_| Err(OptionError::new("size", "'size' is odd").with_hint("give an even one")),
};

fn builder(into: &str) -> ChainBuilder {
    let numbers = NumbersOptions { count: 250, first: 7, ..NumbersOptions::default() };
    let note = NoteOptions { into: into.to_owned(), ..NoteOptions::default() };
    Chain::builder("built \"so\"")
        .queues(50, 3)
        .add("numbers", &NUMBERS, numbers, &[], ThreadChoice::Named("first".to_owned()))
        .add("pass", &PASS, PassOptions { hold: true, ..PassOptions::default() }, &["numbers"], ThreadChoice::Own)
        .add("note", &NOTE, note, &["pass"], ThreadChoice::Upstream)
}

#[test]
fn the_text_is_the_same_chain() {
    let builder = builder("of a file");
    let text = builder.text();
    let (built, read) = (builder.build().expect("a chain"), parse(&text).expect("a chain"));
    assert_eq!((built.name(), read.name()), ("built \"so\"", "built \"so\""));
    assert_eq!(built.graph(), read.graph());
    for (built, read) in built.components().iter().zip(read.components()) {
        assert_eq!((&built.name, built.kind.name()), (&read.name, read.kind.name()));
        assert_eq!((&built.inputs, &built.thread, built.queue), (&read.inputs, &read.thread, read.queue));
    }
    assert_eq!(built.components().len(), 3);
    read.start().expect("started").wait().1.expect("ended");
    assert_eq!(taken("of a file").values, (7..257).collect::<Vec<u64>>(), "options are those that were given");
}

#[test]
fn the_text_has_only_what_differs() {
    let text = builder("words").text();
    let expected = "name = 'built \"so\"'
burst_records = 50
queue_bursts = 3

[components.numbers]
type = \"numbers\"
thread = \"first\"
count = 250
first = 7

[components.pass]
type = \"pass\"
inputs = [\"numbers\"]
thread = \"own\"
hold = true

[components.note]
type = \"note\"
inputs = [\"pass\"]
thread = \"upstream\"
into = \"words\"
";
    assert_eq!(text, expected);
}

#[test]
fn a_built_chain_runs() {
    builder("built").build().expect("a chain").start().expect("started").wait().1.expect("ended");
    let taken = taken("built");
    assert!(taken.finished);
    assert_eq!(taken.values, (7..257).collect::<Vec<u64>>());
}

#[test]
fn options_that_are_wrong_come_out() {
    let builder = builder("nothing").add("picky", &PICKY, NoOptions {}, &["numbers"], ThreadChoice::Default);
    let errors = builder.build().err().expect("errors");
    let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(errors, ["'size' is odd\nhint: give an even one"]);
}

#[test]
fn inputs_that_are_wrong_come_out() {
    let note = NoteOptions { into: "nothing".to_owned(), ..NoteOptions::default() };
    let builder = builder("nothing").add("second", &NOTE, note, &["nubers"], ThreadChoice::Default);
    let text = builder.text();
    let errors = builder.build().err().expect("errors");
    let as_read = Chain::parse(&text, Path::new("."), &registry(), &[]).err().expect("errors");
    let messages = |errors: &[weir_chain::ConfigError]| {
        errors.iter().map(|error| (error.message.clone(), error.hint.clone())).collect::<Vec<_>>()
    };
    assert_eq!(messages(&errors), messages(&as_read));
    assert_eq!(errors[0].hint.as_deref(), Some("did you mean 'numbers'?"));
}

#[test]
fn values_out_of_range_are_refused_as_in_a_file() {
    let numbers = NumbersOptions { step: 0, ..NumbersOptions::default() };
    let builder = Chain::builder("built").add("numbers", &NUMBERS, numbers, &[], ThreadChoice::Default);
    let errors = builder.build().err().expect("errors");
    assert_eq!(errors[0].message, "'step' is 0, but a number from 1 to 1000000 is needed");
}
