use std::io::{BufRead, BufReader};
use std::net::TcpListener;

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
    assert!(error.contains("cannot be used"), "{error}");
    assert_eq!((content(&file).as_str(), download.tag.as_deref()), ("first\n", Some("\"1\"")));
    download.renew(&agent, &used).expect("fetched");
    assert_eq!((content(&file).as_str(), download.tag.as_deref()), ("other\n", Some("\"2\"")));
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
