//! Statistics as people have them: collected, listed, asked in SQL, drawn, exported.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::process::weir;

/// How far a forwarder is that has sent 40 steps of a second, up to the first one of [`kept`]; the checksum is that of RFC 3720,
/// appendix B.4.
pub(crate) const STATE: &str = "\
weir forward 1
step_secs 1
through_secs 1704103200
steps_forwarded 40
rows_forwarded 500
rows_refused 2
steps_lost 3
crc32c 6f1a2da0
";

/// Four flows of two hosts in the steps of seconds 0, 0, 1 and 130, kept by a chain in an archive and in statistics.
pub(crate) fn kept(folder: &Path) {
    let flows = "start,end,src_addr,dst_addr,protocol,packets,bytes\n\
                 1704103200.000,1704103200.500,192.0.2.1,10.0.0.9,17,1,100\n\
                 1704103200.000,1704103200.900,192.0.2.2,10.0.0.9,6,2,200\n\
                 1704103201.000,1704103201.500,192.0.2.1,10.0.0.9,6,4,400\n\
                 1704103330.000,1704103330.100,192.0.2.1,10.0.0.8,6,8,800\n";
    fs::write(folder.join("flows.csv"), flows).expect("written");
    let chain = r#"
        [components.file]
        type = "file-reader"
        files = ["flows.csv"]
        [components.archive]
        type = "archive"
        inputs = ["file"]
        archive = "flows"
        [components.statistics]
        type = "statistics"
        inputs = ["file"]
        statistics = "flows/statistics"
        time = "end"
        by = ["total", "src_addr", "protocol"]
    "#;
    fs::write(folder.join("chain.toml"), chain).expect("written");
    done(folder, &["chain", "run", "chain.toml"]);
}

fn ask(folder: &Path, arguments: &[&str]) -> Output {
    weir().args(arguments).current_dir(folder).env("TZ", "UTC").output().expect("weir runs")
}

/// What a command prints.
#[track_caller]
fn done(folder: &Path, arguments: &[&str]) -> String {
    let output = ask(folder, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The error of a command.
#[track_caller]
fn failed(folder: &Path, arguments: &[&str]) -> String {
    let output = ask(folder, arguments);
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).expect("UTF-8")
}

#[test]
fn what_is_kept_is_listed_and_fetched() {
    let folder = tempfile::tempdir().expect("a folder");
    kept(folder.path());
    let list = done(folder.path(), &["series", "ls", "-R", "flows", "-o", "csv"]);
    let largest = "\"the largest of each step, and other\"";
    let wanted = format!(
        "by,keys,metrics,kept\ntotal,1,flows packets bytes,all\nsrc_addr,3,flows packets bytes peers,{largest}\n\
         protocol,2,flows packets bytes,all\n"
    );
    assert_eq!(list, wanted);
    let keys =
        done(folder.path(), &["series", "ls", "-R", "flows", "--by", "src_addr", "--match", ".2.2", "-o", "csv"]);
    assert_eq!(keys, "key\n192.0.2.2\n");
    let fetch = ["series", "fetch", "-R", "flows", "--by", "src_addr", "--key", "192.0.2.1", "-o", "ndjson", "--step"];
    let bytes = |step: &str| -> Vec<(u64, u64)> {
        let text = done(folder.path(), &[&fetch[..], &[step]].concat());
        let rows = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        rows.map(|row| (row["bytes"].as_u64().expect("bytes"), row["peers"].as_u64().expect("peers"))).collect()
    };
    assert_eq!(bytes("1s"), [(100, 1), (400, 1), (800, 1)]);
    // the minute of the last flow is not over
    assert_eq!(bytes("1m"), [(500, 1)]);
    let inexact = failed(folder.path(), &[&fetch[..], &["1500ms"]].concat());
    assert!(inexact.starts_with("error: there are no steps of 1s500ms\nhint: "), "{inexact}");
}

/// Coarse steps begin before the first flow, and lack what came last: they are taken only where finer ones are gone.
#[test]
fn the_finest_steps_are_taken_that_have_everything() {
    let folder = tempfile::tempdir().expect("a folder");
    kept(folder.path());
    let bytes = |times: &[&str]| -> u64 {
        let fetch = ["series", "fetch", "-R", "flows", "--by", "total", "-o", "ndjson"];
        let text = done(folder.path(), &[&fetch[..], times].concat());
        let rows = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
        rows.map(|row| row["bytes"].as_u64().expect("bytes")).sum()
    };
    for times in
        [&[][..], &["--from", "2023-12-31"], &["--from", "2024-01-01T09:30:00"], &["--from", "2024-01-01T10:00"]]
    {
        assert_eq!(bytes(times), 1_500, "{times:?}");
    }
    assert_eq!(bytes(&["--from", "2024-01-01T10:00:01"]), 1_200);
    // nothing finer reaches back: the second is kept for an hour and looked at by block
    fs::remove_dir_all(folder.path().join("flows/statistics/1s")).expect("removed");
    assert_eq!(bytes(&["--from", "2023-12-31"]), 700);
}

#[test]
fn series_are_a_table_whose_questions_name_a_step() {
    let folder = tempfile::tempdir().expect("a folder");
    kept(folder.path());
    let sql = |statement: &str| done(folder.path(), &["sql", "-R", "flows", "-q", "-o", "csv", statement]);
    let hosts =
        sql("SELECT key, sum(bytes) AS bytes FROM series WHERE by = 'src_addr' AND step = 1 GROUP BY key ORDER BY key");
    assert_eq!(hosts, "key,bytes\n192.0.2.1,1300\n192.0.2.2,200\n");
    let flows = sql("SELECT src_addr AS key, sum(bytes) AS bytes FROM flows GROUP BY src_addr ORDER BY src_addr");
    assert_eq!(hosts, flows);
    // silence between flows is known, so it is zero; there is no row before the first and after the last
    let steps = sql("SELECT count(*) AS steps, sum(known) AS known FROM series WHERE by = 'total' AND step = 1");
    assert_eq!(steps, "steps,known\n131,131\n");
    let window = "SELECT bytes FROM series WHERE by IN ('total', 'exporter') AND step = 1 AND time >= '2024-01-01T10:00:01Z' AND \
                  time < '2024-01-01T10:00:02Z'";
    assert_eq!(sql(window), "bytes\n400\n");
    let open = failed(folder.path(), &["sql", "-R", "flows", "SELECT count(*) FROM series"]);
    assert!(open.contains("must name the length of a step") && open.contains("1, 60, 300, 3600 seconds"), "{open}");
    let wrong = failed(folder.path(), &["sql", "-R", "flows", "SELECT count(*) FROM series WHERE step = 7"]);
    assert!(wrong.contains("have no steps of this length"), "{wrong}");
}

/// What a damaged step had is missing in the answer, which says so.
#[test]
fn a_step_that_is_damaged_is_a_gap_with_a_warning() {
    let folder = tempfile::tempdir().expect("a folder");
    kept(folder.path());
    let files = fs::read_dir(folder.path().join("flows/statistics/1s")).expect("a folder");
    let steps = files.map(|file| file.expect("a file").path()).next().expect("steps");
    let mut octets = fs::read(&steps).expect("steps");
    // behind the head of the file, the first octet of the first step, which has 300 of 1,500 octets
    octets[16] ^= 1;
    fs::write(&steps, octets).expect("written");
    let total = "SELECT sum(bytes) AS bytes FROM series WHERE by = 'total' AND step = 1";
    let asked = ask(folder.path(), &["sql", "-R", "flows", "-q", "-o", "csv", total]);
    assert_eq!(String::from_utf8_lossy(&asked.stdout), "bytes\n1200\n");
    let said = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert!(said.starts_with("warning: ") && said.contains(" is damaged: "), "{said}");
}

#[test]
fn plots_and_exports_have_the_same_numbers() {
    let folder = tempfile::tempdir().expect("a folder");
    kept(folder.path());
    let plot = done(folder.path(), &["series", "plot", "-R", "flows", "--by", "src_addr", "--step", "1s", "--utc"]);
    assert!(plot.contains("192.0.2.1") && plot.contains("2024-01-01 10:00:00"), "{plot}");
    let one = ["series", "plot", "-R", "flows", "--by", "src_addr", "--step", "1s", "--utc", "--limit", "1"];
    let largest = done(folder.path(), &one);
    assert!(largest.contains("192.0.2.1") && largest.contains("other") && !largest.contains("192.0.2.2"), "{largest}");
    done(folder.path(), &["series", "plot", "-R", "flows", "hosts.svg"]);
    assert!(fs::read_to_string(folder.path().join("hosts.svg")).expect("a picture").starts_with("<svg"));
    let metrics =
        done(folder.path(), &["series", "export", "-R", "flows", "--by", "protocol", "--key", "TCP", "--step", "1s"]);
    let last = "weir_bytes_total{by=\"protocol\",key=\"TCP\"} 1400 1704103331";
    assert!(metrics.contains(last) && metrics.ends_with("# EOF\n"), "{metrics}");
    let Some(tool) = weir_testkit::program("rrdtool") else { return };
    let export = ["series", "export", "-R", "flows", "--by", "total", "--step", "1s", "--to", "rrdtool"];
    fs::write(folder.path().join("commands"), done(folder.path(), &export)).expect("written");
    let commands = fs::File::open(folder.path().join("commands")).expect("a file");
    let made = Command::new(&tool).arg("-").current_dir(folder.path()).stdin(commands).stdout(Stdio::null()).status();
    assert!(made.expect("rrdtool runs").success());
    let fetch = ["fetch", "total_total.rrd", "AVERAGE", "-r", "1", "-s", "1704103200", "-e", "1704103202"];
    let rates = Command::new(&tool).args(fetch).current_dir(folder.path()).output().expect("rrdtool runs");
    let rates = String::from_utf8(rates.stdout).expect("text");
    // rrdtool dates a step by its end
    let line = rates.lines().find(|line| line.starts_with("1704103202:")).expect("a step");
    let numbers: Vec<f64> = line.split(' ').skip(1).map(|number| number.parse().expect("a number")).collect();
    assert_eq!(numbers, [1.0, 4.0, 400.0]);
}

/// A silence of seconds is drawn as nothing and exported as zeros; two hours without a step are neither.
#[test]
fn a_gap_is_neither_drawn_nor_exported_as_silence() {
    let folder = tempfile::tempdir().expect("a folder");
    kept(folder.path());
    let plot = ["series", "plot", "-R", "flows", "--step", "1s", "--utc"];
    let silence = done(folder.path(), &plot);
    assert!(!silence.contains('░') && !silence.contains("nothing is known"), "{silence}");
    // 10:00:00, 12:00:00 and 12:02:00, which ends the minutes before it
    let flows = "start,end,src_addr,dst_addr,protocol,packets,bytes\n\
                 1704103200.000,1704103200.500,192.0.2.1,10.0.0.9,17,1,100\n\
                 1704110400.000,1704110400.500,192.0.2.1,10.0.0.9,17,1,200\n\
                 1704110520.000,1704110520.500,192.0.2.1,10.0.0.9,17,1,400\n";
    fs::write(folder.path().join("flows.csv"), flows).expect("written");
    fs::remove_dir_all(folder.path().join("flows")).expect("removed");
    done(folder.path(), &["chain", "run", "chain.toml"]);
    let plot = done(folder.path(), &["series", "plot", "-R", "flows", "--step", "1m", "--utc"]);
    assert!(plot.contains('░') && plot.contains("░ nothing is known of "), "{plot}");
    done(folder.path(), &["series", "plot", "-R", "flows", "--step", "1m", "gap.svg"]);
    let picture = fs::read_to_string(folder.path().join("gap.svg")).expect("a picture");
    assert!(picture.contains("nothing is known"), "{picture}");
    let export = ["series", "export", "-R", "flows", "--by", "total", "--step", "1m"];
    let metrics = done(folder.path(), &export);
    let samples = metrics.lines().filter(|line| line.starts_with("weir_bytes_total{"));
    let times: Vec<&str> = samples.filter_map(|line| line.rsplit(' ').next()).collect();
    assert_eq!(times, ["1704103260", "1704110460", "1704110520"], "{metrics}");
    let commands = done(folder.path(), &[&export[..], &["--to", "rrdtool"]].concat());
    let unknown = commands.lines().filter(|line| line.starts_with("update ") && line.contains(":U")).count();
    assert_eq!(unknown, 119, "{commands}");
}

/// Files of rrdtool that are there go on where they ended, and keep what they have.
#[test]
fn files_of_rrdtool_are_updated() {
    let folder = tempfile::tempdir().expect("a folder");
    kept(folder.path());
    let base = ["series", "export", "-R", "flows", "--by", "total", "--step", "1s"];
    let wrong = failed(folder.path(), &[&base[..], &["--update"]].concat());
    assert_eq!(wrong, "error: only files of rrdtool are updated\nhint: --to rrdtool --update\n");
    let Some(tool) = weir_testkit::program("rrdtool") else { return };
    let rrdtool = |arguments: &[&str]| {
        let output = Command::new(&tool).args(arguments).current_dir(folder.path()).output().expect("rrdtool runs");
        String::from_utf8(output.stdout).expect("text")
    };
    let run = |commands: &str| {
        fs::write(folder.path().join("commands"), commands).expect("written");
        let commands = fs::File::open(folder.path().join("commands")).expect("a file");
        let mut command = Command::new(&tool);
        let output = command.arg("-").current_dir(folder.path()).stdin(commands).output().expect("rrdtool runs");
        let output = String::from_utf8(output.stdout).expect("text");
        assert!(!output.contains("ERROR"), "{output}");
    };
    let update = [&base[..], &["--to", "rrdtool", "--update"]].concat();
    // where there is no file, one is made
    let first = done(folder.path(), &[&update[..], &["--until", "2024-01-01T10:00:02Z"]].concat());
    assert!(first.starts_with("create total_total.rrd --start 1704103200 "), "{first}");
    run(&first);
    let second = done(folder.path(), &update);
    assert!(second.starts_with("update total_total.rrd 1704103203:0:0:0\n"), "{second}");
    run(&second);
    // the newest step, that of the last flow, may get another part
    assert_eq!(rrdtool(&["last", "total_total.rrd"]), "1704103330\n");
    let rates = rrdtool(&["fetch", "total_total.rrd", "AVERAGE", "-r", "1", "-s", "1704103200", "-e", "1704103203"]);
    let bytes = |time: &str| {
        let line = rates.lines().find(|line| line.starts_with(time)).expect("a step");
        line.rsplit(' ').next().expect("bytes").parse::<f64>().expect("a number").to_string()
    };
    assert_eq!(["1704103201:", "1704103202:", "1704103203:"].map(bytes), ["300", "400", "0"]);
    assert_eq!(done(folder.path(), &update), "");
    fs::write(folder.path().join("total_total.rrd"), "nothing").expect("written");
    let spoiled = failed(folder.path(), &update);
    assert!(spoiled.starts_with("error: rrdtool cannot read total_total.rrd: ERROR: "), "{spoiled}");
}

#[test]
fn mistakes_have_hints() {
    let folder = tempfile::tempdir().expect("a folder");
    kept(folder.path());
    let none = failed(folder.path(), &["series", "ls", "--statistics", "nothing"]);
    assert_eq!(
        none,
        "error: there is no store of statistics in nothing\nhint: weir collect --statistics keeps statistics of what it collects\n"
    );
    let by = failed(folder.path(), &["series", "fetch", "-R", "flows", "--by", "host"]);
    assert_eq!(by, "error: there are no series by host\nhint: there are series by total, src_addr, protocol\n");
    let step = failed(folder.path(), &["series", "fetch", "-R", "flows", "--by", "total", "--step", "2s"]);
    assert_eq!(step, "error: there are no steps of 2s\nhint: there are steps of 1s, 60s, 300s, 3600s\n");
    let key = failed(folder.path(), &["series", "plot", "-R", "flows", "--by", "src_addr", "--key", "192.0.2.77"]);
    assert!(key.starts_with("error: there are no series by src_addr of 192.0.2.77\nhint: "), "{key}");
}

#[test]
fn an_output_that_is_full_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    kept(folder.path());
    for command in ["fetch", "export"] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("it is there");
        let mut asked = weir();
        asked.args(["series", command, "-R", "flows", "--by", "total"]).current_dir(folder.path());
        let output = asked.stdout(full).stderr(Stdio::piped()).output().expect("weir runs");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success(), "{command}");
        assert!(error.starts_with("error: cannot write to standard output: "), "{command}: {error}");
    }
}

#[test]
fn books_say_how_far_statistics_are_sent() {
    let folder = tempfile::tempdir().expect("a folder");
    kept(folder.path());
    let states = folder.path().join("flows/statistics/forward");
    fs::create_dir_all(&states).expect("a folder");
    fs::write(states.join("prometheus"), STATE).expect("written");
    fs::write(states.join("spoiled"), STATE.replace("40", "41")).expect("written");
    let said = String::from_utf8(ask(folder.path(), &["books", "-R", "flows"]).stderr).expect("UTF-8");
    // from second 0 to 129: of second 130, the newest, more may come
    let line = "statistics sent as prometheus: 40 steps of 1 s with 500 rows, 2 refused; 129 steps wait, 3 are lost; 129 s behind\n";
    assert!(said.contains(line), "{said}");
    assert!(said.contains("warning: statistics sent as spoiled: "), "{said}");
}

#[test]
fn statistics_go_to_a_receiver_and_mistakes_have_hints() {
    let folder = tempfile::tempdir().expect("a folder");
    kept(folder.path());
    let forward = ["series", "forward", "-R", "flows", "--until-end", "--to"];
    let refused = |arguments: &[&str]| failed(folder.path(), &[&forward[..], arguments].concat());
    let scheme = refused(&["influx://host"]);
    assert!(scheme.starts_with("error: statistics cannot be sent to 'influx://host'\nhint: "), "{scheme}");
    let by = refused(&["http://127.0.0.1:1", "--by", "host"]);
    assert_eq!(by, "error: there are no series by host\nhint: there are series by total, src_addr, protocol\n");
    let step = refused(&["http://127.0.0.1:1", "--step", "2s"]);
    assert_eq!(step, "error: there are no steps of 2s\nhint: there are steps of 1s, 60s, 300s, 3600s\n");
    let label = refused(&["http://127.0.0.1:1", "--label", "by=x"]);
    assert!(label.starts_with("error: 'by=x' is no label"), "{label}");
    let unread = refused(&["cassandra://127.0.0.1:1/weir", "--label", "a=b"]);
    assert!(unread.starts_with("error: --label is of remote write, and "), "{unread}");

    let Some(program) = weir_testkit::program("victoria-metrics") else { return };
    let port = weir_testkit::ports::free_port();
    let mut server = Command::new(program)
        .args([format!("-httpListenAddr=127.0.0.1:{port}"), "-retentionPeriod=100y".to_owned()])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    // forwarding waits until the receiver is there
    let sent = ask(folder.path(), &[&forward[..], &[&format!("http://127.0.0.1:{port}"), "--step", "1s"]].concat());
    let ended = server.kill().and_then(|()| server.wait());
    let text = String::from_utf8_lossy(&sent.stderr).into_owned();
    assert!(sent.status.success() && text.contains("prometheus: 130 steps sent, "), "{text}");
    ended.expect("it ends");
    let other = refused(&["http://127.0.0.1:1", "--step", "1m"]);
    assert!(other.contains("steps of 1 s are forwarded under the name 'prometheus'") && other.contains("hint: --name"));
}
