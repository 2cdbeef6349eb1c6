//! Who may send flows to `weir serve`, while it runs.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use weir_testkit::ports::free_address;

use super::process::weir;
use super::service::{PATIENCE, Service};

/// Flows that are sent while the configuration changes, and how many a second.
const RECORDS: u64 = 40_000;
const RATE: &str = "10000";

/// A counter of the books.
fn counted(service: &Service, counter: &str) -> f64 {
    let text = service.ask("GET", "/metrics", &[], "").body;
    let begin = format!("weir_books_{counter}_total ");
    let value = text.lines().find_map(|line| line.strip_prefix(&begin)?.parse().ok());
    value.unwrap_or_else(|| panic!("{counter}: {text}"))
}

/// Sends what is no flow to a listener until a counter of the books grows.
fn sent_until_counted(service: &Service, listener: SocketAddr, counter: &str) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let before = counted(service, counter);
    let until = Instant::now() + PATIENCE;
    while counted(service, counter) <= before {
        assert!(Instant::now() < until, "{counter} of {listener}");
        socket.send_to(b"no flows", listener).expect("sent");
        // counters are those of a second ago
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A configuration with a listener that has networks of its own, and one that goes by `allow`.
fn write(config: &Path, [own, other]: [SocketAddr; 2], of_own: &str, allow: &str, more: &str) {
    let text = format!(
        "[http]\nlisten = '127.0.0.1:0'\n[archive]\nfolder = 'archive'\n\
         [collect]\nlisten = ['udp://{own}?allow={of_own}', 'udp://{other}']\nallow = '{allow}'\n{more}\n"
    );
    std::fs::write(config, text).expect("written");
}

/// Networks that are written into the configuration change without a restart, and what comes meanwhile is not lost.
#[test]
fn networks_of_the_configuration_change_while_it_collects() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("weir.toml");
    let listeners = [free_address(), free_address()];
    let [own, other] = listeners;
    let nobody_here = "192.0.2.0/24";
    write(&config, listeners, "127.0.0.1", nobody_here, "");
    let service = Service::of(weir().arg("serve").arg(&config), true);
    let reload = || service.ask("POST", "/api/v1/reload", &[], "");
    let mut generator = weir();
    generator.args(["generate", "--to", &own.to_string(), "--records", &RECORDS.to_string(), "--rate", RATE]);
    let mut generator = generator.stdout(Stdio::null()).spawn().expect("it generates");
    service.wait_for("/info", |info| info["archive"]["flows"].as_u64().is_some_and(|flows| flows > 5000));
    write(&config, listeners, "192.0.2.0/24,127.0.0.0/8", "127.0.0.0/8", "");
    assert_eq!(reload().json()["restart_needed"], json!([]));
    assert!(generator.wait().expect("it ends").success());
    service.wait_for("/info", |info| info["archive"]["flows"] == RECORDS);
    let complete = service.get("/completeness");
    assert_eq!((&complete["lost_records"], &complete["dropped_datagrams"]), (&json!(0), &json!(0)), "{complete}");
    sent_until_counted(&service, other, "datagrams_undecodable");
    // SIGHUP does the same, here the other way round
    write(&config, listeners, nobody_here, "127.0.0.1", "");
    kill(Pid::from_raw(service.child.id() as i32), Signal::SIGHUP).expect("it runs");
    sent_until_counted(&service, own, "datagrams_not_allowed");
    sent_until_counted(&service, other, "datagrams_undecodable");
    // what is wrong leaves all as it was, and says why
    for wrong in ["192.0.2.0/33", "@no-such-file"] {
        write(&config, listeners, "127.0.0.1", wrong, "");
        let (status, detail) = reload().problem();
        assert!(
            status == 400 && detail.contains("[collect]") && detail.contains(wrong.trim_start_matches('@')),
            "{detail}"
        );
    }
    sent_until_counted(&service, own, "datagrams_not_allowed");
    // other options of collecting take a restart
    write(&config, listeners, "127.0.0.1", nobody_here, "sockets = 2");
    assert_eq!(reload().json()["restart_needed"], json!(["collect"]));
    service.stop();
}

/// A file of networks beside a configuration that is wrong is not read either.
#[test]
fn what_is_wrong_at_a_signal_leaves_networks_of_files_as_they_were() {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, networks) = (folder.path().join("weir.toml"), folder.path().join("networks"));
    let listeners = [free_address(), free_address()];
    std::fs::write(&networks, "127.0.0.0/8\n").expect("written");
    let of_file = format!("@{}", networks.display());
    write(&config, listeners, "127.0.0.1", &of_file, "");
    let service = Service::of(weir().arg("serve").arg(&config), true);
    sent_until_counted(&service, listeners[1], "datagrams_undecodable");
    std::fs::write(&networks, "192.0.2.0/24\n").expect("written");
    write(&config, listeners, "127.0.0.1", &of_file, "[access]\nusers_file = 'no-such-file'");
    kill(Pid::from_raw(service.child.id() as i32), Signal::SIGHUP).expect("it runs");
    let until = Instant::now() + PATIENCE;
    while !service.ask("GET", "/metrics", &[], "").body.contains("weir_reload_failures_total 1") {
        assert!(Instant::now() < until, "the configuration is read");
        std::thread::sleep(Duration::from_millis(20));
    }
    for _ in 0..3 {
        sent_until_counted(&service, listeners[1], "datagrams_undecodable");
    }
    assert!(counted(&service, "datagrams_not_allowed") < 1.0);
    write(&config, listeners, "127.0.0.1", &of_file, "");
    kill(Pid::from_raw(service.child.id() as i32), Signal::SIGHUP).expect("it runs");
    sent_until_counted(&service, listeners[1], "datagrams_not_allowed");
    service.stop();
}

/// Without a configuration there is none that could be wrong: the collector reads its files at the signal.
#[test]
fn networks_of_files_are_read_again_at_a_signal_without_a_configuration() {
    let folder = tempfile::tempdir().expect("a folder");
    let (networks, archive) = (folder.path().join("networks"), folder.path().join("archive").display().to_string());
    std::fs::write(&networks, "127.0.0.0/8\n").expect("written");
    let listener = free_address();
    let collect = format!("udp://{listener}?allow=@{}", networks.display());
    let service = Service::start(&["--archive", &archive, "--collect", &collect]);
    sent_until_counted(&service, listener, "datagrams_undecodable");
    std::fs::write(&networks, "192.0.2.0/24\n").expect("written");
    kill(Pid::from_raw(service.child.id() as i32), Signal::SIGHUP).expect("it runs");
    sent_until_counted(&service, listener, "datagrams_not_allowed");
    service.stop();
}
