use super::*;

fn options(text: &str) -> Result<SnmpOptions, OptionError> {
    let options: SnmpOptions = weir_chain::options::parse(text)?;
    options.check().map(|()| options)
}

#[test]
fn an_exporter_may_have_its_agent_elsewhere() {
    let both =
        |text: &str| PolledExporter::parse_text(text).map(|one| (one.exporter.to_string(), one.agent.to_string()));
    for (text, exporter, agent) in [
        ("192.0.2.1", "192.0.2.1", "192.0.2.1:161"),
        ("192.0.2.1=10.0.0.1", "192.0.2.1", "10.0.0.1:161"),
        ("192.0.2.1=10.0.0.1:1161", "192.0.2.1", "10.0.0.1:1161"),
        ("2001:db8::1", "2001:db8::1", "[2001:db8::1]:161"),
        ("2001:db8::1=[2001:db8::2]:1161", "2001:db8::1", "[2001:db8::2]:1161"),
        ("::ffff:192.0.2.1=10.0.0.1", "192.0.2.1", "10.0.0.1:161"),
    ] {
        assert_eq!(both(text), Ok((exporter.to_owned(), agent.to_owned())));
        let written = PolledExporter::parse_text(text).expect("an exporter").text();
        assert_eq!(both(&written), both(text), "{written}");
    }
    for text in ["router", "192.0.2.1=", "192.0.2.1=router:161", "192.0.2.1:161", "=10.0.0.1"] {
        assert!(both(text).is_err(), "{text}");
    }
}

#[test]
fn who_asks_is_a_community_or_a_user_with_a_password() {
    assert!(options("exporters = '192.0.2.1'\ncommunity = 'env:COMMUNITY'").is_ok());
    assert!(options("exporters = ['192.0.2.1']\nuser = 'weir'\nauthentication_password = 'file:secret'").is_ok());
    for (text, key) in [
        ("exporters = []\ncommunity = 'env:COMMUNITY'", "exporters"),
        ("exporters = ['192.0.2.1', '192.0.2.1=10.0.0.1']\ncommunity = 'env:COMMUNITY'", "exporters"),
        ("exporters = '192.0.2.1'", "community"),
        ("exporters = '192.0.2.1'\nuser = 'weir'", "user"),
        ("exporters = '192.0.2.1'\nuser = 'weir'\ncommunity = 'env:COMMUNITY'", "community"),
        ("exporters = '192.0.2.1'\ncommunity = 'env:COMMUNITY'\ninterval = '0s'", "interval"),
        ("exporters = '192.0.2.1'\ncommunity = 'env:COMMUNITY'\ntimeout = '0s'", "timeout"),
    ] {
        assert_eq!(options(text).expect_err("an error").key, key, "{text}");
    }
}

#[test]
fn a_secret_is_in_no_text() {
    let error = options("exporters = '192.0.2.1'\ncommunity = 'hunter2'").expect_err("a secret in the file");
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("secret");
    std::fs::write(&file, "hunter2-hunter2\n").expect("a file");
    let text = format!("exporters = '192.0.2.1'\nuser = 'weir'\nauthentication_password = 'file:{}'", file.display());
    let options = options(&text).expect("options");
    let auth = options.security.auth().expect("a user");
    assert!(!format!("{options:?} {auth:?}").contains("hunter2"));
    std::fs::write(&file, "hunter2").expect("a file");
    let error = options.security.auth().expect_err("7 octets are no password").to_string();
    assert!(error.contains("less than 8 octets") && !error.contains("hunter2"), "{error}");
    std::fs::remove_file(&file).expect("removed");
    assert!(options.security.auth().expect_err("it is gone").to_string().starts_with("cannot read file:"));
}
