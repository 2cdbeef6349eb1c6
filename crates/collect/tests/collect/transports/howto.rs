//! The commands of the page on TLS do what it says.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use weir_collect::{CollectorOptions, Transport};
use weir_flow::Counter;
use weir_secure::{ClientAuth, TlsServerOptions};

use super::super::{data, templates_only};
use super::{Running, listening};

#[test]
fn the_certificates_of_the_page_are_good() {
    let Some(openssl) = weir_testkit::program("openssl") else { return };
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guides/collect-over-tls.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let commands = page.split("```sh\n").nth(1).and_then(|rest| rest.split("```").next()).expect("the commands");
    let folder = tempfile::tempdir().expect("a folder");
    let run = Command::new("sh").args(["-ec", commands]).current_dir(&folder).output().expect("sh runs");
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let file = |name: &str| folder.path().join(name);
    let tls = TlsServerOptions {
        certificate: file("collector.pem"),
        key: file("collector.key"),
        authorities: Some(file("authority.pem")),
        revocations: None,
        client_auth: ClientAuth::Require,
        peers: vec!["router-1.example.net".to_owned()],
    };
    for (transport, flag) in [(Transport::Tls, None), (Transport::Dtls, Some("-dtls1_2"))] {
        let mut running = Running::start(&CollectorOptions { tls: Some(tls.clone()), ..listening(transport) });
        let mut client = Command::new(&openssl)
            .arg("s_client")
            .args(flag)
            .args(["-verify_return_error", "-verify_hostname", "collector.example.net", "-quiet"])
            .args(["-CAfile", "authority.pem", "-cert", "router-1.pem", "-key", "router-1.key", "-connect"])
            .arg(running.address().to_string())
            .current_dir(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("openssl runs");
        let mut stdin = client.stdin.take().expect("piped");
        stdin.write_all(&templates_only(0)).expect("sent");
        running.until_counted(Counter::Templates, 1);
        stdin.write_all(&data(0, &[1, 2])).expect("sent");
        running.until_counted(Counter::RecordsStored, 2);
        let _ = client.kill();
        let _ = client.wait();
        running.finish();
    }
}
