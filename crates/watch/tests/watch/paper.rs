//! The five stream queries of Reiss et al. (2006), section 5, as they are printed there, over a view that names its
//! columns as they do.

use std::path::Path;

use weir_testkit::skip;
use weir_watch::{Backtest, RunnerOptions, WatchFile};

use crate::scene::{NEW_YEAR_MS, archive, lines, plain, time, traffic};

/// The text of the paper.
fn paper() -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/papers");
    let files = std::fs::read_dir(folder).ok().into_iter().flatten().flatten();
    let text = files
        .map(|file| file.path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("004")));
    let text = text.and_then(|path| std::fs::read_to_string(path).ok());
    if text.is_none() {
        skip("papers", "there is no paper beside the checkout");
    }
    text
}

/// The stream queries: what is between two lines of three backticks, and has a window. One goes over two pages.
fn queries(text: &str) -> Vec<String> {
    let blocks: Vec<&str> = text.split("```").skip(1).step_by(2).collect();
    let mut queries = Vec::new();
    let mut open = String::new();
    for block in blocks {
        open.push_str(block);
        let lower = open.to_lowercase();
        if lower.contains("range by") && lower.trim_end().ends_with(';') {
            queries.push(std::mem::take(&mut open));
        } else if !lower.trim_end().ends_with(',') {
            open.clear();
        }
    }
    queries
}

const VIEW: &str = "SELECT src_addr AS src_ip, dst_addr AS dst_ip, src_port, dst_port, protocol, bytes AS bytes_sent, \
                    coalesce(bytes_reverse, 0) AS bytes_recv, cidr(src_addr, '10.0.0.0/8') AS outgoing, received FROM flows";

#[test]
fn the_five_queries_run_as_printed() {
    let Some(text) = paper() else { return };
    let queries = queries(&text);
    assert_eq!(queries.len(), 5, "{queries:#?}");
    let folder = tempfile::tempdir().expect("a folder");
    archive(folder.path(), &traffic(11, 4_000, NEW_YEAR_MS, 100_000));
    let listed: Vec<String> = (3..100).map(|number| format!("and src_ip != :X{number}")).collect();
    let hosts: Vec<String> = (1..=100).map(|number| format!("X{number} = '10.0.0.{number}'")).collect();
    // the same in plain SQL, over the rows of the window from {s} to {e}
    let rows = format!("WITH flow AS ({VIEW} WHERE received >= {{s}} AND received < {{e}}) ");
    let same = [
        "SELECT sum(bytes_sent), src_ip, {e} FROM flow WHERE NOT outgoing GROUP BY src_ip ORDER BY 1 DESC LIMIT 100",
        "SELECT sum(bytes_sent), src_ip, dst_ip, {e} FROM flow WHERE NOT (cidr(src_ip, '10.0.0.0/24') AND src_ip <= '10.0.0.100') \
         GROUP BY src_ip, dst_ip ORDER BY 1 DESC LIMIT 100",
        "SELECT src_ip, count(DISTINCT host(dst_ip) || cast(dst_port AS VARCHAR)), {e} FROM flow WHERE NOT outgoing GROUP BY src_ip",
        "SELECT CASE WHEN outgoing THEN src_ip ELSE dst_ip END AS a, CASE WHEN outgoing THEN dst_ip ELSE src_ip END AS b, \
         sum(bytes_sent) + sum(bytes_recv) FROM flow GROUP BY a, b",
        "SELECT one.prefix, other.at - one.at AS lag, count(*), {e} FROM {windows} one JOIN {windows} other \
         ON one.prefix = other.prefix AND other.at > one.at GROUP BY 1, 2",
    ];
    let windows =
        "(SELECT DISTINCT network(src_ip, 8) AS prefix, date_bin(INTERVAL '10 seconds', received) AS at FROM flow)";
    for (number, (query, same)) in queries.iter().zip(same).enumerate() {
        let query = query.replace("...", &listed.join(" "));
        // the parameters that this one has
        let settings = ["windowsz = '10s'", "prefixlen = 8"].into_iter().chain(hosts.iter().map(String::as_str));
        let is_of_query = |line: &&str| line.split(' ').next().is_some_and(|name| query.contains(&format!(":{name}")));
        let settings: Vec<_> = settings.filter(is_of_query).collect();
        let text = format!("query = '''{query}'''\n[views]\nflow = \"{VIEW}\"\n[parameters]\n{}", settings.join("\n"));
        let file = WatchFile::parse(&text, "paper", Path::new("")).expect("a watch");
        let mut backtest = Backtest::new(file, &RunnerOptions::new(folder.path())).unwrap_or_else(|error| {
            panic!("{:#?}\n{query}", std::error::Error::source(&error).map(ToString::to_string))
        });
        let size_ms = if number == 4 { 100_000 } else { 10_000 };
        let mut count = 0;
        let outcome = backtest.run(None, None, |window, answer| {
            count += 1;
            let found = lines(answer);
            let same = format!("{rows}{same}").replace("{windows}", windows);
            let same = same.replace("{s}", &time(window.end_ms - size_ms)).replace("{e}", &time(window.end_ms));
            assert_eq!(found, plain(folder.path(), &same), "query {number} until {}", window.end_ms);
        });
        assert!(outcome.expect("windows").windows >= 8 && count >= 8);
    }
}
