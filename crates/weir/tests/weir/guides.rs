//! Guides and tutorials show commands with their output; here the commands run.

use std::path::Path;

use weir_testkit::{console, pages};

/// Folders whose pages are run.
const FOLDERS: [&str; 2] = ["docs/guides", "docs/tutorials"];

#[test]
fn commands_print_what_pages_show() {
    let programs = Path::new(env!("CARGO_BIN_EXE_weir")).parent().expect("a folder");
    let mut commands = 0;
    for folder in FOLDERS {
        for file in std::fs::read_dir(pages::path(folder)).expect("the folder of pages") {
            let name = file.expect("a page").file_name().into_string().expect("UTF-8");
            commands += console::check(&format!("{folder}/{name}"), programs, console::prepare);
        }
    }
    assert!(commands > 10, "only {commands} commands were found");
}
