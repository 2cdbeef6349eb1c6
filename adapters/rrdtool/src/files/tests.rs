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

/// rrdtool cannot make a file whose name has 250 octets or more.
#[test]
fn long_names_are_short_and_differ() {
    let names = ["a", "b", "ä"].map(|letter| file_name("host", &(letter.repeat(300) + "x")));
    assert!(names.iter().all(|name| name.len() == NAME_OCTETS_MAX && name.is_ascii()), "{names:?}");
    let other = file_name("host", &("a".repeat(300) + "y"));
    assert_ne!(other, names[0]);
    assert_eq!(other[..88], names[0][..88]);
    assert_eq!(file_name("h", &"a".repeat(122)).len(), NAME_OCTETS_MAX);
    assert!(!file_name("h", &"a".repeat(122)).contains("%%"));
    assert_eq!(file_name("h", &"a".repeat(123)).len(), NAME_OCTETS_MAX);
    assert_eq!(file_name(&"ä".repeat(100), "").len(), NAME_OCTETS_MAX);
}

/// The vectors of draft-eastlake-fnv.
#[test]
fn the_hash_is_fnv_1a() {
    assert_eq!(fnv_1a(b""), 0x6c62272e07bb014262b821756295c58d);
    assert_eq!(fnv_1a(b"a"), 0xd228cb696f1a8caf78912b704e4a8964);
    assert_eq!(fnv_1a(b"foobar"), 0x343e1662793c64bf6f0d3597ba446f18);
}

#[test]
fn a_file_goes_on_after_its_last_update_and_gaps_are_unknown() {
    let metrics = [Metric::counter("bytes"), Metric::gauge("peers")];
    let file = RrdFile { name: "a.rrd", step_secs: 60, metrics: &metrics, rows: 2_880, is_replaced: true };
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
    let file = RrdFile { name: "a.rrd", step_secs: 1, metrics: &metrics, rows: 10, is_replaced: false };
    let commands = file.updates(Some(0), (0..5_000).map(|begin| (begin, reading(begin + 1, [Some(1)]))));
    assert!(commands.len() > 5 && commands.iter().all(|command| command.len() < 5_000), "{}", commands.len());
    let readings: Vec<&str> = commands.iter().flat_map(|command| command.split(' ').skip(2)).collect();
    assert_eq!(readings.len(), 5_000);
    assert_eq!((readings[0], readings[4_999]), ("1:1", "5000:1"));
}
