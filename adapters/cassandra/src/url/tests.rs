use super::*;
use crate::options::{Model, WriteConsistency};

fn refused(text: &str) -> String {
    let options = CassandraUrl::parse_text(text).and_then(|url| url.options());
    match options.expect_err(text) {
        Problem::Because(message, Some(hint)) => format!("{message} | {hint}"),
        Problem::Because(message, None) => message,
        Problem::Needs(needed) => needed.to_owned(),
    }
}

#[test]
fn addresses_have_hosts_users_a_keyspace_and_options() {
    let text =
        "cassandra://a%3ab:p%40ss@10.0.0.1,db.example:9999,[2001:db8::1]:9043/weir?replication=3&ttl=90d&model=packets";
    let url = CassandraUrl::parse_text(text).expect("an address");
    assert_eq!(url.hosts, ["10.0.0.1:9042", "db.example:9999", "[2001:db8::1]:9043"]);
    assert_eq!((url.user.clone(), url.keyspace.as_str()), (Some(("a:b".to_owned(), "p@ss".to_owned())), "weir"));
    assert_eq!(CassandraUrl::parse_text(&url.text()).expect("the same"), url);
    assert!(!format!("{url:?}").contains("p@ss"), "passwords are not logged");
    let options = url.options().expect("options");
    assert_eq!((options.model, options.ttl_secs()), (Model::Packets, 90 * 86_400));
    assert_eq!(options.writing.consistency, WriteConsistency::LocalQuorum);
    assert_eq!(options.replication().expect("one"), "{'class': 'SimpleStrategy', 'replication_factor': 3}");
    let centres = CassandraUrl::parse_text("cassandra://a/w?replication=dc1:3,dc2:2").and_then(|url| url.options());
    let centres = centres.expect("options").replication().expect("one");
    assert_eq!(centres, "{'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': 2}");
}

/// Cassandra refuses more than 20 years, of 365 days each (`Attributes.MAX_TTL`).
#[test]
fn lines_about_partitions_stay_a_day_longer_where_that_is_possible() {
    for (option, secs) in [("?ttl=90d", 91 * 86_400), ("?ttl=7300d", 20 * 365 * 86_400), ("", 0)] {
        let url = CassandraUrl::parse_text(&format!("cassandra://a/weir{option}")).expect("an address");
        assert_eq!(url.options().expect("options").bucket_ttl_secs(), secs, "{option}");
    }
}

#[test]
fn what_is_wrong_is_said() {
    for (text, expected) in [
        ("http://a/b", "does not begin with cassandra://"),
        ("cassandra://a", "names no keyspace"),
        ("cassandra:///weir", "names no host"),
        ("cassandra://a:0/weir", "has the port '0'"),
        ("cassandra://a/Weir", "has a keyspace that is no name"),
        ("cassandra://me@a/weir", "has a user without a password"),
        ("cassandra://a/weir?ttl", "has the option 'ttl' without a value"),
        ("cassandra://a/weir?replicas=3", "'replicas' is no option of cassandra | options are: model"),
        ("cassandra://a/weir?replication=0", "'replication' is '0'"),
        ("cassandra://a/weir?replication=dc1", "'replication' is 'dc1'"),
        ("cassandra://a/weir?bucket=7s", "'bucket' is 7s, of which a day is no multiple"),
        ("cassandra://a/weir?tls_cert=a.pem", "'tls_cert' and 'tls_key' must be given together"),
        ("cassandra://a/weir?ttl=30000d", "'ttl' must be between"),
        ("cassandra://a/weir?shards=0", "a number from 1 to 4096 is needed"),
        ("cassandra://a/weir?consistency=most", "known are: local-quorum, quorum"),
    ] {
        let found = refused(text);
        assert!(found.contains(expected), "{text}: {found}");
    }
    assert!(!refused("cassandra://me:secret@/weir").contains("secret"));
}
