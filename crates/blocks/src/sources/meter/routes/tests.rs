use std::time::Instant;

use super::*;

/// Where the system of an address is asked for.
fn system(routes: &SharedRouteTable, address: &str) -> Option<u32> {
    let route = routes.current().find(address.parse().expect("an address"))?;
    Some(route.attributes.autonomous_system)
}

fn files(paths: &[&Path], every_ms: Option<u64>) -> RouteFiles {
    let paths = paths.iter().map(|path| path.to_path_buf()).collect();
    RouteFiles { paths, choice: AsChoice::Origin, every: every_ms.map(Duration::from_millis) }
}

fn write(path: &Path, octets: impl AsRef<[u8]>) {
    std::fs::write(path, octets).expect("written");
}

/// A record of an MRT dump (RFC 6396): `TABLE_DUMP` of IPv4 with a path of one system.
fn record(third: u8, system: u16) -> Vec<u8> {
    let [high, low] = system.to_be_bytes();
    let mut record = vec![0, 0, 0, 1, 0, 12, 0, 1, 0, 0, 0, 29];
    record.extend([0, 0, 0, 0, 10, 0, third, 0, 24, 1, 0, 0, 0, 1, 192, 0, 2, 1, 0xfb, 0xf4, 0, 7]);
    record.extend([0x40, 2, 4, 2, 1, high, low]);
    record
}

/// Waits until a counter has come so far.
fn wait_for(meter: &weir_chain::Counters, counter: &'static str, count: u64) {
    let until = Instant::now() + Duration::from_mins(2);
    while meter.counter(counter).get() < count {
        assert!(Instant::now() < until, "{counter} is {}", meter.counter(counter).get());
        thread::yield_now();
    }
}

#[test]
fn files_of_all_kinds_make_one_table_and_defects_are_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    write(&path("lines"), "10.0.1.0/24,1\n192.0.2.0/24,what\n3fff::/20,2\n");
    let dump = [record(1, 64_501), record(2, 64_502), record(3, 64_503)].concat();
    write(&path("dump"), &dump[..dump.len() - 1]);
    let database = Path::new(env!("CARGO_MANIFEST_DIR")).join("../routes/golden/asn.mmdb");
    let meter = weir_chain::Counters::new();
    let open = files(&[&database, &path("lines"), &path("dump")], None).open(&meter).expect("routes");
    for (address, expected) in [
        ("8.8.8.8", Some(15169)),
        // the file that comes last counts
        ("10.0.1.1", Some(64_501)),
        ("10.0.2.1", Some(64_502)),
        ("3fff::1", Some(2)),
    ] {
        assert_eq!(system(&open.routes, address), expected, "{address}");
    }
    // a line, and a record that is cut off
    assert_eq!(meter.counter("routes_defective").get(), 2);
    assert!(meter.counter("routes_peak").get() > 4 && meter.counter("route_octets_peak").get() > 1_000);
}

#[test]
fn files_that_cannot_be_used_are_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    write(&path("fine"), "10.0.1.0/24,1\n");
    write(&path("empty"), "# nothing\n");
    write(&path("garbage"), [0xff; 3_000]);
    write(&path("garbage.mmdb"), [7; 3_000]);
    write(&path("garbage.gz"), [0x1f, 0x8b, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    write(&path("cut"), &record(1, 64_501)[..30]);
    for (name, told) in [
        ("missing", "No such file"),
        ("empty", "no route in "),
        ("garbage", "line is no text"),
        ("garbage.mmdb", "cannot be read"),
        ("garbage.gz", "cannot read routes from"),
        ("cut", "file ends within a record"),
    ] {
        let opened = files(&[&path("fine"), &path(name)], None).open(&weir_chain::Counters::new());
        let error = opened.err().expect("an error").chain();
        assert!(error.contains(told) && error.contains(&format!("/{name}")), "{name}: {error}");
    }
}

#[test]
fn a_changed_file_is_read_again_and_one_that_cannot_be_used_is_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("routes");
    write(&path, "10.0.1.0/24,1\n");
    let meter = weir_chain::Counters::new();
    let open = files(&[&path], Some(1)).open(&meter).expect("routes");
    let routes = open.routes.clone();
    let watching = open.watch().expect("a thread").expect("files are watched");
    assert_eq!(system(&routes, "10.0.1.1"), Some(1));
    write(&path, "10.0.1.0/24,1000\n");
    wait_for(&meter, "routes_reloaded", 1);
    assert_eq!(system(&routes, "10.0.1.1"), Some(1000));
    // what is moved to the name of the file
    write(&folder.path().join("new"), "10.0.1.0/24,1001\n");
    std::fs::rename(folder.path().join("new"), &path).expect("moved");
    wait_for(&meter, "routes_reloaded", 2);
    assert_eq!(system(&routes, "10.0.1.1"), Some(1001));
    let dump = [record(1, 64_501), record(2, 64_502)].concat();
    for (failures, octets) in [(1, &b"no routes at all\n"[..]), (2, &dump[..dump.len() - 1])] {
        write(&path, octets);
        wait_for(&meter, "routes_reloads_failed", failures);
        assert_eq!(system(&routes, "10.0.1.1"), Some(1001), "the old routes stay");
    }
    std::fs::remove_file(&path).expect("removed");
    wait_for(&meter, "routes_reloads_failed", 3);
    assert_eq!(system(&routes, "10.0.1.1"), Some(1001), "the old routes stay");
    write(&path, &dump);
    wait_for(&meter, "routes_reloaded", 3);
    assert_eq!(system(&routes, "10.0.1.1"), Some(64_501));
    assert_eq!(meter.counter("routes_defective").get(), 0, "of files that are not used nothing is counted");
    drop(watching);
}

/// A file that changes between two looks is being written.
#[test]
fn a_file_that_is_being_written_is_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("routes");
    write(&path, "10.0.1.0/24,1\n");
    let meter = weir_chain::Counters::new();
    let mut open = files(&[&path], Some(1)).open(&meter).expect("routes");
    let count = |name| meter.counter(name).get();
    for length in 2..9 {
        write(&path, "10.0.1.0/24,7\n".repeat(length));
        open.watch.look();
        assert_eq!(count("routes_reloaded"), 0);
    }
    open.watch.look();
    assert_eq!((count("routes_reloaded"), system(&open.routes, "10.0.1.1")), (1, Some(7)));
    open.watch.look();
    assert_eq!(count("routes_reloaded"), 1, "what has not changed is not read again");
}

#[test]
fn files_are_not_watched_unless_it_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("routes");
    write(&path, "10.0.1.0/24,1\n");
    let open = files(&[&path], None).open(&weir_chain::Counters::new()).expect("routes");
    assert!(open.watch().expect("no thread").is_none());
}
