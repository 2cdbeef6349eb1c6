use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::*;

/// Answers one request after the other, and says what was asked.
fn server(answers: Vec<&'static str>) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/labels.csv?key=hidden", listener.local_addr().expect("an address"));
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().expect("a connection");
            let lines = BufReader::new(stream.try_clone().expect("a stream")).lines().map_while(Result::ok);
            let head: Vec<String> = lines.take_while(|line| !line.is_empty()).collect();
            stream.write_all(answer.as_bytes()).expect("it is read");
            drop(tell.send(head.join("\n").to_lowercase()));
        }
    });
    (url, told)
}

fn options(url: String, file: &Path) -> DownloadOptions {
    let (interval, size_max) = (TimeSpan::from_secs(3600), ByteSize::from_mib(1));
    DownloadOptions { url, file: file.to_owned(), authorization: None, interval, size_max }
}

fn content(file: &Path) -> String {
    fs::read_to_string(file).expect("a file")
}

const FIRST: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nETag: \"1\"\r\nContent-Length: 6\r\n\r\nfirst\n";
const SAME: &str = "HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n";
const OTHER: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nETag: \"2\"\r\nContent-Length: 6\r\n\r\nother\n";
const CUT: &str = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 60\r\n\r\nthird\n";
const GONE: &str = "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 4\r\n\r\ngone";

#[test]
fn what_is_whole_and_another_one_takes_the_place_of_what_was_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("labels.csv");
    let (url, told) = server(vec![FIRST, SAME, CUT, GONE, OTHER, OTHER]);
    let mut downloads = Downloads::fetched(vec![options(url, &file)]).expect("fetched");
    assert_eq!(content(&file), "first\n");
    assert!(!told.recv().expect("asked").contains("if-none-match"));
    let (agent, download) = (downloads.agent.clone(), &mut downloads.all[0]);
    download.confirm();
    let used = || true;
    let unused = || false;
    assert!(download.renew(&agent, &unused).is_ok(), "the same");
    assert!(told.recv().expect("asked").contains("if-none-match: \"1\""));
    for wrong in ["a body that ends early", "an error"] {
        let error = download.renew(&agent, &used).expect_err(wrong).to_string();
        assert!(error.contains("labels.csv") && !error.contains("hidden"), "{error}");
        assert_eq!(content(&file), "first\n");
    }
    // what cannot be used is put back, and asked for again
    let error = download.renew(&agent, &unused).expect_err("of no use").to_string();
    assert!(error.contains("the configuration cannot be read with it"), "{error}");
    assert_eq!((content(&file).as_str(), download.tag.as_deref()), ("first\n", Some("\"1\"")));
    download.renew(&agent, &used).expect("fetched");
    assert_eq!((content(&file).as_str(), download.tag.as_deref()), ("other\n", Some("\"2\"")));
    assert_eq!(names(folder.path()), ["labels.csv"]);
}

/// A disk that fails for a moment: what is of no use is put back before it is compared with what comes.
#[test]
fn what_could_not_be_put_back_is_put_back_the_next_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("labels.csv");
    let (url, _told) = server(vec![FIRST, OTHER, OTHER]);
    let mut downloads = Downloads::fetched(vec![options(url, &file)]).expect("fetched");
    let (agent, download) = (downloads.agent.clone(), &mut downloads.all[0]);
    download.confirm();
    let in_the_way = || {
        fs::remove_file(&file).expect("removed");
        fs::create_dir(&file).expect("a folder in the way");
        false
    };
    let error = download.renew(&agent, &in_the_way).expect_err("not put back").to_string();
    assert!(error.contains("cannot be written"), "{error}");
    fs::remove_dir(&file).expect("removed");
    fs::write(&file, "other\n").expect("written");
    let error = download.renew(&agent, &|| false).expect_err("of no use").to_string();
    assert!(error.contains("the configuration cannot be read with it"), "{error}");
    assert_eq!((content(&file).as_str(), names(folder.path())), ("first\n", vec!["labels.csv".to_owned()]));
}

/// What is in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().expect("UTF-8")).collect();
    names.sort();
    names
}

#[test]
fn a_start_that_fails_leaves_nothing_and_one_that_was_killed_is_made_good() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("labels.csv");
    let (url, _told) = server(vec![FIRST, OTHER, GONE]);
    let fetched = || Downloads::fetched(vec![options(url.clone(), &file)]).expect("fetched");
    // the start ends before anything is in use
    let first = fetched();
    assert_eq!(names(folder.path()), ["labels.csv", "labels.csv.untried"]);
    drop(first);
    assert!(names(folder.path()).is_empty());
    // what a start that was killed has fetched is fetched again, and used when that fails
    for untried in ["other\n", "kept\n"] {
        fs::write(&file, "kept\n").expect("written");
        fs::write(folder.path().join("labels.csv.untried"), "").expect("written");
        let mut downloads = fetched();
        assert_eq!(content(&file), untried);
        downloads.all[0].confirm();
        assert_eq!(names(folder.path()), ["labels.csv"]);
    }
    // a process that was killed while it tried another one: the one before is there again, and nothing is fetched
    fs::write(&file, "<html>\n").expect("written");
    fs::write(folder.path().join("labels.csv.before"), "before\n").expect("written");
    drop(fetched());
    assert_eq!((content(&file).as_str(), names(folder.path())), ("before\n", vec!["labels.csv".to_owned()]));
    // killed before the other one was in its place, where both names are of the same file
    fs::hard_link(&file, folder.path().join("labels.csv.before")).expect("linked");
    drop(fetched());
    assert_eq!((content(&file).as_str(), names(folder.path())), ("before\n", vec!["labels.csv".to_owned()]));
}

#[test]
fn a_link_and_the_mode_of_the_file_stay_and_the_file_before_is_kept_while_another_is_tried() {
    let folder = tempfile::tempdir().expect("a folder");
    let (link, file) = (folder.path().join("link"), folder.path().join("labels.csv"));
    fs::write(&file, "kept\n").expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).expect("a mode");
    std::os::unix::fs::symlink("labels.csv", &link).expect("a link");
    let (url, _told) = server(vec![FIRST]);
    let mut downloads = Downloads::fetched(vec![options(url, &link)]).expect("nothing is fetched");
    let agent = downloads.agent.clone();
    let before = || content(&folder.path().join("labels.csv.before"));
    let are_both_there = || (content(&file), before()) == ("first\n".to_owned(), "kept\n".to_owned());
    downloads.all[0].renew(&agent, &are_both_there).expect("both are there");
    assert_eq!(content(&file), "first\n");
    assert!(link.is_symlink());
    assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o640);
    assert_eq!(names(folder.path()), ["labels.csv", "link"]);
}

#[test]
fn redirects_are_not_followed_and_no_address_is_in_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("labels.csv");
    let moved = "HTTP/1.1 302 Found\r\nConnection: close\r\nLocation: /hidden\r\nContent-Length: 0\r\n\r\n";
    let (url, _told) = server(vec![moved, "SSH-2.0-hidden\r\n\r\n"]);
    for why in ["302, and redirects are not followed", "what came back is no answer of HTTP"] {
        let error = Downloads::fetched(vec![options(url.clone(), &file)]).expect_err(why).to_string();
        assert!(error.contains(why) && !error.contains("hidden"), "{error}");
    }
    assert!(names(folder.path()).is_empty());
}

#[test]
fn no_proxy_is_asked_for_this_machine() {
    for own in ["http://127.0.0.1:8080/a", "https://[::1]/a", "http://localhost/a"] {
        assert!(is_this_machine(own), "{own}");
    }
    for other in ["http://192.0.2.1/127.0.0.1", "https://ipam.example.net/a", "https://localhost.example.net/", "a"] {
        assert!(!is_this_machine(other), "{other}");
    }
}

#[test]
fn what_is_not_there_and_cannot_be_fetched_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("labels.csv");
    let (url, _told) = server(vec![GONE]);
    let error = Downloads::fetched(vec![options(url.clone(), &file)]).expect_err("not there").to_string();
    assert!(error.contains("the server answers 404") && !file.exists(), "{error}");
    // what is there is used, whatever the server does
    fs::write(&file, "kept\n").expect("written");
    Downloads::fetched(vec![options(url, &file)]).expect("nothing is fetched");
    assert_eq!(content(&file), "kept\n");
    let small = DownloadOptions { size_max: ByteSize::from_mib(0), ..options(server(vec![FIRST]).0, &file) };
    let mut downloads = Downloads::fetched(vec![small]).expect("nothing is fetched");
    let agent = downloads.agent.clone();
    assert!(downloads.all[0].renew(&agent, &|| true).is_err(), "too large");
    assert_eq!(content(&file), "kept\n");
    assert!(options("ftp://192.0.2.1/labels".to_owned(), &file).check().is_err());
}
