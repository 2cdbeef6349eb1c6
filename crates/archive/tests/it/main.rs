//! The archive from outside: what it promises, under every fault that can be made.

mod books;
mod busy;
mod check;
mod crash;
mod damage;
mod follow;
mod format;
mod full_disk;
mod handle;
mod holes;
mod index;
mod numbered;
mod portable;
mod readers;
mod received;
mod rollup;
mod round_trip;
mod sealing;
mod sequences;
mod summaries;
mod upkeep;
mod writing;

/// Appends a delivery to the archive in `dir`, and seals it.
fn archive_of(dir: &std::path::Path, delivery: weir_flow::Delivery) {
    let (mut writer, _) = weir_archive::Writer::open(dir, weir_archive::ArchiveOptions::default()).expect("an archive");
    writer.append(delivery).expect("appended");
    writer.close().expect("sealed");
}
