//! What the tests of several crates share: where the corpus is, which other programs are installed, certificates, networks.
//!
//! A test that needs something from outside calls [`skip`] and passes when it is absent, so that a bare checkout can be
//! tested; it fails when the environment says that it must be there, so that a full machine tests everything.

pub mod cassandra;
pub mod certificates;
pub mod console;
pub mod namespace;
pub mod pages;
pub mod ports;
pub mod power_loss;
pub mod snmpd;

mod skipped;

use std::path::{Path, PathBuf};

pub use skipped::skip;

/// The folder of captures and golden outputs: `WEIR_CORPUS`, or `../shared/corpus` beside the checkout.
///
/// `None` when there is none; the test then prints "skipped" and passes, unless `WEIR_REQUIRE_CORPUS` is set.
///
/// # Panics
/// When `WEIR_REQUIRE_CORPUS` is set and there is no corpus.
pub fn corpus() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/corpus");
    let folder = std::env::var_os("WEIR_CORPUS").map_or(beside, PathBuf::from);
    if folder.join("INDEX.tsv").is_file() {
        return Some(folder);
    }
    skip("corpus", &format!("there is no corpus at {}", folder.display()));
    None
}

/// Another implementation that tests compare with, such as `nfdump`, `tshark` or `softflowd`, found on the `PATH`.
///
/// `None` when it is not installed; the test then prints "skipped" and passes, unless `WEIR_REQUIRE_<NAME>` is set
/// (`WEIR_REQUIRE_NFDUMP` for `nfdump`).
///
/// # Panics
/// When `WEIR_REQUIRE_<NAME>` is set and there is no such program.
pub fn program(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    // Daemons lie in sbin, which is not on everybody's path.
    let folders = std::env::split_paths(&folders).chain(["/usr/sbin".into(), "/sbin".into()]);
    if let Some(found) = folders.map(|folder| folder.join(name)).find(|path| path.is_file()) {
        return Some(found);
    }
    skip(name, &format!("{name} is not installed"));
    None
}

/// Writes a capture (pcap, microseconds, Ethernet) of frames with their times in microseconds since the epoch.
///
/// # Panics
/// When the file cannot be written.
pub fn write_capture(path: &Path, frames: impl IntoIterator<Item = (i64, Vec<u8>)>) {
    let mut file: Vec<u8> = Vec::new();
    for word in [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (time_us, frame) in frames {
        let (secs, length) = (time_us.div_euclid(1_000_000) as u32, frame.len() as u32);
        for word in [secs, time_us.rem_euclid(1_000_000) as u32, length, length] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    std::fs::write(path, file).expect("the capture is written");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_or_not() {
        assert!(program("sh").is_some_and(|path| path.is_file()));
        assert_eq!(program("weir-no-such-program"), None);
    }
}
