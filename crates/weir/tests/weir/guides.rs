//! Guides and tutorials show commands with their output; here the commands run.

use std::path::Path;

use weir_testkit::{console, pages};

/// Folders whose pages are run.
const FOLDERS: [&str; 2] = ["docs/guides", "docs/tutorials"];
/// Pages about captures of the corpus, and where these are in it.
const PAGES_WITH_CAPTURES: [&str; 1] = ["hunt.md"];
const CAPTURES: &str = "ntop+nDPI/tests/cfgs/default/pcap";

#[test]
fn commands_print_what_pages_show() {
    let programs = Path::new(env!("CARGO_BIN_EXE_weir")).parent().expect("a folder");
    let mut commands = 0;
    for folder in FOLDERS {
        for file in std::fs::read_dir(pages::path(folder)).expect("the folder of pages") {
            let name = file.expect("a page").file_name().into_string().expect("UTF-8");
            let page = format!("{folder}/{name}");
            if !PAGES_WITH_CAPTURES.contains(&name.as_str()) {
                commands += console::check(&page, programs, console::prepare);
            } else if let Some(corpus) = weir_testkit::corpus() {
                let link = |to: &Path| std::os::unix::fs::symlink(corpus.join(CAPTURES), to.join("captures"));
                commands += console::check(&page, programs, |folder| link(folder).expect("a link"));
            }
        }
    }
    assert!(commands > 10, "only {commands} commands were found");
}
