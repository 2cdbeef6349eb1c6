//! Real nodes of Cassandra for tests: one, or a ring, on addresses of this machine.
//!
//! Nodes are started from the jars of Maven Central with a configuration of our own (`testkit/servers/cassandra`), so no
//! service is installed. Each is the child of a shell that ends it when the test's process ends, however that ends.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::namespace::ip;
use crate::ports;

/// The version in `pom.xml`.
const VERSION: &str = "5.0.9";
/// Clusters of this process so far.
static NUMBER: AtomicU32 = AtomicU32::new(0);
/// No node takes so long to start, unless the machine is far too busy.
const START_TIMEOUT: Duration = Duration::from_mins(4);
/// Starts the node behind `--` and ends it when nobody holds standard input any more.
const GUARD: &str = r#"exec 3<&0; "$@" </dev/null 3<&- & echo $! >pid.new; mv pid.new pid; read -r _ <&3; kill -9 $! 2>/dev/null; wait"#;
/// In a namespace of its own: waits until it has a network. `$$` is the process that has the namespace.
const NETWORK_GUARD: &str =
    r"echo $$ >network.new; mv network.new network; while [ ! -e connected ]; do sleep 0.05; done; ";
/// The bridge that the networks of nodes are on, and its address.
const BRIDGE: &str = "weir0";
const BRIDGE_ADDRESS: &str = "10.99.0.254/24";
/// What the Java machine needs beside memory and folders.
const FLAGS: &[&str] = &[
    "-XX:+UseSerialGC",
    "-Xss512k",
    "-XX:MaxDirectMemorySize=256M",
    "-XX:+ExitOnOutOfMemoryError",
    "-Djdk.attach.allowAttachSelf=true",
    "-Djava.net.preferIPv4Stack=true",
    "-Dcassandra.skip_wait_for_gossip_to_settle=0",
    "-Dcassandra.ring_delay_ms=1000",
    "-Dcassandra.superuser_setup_delay_ms=0",
    "-Dcassandra.fd_initial_value_ms=500",
    "-Dcassandra.fd_max_interval_ms=1000",
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/jdk.internal.misc=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
];

/// What nodes are started.
#[derive(Debug, Clone)]
pub struct CassandraOptions {
    /// Number of nodes, on 127.0.0.1 and the addresses after it.
    pub nodes: u8,
    /// Heap of each in MiB.
    pub heap_mib: u32,
    /// Whether clients give a name and a password; `cassandra` and `cassandra` are there.
    pub authenticated: bool,
    /// Whether a node answers only what survives `kill -9`. With the usual configuration, the last 100 ms of what it has
    /// answered are lost with its process, and other replicas are to have them.
    pub durable: bool,
    /// Where each node keeps its data, in the order of the nodes; a folder of its own for those without one.
    pub data: Vec<PathBuf>,
    /// Whether each node has a network namespace of its own, with a cable to a bridge, on 10.99.0.1 and the addresses after it;
    /// this process must be in a namespace itself, see [`namespace::is_inside`](crate::namespace::is_inside).
    pub networks: bool,
    /// More lines of `cassandra.yaml`, each in place of the one with its key.
    pub more: String,
}

impl Default for CassandraOptions {
    fn default() -> Self {
        Self {
            nodes: 1,
            heap_mib: 512,
            authenticated: false,
            durable: true,
            data: Vec::new(),
            networks: false,
            more: String::new(),
        }
    }
}

/// Nodes that run until this is dropped; their data goes with them.
#[derive(Debug)]
pub struct Cassandra {
    folder: PathBuf,
    options: CassandraOptions,
    port: u16,
    storage_port: u16,
    java: PathBuf,
    jars: PathBuf,
    nodes: Vec<Mutex<Option<Node>>>,
}

#[derive(Debug)]
struct Node {
    guard: Child,
    /// Open as long as the node is to run.
    stdin: Option<ChildStdin>,
    pid: String,
}

impl Drop for Node {
    fn drop(&mut self) {
        signal("KILL", &self.pid);
        drop(self.stdin.take());
        let _ = self.guard.wait();
    }
}

impl Cassandra {
    /// Starts nodes and waits until clients can connect to all of them. `None` where there is no Java 17 or no jars can be
    /// had; the test then prints "skipped" and passes, unless `WEIR_REQUIRE_CASSANDRA` is set.
    ///
    /// # Panics
    /// When a node does not start, and in place of `None` as said.
    pub fn start(options: &CassandraOptions) -> Option<Self> {
        let (java, jars) = installed()?;
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("weir-cassandra-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder for nodes");
        let (port, storage_port) = if options.networks {
            let bridge = format!("link add {BRIDGE} type bridge\naddr add {BRIDGE_ADDRESS} dev {BRIDGE}");
            ip(&format!("{bridge}\nlink set {BRIDGE} up"));
            (9042, 7000)
        } else {
            (free_port(options.nodes), free_port(options.nodes))
        };
        let nodes = (0..options.nodes).map(|_| Mutex::new(None)).collect();
        let cluster = Self { folder, options: options.clone(), port, storage_port, java, jars, nodes };
        (0..cluster.nodes.len()).for_each(|node| cluster.launch(node));
        (0..cluster.nodes.len()).for_each(|node| cluster.wait_ready(node));
        Some(cluster)
    }

    /// Whether nodes can be started; fetches what that needs. For a test that goes on in a namespace, which reaches nothing.
    pub fn is_installed() -> bool {
        installed().is_some()
    }

    /// One node that the tests of a process share as long as one of them has it.
    pub fn shared() -> Option<Arc<Self>> {
        static SHARED: Mutex<Weak<Cassandra>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cluster) = shared.upgrade() {
            return Some(cluster);
        }
        let cluster = Arc::new(Self::start(&CassandraOptions::default())?);
        *shared = Arc::downgrade(&cluster);
        Some(cluster)
    }

    /// `HOST:PORT` of all nodes, separated by commas.
    pub fn hosts(&self) -> String {
        (0..self.nodes.len()).map(|node| self.address(node).to_string()).collect::<Vec<_>>().join(",")
    }

    /// Where clients connect to a node.
    pub fn address(&self, node: usize) -> SocketAddr {
        (self.ip(node), self.port).into()
    }

    /// The address of a node.
    fn ip(&self, node: usize) -> Ipv4Addr {
        let last = 1 + node as u8;
        if self.options.networks { Ipv4Addr::new(10, 99, 0, last) } else { loopback(node) }
    }

    /// The number of the process of a node, while it runs.
    pub fn pid(&self, node: usize) -> Option<u32> {
        self.node(node).as_ref().and_then(|node| node.pid.parse().ok())
    }

    /// Kills a node as `kill -9` does; its data stays.
    pub fn kill(&self, node: usize) {
        drop(self.node(node).take());
    }

    /// Starts a node that was killed, on the data that it has, and waits until clients can connect.
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart(&self, node: usize) {
        self.launch(node);
        self.wait_ready(node);
    }

    /// Stops a node without ending it (SIGSTOP): connections stay, and nothing answers.
    pub fn pause(&self, node: usize) {
        self.node(node).iter().for_each(|node| signal("STOP", &node.pid));
    }

    /// Lets a node go on that was paused.
    pub fn resume(&self, node: usize) {
        self.node(node).iter().for_each(|node| signal("CONT", &node.pid));
    }

    /// Pulls the cable of a node that has a network of its own: it runs, and nothing comes to it or from it, without a word.
    ///
    /// # Panics
    /// When it has none.
    pub fn cut_off(&self, node: usize) {
        ip(&format!("link set {} down", cable(node)));
    }

    /// Puts the cable back.
    ///
    /// # Panics
    /// When the node has none.
    pub fn reconnect(&self, node: usize) {
        ip(&format!("link set {} up", cable(node)));
    }

    /// What a node has logged.
    pub fn log(&self, node: usize) -> String {
        fs::read_to_string(self.home(node).join("system.log")).unwrap_or_default()
    }

    fn node(&self, node: usize) -> std::sync::MutexGuard<'_, Option<Node>> {
        self.nodes[node].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn home(&self, node: usize) -> PathBuf {
        self.folder.join(format!("node{node}"))
    }

    fn launch(&self, node: usize) {
        let home = self.home(node);
        fs::create_dir_all(&home).expect("a folder of the node");
        let _ = fs::remove_file(home.join("pid"));
        let _ = fs::remove_file(home.join("system.log"));
        self.configure(node, &home);
        let output = fs::File::create(home.join("output")).expect("a file for what it prints");
        let mut command = Command::new("sh");
        if self.options.networks {
            for file in ["network", "connected"] {
                let _ = fs::remove_file(home.join(file));
            }
            command = Command::new("unshare");
            command.args(["-n", "sh", "-c"]).arg(format!("{NETWORK_GUARD}{GUARD}"));
        } else {
            command.args(["-c", GUARD]);
        }
        command.arg("sh").arg(&self.java);
        let heap = self.options.heap_mib;
        command.args([format!("-Xms{heap}m"), format!("-Xmx{heap}m")]).args(FLAGS);
        command.arg(format!("-javaagent:{}", self.jars.join("jamm-0.4.0.jar").display()));
        command.arg(format!("-Dcassandra.config=file://{}", home.join("cassandra.yaml").display()));
        command.arg(format!("-Dcassandra.storagedir={}", home.display()));
        command.arg(format!("-Dcassandra.logdir={}", home.display()));
        command.arg(format!("-Dlogback.configurationFile=file://{}", home.join("logback.xml").display()));
        command.arg("-cp").arg(self.jars.join("*")).arg("org.apache.cassandra.service.CassandraDaemon");
        command.current_dir(&home).stdin(Stdio::piped());
        command.stdout(output.try_clone().expect("the file twice")).stderr(output);
        let mut guard = command.spawn().expect("a shell");
        let stdin = guard.stdin.take();
        if self.options.networks {
            self.connect(node, &home);
        }
        let pid = wait_until(Duration::from_mins(2), || fs::read_to_string(home.join("pid")).ok());
        let pid = pid.expect("the number of the process").trim().to_owned();
        *self.node(node) = Some(Node { guard, stdin, pid });
    }

    /// Gives a node that waits for it a network.
    fn connect(&self, node: usize, home: &Path) {
        let pid = wait_until(Duration::from_mins(2), || fs::read_to_string(home.join("network")).ok());
        let pid = pid.expect("the number of the process").trim().to_owned();
        let (cable, address) = (cable(node), self.ip(node));
        // that of a process before may still be there
        let _ = Command::new("ip").args(["link", "del", &cable]).stderr(Stdio::null()).status();
        ip(&format!("link add {cable} type veth peer name eth0 netns {pid}\nlink set {cable} master {BRIDGE} up"));
        for line in [&format!("addr add {address}/24 dev eth0"), "link set eth0 up", "link set lo up"] {
            let inside = Command::new("nsenter").args(["-t", &pid, "-n", "ip"]).args(line.split(' ')).status();
            assert!(inside.expect("nsenter runs").success(), "ip {line}");
        }
        fs::write(home.join("connected"), "").expect("a mark");
    }

    fn configure(&self, node: usize, home: &Path) {
        let templates = Path::new(env!("CARGO_MANIFEST_DIR")).join("servers/cassandra");
        let count = self.options.nodes;
        // evenly over the ring
        let token = i128::from(i64::MIN) + ((node as i128) << 64) / i128::from(count);
        let seeds: Vec<_> = (0..usize::from(count)).map(|node| self.ip(node).to_string()).collect();
        let data = self.options.data.get(node).map_or(home, PathBuf::as_path);
        let classes = if self.options.authenticated {
            ("PasswordAuthenticator", "CassandraAuthorizer")
        } else {
            ("AllowAllAuthenticator", "AllowAllAuthorizer")
        };
        let commitlog = if self.options.durable {
            "commitlog_sync: group\ncommitlog_sync_group_window: 5ms"
        } else {
            "commitlog_sync: periodic\ncommitlog_sync_period: 10s"
        };
        for file in ["cassandra.yaml", "logback.xml"] {
            let text = fs::read_to_string(templates.join(file)).expect("a template");
            let seed_port = self.storage_port;
            let seeds: Vec<_> = seeds.iter().map(|seed| format!("{seed}:{seed_port}")).collect();
            let text = text
                .replace("@FOLDER@", &home.display().to_string())
                .replace("@DATA@", &data.display().to_string())
                .replace("@TOKEN@", &token.to_string())
                .replace("@SEEDS@", &seeds.join(","))
                .replace("@ADDRESS@", &self.ip(node).to_string())
                .replace("@STORAGE_PORT@", &self.storage_port.to_string())
                .replace("@PORT@", &self.port.to_string())
                .replace("@AUTHENTICATOR@", classes.0)
                .replace("@AUTHORIZER@", classes.1)
                .replace("@COMMITLOG@", commitlog)
                .replace("@MORE@", "");
            let text = with_lines(&text, if file.ends_with("yaml") { &self.options.more } else { "" });
            fs::write(home.join(file), text).expect("the configuration");
        }
    }

    /// Waits until clients can connect to a node.
    ///
    /// # Panics
    /// When it ends instead, or takes too long.
    pub fn wait_ready(&self, node: usize) {
        let ready = wait_until(START_TIMEOUT, || {
            let has_ended = || {
                let mut node = self.node(node);
                node.as_mut().is_none_or(|node| !is_running(&node.pid))
            };
            if has_ended() {
                return Some(false);
            }
            let is_listening = TcpStream::connect_timeout(&self.address(node), Duration::from_secs(1)).is_ok();
            let has_user = || !self.options.authenticated || self.was_ready(node) || self.has_superuser();
            (is_listening && has_user()).then_some(true)
        });
        let output = || fs::read_to_string(self.home(node).join("output")).unwrap_or_default();
        assert_eq!(ready, Some(true), "node {node} does not start: {}{}", last_lines(&self.log(node)), output());
        fs::write(self.home(node).join("was_ready"), "").expect("a mark");
    }

    fn was_ready(&self, node: usize) -> bool {
        self.home(node).join("was_ready").exists()
    }

    /// A node makes the user `cassandra` some time after it listens.
    fn has_superuser(&self) -> bool {
        (0..self.nodes.len()).any(|node| self.log(node).contains("Created default superuser role"))
    }
}

impl Drop for Cassandra {
    fn drop(&mut self) {
        self.nodes.iter().for_each(|node| drop(node.lock().unwrap_or_else(PoisonError::into_inner).take()));
        if self.options.networks {
            let _ = Command::new("ip").args(["link", "del", BRIDGE]).stderr(Stdio::null()).status();
        }
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "{}", last_lines(&self.log(0)));
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A configuration with other lines in place of those that have the same keys.
fn with_lines(text: &str, more: &str) -> String {
    let key = |line: &str| line.split_once(':').map(|(key, _)| key.to_owned()).filter(|key| !key.starts_with(' '));
    let keys: Vec<_> = more.lines().filter_map(key).collect();
    let kept = text.lines().filter(|line| key(line).is_none_or(|key| !keys.contains(&key)));
    kept.chain(more.lines()).flat_map(|line| [line, "\n"]).collect()
}

fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}

fn loopback(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 0, 1 + node as u8)
}

/// The end of the cable of a node that is on the bridge.
fn cable(node: usize) -> String {
    format!("node{node}")
}

/// Whether a process runs; one that has ended and that nobody has waited for does not.
fn is_running(pid: &str) -> bool {
    let state = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    state.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

/// A port that is free on the addresses of all nodes.
fn free_port(nodes: u8) -> u16 {
    loop {
        let port = ports::free_port();
        if (0..usize::from(nodes)).all(|node| TcpListener::bind((loopback(node), port)).is_ok()) {
            return port;
        }
    }
}

fn signal(name: &str, pid: &str) {
    let _ = Command::new("kill").arg(format!("-{name}")).arg(pid).stderr(Stdio::null()).status();
}

fn wait_until<T>(timeout: Duration, mut found: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    while began.elapsed() < timeout {
        if let Some(found) = found() {
            return Some(found);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    None
}

/// Java 17 and the folder of jars, which are fetched when they are not there.
fn installed() -> Option<(PathBuf, PathBuf)> {
    let Some(java) = java() else {
        crate::skip("cassandra", "there is no Java 17, which Cassandra runs on");
        return None;
    };
    let jars = std::env::var_os("WEIR_CASSANDRA_JARS").map_or_else(default_jars, PathBuf::from);
    let fetch = Path::new(env!("CARGO_MANIFEST_DIR")).join("servers/cassandra/fetch");
    if !jars.join("complete").exists() {
        let output = Command::new(fetch).arg(&jars).output().expect("a shell");
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            crate::skip(
                "cassandra",
                &format!("the jars of Cassandra cannot be fetched with mvn: {}", last_lines(&why)),
            );
            return None;
        }
    }
    Some((java, jars))
}

fn default_jars() -> PathBuf {
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from);
    cache.join(format!("weir/cassandra-{VERSION}"))
}

/// Java 17: newer ones lack what Cassandra 5.0 needs.
fn java() -> Option<PathBuf> {
    let machines = fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    let named = machines.filter(|entry| entry.file_name().to_string_lossy().contains("17"));
    let home = std::env::var_os("JAVA_HOME").map(PathBuf::from);
    let found = home.into_iter().chain(named.map(|entry| entry.path())).map(|home| home.join("bin/java"));
    found.filter(|java| java.is_file()).find(|java| {
        let output = Command::new(java).arg("-version").output();
        output.is_ok_and(|output| String::from_utf8_lossy(&output.stderr).contains("version \"17"))
    })
}
