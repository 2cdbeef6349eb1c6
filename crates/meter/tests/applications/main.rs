//! What flows tell of their application, and Community IDs, against the answers of other programs.
//!
//! Every capture of nDPI's tests that has an answer is read, its packets are dealt out to flows by their Flow Keys,
//! without timeouts, and each flow is inspected. What differs and is no defect stands in `known.rs` with its reason.

mod captures;
mod flows;

mod community;
mod ipfixprobe;
mod malformed;
mod ndpi;
mod split;

mod known;
mod report;

/// The page is written when the environment asks for it, and compared otherwise.
#[test]
fn ndpi_agrees_and_the_page_is_fresh() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let verdict = ndpi::compare(&corpus);
    let complaints = known::complaints(&verdict);
    let page = report::page(&verdict, &ipfixprobe::compare(&corpus));
    let path = report::path();
    if std::env::var_os("WEIR_WRITE_REPORTS").is_some() {
        std::fs::write(&path, &page).expect("the page");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(verdict.flows > 4000 && verdict.fingerprints > 400, "too little was compared");
    // Another corpus has another page.
    if report::fingerprint(&written) == report::fingerprint(&page) {
        assert!(written == page, "{} is stale: WEIR_WRITE_REPORTS=1 writes it", path.display());
    }
}

#[test]
fn ipfixprobe_agrees() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let verdict = ipfixprobe::compare(&corpus);
    assert!(verdict.differences.is_empty(), "{}", verdict.differences.join("\n"));
    assert!(verdict.values > 250, "only {} values were compared", verdict.values);
}
