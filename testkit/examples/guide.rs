//! Runs the commands of pages with a `weir` that is built already, and compares or writes their outputs:
//! `cargo run -p weir-testkit --example guide -- target/release docs/guides/ask-questions.md`; `WEIR_WRITE_DOCS=1` writes.
//!
//! The test `guides` of the crate `weir` does the same for all pages, but is compiled with the query engine.

use std::path::Path;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let programs = arguments.next().expect("the folder of weir");
    let programs = std::fs::canonicalize(programs).expect("the folder of weir");
    for page in arguments {
        let commands = weir_testkit::console::check(&page, &programs, weir_testkit::console::prepare);
        println!("{page}: {commands} commands");
    }
    assert!(Path::new(&programs).join("weir").is_file(), "there is no weir in {}", programs.display());
}
