//! A network of its own for a test: a namespace with two interfaces that are the ends of one cable.

use std::process::Command;

/// Set for the process that runs in the namespace.
const INSIDE: &str = "WEIR_TEST_INSIDE_NAMESPACE";

/// Runs a test again, named as the test binary knows it, in a network namespace of its own; whether this already is that
/// run. Prints "skipped" where namespaces cannot be made.
///
/// # Panics
/// When that run failed, and where there are no namespaces although `WEIR_REQUIRE_NAMESPACES` is set.
pub fn is_inside(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let (Some(unshare), Some(_)) = (crate::program("unshare"), crate::program("ip")) else {
        return false;
    };
    if !Command::new(&unshare).args(["-n", "true"]).output().expect("unshare runs").status.success() {
        crate::skip("namespaces", "network namespaces cannot be made, which takes root");
        return false;
    }
    let this = std::env::current_exe().expect("the test's own program");
    let output =
        Command::new(unshare).arg("-n").arg(this).args(["--exact", test, "--nocapture"]).env(INSIDE, "1").output();
    let output = output.expect("unshare runs");
    print!("{}", String::from_utf8_lossy(&output.stdout));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && output.stdout.windows(8).any(|part| part == b"1 passed"), "{errors}");
    false
}

/// Whether network namespaces can be made here, which takes root.
pub fn can_be_made() -> bool {
    let is_made =
        |program: &str| Command::new(program).args(["-n", "true"]).output().is_ok_and(|it| it.status.success());
    is_made("unshare") && Command::new("ip").arg("-V").output().is_ok()
}

/// Runs `ip` with each of these lines.
///
/// # Panics
/// When one of them fails.
pub fn ip(lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let output = Command::new("ip").args(line.split(' ')).output().expect("ip runs");
        assert!(output.status.success(), "ip {line}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// A cable: what is sent from 10.9.0.1 to 10.9.0.2 goes into `in` and comes out of `out`.
///
/// Nobody has the second address, and its link address stands in the neighbour table; so whatever comes out at the other
/// end was sent by the test.
pub fn cable() {
    ip("link set lo up
        link add in type veth peer name out
        link set in address 02:00:00:00:00:01
        link set out address 02:00:00:00:00:02
        link set in up
        link set out up
        addr add 10.9.0.1/24 dev in
        neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev in");
}
