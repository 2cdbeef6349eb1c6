//! The service as a process: TLS, what starts and watches it, restarts.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::iter;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::json;
use weir_secure::{TlsClient, TlsClientOptions};
use weir_testkit::certificates::{Certificate, Says};

use super::process::{run, weir};
use super::service::{Answer, PATIENCE, Service, archive, hash};

/// Asks over TLS, on a connection of its own.
fn ask(address: SocketAddr, authority: &Path, method: &str, path: &str, more: &str) -> Result<Answer, String> {
    let options = TlsClientOptions { authorities: Some(authority.to_owned()), ..TlsClientOptions::default() };
    let stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let client = TlsClient::new(&options).expect("a client");
    let mut session = client.connect("flows.example", stream).map_err(|error| error.to_string())?;
    let request = format!("{method} {path} HTTP/1.1\r\nHost: flows.example\r\nConnection: close\r\n{more}\r\n");
    session.write_all(request.as_bytes()).map_err(|error| error.to_string())?;
    let mut octets = Vec::new();
    let _ = session.read_to_end(&mut octets);
    Ok(Answer::of(&octets))
}

#[test]
fn certificates_change_while_connections_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path(), "1000");
    let sign = |authority: &Certificate| {
        let says = Says { dns: &["flows.example"], ..Says::name("flows.example") };
        authority.sign(&says).write(folder.path(), "service");
    };
    let [old, new] = ["first", "second"].map(Certificate::authority);
    old.write(folder.path(), "first");
    new.write(folder.path(), "second");
    sign(&old);
    let (config, token) = (folder.path().join("weir.toml"), hash("right"));
    let text = format!(
        "[archive]\nfolder = '{archive}'\n[http]\nheader_timeout = '10s'\ntls_cert = 'service.pem'\ntls_key = 'service.key'\n\
         [[users]]\nname = 'ann'\nrole = 'admin'\ntokens = ['{token}']\npassword = '{token}'\n"
    );
    std::fs::write(&config, text).expect("written");
    let service = Service::start(&[&config.display().to_string()]);
    let [first, second] = ["first.pem", "second.pem"].map(|name| folder.path().join(name));
    let info = |authority: &Path| ask(service.address, authority, "GET", "/api/v1/info", "");
    let answer = info(&first).expect("trusted");
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("strict-transport-security: max-age=31536000"), "{}", answer.head);
    assert!(info(&second).is_err(), "another authority");
    let body = json!({ "name": "ann", "password": "right" }).to_string();
    let head = format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    let session = ask(service.address, &first, "POST", "/api/v1/session", &head).expect("signed in");
    assert!(session.head.contains("; secure"), "{}", session.head);
    // a connection that is open while the certificate changes
    let options = TlsClientOptions { authorities: Some(first.clone()), ..TlsClientOptions::default() };
    let stream = TcpStream::connect(service.address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let client = TlsClient::new(&options).expect("a client");
    let mut open = client.connect("flows.example", stream).expect("a session");
    let reload = |authority: &Path| {
        ask(service.address, authority, "POST", "/api/v1/reload", "Authorization: Bearer ann:right\r\n").expect("asked")
    };
    std::fs::write(folder.path().join("service.pem"), "nothing").expect("written");
    let wrong = reload(&first);
    assert_eq!(wrong.status, 400, "{}", wrong.body);
    assert_eq!(info(&first).expect("the old certificate").status, 200);
    sign(&new);
    assert_eq!(reload(&first).json()["has_tls"], true);
    assert_eq!(info(&second).expect("the new certificate").status, 200);
    assert!(info(&first).is_err());
    open.write_all(b"GET /healthz HTTP/1.1\r\nHost: flows.example\r\nConnection: close\r\n\r\n").expect("it is open");
    let mut octets = Vec::new();
    let _ = open.read_to_end(&mut octets);
    assert_eq!(Answer::of(&octets).status, 200, "it goes on as it began");
    plain_and_silent_clients(&service);
    service.stop();
}

/// Whether a server of Postgres or of Flight SQL has a certificate of this authority.
fn is_trusted(address: SocketAddr, authority: &Path, is_postgres: bool) -> bool {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    if is_postgres {
        ask_for_tls(&mut stream);
    }
    let options = TlsClientOptions { authorities: Some(authority.to_owned()), ..TlsClientOptions::default() };
    TlsClient::new(&options).expect("a client").connect("flows.example", stream).is_ok()
}

/// The message `SSLRequest` of Postgres, and the answer that TLS is spoken.
fn ask_for_tls(stream: &mut TcpStream) {
    stream.write_all(&[0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f]).expect("sent");
    let mut answer = [0];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"S");
}

#[test]
fn certificates_of_other_protocols_change_while_connections_stay() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path(), "100");
    let path = |name: &str| folder.path().join(name);
    let [old, new] = ["first", "second"].map(Certificate::authority);
    old.write(folder.path(), "first");
    new.write(folder.path(), "second");
    let sign = |authority: &Certificate, name: &str| {
        let says = Says { dns: &["flows.example"], ..Says::name("flows.example") };
        authority.sign(&says).write(folder.path(), name);
    };
    let sections = ["postgres", "flight"].map(|section| {
        sign(&old, section);
        let [certificate, key] =
            ["pem", "key"].map(|ending| path(section).with_extension(ending).display().to_string());
        // the connection that stays must not be too late
        let more = "login_timeout = '10m'";
        format!("[{section}]\nlisten = '127.0.0.1:0'\ncertificate = '{certificate}'\nkey = '{key}'\n{more}\n")
    });
    let text = format!("[archive]\nfolder = '{archive}'\n{}", sections.concat());
    std::fs::write(path("weir.toml"), text).expect("written");
    let service = Service::start(&[&path("weir.toml").display().to_string()]);
    let (postgres, flight) = (service.wire("postgresql"), service.wire("grpc"));
    let [first, second] = ["first.pem", "second.pem"].map(path);
    let trusted = |authority: &Path| [(postgres, true), (flight, false)].map(|(at, is)| is_trusted(at, authority, is));
    assert_eq!((trusted(&first), trusted(&second)), ([true; 2], [false; 2]));
    // a connection that is open while the certificate changes
    let mut stream = TcpStream::connect(postgres).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    ask_for_tls(&mut stream);
    let options = TlsClientOptions { authorities: Some(first.clone()), ..TlsClientOptions::default() };
    let mut open = TlsClient::new(&options).expect("a client").connect("flows.example", stream).expect("a session");
    let reload = || service.ask("POST", "/api/v1/reload", &[], "");
    // one that is wrong leaves the other as it was
    sign(&new, "postgres");
    std::fs::write(path("flight.pem"), "nothing").expect("written");
    let (status, detail) = reload().problem();
    assert!(status == 400 && detail.contains("[flight]") && detail.contains("flight.pem"), "{status}: {detail}");
    assert_eq!((trusted(&first), trusted(&second)), ([true; 2], [false; 2]));
    sign(&new, "flight");
    assert_eq!(reload().status, 200);
    assert_eq!((trusted(&first), trusted(&second)), ([false; 2], [true; 2]));
    // SIGHUP does the same
    for name in ["postgres", "flight"] {
        sign(&old, name);
    }
    kill(Pid::from_raw(service.child.id() as i32), Signal::SIGHUP).expect("it runs");
    let until = Instant::now() + PATIENCE;
    while trusted(&first) != [true; 2] {
        assert!(Instant::now() < until, "the certificates are read again");
        thread::yield_now();
    }
    // a startup message (protocol 3.0) of the user ann: the answer is an authentication message, R, without users
    open.write_all(b"\0\0\0\x12\0\x03\0\0user\0ann\0\0").expect("it is open");
    let mut kind = [0];
    open.read_exact(&mut kind).expect("it goes on as it began");
    assert_eq!(&kind, b"R");
    service.stop();
}

/// Whoever does not speak TLS is told so, and whoever says nothing holds no connection.
fn plain_and_silent_clients(service: &Service) {
    let plain = service.ask("GET", "/healthz", &[], "");
    assert!(plain.status == 400 && plain.body.contains("use https"), "{plain:?}");
    let mut silent = TcpStream::connect(service.address).expect("it listens");
    silent.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut octets = Vec::new();
    let _ = silent.read_to_end(&mut octets);
    assert!(octets.is_empty());
}

#[test]
fn a_certificate_that_cannot_be_used_is_an_error_at_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("weir.toml");
    std::fs::write(&config, "[http]\nlisten = '127.0.0.1:0'\ntls_cert = 'no.pem'\ntls_key = 'no.key'\n")
        .expect("written");
    let output = weir().args(["serve", "--archive", "none"]).arg(&config).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("no.pem"), "{said}");
}

/// SIGHUP has no answer, so the log says what it did not do.
#[test]
fn a_hangup_says_what_takes_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("weir.toml");
    let write = |more: &str| {
        let archive = folder.path().join("archive");
        let text = format!(
            "[http]\nlisten = '127.0.0.1:0'\n[archive]\nfolder = '{}'\n[collect]\nlisten = ['127.0.0.1:0']\n{more}\n",
            archive.display()
        );
        std::fs::write(&config, text).expect("written");
    };
    write("sockets = 2");
    let mut command = weir();
    command.arg("serve").arg(&config).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("weir starts");
    let mut out = BufReader::new(child.stdout.take().expect("standard output"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert!(line.starts_with("weir answers at"), "{line}");
    write("");
    let pid = Pid::from_raw(child.id() as i32);
    kill(pid, Signal::SIGHUP).expect("it runs");
    let mut log = BufReader::new(child.stderr.take().expect("standard error")).lines().map_while(Result::ok);
    let (put, lines) = mpsc::channel();
    // a read has no limit of time
    thread::spawn(move || log.try_for_each(|line| put.send(line)));
    let until = Instant::now() + PATIENCE;
    let next = || lines.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
    let said = iter::from_fn(next).find(|line| line.contains("takes a restart"));
    // before anything is asserted, so that the service does not outlive the test
    kill(pid, Signal::SIGTERM).expect("it runs");
    assert!(child.wait().expect("it ends").success());
    let said = said.expect("it is said");
    assert!(said.contains("[collect]") && !said.contains("[http]"), "{said}");
}

/// A command whose process begins with sockets, as systemd starts it.
fn with_sockets(sockets: &[OwnedFd], notify: &Path, arguments: &str) -> Command {
    let mut script = String::from("exec");
    for (number, socket) in (3..).zip(sockets) {
        // a copy that children get, away from the numbers that they are to have
        let copy = fcntl(socket, FcntlArg::F_DUPFD(100)).expect("a copy");
        script.push_str(&[" ", &number.to_string(), "<&", &copy.to_string(), " ", &copy.to_string(), "<&-"].concat());
    }
    let program = weir().get_program().to_string_lossy().into_owned();
    let script = format!(
        "{script}; export LISTEN_PID=$$ LISTEN_FDS={} NOTIFY_SOCKET={} WATCHDOG_USEC=20000000; exec {program} serve {arguments}",
        sockets.len(),
        notify.display()
    );
    let mut command = Command::new("bash");
    command.env_remove("WEIR_LOG").env_remove("WEIR_ARCHIVE").args(["-c", &script]);
    command
}

/// What the process says, until it says what is awaited.
fn hear(notify: &UnixDatagram, awaited: &str) {
    loop {
        let mut octets = [0; 1000];
        let count = notify.recv(&mut octets).expect("it says something in time");
        if String::from_utf8_lossy(&octets[..count]).lines().any(|line| line == awaited) {
            return;
        }
    }
}

/// The sockets stay open, so a restart loses no datagram and refuses no connection.
#[test]
fn a_restart_on_sockets_of_others_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("archive").display().to_string();
    let notify_path = folder.path().join("notify");
    let notify = UnixDatagram::bind(&notify_path).expect("a socket");
    notify.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let udp = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let http = TcpListener::bind("127.0.0.1:0").expect("a socket");
    let (target, address) = (udp.local_addr().expect("an address"), http.local_addr().expect("an address"));
    let arguments = format!("--archive {archive} --listen 127.0.0.1:1 --collect {target}");
    let sockets: Vec<OwnedFd> = vec![udp.into(), http.into()];
    let start = || {
        let service = Service::of(&mut with_sockets(&sockets, &notify_path, &arguments), true);
        assert_eq!((service.address, service.collector), (address, Some(target)));
        hear(&notify, "READY=1");
        service
    };
    let service = start();
    hear(&notify, "WATCHDOG=1");
    let records = 40_000;
    let mut generator = weir();
    generator.args(["generate", "--to", &target.to_string(), "--records", &records.to_string(), "--rate", "10000"]);
    let mut generator = generator.stdout(std::process::Stdio::null()).spawn().expect("it generates");
    service.wait_for("/info", |info| info["archive"]["flows"].as_u64().is_some_and(|flows| flows > 5000));
    kill(Pid::from_raw(service.child.id() as i32), Signal::SIGTERM).expect("it runs");
    hear(&notify, "STOPPING=1");
    service.stop_and_wait();
    // while nobody reads, datagrams come and a client connects
    let mut waiting = TcpStream::connect(address).expect("somebody listens");
    waiting.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    write!(waiting, "GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").expect("written");
    let service = start();
    let mut octets = Vec::new();
    let _ = waiting.read_to_end(&mut octets);
    assert_eq!(Answer::of(&octets).status, 200);
    assert!(generator.wait().expect("it ends").success());
    service.wait_for("/info", |info| info["archive"]["flows"] == records);
    let complete = service.get("/completeness");
    assert_eq!((&complete["lost_records"], &complete["dropped_datagrams"]), (&json!(0), &json!(0)), "{complete}");
    service.stop();
}

#[test]
fn the_configuration_is_begun_checked_and_shown_by_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("weir.toml");
    let config = |arguments: &[&str]| {
        let output = weir().arg("config").args(arguments).arg(&path).output().expect("it runs");
        let text = |octets: &[u8]| String::from_utf8_lossy(octets).into_owned();
        (output.status.success(), text(&output.stdout), text(&output.stderr))
    };
    assert!(config(&["init"]).0);
    assert_eq!(config(&["check"]), (true, "the configuration is right\n".to_owned(), String::new()));
    let (is_written, _, said) = config(&["init"]);
    assert!(!is_written && said.contains("is there already"), "{said}");
    let mut file = File::options().append(true).open(&path).expect("a file");
    writeln!(file, "\n[questions]\nmemory = '2GiB'\nat_onec = 3").expect("written");
    let lines = std::fs::read_to_string(&path).expect("a file").lines().count();
    let (is_right, _, said) = config(&["check"]);
    assert!(!is_right && said.contains(&format!("line {lines}: [questions] 'at_onec'")), "{said}");
    assert!(said.contains("hint: did you mean 'at_once'?"), "{said}");
    std::fs::write(&path, "[questions]\nmemory = '2GiB'\n").expect("written");
    let (_, shown, _) = config(&["show"]);
    assert!(shown.contains("\nmemory = \"2GiB\"\n") && shown.contains("\n# at_once = 2\n"), "{shown}");
}

/// A moment without questions is none in which the watchdog bites.
#[test]
fn an_idle_service_is_alive() {
    let folder = tempfile::tempdir().expect("a folder");
    let archive = archive(folder.path(), "100");
    let notify_path = folder.path().join("notify");
    let notify = UnixDatagram::bind(&notify_path).expect("a socket");
    notify.set_read_timeout(Some(Duration::from_mins(1))).expect("a timeout");
    let arguments = format!("--archive {archive} --listen 127.0.0.1:0");
    let service = Service::of(&mut with_sockets(&[], &notify_path, &arguments), false);
    hear(&notify, "READY=1");
    hear(&notify, "WATCHDOG=1");
    hear(&notify, "WATCHDOG=1");
    service.stop();
}

#[test]
fn chains_of_files_run_beside_the_service_and_end_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), "100");
    let path = |name: &str| folder.path().join(name);
    let source = |records: u32| format!("[components.source]\ntype = \"generator\"\nrecords = {records}\n");
    // one that runs until it is stopped
    let idle = "[components.source]\ntype = \"collector\"\nlisten = \"udp://127.0.0.1:0\"\n".to_owned();
    let copy = "[components.copy]\ntype = \"archive\"\ninputs = \"source\"\nthread = \"own\"\narchive = \"copy\"\n";
    let count = "[components.count]\ntype = \"counter\"\ninputs = \"source\"\n";
    let config = "[http]\nlisten = '127.0.0.1:0'\n[archive]\nfolder = 'archive'\n[[chain]]\nfile = 'count.toml'\n[[chain]]\nfile = 'copy.toml'\n";
    for (name, text) in [
        ("weir.toml", config.to_owned()),
        // one that ends by itself leaves the service and the other chain alone
        ("count.toml", format!("name = \"count\"\n{}{count}", source(5))),
        ("copy.toml", format!("name = \"copy\"\n{idle}{copy}")),
    ] {
        std::fs::write(path(name), text).expect("written");
    }
    let service = Service::of(weir().arg("serve").arg(path("weir.toml")), false);
    let until = Instant::now() + PATIENCE;
    while !path("copy").exists() {
        assert!(Instant::now() < until, "the chain does not run");
        thread::yield_now();
    }
    assert_eq!(service.get("/info")["archive"]["flows"], json!(100));
    let counted = [
        "weir_chain_rows_in_total{chain=\"copy\",component=\"copy\"} 0.0\n",
        "weir_chain_rows_in_total{chain=\"count\",component=\"count\"} 5.0\n",
    ];
    let is_counted = |metrics: &str| counted.iter().all(|line| metrics.contains(line));
    while !is_counted(&service.ask("GET", "/metrics", &[], "").body) {
        assert!(Instant::now() < until, "the chain is not counted");
        thread::yield_now();
    }
    service.stop();
    let copied = path("copy").display().to_string();
    let checked = run(&["archive", "check", "--archive", &copied]);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    std::fs::write(path("copy.toml"), idle + &copy.replace("archive\"\ni", "archiv\"\ni")).expect("written");
    let checked = weir().args(["config", "check"]).arg(path("weir.toml")).output().expect("it runs");
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(!checked.status.success() && said.contains("there is no kind of component 'archiv'"), "{said}");
    std::fs::copy(path("count.toml"), path("copy.toml")).expect("copied");
    let checked = weir().args(["config", "check"]).arg(path("weir.toml")).output().expect("it runs");
    let said = String::from_utf8_lossy(&checked.stderr);
    assert!(!checked.status.success() && said.contains("another chain is named 'count' too"), "{said}");
}
