//! Archives of more segments than a process may have open files.

use std::process::Command;

use crate::rows::{engine, lines, sealed};

/// Files that the child process may have open; its engine of two threads needs some dozen for itself.
const OPEN_FILES_MAX: u32 = 40;
const SEGMENTS: u64 = 60;
const IN_CHILD: &str = "WEIR_TEST_FEW_FILES";

/// The limit holds for a whole process and cannot be raised again, so the test runs once more as a child of a shell
/// that lowers it.
#[test]
fn many_segments_need_few_open_files() {
    if std::env::var_os(IN_CHILD).is_some() {
        return ask_many_segments();
    }
    let this = std::env::current_exe().expect("the test's own path");
    let output = Command::new("sh")
        .args(["-c", &format!("ulimit -n {OPEN_FILES_MAX} && exec \"$0\" \"$@\"")])
        .arg(this)
        .args(["--exact", "files::many_segments_need_few_open_files", "--nocapture"])
        .env(IN_CHILD, "1")
        .output()
        .expect("a shell");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("1 passed"), "the child ran no test: {text}");
}

fn ask_many_segments() {
    let folder = tempfile::tempdir().expect("a folder");
    let segments = vec![sealed(); SEGMENTS as usize];
    let engine = engine(folder.path(), &segments, &[]);
    // The four flows of each segment; the second question prunes by the index, the third joins two scans.
    let all = lines(engine.sql("SELECT count(*), sum(bytes), count(src_addr) FROM flows")).expect("an answer");
    assert_eq!(all, [format!("{},{},{}", 4 * SEGMENTS, 1_503_080 * SEGMENTS, 4 * SEGMENTS)]);
    let few = "SELECT count(bytes), sum(packets) FROM flows WHERE src_addr = '10.0.0.1' AND dst_port = 22";
    for _ in 0..2 {
        assert_eq!(lines(engine.sql(few)).expect("an answer"), [format!("{SEGMENTS},{}", 10 * SEGMENTS)]);
    }
    let joined = "SELECT count(*) FROM (SELECT DISTINCT src_addr FROM flows) AS a JOIN flows AS b USING (src_addr)";
    assert_eq!(lines(engine.sql(joined)).expect("an answer"), [(4 * SEGMENTS).to_string()]);
}
