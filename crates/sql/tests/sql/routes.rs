//! Autonomous systems of addresses by routes.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weir_flow::{Column, FlowBatch, FlowBatchBuilder, parse_address};
use weir_routes::RouteFile;
use weir_sql::{EngineOptions, Enrichment, EnrichmentFiles, KnownAddress};

use crate::rows::{engine_with, lines};

/// Flows of 1, 2, 4 and 8 octets.
fn flows() -> FlowBatch {
    let mut builder = FlowBatchBuilder::new(4);
    builder.begin_rows(4);
    for (number, address) in ["8.8.8.8", "172.16.2.3", "192.0.2.9", "2001:db9::1"].into_iter().enumerate() {
        for time in [Column::Received, Column::Start, Column::End] {
            builder.time(time).push(Some(1_764_000_000_000));
        }
        builder.address(Column::SrcAddr).push(parse_address(address).as_deref());
        builder.u64(Column::Bytes).push(Some(1 << number));
    }
    builder.finish()
}

/// Two files of routes.
fn routes(folder: &Path) -> Vec<PathBuf> {
    let files =
        [("all", "8.0.0.0/8,64500\n172.16.0.0/12,64501\n2001:db9::/32,64510\n"), ("more", "172.16.0.0/16,64502\n")];
    let write = |(name, text): (&str, &str)| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("written");
        path
    };
    files.map(write).to_vec()
}

/// A database of another writer: of these addresses it has 8.8.8.8, in 15169 (`expected.csv` beside it).
fn database() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../routes/golden/asn.mmdb")
}

#[test]
fn what_the_database_does_not_have_is_by_the_longest_prefix_of_routes() {
    let folder = tempfile::tempdir().expect("a folder");
    let routes = routes(folder.path());
    let systems = |asn_mmdb: Option<PathBuf>, routes: &[PathBuf]| {
        let files = EnrichmentFiles { asn_mmdb, routes: routes.to_vec(), ..EnrichmentFiles::default() };
        let enrichment = Arc::new(Enrichment::load(&files).expect("readable"));
        let options = EngineOptions { threads: 2, enrichment: Arc::clone(&enrichment), ..EngineOptions::default() };
        let archive = tempfile::tempdir_in(folder.path()).expect("a folder").keep();
        let engine = engine_with(&archive, &[flows()], &[], &options).expect("an engine");
        let statement = "SELECT bytes, asn(src_addr), asn(src_addr, received) FROM flows ORDER BY bytes";
        let known = enrichment.address(&[172, 16, 2, 3], None);
        (lines(engine.sql(statement)), known)
    };
    for (database, google) in [(None, 64500), (Some(database()), 15169)] {
        let (answer, known) = systems(database, &routes);
        let expected = [format!("1,{google},{google}"), "2,64502,64502".into(), "4,,".into(), "8,64510,64510".into()];
        assert_eq!(answer.expect("an answer"), expected);
        assert_eq!(known, KnownAddress { asn: Some(64502), ..KnownAddress::default() });
    }
    let (answer, known) = systems(Some(database()), &[]);
    assert_eq!((answer.expect("an answer")[1].as_str(), known), ("2,,", KnownAddress::default()));
    assert!(systems(None, &[]).0.is_err(), "there is nothing to look into");
}

/// Flows that come in are looked up in the same files, whose tables are large.
#[test]
fn routes_that_somebody_has_are_not_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let routes = routes(folder.path());
    let held = RouteFile::open(&routes[0]).expect("routes").table;
    let files = EnrichmentFiles { routes, ..EnrichmentFiles::default() };
    let both = [Enrichment::load(&files).expect("readable"), Enrichment::load(&files).expect("readable")];
    assert_eq!(Arc::strong_count(&held), 3);
    drop(both);
    assert_eq!(Arc::strong_count(&held), 1);
}

#[test]
fn a_file_without_routes_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("empty");
    std::fs::write(&path, "# nothing\n").expect("written");
    let files = EnrichmentFiles { routes: vec![path], ..EnrichmentFiles::default() };
    let error = Enrichment::load(&files).expect_err("no route");
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    assert!(format!("{error} {cause:?}").contains("no route in "), "{error}: {cause:?}");
}
