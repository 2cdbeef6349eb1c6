//! A node that speaks TLS only and takes little at once: certificates, batches in halves, a flow that it never takes.

use weir_cassandra::{CassandraOptions, CassandraUrl};
use weir_chain::OptionText;
use weir_flow::{Column, FlowBatch, FlowBatchBuilder};
use weir_forward::ForwardError;
use weir_testkit::cassandra::{Cassandra, CassandraOptions as NodeOptions};
use weir_testkit::certificates::{Certificate, Says};

use crate::cluster::{BEGIN_MS, forward, numbers, write};

/// Octets of the largest mutation that the node takes: half of a segment of its commit log.
const MUTATION_OCTETS_MAX: usize = 1 << 19;

/// Flows with an element of so many octets each.
fn large(octets: &[usize]) -> FlowBatch {
    let mut flows = FlowBatchBuilder::new(octets.len());
    for (number, octets) in octets.iter().enumerate() {
        flows.begin_rows(1);
        flows.time(Column::Received).push(Some(BEGIN_MS));
        flows.u64(Column::FlowId).push(Some(number as u64));
        flows.elements().push(0, 352, &vec![7; *octets]);
        flows.elements().end_row();
    }
    flows.finish()
}

#[test]
fn tls_is_checked_and_what_is_too_large_is_halved_or_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let authority = Certificate::authority("authority");
    authority.write(dir.path(), "ca");
    Certificate::authority("another").write(dir.path(), "other");
    authority.sign(&Says { ip: Some("127.0.0.1"), ..Says::name("node") }).write(dir.path(), "node");
    let [key, certificate] = ["node.key", "node.pem"]
        .map(|file| std::fs::read_to_string(dir.path().join(file)).expect("a file of the certificate"));
    let store = dir.path().join("node.keystore.pem");
    std::fs::write(&store, format!("{key}{certificate}")).expect("a key store");
    let trust = dir.path().join("ca.pem");
    let more = format!(
        "commitlog_segment_size: 1MiB
client_encryption_options:
  enabled: true
  optional: false
  require_client_auth: false
  keystore: {}
  truststore: {}
  ssl_context_factory: {{class_name: org.apache.cassandra.security.PEMBasedSslContextFactory}}",
        store.display(),
        trust.display()
    );
    let Some(cluster) = Cassandra::start(&NodeOptions { more, ..NodeOptions::default() }) else { return };
    let with = |settings: &str| -> CassandraOptions {
        let text = format!("cassandra://{}/t?request_timeout=5s&batch_size=8MB&{settings}", cluster.hosts());
        CassandraUrl::parse_text(&text).and_then(|url| url.options()).expect("options")
    };
    // 20 flows of 100 kB are more than one mutation may have, and the last alone is
    let octets: Vec<usize> = [vec![100_000; 20], vec![MUTATION_OCTETS_MAX + 1000]].concat();
    let archive = dir.path().join("archive");
    write(&archive, [large(&octets)]);
    let right = with(&format!("tls_ca={}", trust.display()));
    let counts = forward(&archive, &right).expect("forwarded");
    assert_eq!((counts.rows_forwarded, counts.rows_refused, counts.deliveries_waiting), (20, 1, 0));
    assert!(numbers(&right).into_iter().eq(0..20));

    // a certificate of an authority that is not trusted, and no TLS at all: the cluster counts as away
    let wrong = with(&format!("tls_ca={}", dir.path().join("other.pem").display()));
    for options in [wrong, with("")] {
        let store = weir_cassandra::CassandraStore::new(options).expect("a store");
        assert!(store.connect().is_err_and(|error| error.may_pass()));
    }
    // a file that is not there is no reason to wait
    let missing = with(&format!("tls_ca={}", dir.path().join("none.pem").display()));
    std::fs::remove_file(archive.join("forward/forward")).expect("removed");
    let error = forward(&archive, &missing).expect_err("no file");
    assert!(matches!(error, ForwardError::Store(_)) && error.to_string().contains("none.pem"), "{error}");
}
