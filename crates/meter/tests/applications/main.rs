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

use weir_testkit::pages;

/// The page is written when the environment asks for it, and compared otherwise.
#[test]
fn ndpi_agrees_and_the_page_is_fresh() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let verdict = ndpi::compare(&corpus);
    let complaints = known::complaints(&verdict);
    let page = report::page(&verdict, &ipfixprobe::compare(&corpus));
    let written = pages::committed(report::PAGE);
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    assert!(verdict.flows > 4000 && verdict.fingerprints > 400, "too little was compared");
    // Another corpus has another page.
    if pages::are_written() || report::fingerprint(&written) == report::fingerprint(&page) {
        pages::check(report::PAGE, &page);
    }
}

#[test]
fn ipfixprobe_agrees() {
    let Some(corpus) = weir_testkit::corpus() else { return };
    let verdict = ipfixprobe::compare(&corpus);
    assert!(verdict.differences.is_empty(), "{}", verdict.differences.join("\n"));
    assert!(verdict.values > 250, "only {} values were compared", verdict.values);
}
