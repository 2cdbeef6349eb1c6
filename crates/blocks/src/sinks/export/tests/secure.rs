//! TLS: who is believed, and whom a collector lets in.

use weir_collect::{Collector, CollectorOptions, Listener, Next};
use weir_secure::{ClientAuth, TlsServerOptions};
use weir_testkit::certificates::{Certificate, Says};

use super::connections::{count, open};
use super::*;

/// A collector over TLS, with files of its own.
struct Secure {
    collector: Collector,
    folder: tempfile::TempDir,
}

impl Secure {
    /// `server` says what its certificate says; one of an exporter lies beside it.
    fn start(client_auth: ClientAuth, server: &Says<'_>) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Certificate::authority("flow authority");
        authority.write(folder.path(), "ca");
        authority.sign(server).write(folder.path(), "server");
        authority.sign(&Says::name("exporter")).write(folder.path(), "exporter");
        Certificate::authority("another").write(folder.path(), "other");
        let path = |name: &str| folder.path().join(name);
        let tls = TlsServerOptions {
            certificate: path("server.pem"),
            key: path("server.key"),
            authorities: Some(path("ca.pem")),
            revocations: None,
            client_auth,
            peers: vec!["exporter".to_owned()].into_iter().filter(|_| client_auth == ClientAuth::Require).collect(),
        };
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let listeners = vec![Listener { transport: Transport::Tls, address }];
        let options = CollectorOptions { listeners, tls: Some(tls), ..CollectorOptions::new(address) };
        Self { collector: Collector::start(&options).expect("a collector"), folder }
    }

    /// Parameters to reach it, whose files lie in its folder.
    fn parameters(&self, host: &str, more: &str) -> String {
        let port = self.collector.listeners()[0].local.port();
        let folder = self.folder.path().display();
        format!("to = 'tls://{host}:{port}'\nclock = 'rows'\n{}", more.replace("DIR", &folder.to_string()))
    }

    /// Everything that it got.
    fn received(mut self) -> Vec<RecordBatch> {
        self.collector.stop();
        let mut flows = Vec::new();
        loop {
            match self.collector.next(Duration::from_millis(100)).expect("no failure") {
                Next::Delivery(delivery) => flows.extend(delivery.flows.map(|flows| flows.record_batch().clone())),
                Next::Nothing => {}
                Next::Ended => return flows,
            }
        }
    }
}

const BELIEVED: &str = "tls_ca = 'DIR/ca.pem'\n";
const KNOWN: &str = "tls_cert = 'DIR/exporter.pem'\ntls_key = 'DIR/exporter.key'\n";

#[test]
fn both_sides_know_each_other() {
    let names = Says { dns: &["localhost", "collector.example"], ip: Some("127.0.0.1"), ..Says::name("x") };
    let common = Says::name("collector.example");
    for (server, host, more) in [
        (&names, "localhost", ""),
        (&names, "127.0.0.1", ""),
        (&names, "127.0.0.1", "tls_name = 'Collector.Example'\n"),
        (&common, "127.0.0.1", "tls_name = 'collector.example'\n"),
    ] {
        let secure = Secure::start(ClientAuth::Require, server);
        let sent = flows(3_000, 300);
        let parameters = secure.parameters(host, &[BELIEVED, KNOWN, more].concat());
        let counters = compliance::sink(&KIND, &parameters, std::slice::from_ref(&sent), 500);
        let names = ["records_exported", "records_unsent", "records_uncertain", "connections_made", "connections_lost"];
        assert_eq!(names.map(|name| counter(&counters, name)), [3_000, 0, 0, 1, 0]);
        let mut received: Vec<_> = secure.received().iter().flat_map(texts).collect();
        received.sort_unstable();
        assert_eq!(received, texts(&sent));
    }
}

#[test]
fn who_is_not_believed_gets_nothing() {
    let good = Says { dns: &["localhost"], ip: Some("127.0.0.1"), ..Says::name("x") };
    let wildcard = Says { dns: &["*.example"], ..Says::name("x") };
    let expired = Says { is_expired: true, ..good };
    for (server, more) in [
        (&good, "tls_ca = 'DIR/other.pem'\n"),
        // the authorities of the system do not know it
        (&good, ""),
        (&good, "tls_ca = 'DIR/ca.pem'\ntls_name = 'collector.example'\n"),
        // where there are DNS names, the common name is none of them
        (&good, "tls_ca = 'DIR/ca.pem'\ntls_name = 'x'\n"),
        (&wildcard, "tls_ca = 'DIR/ca.pem'\ntls_name = 'a.example'\n"),
        (&expired, BELIEVED),
    ] {
        let secure = Secure::start(ClientAuth::None, server);
        let parameters = secure.parameters("127.0.0.1", &format!("{more}finish_timeout = '1s'\n"));
        let (mut sink, meter) = open(&parameters);
        sink.take(Burst::new(flows(100, 0))).expect("taken");
        wait_until("it is refused", || count(&meter, "connections_failed") > 0);
        sink.finish().expect("finished");
        let names = ["records_exported", "records_unsent", "connections_made"];
        assert_eq!(names.map(|name| count(&meter, name)), [0, 100, 0], "{more}");
        assert!(secure.received().is_empty());
    }
}

#[test]
fn a_collector_that_lets_nobody_in_without_a_certificate() {
    let secure = Secure::start(ClientAuth::Require, &Says { ip: Some("127.0.0.1"), ..Says::name("x") });
    let (mut sink, meter) = open(&secure.parameters("127.0.0.1", &format!("{BELIEVED}finish_timeout = '2s'\n")));
    sink.take(Burst::new(flows(100, 0))).expect("taken");
    // TLS 1.3 tells it only after the handshake
    wait_until("it is sent away", || count(&meter, "connections_lost") + count(&meter, "connections_failed") > 0);
    sink.finish().expect("finished");
    let [exported, unsent, uncertain] =
        ["records_exported", "records_unsent", "records_uncertain"].map(|name| count(&meter, name));
    assert_eq!((exported + unsent, uncertain), (100, exported), "nothing is said to have arrived");
    assert!(secure.received().is_empty());
}
