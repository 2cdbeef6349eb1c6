//! Questions to flows that a cluster keeps: the answers are those of the archive that they came from.

use std::collections::BTreeMap;
use std::process::Output;

use weir_testkit::cassandra::Cassandra;

use crate::process::run;
use crate::series::kept;

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

#[test]
fn a_cluster_answers_as_the_archive_does() {
    let Some(cluster) = Cassandra::shared() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let (capture, archive) = (path("export.pcap"), path("flows"));
    text(&run(&["generate", "--write", &capture, "--protocol", "ipfix", "--records", "4000", "--seed", "11"]));
    text(&run(&["import", &capture, "--archive", &archive]));
    let url = format!("cassandra://{}/answers", cluster.hosts());
    let forwarded = run(&["forward", "-R", &archive, "--to", &url, "--until-end"]);
    text(&forwarded);
    let said = String::from_utf8_lossy(&forwarded.stderr).into_owned();
    assert!(said.contains("4000 flows stored, 0 deliveries wait"), "{said}");
    let same = |arguments: &[&str]| {
        let ask =
            |place: &str| text(&run(&[&arguments[..1], &["-R", place, "-o", "csv", "-q"], &arguments[1..]].concat()));
        let wanted = ask(&archive);
        assert!(wanted.lines().count() > 1, "{arguments:?} has no answer");
        assert_eq!(ask(&url), wanted, "{arguments:?}");
    };
    same(&["sql", "SELECT count(*), sum(packets), sum(bytes), min(start), max(received) FROM flows"]);
    same(&[
        "sql",
        "SELECT protocol, count(*) AS n FROM flows WHERE dst_port = 443 AND bytes >= 1000 GROUP BY protocol ORDER BY n, protocol",
    ]);
    same(&[
        "sql",
        "SELECT * FROM flows WHERE src_port < 1024 ORDER BY start, src_addr, dst_addr, src_port, dst_port, bytes, flow_id",
    ]);
    same(&["sql", "SELECT count(*) FROM flows WHERE received >= (SELECT min(received) FROM flows)"]);
    same(&["query", "-s", "srcip/bytes", "-n", "10", "proto tcp"]);
    same(&["query", "-A", "proto,dstport", "-O", "bytes", "-n", "20", "net 10.0.0.0/8 or port 53"]);
    let host = text(&run(&[
        "sql",
        "-R",
        &archive,
        "-o",
        "csv",
        "-q",
        "SELECT src_addr FROM flows ORDER BY bytes DESC, start LIMIT 1",
    ]));
    let host = host.lines().nth(1).expect("a host").to_owned();
    same(&["sql", &format!("SELECT count(*), sum(bytes) FROM flows WHERE src_addr = '{host}'")]);
    let missing = run(&["sql", "-R", &format!("cassandra://{}/nothing", cluster.hosts()), "SELECT 1 FROM flows"]);
    assert_eq!(missing.status.code(), Some(1));
    let wrong = run(&["sql", "-R", "cassandra://", "SELECT 1"]);
    assert!(String::from_utf8_lossy(&wrong.stderr).starts_with("error: "), "{wrong:?}");
}

/// The rows of CSV without quotes, by the names of their columns.
fn rows(csv: &str) -> Vec<BTreeMap<&str, &str>> {
    let mut lines = csv.lines();
    let names: Vec<&str> = lines.next().expect("a header").split(',').collect();
    lines.map(|line| names.iter().copied().zip(line.split(',')).collect()).collect()
}

#[test]
fn statistics_of_a_cluster_are_those_that_were_sent() {
    let Some(cluster) = Cassandra::shared() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    kept(folder.path());
    let archive = folder.path().join("flows").to_str().expect("UTF-8").to_owned();
    let url = format!("cassandra://{}/statistics", cluster.hosts());
    let none = run(&["series", "ls", "-R", &url]);
    assert_eq!(none.status.code(), Some(1), "there is no keyspace yet");
    text(&run(&["series", "forward", "-R", &archive, "--to", &url, "--step", "1s", "--until-end"]));
    let listed = text(&run(&["series", "ls", "-R", &url, "-o", "csv"]));
    let found: Vec<&str> = rows(&listed).iter().map(|row| row["by"]).collect();
    assert_eq!(found, ["protocol", "src_addr", "total"], "{listed}");
    let keys = text(&run(&["series", "ls", "-R", &url, "--by", "src_addr", "--match", "0.2.2", "-o", "csv"]));
    assert_eq!(keys, "key\n192.0.2.2\n");
    let fetch = ["series", "fetch", "--by", "protocol", "--key", "TCP", "--step", "1s", "--utc", "-o", "csv", "-R"];
    let fetched = |place: &str, times: &[&str]| text(&run(&[&fetch[..], &[place], times].concat()));
    let (wanted, sent) = (fetched(&archive, &[]), fetched(&url, &[]));
    let (mut wanted, sent) = (rows(&wanted), rows(&sent));
    // the newest step is sent when the next one is there
    wanted.pop();
    assert_eq!(sent.len(), wanted.len());
    for (sent, wanted) in sent.iter().zip(&wanted) {
        for (name, value) in wanted {
            assert_eq!(sent.get(name), Some(value), "{name} of {wanted:?}");
        }
    }
    let one = fetched(&url, &["--from", "2024-01-01 10:00:01", "--until", "2024-01-01 10:00:02"]);
    assert_eq!(rows(&one).iter().map(|row| row["bytes"]).collect::<Vec<_>>(), ["400"], "{one}");
    // plots and exports are the same, but for the newest step, and the order of metrics
    let times = ["--step", "1s", "--utc", "--until", "2024-01-01 10:02:10", "-R"];
    for by in ["protocol", "src_addr", "total"] {
        let drawn = |place: &str| text(&run(&[&["series", "plot", "--by", by], &times[..], &[place]].concat()));
        assert_eq!(drawn(&url), drawn(&archive), "{by}");
        let exported = |place: &str| {
            let printed = text(&run(&[&["series", "export", "--by", by], &times[..], &[place]].concat()));
            let mut lines: Vec<String> = printed.lines().map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        };
        let (sent, wanted) = (exported(&url), exported(&archive));
        assert!(wanted.len() > 4, "{wanted:?}");
        assert_eq!(sent, wanted, "{by}");
    }
    // SQL is over flows and statistics of one keyspace
    text(&run(&["forward", "-R", &archive, "--to", &url, "--until-end"]));
    let sums = "SELECT \"by\", key, count(*) AS steps, sum(bytes) AS bytes, max(peers) AS peers FROM series \
                WHERE step = 1 AND time < '2024-01-01T10:02:10Z' GROUP BY \"by\", key ORDER BY \"by\", key";
    let one = "SELECT time, bytes, known FROM series WHERE step = 1 AND by = 'src_addr' AND key = '192.0.2.1' \
               AND time BETWEEN '2024-01-01T10:00:01Z' AND '2024-01-01T10:02:09Z' ORDER BY time";
    for statement in [sums, one] {
        let asked = |place: &str| text(&run(&["sql", "-R", place, "-q", "-o", "csv", statement]));
        assert!(asked(&archive).lines().count() > 1, "{statement}");
        assert_eq!(asked(&url), asked(&archive), "{statement}");
    }
    let length = run(&["sql", "-R", &url, "SELECT count(*) FROM series WHERE step = 7"]);
    assert!(String::from_utf8_lossy(&length.stderr).contains("they have steps of 1 seconds"), "{length:?}");
    let again = run(&["series", "forward", "-R", &url, "--to", "http://127.0.0.1:1", "--until-end"]);
    assert!(String::from_utf8_lossy(&again.stderr).contains("this needs a folder, and not a cluster"), "{again:?}");
    let unknown = run(&["series", "fetch", "-R", &url, "--by", "nothing"]);
    assert!(
        String::from_utf8_lossy(&unknown.stderr).contains("there are series by protocol, src_addr, total"),
        "{unknown:?}"
    );
}
