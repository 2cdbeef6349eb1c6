//! The SNMP agent of Net-SNMP, which knows the interfaces of this machine.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{ports, program};

/// How long it may take to listen.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running agent, which ends with this value.
#[derive(Debug)]
pub struct Snmpd {
    /// Its port of 127.0.0.1.
    pub port: u16,
    program: PathBuf,
    folder: PathBuf,
    process: Child,
}

impl Snmpd {
    /// Begins on a free port, with the text of an `snmpd.conf` and its files in a folder. `None` when it is not installed.
    ///
    /// # Panics
    /// When it does not begin, or must be there and is not.
    pub fn begin(folder: &Path, configuration: &str) -> Option<Self> {
        let program = program("snmpd")?;
        let port = ports::free_port();
        std::fs::write(folder.join("snmpd.conf"), configuration).expect("a configuration");
        let process = run(&program, folder, port);
        Some(Self { port, program, folder: folder.to_owned(), process })
    }

    /// Ends the agent and begins it again on the same port: its engine has booted once more then.
    ///
    /// # Panics
    /// When it does not begin.
    pub fn begin_again(&mut self) {
        end(&mut self.process);
        self.process = run(&self.program, &self.folder, self.port);
    }
}

impl Drop for Snmpd {
    fn drop(&mut self) {
        end(&mut self.process);
    }
}

fn run(program: &Path, folder: &Path, port: u16) -> Child {
    let path = |name: &str| folder.join(name);
    let mut command = Command::new(program);
    // in the foreground, with no other configuration, and without a connection to routing daemons
    command.args(["-f", "-C", "-I", "-smux", "-Lf"]).arg(path("snmpd.log")).arg("-c").arg(path("snmpd.conf"));
    command.arg("-p").arg(path("snmpd.pid")).arg(format!("udp:127.0.0.1:{port}"));
    command.env("SNMP_PERSISTENT_DIR", path("snmpd-state")).env("MIBS", "");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn().expect("snmpd begins");
    let end = Instant::now() + PATIENCE;
    // looked up and not bound: who binds it to find out takes it from the agent
    while ports::waiting_octets(port).is_none() {
        let log = || std::fs::read_to_string(path("snmpd.log")).unwrap_or_default();
        if let Some(status) = process.try_wait().expect("its state") {
            panic!("snmpd has ended with {status}: {}", log());
        }
        assert!(Instant::now() < end, "snmpd does not listen: {}", log());
        std::thread::yield_now();
    }
    process
}

fn end(process: &mut Child) {
    // one that has ended already is as good
    let _ = process.kill();
    let _ = process.wait();
}
