use super::*;

fn written(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    file
}

#[test]
fn only_what_has_changed_is_read_again_and_a_broken_file_only_once() {
    let file = written("10.0.0.0/8,a");
    let mut files = EnrichOptions::default();
    files.addresses.labels = Some(file.path().to_owned());
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
