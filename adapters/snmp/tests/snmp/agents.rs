//! The agent of Net-SNMP, which knows the interfaces of this machine.

use std::collections::BTreeMap;
use std::path::Path;

use weir_testkit::snmpd::Snmpd;

use crate::polling::Polling;

const COMMUNITY: &str = "not-public";
const AUTHENTICATION: &str = "authentication-secret";
const PRIVACY: &str = "privacy-secret";
/// Users by their name, with what `createUser` of snmpd.conf(5) is given; the words are those of the options.
const USERS: &[(&str, &str, &str)] =
    &[("sha1-aes128", "SHA", "AES"), ("sha256-aes128", "SHA-256", "AES"), ("sha512-aes256", "SHA-512", "AES-256")];

/// An agent, and the secrets that it knows.
struct Agent {
    snmpd: Snmpd,
    folder: tempfile::TempDir,
}

impl Agent {
    /// `None` where there is no snmpd.
    fn begin() -> Option<Self> {
        let folder = tempfile::tempdir().expect("a folder");
        let mut text = format!("rocommunity {COMMUNITY} 127.0.0.1\n");
        for (name, authentication, privacy) in USERS {
            let secrets = format!("{authentication} \"{AUTHENTICATION}\" {privacy} \"{PRIVACY}\"");
            text += &["createUser ", name, " ", &secrets, "\nrouser ", name, " auth\n"].concat();
        }
        let secrets =
            [("community", COMMUNITY), ("auth", AUTHENTICATION), ("priv", PRIVACY), ("wrong", "some-other-secret")];
        for (name, secret) in secrets {
            std::fs::write(folder.path().join(name), format!("{secret}\n")).expect("a secret");
        }
        Some(Self { snmpd: Snmpd::begin(folder.path(), &text)?, folder })
    }

    /// Options of a section that asks it.
    fn options(&self, security: &str) -> String {
        let text = format!("exporters = '192.0.2.1=127.0.0.1:{}'\ninterval = '1s'\n{security}", self.snmpd.port);
        text.replace("file:", &format!("file:{}/", self.folder.path().display()))
    }
}

/// Names of the interfaces of this machine by their index, as the kernel has them.
fn interfaces() -> BTreeMap<u64, String> {
    let folders = std::fs::read_dir("/sys/class/net").expect("the kernel shows interfaces").flatten();
    let index = |folder: &Path| std::fs::read_to_string(folder.join("ifindex")).ok()?.trim().parse().ok();
    folders.filter_map(|one| Some((index(&one.path())?, one.file_name().into_string().ok()?))).collect()
}

/// That names are those of the interfaces that were there before and are there now: others may come and go meanwhile.
#[track_caller]
fn assert_names(polling: &Polling, before: &BTreeMap<u64, String>, what: &str) {
    let (now, found) = (interfaces(), polling.names_by_index());
    let stayed = before.iter().filter(|(index, name)| now.get(*index) == Some(*name));
    for (index, name) in stayed {
        assert_eq!(found.get(index), Some(name), "{what}");
    }
    assert_eq!(found.get(&u64::from(loopback())).map(String::as_str), Some("lo"), "{what}");
}

fn received_by_loopback() -> u64 {
    let text = std::fs::read_to_string("/sys/class/net/lo/statistics/rx_bytes").expect("the kernel counts");
    text.trim().parse().expect("a number")
}

fn loopback() -> u32 {
    let (index, _) = interfaces().into_iter().find(|(_, name)| name == "lo").expect("a loopback interface");
    index as u32
}

#[test]
fn a_community_gets_names_speeds_and_counters() {
    let (before, there) = (received_by_loopback(), interfaces());
    let Some(agent) = Agent::begin() else { return };
    let mut polling = Polling::begin(&agent.options("community = 'file:community'"));
    polling.until("a poll", |polling| !polling.counters.is_empty());
    assert_names(&polling, &there, "a community");
    assert!(polling.names.keys().all(|(exporter, _)| *exporter == [192, 0, 2, 1]));
    let lo = loopback();
    // ifType of a loopback is softwareLoopback(24); the agent of Net-SNMP says 10 Mbit/s of it
    let newest = ["if_type", "if_speed", "if_status"].map(|name| polling.newest(lo, name));
    assert_eq!(newest, [Some(24), Some(10_000_000), Some(3)]);
    let received = polling.newest(lo, "in_octets").expect("a counter");
    assert!((before..=received_by_loopback()).contains(&received), "{before} to {received}");
    assert!(polling.newest(lo, "uptime_ms").is_some());
    polling.until("another poll", |polling| polling.counters.len() > 2);
    let of_loopback = polling.written.iter().filter(|(_, index)| *index == u64::from(lo)).count();
    assert_eq!(of_loopback, 1, "a name that has not changed is not written again");
    assert_eq!([polling.counter("polls_failed"), polling.counter("columns_bad")], [0, 0]);
}

#[test]
fn users_get_the_same_with_and_without_encryption() {
    // before the agent begins, which looks at interfaces only now and then
    let there = interfaces();
    let Some(agent) = Agent::begin() else { return };
    for (user, _, _) in USERS {
        let (authentication, privacy) = user.split_once('-').expect("both words");
        let authenticated = format!(
            "user = '{user}'\nauthentication = '{authentication}'\nauthentication_password = 'file:auth'\ncounters = false\n"
        );
        let encrypted = format!("{authenticated}privacy = '{privacy}'\nprivacy_password = 'file:priv'\n");
        for security in [authenticated, encrypted] {
            let mut polling = Polling::begin(&agent.options(&security));
            polling.until(&security, |polling| !polling.names.is_empty());
            assert_names(&polling, &there, &security);
            assert_eq!(polling.newest(loopback(), "in_octets"), None);
        }
    }
}

#[test]
fn an_agent_that_began_again_is_asked_again() {
    let Some(mut agent) = Agent::begin() else { return };
    let security = "user = 'sha256-aes128'\nauthentication_password = 'file:auth'\nprivacy_password = 'file:priv'\n";
    let mut polling = Polling::begin(&agent.options(security));
    polling.until("a poll", |polling| !polling.counters.is_empty());
    agent.snmpd.begin_again();
    let before = polling.counters.len();
    polling.until("a poll after the restart", |polling| polling.counters.len() > before + 2);
}

#[test]
fn wrong_secrets_are_counted_as_what_they_are() {
    let Some(agent) = Agent::begin() else { return };
    for (security, counter) in [
        ("community = 'file:wrong'", "polls_unanswered"),
        ("user = 'sha256-aes128'\nauthentication_password = 'file:wrong'", "polls_refused"),
        ("user = 'nobody'\nauthentication_password = 'file:auth'", "polls_refused"),
        ("user = 'sha1-aes128'\nauthentication_password = 'file:auth'", "polls_refused"),
    ] {
        let mut polling = Polling::begin(&agent.options(&format!("timeout = '200ms'\nretries = 1\n{security}")));
        polling.until(security, |polling| polling.counter(counter) > 0);
        assert!(polling.names.is_empty() && polling.counters.is_empty(), "{security}");
    }
}
