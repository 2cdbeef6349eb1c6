//! Who may send flows to `weir serve`, while it runs.

use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use weir_testkit::ports::free_address;

use super::process::{run, wait_for, weir};
use super::service::{PATIENCE, Service};

/// Flows that are sent while the configuration changes, and how many a second.
const RECORDS: u64 = 40_000;
const RATE: &str = "10000";

/// A counter, asked for with these headers.
fn counted(service: &Service, headers: &[&str], counter: &str) -> f64 {
    let text = service.ask("GET", "/metrics", headers, "").body;
    let begin = format!("weir_{counter}_total ");
    let value = text.lines().find_map(|line| line.strip_prefix(&begin)?.parse().ok());
    value.unwrap_or_else(|| panic!("{counter}: {text}"))
}

/// Sends what is no flow to a listener until a counter of the books grows.
fn sent_until_counted(service: &Service, headers: &[&str], listener: SocketAddr, counter: &str) {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let counted = || counted(service, headers, &format!("books_{counter}"));
    let before = counted();
    let until = Instant::now() + PATIENCE;
    while counted() <= before {
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
    sent_until_counted(&service, &[], other, "datagrams_undecodable");
    // SIGHUP does the same, here the other way round
    write(&config, listeners, nobody_here, "127.0.0.1", "");
    kill(Pid::from_raw(service.child.id() as i32), Signal::SIGHUP).expect("it runs");
    sent_until_counted(&service, &[], own, "datagrams_not_allowed");
    sent_until_counted(&service, &[], other, "datagrams_undecodable");
    // what is wrong leaves all as it was, and says why
    for wrong in ["192.0.2.0/33", "@no-such-file"] {
        write(&config, listeners, "127.0.0.1", wrong, "");
        let (status, detail) = reload().problem();
        assert!(
            status == 400 && detail.contains("[collect]") && detail.contains(wrong.trim_start_matches('@')),
            "{detail}"
        );
    }
    sent_until_counted(&service, &[], own, "datagrams_not_allowed");
    // other options of collecting take a restart
    write(&config, listeners, "127.0.0.1", nobody_here, "sockets = 2");
    assert_eq!(reload().json()["restart_needed"], json!(["collect"]));
    service.stop();
}

/// A configuration that is refused changes nothing of what collects either, also where the signal brings it.
#[test]
fn a_hangup_with_a_wrong_configuration_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (config, users, allow) = (path("weir.toml"), path("users.toml"), path("allow.txt"));
    let file = users.display().to_string();
    let added = run(&["user", "--file", &file, "add", "ann", "--role", "admin", "--token"]);
    let token = format!("Authorization: Bearer {}", String::from_utf8_lossy(&added.stdout).trim());
    let right = std::fs::read_to_string(&users).expect("a file of users");
    let listener = free_address();
    let text = format!(
        "[http]\nlisten = '127.0.0.1:0'\n[archive]\nfolder = 'archive'\n[access]\nusers_file = 'users.toml'\n\
         [collect]\nlisten = '{listener}'\nallow = '@{}'\n",
        allow.display()
    );
    std::fs::write(&config, text).expect("written");
    std::fs::write(&allow, "127.0.0.0/8\n").expect("written");
    let service = Service::of(weir().arg("serve").arg(&config), true);
    let headers = [token.as_str()];
    let hang_up = || kill(Pid::from_raw(service.child.id() as i32), Signal::SIGHUP).expect("it runs");
    sent_until_counted(&service, &headers, listener, "datagrams_undecodable");
    std::fs::write(&users, format!("{right}\n[[users]]\nname = 'bob'\nrole = 'nosuch'\n")).expect("written");
    std::fs::write(&allow, "192.0.2.0/24\n").expect("written");
    hang_up();
    wait_for("the configuration is read", || counted(&service, &headers, "reload_failures") > 0.0);
    // a collector that reads its files looks for the wish ten times a second, and counters are those of a second ago
    for _ in 0..3 {
        sent_until_counted(&service, &headers, listener, "datagrams_undecodable");
    }
    assert!(counted(&service, &headers, "books_datagrams_not_allowed") < 1.0);
    std::fs::write(&users, right).expect("written");
    hang_up();
    sent_until_counted(&service, &headers, listener, "datagrams_not_allowed");
    service.stop();
}

/// Without a configuration there is none that could be wrong: the collector reads its files at the signal.
#[test]
fn a_hangup_without_a_configuration_has_networks_read_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let (allow, archive) = (folder.path().join("allow.txt"), folder.path().join("archive").display().to_string());
    std::fs::write(&allow, "127.0.0.0/8\n").expect("written");
    let listener = free_address();
    let collect = format!("udp://{listener}?allow=@{}", allow.display());
    let service = Service::start(&["--archive", &archive, "--collect", &collect]);
    sent_until_counted(&service, &[], listener, "datagrams_undecodable");
    std::fs::write(&allow, "192.0.2.0/24\n").expect("written");
    kill(Pid::from_raw(service.child.id() as i32), Signal::SIGHUP).expect("it runs");
    sent_until_counted(&service, &[], listener, "datagrams_not_allowed");
    service.stop();
}
