//! A ring of three nodes with three replicas, of which one at a time is killed, paused, cut off, or has a full disk.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use weir_archive::{ArchiveOptions, Writer};
use weir_cassandra::CassandraOptions;
use weir_flow::Delivery;
use weir_testkit::cassandra::{Cassandra, CassandraOptions as NodeOptions};
use weir_testkit::namespace;

use crate::cluster::{Background, assert_each_once, numbered, options, write};

/// Flows of a delivery.
const ROWS: u64 = 1000;
/// Size of the disk that becomes full.
const DISK: &str = "256M";

/// A small file system in memory; unmounted when it is dropped.
struct SmallDisk {
    folder: PathBuf,
}

impl SmallDisk {
    /// `None` where it cannot be mounted, which takes root.
    fn mount(folder: &Path) -> Option<Self> {
        std::fs::create_dir_all(folder).expect("a folder");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={DISK}"), "tmpfs"]).arg(folder);
        let is_mounted = mount.output().is_ok_and(|output| output.status.success());
        is_mounted.then(|| Self { folder: folder.to_owned() })
    }

    /// Fills it up, and returns the file that does.
    fn fill(&self) -> PathBuf {
        let file = self.folder.join("filler");
        let _ = Command::new("dd").args(["if=/dev/zero", "bs=1M"]).arg(format!("of={}", file.display())).output();
        file
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}

/// An archive that grows while it is forwarded.
struct Load {
    writer: Writer,
    forwarding: Background,
    options: CassandraOptions,
    appended: u64,
    _dir: tempfile::TempDir,
}

impl Load {
    fn start(cluster: &Cassandra) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let options =
            options(cluster, "replication=3&consistency=quorum&shards=16&bucket=1s&request_timeout=2s&batch_size=4kB");
        let (writer, _) = Writer::open(dir.path(), ArchiveOptions::default()).expect("an archive");
        let forwarding = Background::start(dir.path(), &options);
        Self { writer, forwarding, options, appended: 0, _dir: dir }
    }

    /// Appends deliveries over some seconds.
    fn go_on(&mut self) {
        for _ in 0..60 {
            let (from, to) = (self.appended, self.appended + ROWS);
            self.writer.append(Delivery::from(numbered(from..to))).expect("appended");
            self.appended = to;
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    fn wait(&self) {
        self.forwarding.wait_for(self.appended);
    }
}

/// Writers that make the same tables at the same time, on nodes that learn of them from each other, wait for one another.
fn begin_at_once(cluster: &Cassandra) {
    let options = options(cluster, "replication=3&consistency=quorum&request_timeout=1s");
    let archives: Vec<_> = (0..6).map(|_| tempfile::tempdir().expect("a folder")).collect();
    for archive in &archives {
        write(archive.path(), [numbered(0..ROWS)]);
    }
    let writers: Vec<_> = archives.iter().map(|archive| Background::start(archive.path(), &options)).collect();
    for writer in writers {
        let counts = writer.end();
        assert_eq!((counts.rows_forwarded, counts.rows_refused), (ROWS, 0));
    }
}

#[test]
fn a_ring_that_loses_one_node_at_a_time_loses_no_flow() {
    // a network of its own for each node, so that one can be cut off; without root it is stopped in place of that
    if !Cassandra::is_installed() {
        return;
    }
    let networks = namespace::can_be_made();
    if networks {
        if !namespace::is_inside("ring::a_ring_that_loses_one_node_at_a_time_loses_no_flow") {
            return;
        }
        namespace::ip("link set lo up");
    } else {
        weir_testkit::skip("namespaces", "nodes are stopped and not cut off, which takes root");
    }
    let scratch = tempfile::tempdir().expect("a folder");
    let disk = SmallDisk::mount(&scratch.path().join("disk"));
    let mut data: Vec<PathBuf> = Vec::new();
    if let Some(disk) = &disk {
        let others = ["a", "b"].map(|name| scratch.path().join(name));
        data = others.into_iter().chain([disk.folder.clone()]).collect();
    }
    let nodes = NodeOptions { nodes: 3, heap_mib: 320, durable: false, data, networks, ..NodeOptions::default() };
    let Some(cluster) = Cassandra::start(&nodes) else { return };
    let away = |node| if networks { cluster.cut_off(node) } else { cluster.pause(node) };
    let back = |node| if networks { cluster.reconnect(node) } else { cluster.resume(node) };
    begin_at_once(&cluster);
    let mut load = Load::start(&cluster);
    load.go_on();
    load.wait();

    // killed: two of three replicas have what it has not; it is back, and gets what it missed
    cluster.kill(1);
    load.go_on();
    load.wait();
    cluster.restart(1);
    load.go_on();
    load.wait();

    // paused: connections stay and nothing answers
    cluster.pause(0);
    load.go_on();
    load.wait();
    cluster.resume(0);
    load.go_on();
    load.wait();

    // cut off: it runs, and cannot reach the others or be reached; what it misses it gets when it is back
    away(2);
    load.go_on();
    load.wait();
    back(2);
    load.go_on();
    load.wait();

    // two are away: nothing can be stored, and nothing is lost
    away(0);
    away(1);
    load.go_on();
    back(0);
    back(1);
    load.wait();

    if let Some(disk) = &disk {
        let filler = disk.fill();
        load.go_on();
        load.wait();
        std::fs::remove_file(filler).expect("room again");
        // a node whose commit log failed stops serving; it is started again
        cluster.kill(2);
        cluster.restart(2);
        load.go_on();
        load.wait();
    } else {
        weir_testkit::skip("root", "a small disk cannot be mounted, so none becomes full");
    }

    let Load { writer, forwarding, options, appended, _dir: dir } = load;
    let counts = forwarding.end();
    writer.close().expect("closed");
    assert_eq!((counts.rows_forwarded, counts.rows_refused, counts.rows_lost), (appended, 0, 0), "{counts:?}");
    assert_each_once(&options, appended);
    drop(dir);
}
