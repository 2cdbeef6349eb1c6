//! What a service refuses at its start, and what a check of its configuration finds without starting it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::process::weir;
use super::service::PATIENCE;

/// What is the same in every configuration: nothing of it needs a free port or a folder that is there.
const BASE: &str = "[http]\nlisten = '127.0.0.1:0'\n[archive]\nfolder = 'archive'\n";

/// What a command that fails says.
fn refused(command: &mut Command, what: &str) -> String {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("weir starts");
    let until = Instant::now() + PATIENCE;
    while child.try_wait().expect("its state").is_none() {
        if Instant::now() > until {
            child.kill().expect("it still runs");
            panic!("it goes on: {what}");
        }
        std::thread::yield_now();
    }
    let output = child.wait_with_output().expect("its output");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{what}: {said}");
    said
}

/// What both checks say of a configuration that is wrong: the same.
fn checked(config: &Path, what: &str) -> String {
    let by_serve = refused(weir().arg("serve").arg(config).arg("--check"), what);
    let by_config = refused(weir().args(["config", "check"]).arg(config), what);
    assert_eq!(by_serve, by_config, "{what}");
    by_config
}

#[test]
fn a_check_finds_what_a_start_refuses() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("weir.toml");
    let collect = "[collect]\nlisten = '127.0.0.1:0'\n";
    std::fs::write(&config, format!("{BASE}{collect}")).expect("written");
    assert!(weir().args(["config", "check"]).arg(&config).status().expect("it runs").success());
    for (section, more, said) in [
        ("postgres", "listen = '0.0.0.0:0'", "there are no users"),
        ("flight", "listen = '0.0.0.0:0'", "there are no users"),
        ("postgres", "listen = '127.0.0.1:0'\ncertificate = 'none.pem'\nkey = 'none.key'", "none."),
        ("flight", "listen = '127.0.0.1:0'\ncertificate = 'none.pem'\nkey = 'none.key'", "none."),
        ("audit", "file = 'none/audit.jsonl'", "none/audit.jsonl"),
        ("statistics", "folder = '/proc/x'", "/proc/x"),
        ("watch", "folder = 'watches'", "watches"),
    ] {
        let text = format!("{BASE}{collect}[{section}]\n{more}\n");
        std::fs::write(&config, &text).expect("written");
        let found = checked(&config, &text);
        assert!(found.contains(&format!("weir.toml: [{section}] ")) && found.contains(said), "{text}: {found}");
        assert!(!folder.path().join("archive").exists(), "a check made an archive: {text}");
        let refused = refused(weir().arg("serve").arg(&config), &text);
        assert!(refused.contains(said), "{text}: {refused}");
    }
    for (text, section, said) in [
        (
            "[collect]\nlisten = 'tls://127.0.0.1:0'\ntls_cert = 'none.pem'\ntls_key = 'none.key'\ntls_ca = 'none.ca'\n",
            "collect",
            "none.",
        ),
        ("[[meter]]\ninterfaces = ['nosuch0']\n", "meter", "there is no interface 'nosuch0'"),
        // nobody makes the archive
        ("", "archive", "cannot open the archive"),
    ] {
        let text = format!("{BASE}{text}");
        std::fs::write(&config, &text).expect("written");
        let found = checked(&config, &text);
        assert!(found.contains(&format!("weir.toml: [{section}] ")) && found.contains(said), "{text}: {found}");
        let refused = refused(weir().arg("serve").arg(&config), &text);
        assert!(refused.contains(said), "{text}: {refused}");
    }
}

/// Through a proxy in front of it, a service without users would let anybody ask as an admin.
#[test]
fn a_file_of_users_that_is_misspelt_opens_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("weir.toml");
    let text = format!("{BASE}[collect]\nlisten = '127.0.0.1:0'\n[access]\nusers_file = 'usres.toml'\n");
    std::fs::write(&config, &text).expect("written");
    let found = checked(&config, &text);
    let place = "weir.toml: line 8: [access] 'users_file': the file of users ";
    assert!(found.contains(place) && found.contains("usres.toml is not there\nhint: weir user add"), "{found}");
    assert_eq!(refused(weir().arg("serve").arg(&config), &text), found);
}

/// The folder of the command line is as that of the file.
#[test]
fn a_folder_of_watches_that_is_misspelt_is_not_one_without_watches() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--collect", "127.0.0.1:0", "--archive"];
    let said = refused(weir().args(serve).args([&path("archive"), "--watch", &path("nosuch")]), "no folder");
    assert!(said.contains("cannot read the watch files in") && said.contains("nosuch"), "{said}");
    assert!(!said.contains("0 watches run"), "{said}");
}

#[test]
fn errors_name_file_line_section_and_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("weir.toml");
    for (text, said) in [
        ("[collect]\nlisten = ['udp://0.0.0.0']\n", "line 6: [collect] 'listen': '0.0.0.0' is no address and port"),
        ("[collect]\nallow = ['10.0.0.0/33']\n", "line 6: [collect] 'allow': '10.0.0.0/33' is no network"),
        (
            "[collect]\nfilter = 'src prot 80'\n",
            "line 6: [collect] 'filter' is no filter\nsrc prot 80\n    ^^^^ unknown word",
        ),
        ("[collect]\n[statistics]\nsteps = []\n", "line 7: [statistics] 'steps': "),
        (
            "[collect]\n[statistics]\nby = ['totl']\n",
            "line 7: [statistics] 'by': 'totl' is no column to count by\nhint: did you mean 'total'?",
        ),
        (
            "[[meter]]\ninterfaces = ['lo']\n[[meter]]\ninterfaces = ['lo']\nfilter = 'src prot 80'\n",
            "line 9: [meter] 'filter' is no filter\nsrc prot 80\n    ^^^^ unknown word",
        ),
        ("[[roles]]\nname = 'admin'\n", "line 6: [roles] 'name': there is a role 'admin' in any case"),
        ("[collect]\n[[download]]\nurl = 'ftp://x/'\nfile = 'x'\n", "line 7: [download] 'url': files are fetched by"),
    ] {
        std::fs::write(&config, format!("{BASE}{text}")).expect("written");
        let found = checked(&config, text);
        assert!(found.contains(&format!("weir.toml: {said}")), "{text}: {found}");
        let refused = refused(weir().arg("serve").arg(&config), text);
        assert!(refused.contains(&format!("weir.toml: {said}")), "{text}: {refused}");
    }
}

#[test]
fn an_archive_of_the_environment_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (config, other) = (folder.path().join("weir.toml"), folder.path().join("other"));
    std::fs::write(&config, format!("{BASE}[collect]\nlisten = '127.0.0.1:0'\n")).expect("written");
    let say = |arguments: &[&str]| {
        let command = weir().args(arguments).arg(&config).env("WEIR_ARCHIVE", &other).output().expect("it runs");
        assert!(command.status.success(), "{command:?}");
        [command.stdout, command.stderr].map(|octets| String::from_utf8_lossy(&octets).into_owned())
    };
    let of_file = folder.path().join("archive");
    let is_said =
        format!("folder of [archive] is {}, set by WEIR_ARCHIVE; the file has {}", other.display(), of_file.display());
    for arguments in [["serve", "--check"], ["config", "check"]] {
        let [_, log] = say(&arguments);
        assert!(log.contains(&is_said), "{log}");
    }
    let [shown, _] = say(&["config", "show"]);
    let (note, folder_line) = ("# set by WEIR_ARCHIVE; the file has \"archive\"", "\nfolder = \"");
    assert!(shown.contains(note) && shown.contains(&format!("{folder_line}{}\"\n", other.display())), "{shown}");
    // where both are the same there is nothing to say
    std::fs::write(&config, format!("[archive]\nfolder = '{}'\n[collect]\nlisten = '127.0.0.1:0'\n", other.display()))
        .expect("written");
    let [_, log] = say(&["config", "check"]);
    assert_eq!(log, "");
}
