//! Files that `weir serve` fetches over HTTP.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;

use super::process::{run, weir};
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

#[test]
fn labels_are_fetched_before_it_begins_and_again_while_it_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let (content, url) = server("10.0.0.0/8,inside\n");
    std::fs::write(folder.path().join("secret"), "Basic d2Vpcg==\n").expect("written");
    let config = folder.path().join("weir.toml");
    let text = format!(
        "[http]\nlisten = '127.0.0.1:0'\n[archive]\nfolder = 'archive'\n[collect]\nlisten = ['127.0.0.1:0']\n\
         [enrichment]\nlabels = 'labels.csv'\n\
         [[download]]\nurl = '{url}'\nfile = 'labels.csv'\nauthorization = 'file:secret'\ninterval = '1s'\n"
    );
    std::fs::write(&config, &text).expect("written");
    let service = Service::of(weir().arg("serve").arg(&config), true);
    assert_eq!(label(&service), "inside");
    let put = |text: &str| *content.lock().unwrap_or_else(PoisonError::into_inner) = text.to_owned();
    let kept = || std::fs::read_to_string(folder.path().join("labels.csv")).expect("a file");
    // a page in place of the file is put back
    put("<html>\n<body>an error</body>\n");
    let reloads = || service.ask("GET", "/metrics", &[], "").body.contains("weir_reload_failures_total 0");
    while reloads() {
        std::thread::yield_now();
    }
    put("10.1.0.0/16,printers\n");
    while label(&service) != "printers" {
        std::thread::yield_now();
    }
    assert_eq!(kept(), "10.1.0.0/16,printers\n");
    service.stop();

    std::fs::write(&config, text.replace("http://", "ftp://")).expect("written");
    let checked = run(&["config", "check", &config.display().to_string()]);
    let said = String::from_utf8_lossy(&checked.stderr).into_owned();
    assert!(!checked.status.success() && said.contains("http:// and https://"), "{said}");
}
