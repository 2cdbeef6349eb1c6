use super::*;

fn written(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    file
}

fn refused<T: std::fmt::Debug>(load: fn(&Path) -> Result<T, ComponentError>, text: &str) -> String {
    let file = written(text);
    let error = load(file.path()).expect_err("an error").to_string();
    error.split_once(", ").expect("a line").1.to_owned()
}

#[test]
fn prefixes_are_read_or_refused() {
    let good = [("10.0.0.0/8", "10.0.0.0", 8), ("1.2.3.4", "1.2.3.4", 32), ("::/0", "::", 0)];
    for (text, address, bits) in good {
        assert_eq!(parse_prefix(text), Ok((address.parse().expect("an address"), bits)), "{text}");
    }
    let single = ("2001:db8::1".parse().expect("an address"), 128);
    assert_eq!(parse_prefix("2001:db8::1"), Ok(single));
    for text in ["10.0.0.0/33", "::/129", "10.0.0.1/8", "::1/127x", "10.0.0/8", "", "/8", "10.0.0.0/-1"] {
        assert!(parse_prefix(text).is_err(), "{text}");
    }
}

#[test]
fn mistakes_are_reported_with_their_line() {
    let cases = [
        ("10.0.0.0/8,a\n10.0.0.1/8,b", "line 2: '10.0.0.1/8' is no prefix: bits behind the first 8 are not zero"),
        ("prefix,label\n10.0.0.0/40,b", "line 2: '10.0.0.0/40' is no prefix: its length is no number from 0 to 32"),
        ("10.0.0.0/8,a\n\n10.0.0.0/8,b", "line 3: prefix '10.0.0.0/8' is in line 1 already"),
        ("10.0.0.0/8", "line 1: has 1 fields, but these are needed: prefix, label"),
    ];
    for (text, expected) in cases {
        assert_eq!(refused(labels, text), expected);
    }
    let cases = [
        ("router,1,a", "line 1: 'router' is no address"),
        ("10.0.0.1,eth0,a", "line 1: 'eth0' is no index of an interface"),
        ("10.0.0.1,1,a\n10.0.0.1,1,b", "line 2: this interface is in an earlier line already"),
    ];
    for (text, expected) in cases {
        assert_eq!(refused(interfaces, text), expected);
    }
}

#[test]
fn interfaces_are_found_by_exporter_and_index() {
    let file = written("exporter,if_index,name\n10.0.0.1,1,a\n10.0.0.1,2,b\n2001:db8::1,1,c\n::ffff:10.0.0.2,1,a\n");
    let interfaces = interfaces(file.path()).expect("interfaces");
    let name = |exporter: &str, if_index| {
        let octets = weir_flow::parse_address(exporter).expect("an address");
        match interfaces.find(&octets, if_index) {
            NONE => None,
            index => Some(interfaces.names.value(index as usize)),
        }
    };
    assert_eq!(name("10.0.0.1", 1), Some("a"));
    assert_eq!(name("10.0.0.1", 2), Some("b"));
    assert_eq!(name("10.0.0.1", 3), None);
    assert_eq!(name("2001:db8::1", 1), Some("c"));
    assert_eq!(name("10.0.0.2", 1), Some("a"));
    assert_eq!(interfaces.find(&[1, 2, 3], 1), NONE);
}

#[test]
fn only_what_has_changed_is_read_again_and_a_broken_file_only_once() {
    let file = written("10.0.0.0/8,a");
    let files = Files { labels: Some(file.path().to_owned()), ..Files::default() };
    let mut tables = Tables::load(&files).expect("labels");
    let mut refreshed = || {
        let refreshed = tables.refresh();
        (refreshed.loaded, refreshed.errors.len())
    };
    assert_eq!(refreshed(), (0, 0));
    std::fs::write(file.path(), "10.0.0.0/8,other").expect("written");
    assert_eq!((refreshed(), refreshed()), ((1, 0), (0, 0)));
    std::fs::write(file.path(), "broken").expect("written");
    assert_eq!((refreshed(), refreshed()), ((0, 1), (0, 0)));
}
