//! The committed reference page is the one that the table of primitives gives.

#[test]
fn the_reference_page_is_fresh() {
    weir_testkit::pages::check("docs/reference/filter.md", &weir_filter::reference_markdown());
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
