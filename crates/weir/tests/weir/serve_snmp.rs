//! `weir serve` that asks SNMP agents.

use std::time::Instant;

use serde_json::{Value, json};
use weir_testkit::snmpd::Snmpd;

use super::process::weir;
use super::service::{PATIENCE, Service};

#[test]
fn what_agents_say_is_what_questions_look_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(agent) = Snmpd::begin(folder.path(), "rocommunity not-public 127.0.0.1\n") else { return };
    std::fs::write(folder.path().join("community"), "not-public\n").expect("a secret");
    let config = folder.path().join("weir.toml");
    let text = format!(
        "[http]\nlisten = '127.0.0.1:0'\n[archive]\nfolder = 'archive'\n[[snmp]]\nexporters = '192.0.2.1=127.0.0.1:{}'\n\
         interval = '1s'\ncommunity = 'file:community'\n",
        agent.port
    );
    std::fs::write(&config, text).expect("a configuration");
    let shown = weir().args(["config", "show"]).arg(&config).output().expect("it runs");
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("\n[[snmp]]\n") || shown.starts_with("[[snmp]]\n"), "{shown}");
    assert!(shown.contains("\ncommunity = \"file:community\"\n") && shown.contains("\n# retries = 2\n"), "{shown}");
    let service = Service::of(weir().arg("serve").arg(&config), false);
    // the agent of Net-SNMP says 10 Mbit/s of a loopback, whose ifType is softwareLoopback(24)
    let statement = "SELECT DISTINCT n.name, if_name(n.exporter, CAST(n.key AS INT UNSIGNED)) AS known, c.if_speed, c.if_type \
                     FROM exporter_options n JOIN interface_counters c \
                     ON n.exporter = c.exporter AND n.key = c.if_index WHERE n.kind = 'interface' AND n.name = 'lo'";
    let until = Instant::now() + PATIENCE;
    let rows = loop {
        let answer = service.sql(statement);
        assert_eq!(answer.status, 200, "{}", answer.body);
        let rows = answer.json()["rows"].clone();
        if rows != Value::Array(Vec::new()) {
            break rows;
        }
        assert!(Instant::now() < until, "the agent is not asked");
        std::thread::yield_now();
    };
    assert_eq!(rows, json!([["lo", "lo", 10_000_000, 24]]));
    service.stop();
}

#[test]
fn what_is_wrong_with_a_section_is_said_before_it_begins() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("weir.toml");
    for (text, said) in [
        ("[snmp]\ncommunity = 'env:COMMUNITY'\n", "[[snmp]]"),
        ("[[snmp]]\nexporters = 'router'\ncommunity = 'env:COMMUNITY'\n", "'router' is no address"),
        ("[[snmp]]\nexporters = '192.0.2.1'\n", "neither a community nor a user"),
        ("[[snmp]]\nexporters = '192.0.2.1'\ncommunity = 'public'\n", "a secret is not written here"),
        (
            "[[snmp]]\nexporters = '192.0.2.1'\ncommunity = 'env:ONE'\n\
             [[snmp]]\nexporters = ['192.0.2.2', '192.0.2.1=10.0.0.1']\ncommunity = 'env:OTHER'\n",
            "192.0.2.1 is an exporter of two sections [[snmp]]",
        ),
        ("[[snmp]]\nexporters = '192.0.2.1'\nuser = 'weir'\n", "the user has no authentication_password"),
    ] {
        std::fs::write(&config, text).expect("written");
        for command in [["serve", "--check"], ["config", "check"]] {
            let output = weir().args(command).arg(&config).output().expect("it runs");
            let wrong = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success() && wrong.contains(said), "{text}: {wrong}");
        }
    }
}
