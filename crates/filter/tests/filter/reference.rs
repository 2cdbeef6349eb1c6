//! The committed reference page is the one that the table of primitives gives.

#[test]
fn the_reference_page_is_fresh() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/filter.md");
    let page = weir_filter::reference_markdown();
    if std::env::var_os("WEIR_WRITE_REFERENCE").is_some() {
        std::fs::write(path, &page).expect("written");
    }
    let committed = std::fs::read_to_string(path).expect("docs/reference/filter.md");
    assert!(committed == page, "docs/reference/filter.md is stale: run this test with WEIR_WRITE_REFERENCE=1");
}

#[test]
fn every_example_is_a_filter() {
    let reader = weir_filter::Reader::new().with_file_records();
    let mut examples = 0;
    for line in weir_filter::reference_markdown().lines().filter(|line| line.starts_with("| `")) {
        examples += 1;
        let cell = line.split('|').nth(3).expect("three cells").trim();
        let example = cell.trim_matches('`');
        if let Err(error) = reader.parse(example) {
            panic!("{}", error.render(example));
        }
    }
    assert!(examples > 30, "{examples} examples");
}
