//! Names of files, and commands that make and update them.

use super::*;

#[test]
fn each_key_has_a_file_of_its_own() {
    let keys = ["a b", "a/b", "a:b", "a-b", "a%2db", "a\nb", "ä", "-", "2001:db8::1", "10.0.0.0/8", "a,b", "a+b"];
    let mut names: Vec<_> = keys.iter().map(|key| file_name("host", key)).collect();
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "._-,+%".contains(letter);
    assert!(names.iter().all(|name| name.chars().all(is_plain)), "{names:?}");
    assert_eq!(names[8..10], ["host_2001,db8,,1.rrd", "host_10.0.0.0+8.rrd"]);
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), keys.len());
}

#[test]
fn a_file_goes_on_after_its_last_update_and_gaps_are_unknown() {
    let metrics = [Metric::counter("bytes"), Metric::gauge("peers")];
    let file = RrdFile { name: "a.rrd", step_secs: 60, metrics: &metrics, rows: 2_880 };
    let step = |begin: i64| (begin, reading(begin + 60, [Some(7), None]));
    let create = "create a.rrd --start 600 --step 60 DS:bytes:ABSOLUTE:120:0:U DS:peers:GAUGE:120:0:U \
                  RRA:AVERAGE:0.5:1:2880 RRA:MAX:0.5:12:241";
    assert_eq!(file.updates(None, [step(600), step(660)]), [create, "update a.rrd 660:7:U 720:7:U"]);
    assert_eq!(file.updates(Some(660), [step(600), step(660)]), ["update a.rrd 720:7:U"]);
    assert_eq!(file.updates(Some(660), [step(840)]), ["update a.rrd 840:U:U 900:7:U"]);
    // it was updated by somebody else in the middle of a step
    assert_eq!(file.updates(Some(630), [step(600)]), ["update a.rrd 660:7:U"]);
    assert!(file.updates(Some(720), [step(600), step(660)]).is_empty());
}

#[test]
fn many_readings_are_several_commands() {
    let metrics = [Metric::counter("bytes")];
    let file = RrdFile { name: "a.rrd", step_secs: 1, metrics: &metrics, rows: 10 };
    let commands = file.updates(Some(0), (0..5_000).map(|begin| (begin, reading(begin + 1, [Some(1)]))));
    assert!(commands.len() > 5 && commands.iter().all(|command| command.len() < 5_000), "{}", commands.len());
    let readings: Vec<&str> = commands.iter().flat_map(|command| command.split(' ').skip(2)).collect();
    assert_eq!(readings.len(), 5_000);
    assert_eq!((readings[0], readings[4_999]), ("1:1", "5000:1"));
}
