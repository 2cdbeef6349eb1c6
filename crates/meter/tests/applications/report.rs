//! The page `docs/reference/applications.md`, written from what the tests found.

use std::fmt::Write;

use weir_flow::registry;
use weir_meter::application::{Element, Protocol, TEXT_COLUMNS};

use crate::ipfixprobe;
use crate::known::KNOWN;
use crate::ndpi::Verdict;

/// The page.
pub(crate) const PAGE: &str = "docs/reference/applications.md";

/// The line that names the corpus that a page was written from.
pub(crate) fn fingerprint(page: &str) -> Option<&str> {
    page.lines().find(|line| line.starts_with("Corpus: "))
}

/// The page.
pub(crate) fn page(verdict: &Verdict, ipfixprobe: &ipfixprobe::Verdict) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = write_page(&mut page, verdict, ipfixprobe);
    page
}

fn write_page(out: &mut String, verdict: &Verdict, ipfixprobe: &ipfixprobe::Verdict) -> std::fmt::Result {
    writeln!(
        out,
        "# What flows tell of their application\n\n\
         Written by `cargo xtask docs` (`cargo test -p weir-meter --test applications`) from the corpus of captures of \
         other\nprojects; the same test fails when this page is stale, when an answer differs that is not listed here, \
         and when a\nlisted difference no longer occurs.\n\n\
         Corpus: {} captures of nDPI, {} flows, {} packets looked at\n",
        verdict.captures, verdict.flows, verdict.counts.packets
    )?;
    write_protocols(out, verdict)?;
    write_columns(out)?;
    write_elements(out)?;
    write_agreement(out, verdict, ipfixprobe)?;
    write_differences(out, verdict)
}

fn write_protocols(out: &mut String, verdict: &Verdict) -> std::fmt::Result {
    writeln!(
        out,
        "## Protocols\n\nTold by the first octets of up to four packets with payload in each direction. Where these \
         tell nothing, the name is that\nof the service whose port the flow uses, and is marked as a guess. The last \
         column counts the flows of the corpus that\nnDPI names alike.\n\n\
         | name | what | flows |\n| --- | --- | ---: |"
    )?;
    for protocol in Protocol::ALL {
        let flows = verdict.by_protocol.get(protocol.name()).copied().unwrap_or_default();
        writeln!(out, "| {} | {} | {flows} |", protocol.name(), protocol.about())?;
    }
    Ok(())
}

fn write_columns(out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "\n## Columns\n\n\
         Filters, rankings (`weir query -s`, `-A`) and SQL know them by name; [columns](columns.md) says which elements of \
         other exporters fill them.\n\n| column | exported as | what |\n| --- | --- | --- |"
    )?;
    for column in TEXT_COLUMNS {
        let element = column.preferred_element().and_then(|(enterprise, id)| registry::element(enterprise, id));
        let element = element
            .map_or_else(String::new, |element| format!("{}/{} {}", element.enterprise, element.id, element.name));
        writeln!(out, "| `{column}` | {element} | {} |", column.spec().doc)?;
    }
    Ok(())
}

fn write_elements(out: &mut String) -> std::fmt::Result {
    writeln!(
        out,
        "\n## Information Elements\n\n\
         What else is known is in the column `elements`; in SQL `element(elements, 'DNSRCode')` reads it by its name. Enterprises \
         are IANA (0), CESNET (8057), Masaryk University (16982) and Flowmon (39499).\n\n\
         | element | number | what |\n| --- | --- | --- |"
    )?;
    for element in Element::ALL {
        let (enterprise, id) = element.number();
        let name = registry::element(enterprise, id).map_or("", |element| element.name.as_str());
        writeln!(out, "| `{name}` | {enterprise}/{id} | {} |", element.about())?;
    }
    Ok(())
}

fn write_agreement(out: &mut String, verdict: &Verdict, ipfixprobe: &ipfixprobe::Verdict) -> std::fmt::Result {
    writeln!(
        out,
        "\n## What other programs say\n\n\
         | answers of | value | compared | differing, all explained |\n| --- | --- | ---: | ---: |"
    )?;
    for (what, agreeing) in &verdict.agreeing {
        let compared = verdict.compared(what);
        writeln!(out, "| nDPI | {what} | {compared} | {} |", compared - agreeing)?;
    }
    for (plugin, values) in &ipfixprobe.by_plugin {
        writeln!(out, "| ipfixprobe | plugin {plugin} | {values} | 0 |")?;
    }
    let counts = verdict.counts;
    writeln!(
        out,
        "\n| counted over nDPI's captures | |\n| --- | ---: |\n\
         | flows | {} |\n| recognized | {} |\n| guessed | {} |\n| handshakes cut | {} |\n| malformed | {} |\n\
         | QUIC packets not decrypted | {} |\n| flows of nDPI that are keyed by other headers | {} |",
        counts.flows,
        counts.recognized,
        counts.guessed,
        counts.handshakes_cut,
        counts.malformed,
        counts.undecryptable,
        verdict.not_found
    )
}

fn write_differences(out: &mut String, verdict: &Verdict) -> std::fmt::Result {
    writeln!(out, "\n## Differences\n\n| value | nDPI | weir | flows | why |\n| --- | --- | --- | ---: | --- |")?;
    for (what, expected, found, count, why) in KNOWN {
        let dash = |value: &str| if value.is_empty() { "—".to_owned() } else { value.to_owned() };
        writeln!(out, "| {what} | {} | {} | {count} | {why} |", dash(expected), dash(found))?;
    }
    writeln!(
        out,
        "\n## Not told\n\nProtocols that nDPI names in these captures and that weir has no name for, with their \
         flows:\n"
    )?;
    let names: Vec<_> = verdict.not_told.iter().map(|(name, flows)| format!("{name} {flows}")).collect();
    for line in names.chunks(8) {
        writeln!(out, "- {}", line.join(", "))?;
    }
    Ok(())
}
