//! Files that `weir serve` fetches over HTTP.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::process::{run, wait_for, weir};
use super::service::Service;

/// A server of one file that may change, and its address.
fn server(first: &str) -> (Arc<Mutex<String>>, String) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/labels.csv", listener.local_addr().expect("an address"));
    let content = Arc::new(Mutex::new(first.to_owned()));
    let served = Arc::clone(&content);
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let Ok(read) = stream.try_clone() else { continue };
            let lines = BufReader::new(read).lines().map_while(Result::ok);
            let is_allowed = lines.take_while(|line| !line.is_empty()).any(|line| line.ends_with("Basic d2Vpcg=="));
            let body = served.lock().unwrap_or_else(PoisonError::into_inner).clone();
            let status = if is_allowed { "200 OK" } else { "401 Unauthorized" };
            let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            // who has read enough may have gone
            drop(stream.write_all((head + &body).as_bytes()));
        }
    });
    (content, url)
}

/// What an address is called.
fn label(service: &Service) -> Value {
    let body = r#"{"values": {"src_addr": ["10.1.2.3"]}}"#;
    let answer = service.ask("POST", "/api/v1/names", &["Content-Type: application/json"], body).json();
    answer["src_addr"]["10.1.2.3"]["label"].clone()
}

/// A configuration whose labels are fetched, in a folder.
fn config(folder: &Path, url: &str) -> PathBuf {
    std::fs::write(folder.join("secret"), "Basic d2Vpcg==\n").expect("written");
    let config = folder.join("weir.toml");
    let text = format!(
        "[http]\nlisten = '127.0.0.1:0'\n[archive]\nfolder = 'archive'\n[collect]\nlisten = ['127.0.0.1:0']\n\
         [enrichment]\nlabels = 'labels.csv'\n\
         [[download]]\nurl = '{url}'\nfile = 'labels.csv'\nauthorization = 'file:secret'\ninterval = '1s'\n"
    );
    std::fs::write(&config, text).expect("written");
    config
}

/// Whether a configuration is right, and what is said of it.
fn checked(config: &Path) -> (bool, String) {
    let checked = run(&["config", "check", config.to_str().expect("UTF-8")]);
    (checked.status.success(), String::from_utf8_lossy(&checked.stderr).into_owned())
}

#[test]
fn labels_are_fetched_before_it_begins_and_again_while_it_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let (content, url) = server("10.0.0.0/8,inside\n");
    let config = config(folder.path(), &url);
    // a check fetches nothing, and what will be fetched need not be there
    let (is_right, said) = checked(&config);
    assert!(is_right && said.contains("labels.csv is not there: it is fetched at the start"), "{said}");
    assert!(!folder.path().join("labels.csv").exists());
    // a server of this machine is asked without the proxy, where nobody listens
    let service = Service::of(weir().arg("serve").arg(&config).env("HTTP_PROXY", "http://127.0.0.1:1"), true);
    assert_eq!(label(&service), "inside");
    let put = |text: &str| *content.lock().unwrap_or_else(PoisonError::into_inner) = text.to_owned();
    let kept = || std::fs::read_to_string(folder.path().join("labels.csv")).expect("a file");
    // a page in place of the file is put back
    put("<html>\n<body>an error</body>\n");
    let has_failed = || !service.ask("GET", "/metrics", &[], "").body.contains("weir_reload_failures_total 0");
    wait_for("the page cannot be used", has_failed);
    wait_for("the labels are put back", || kept() == "10.0.0.0/8,inside\n");
    assert_eq!(label(&service), "inside");
    put("10.1.0.0/16,printers\n");
    wait_for("the labels are others", || label(&service) == "printers");
    assert_eq!(kept(), "10.1.0.0/16,printers\n");
    service.stop();

    let text = std::fs::read_to_string(&config).expect("a file");
    let twice = format!("{text}[[download]]\nurl = '{url}'\nfile = 'labels.csv'\n");
    for (wrong, why) in
        [(text.replace("http://", "ftp://"), "http:// and https://"), (twice, "two sections [[download]]")]
    {
        std::fs::write(&config, wrong).expect("written");
        let (is_right, said) = checked(&config);
        assert!(!is_right && said.contains(why), "{said}");
    }
}

#[test]
fn what_could_not_be_used_at_a_start_is_fetched_again_at_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let (content, url) = server("<html>\n<body>log in</body>\n");
    let config = config(folder.path(), &url);
    let failed = weir().arg("serve").arg(&config).output().expect("weir runs");
    let said = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert!(!failed.status.success() && said.contains("labels.csv"), "{said}");
    *content.lock().unwrap_or_else(PoisonError::into_inner) = "10.0.0.0/8,inside\n".to_owned();
    let service = Service::of(weir().arg("serve").arg(&config), true);
    assert_eq!(label(&service), "inside");
    wait_for("it counts as used", || !folder.path().join("labels.csv.untried").exists());
    service.stop();
}

/// The chain that collects is built of files, too.
#[test]
fn networks_of_a_listener_are_fetched_before_they_are_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_content, url) = server("127.0.0.0/8\n");
    let config = config(folder.path(), &url);
    let networks = folder.path().join("networks");
    let text = std::fs::read_to_string(&config).expect("a file");
    let text = text.replace("[enrichment]\nlabels = 'labels.csv'\n", &format!("allow = ['@{}']\n", networks.display()));
    std::fs::write(&config, text.replace("file = 'labels.csv'", "file = 'networks'")).expect("written");
    Service::of(weir().arg("serve").arg(&config), true).stop();
    assert_eq!(std::fs::read_to_string(networks).expect("a file"), "127.0.0.0/8\n");
}
