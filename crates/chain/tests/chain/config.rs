//! Chain files: what is refused, and with which words.

use crate::components::{parse, parse_with};

const GOOD: &str = "
name = \"good\"
[components.source]
type = \"numbers\"
[components.sink]
type = \"note\"
inputs = [\"source\"]
into = \"config\"
";

/// The error of a chain file in which `from` is replaced.
fn error(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from));
    parse(&GOOD.replace(from, to)).err().expect("an error")
}

#[test]
fn a_good_file_is_read() {
    let chain = parse(GOOD).expect("a chain");
    assert_eq!(chain.name(), "good");
    let names: Vec<_> = chain.components().iter().map(|component| component.name.as_str()).collect();
    assert_eq!(names, ["source", "sink"]);
}

#[test]
fn unknown_keys_are_errors_with_a_suggestion() {
    assert_eq!(
        error("into =", "in_to ="),
        "line 8, column 1: component 'sink': 'in_to' is not known here\nhint: did you mean 'into'?"
    );
    assert_eq!(
        error("inputs =", "input ="),
        "line 5, column 13: component 'sink' has no inputs\nhint: write inputs = [\"the component before it\"]\n\
         line 7, column 1: component 'sink': 'input' is not known here\nhint: did you mean 'inputs'?"
    );
    assert_eq!(error("name =", "nam ="), "line 2, column 1: 'nam' is not known here\nhint: did you mean 'name'?");
    assert_eq!(
        error("\"numbers\"", "\"number\""),
        "line 4, column 1: there is no kind of component 'number'\nhint: did you mean 'numbers'?"
    );
    assert_eq!(
        error("[\"source\"]", "[\"sorce\"]"),
        "line 5, column 13: component 'sink': there is no component 'sorce'\nhint: did you mean 'source'?"
    );
}

#[test]
fn values_of_the_wrong_type_are_errors() {
    let wrong = error("type = \"numbers\"", "type = \"numbers\"\ncount = \"many\"");
    assert_eq!(wrong, "line 5, column 1: component 'source': 'count' is string, but a whole number is needed");
    let wrong = error("type = \"numbers\"", "type = \"numbers\"\ncount = -1");
    assert!(wrong.contains("'count': it is -1, but a number from 0 to"), "{wrong}");
    let wrong = error("type = \"numbers\"", "type = \"numbers\"\nburst_records = 1.5");
    assert!(wrong.contains("'burst_records' needs a whole number from 0"), "{wrong}");
    let wrong = error("type = \"numbers\"", "type = \"numbers\"\nthread = \"upstream\"");
    assert!(wrong.contains("source 'source' has no upstream"), "{wrong}");
    let wrong = error("into = \"config\"", "");
    assert!(wrong.contains("component 'sink': 'into' must be given"), "{wrong}");
}

#[test]
fn all_errors_are_told_at_once() {
    let text = GOOD.replace("numbers", "nombers").replace("into", "onto");
    let errors = parse(&text).err().expect("errors");
    assert!(errors.contains("nombers") && errors.contains("onto"), "{errors}");
}

#[test]
fn what_is_no_toml_is_told_with_its_place() {
    let wrong = error("name = \"good\"", "name = good");
    assert!(wrong.starts_with("line 2, column 8: "), "{wrong}");
    assert!(parse("").err().expect("an error").contains("the chain has no component"));
    assert!(parse("components = 3").err().expect("an error").contains("'components' is a table of components"));
}

#[test]
fn rings_are_refused_with_their_path() {
    let text = "
[components.source]
type = \"numbers\"
[components.a]
type = \"pass\"
inputs = [\"source\", \"c\"]
[components.b]
type = \"pass\"
inputs = [\"a\"]
[components.c]
type = \"pass\"
inputs = [\"b\"]
[components.sink]
type = \"note\"
inputs = [\"c\"]
into = \"ring\"
";
    let error = parse(text).err().expect("an error");
    assert!(error.contains("components feed each other in a ring: "), "{error}");
    let ring = ["a -> b -> c -> a", "b -> c -> a -> b", "c -> a -> b -> c"];
    assert!(ring.iter().any(|path| error.contains(path)), "{error}");
}

#[test]
fn threads_that_wait_for_each_other_are_refused() {
    let text = "
[components.source]
type = \"numbers\"
thread = \"one\"
[components.a]
type = \"pass\"
inputs = [\"source\"]
thread = \"two\"
[components.sink]
type = \"note\"
inputs = [\"a\"]
into = \"threads\"
thread = \"one\"
";
    let error = parse(text).err().expect("an error");
    assert!(error.contains("threads wait for each other: ") && error.contains("one -> two"), "{error}");
}

#[test]
fn inputs_have_names_and_must_be_fed() {
    let merge = |inputs: &str| {
        let text = format!(
            "[components.one]\ntype = \"numbers\"\n[components.two]\ntype = \"numbers\"\n[components.merge]\ntype = \"merge\"\n\
             inputs = {inputs}\n[components.sink]\ntype = \"note\"\ninputs = \"merge\"\ninto = \"inputs\"\n"
        );
        parse(&text).err().unwrap_or_default()
    };
    assert_eq!(merge("{ left = \"one\", right = \"two\" }"), "");
    assert!(merge("{ left = \"one\" }").contains("nobody feeds input 'right'"));
    assert!(merge("{ left = \"one\", rigth = \"two\" }").contains("did you mean 'right'?"));
    assert!(merge("[\"one\", \"two\"]").contains("write inputs = { left = \"...\", right = \"...\" }"));
    assert!(merge("{ left = \"one\", right = \"one\" }").contains("nobody takes what component 'two' hands on"));
}

#[test]
fn settings_replace_what_the_file_says() {
    let chain = parse_with(GOOD, &["sink.thread=own", "burst_records=7", "sink.into=elsewhere"]).expect("a chain");
    assert_eq!(chain.graph().threads.len(), 2);
    assert_eq!(chain.graph().edges[0].queue.map(|queue| queue.burst_records), Some(7));
    let wrong = parse_with(GOOD, &["snk.thread=own"]).err().expect("an error");
    assert_eq!(wrong, "there is no component 'snk' to set\nhint: did you mean 'sink'?");
}
