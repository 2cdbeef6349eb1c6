use super::*;

#[test]
fn numbers_last_whatever_the_key_and_whatever_is_left_out() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = Folder(dir.path().to_owned());
    let family = FamilyId(1);
    let mut writer = CatalogueWriter::open(&folder).expect("a catalogue");
    let ids = ["a", "tab\tline\nback\\slash\\n", "ä"].map(|key| writer.number(family, key));
    assert_eq!(ids, [0, 1, 2].map(SeriesId));
    writer.flush().expect("written");
    // a line that a dying process has not finished
    fs::OpenOptions::new()
        .append(true)
        .open(dir.path().join(FILE))
        .and_then(|mut file| file.write_all(b"0123"))
        .expect("written");
    let mut writer = CatalogueWriter::open(&folder).expect("a catalogue");
    assert_eq!(writer.catalogue().key(family, SeriesId(1)), Some("tab\tline\nback\\slash\\n"));
    assert_eq!(writer.number(family, "ä"), SeriesId(2));
    writer.retain(|_, id| id == SeriesId(0)).expect("written");
    let mut writer = CatalogueWriter::open(&folder).expect("a catalogue");
    assert_eq!(writer.catalogue().len(), 2);
    assert_eq!(writer.number(family, "new"), SeriesId(3));
    writer.flush().expect("written");
    let read = Catalogue::read(&folder).expect("a catalogue");
    let found: Vec<_> = read.series(family).collect();
    assert_eq!(found, [(SeriesId(0), "a"), (SeriesId(2), "ä"), (SeriesId(3), "new")]);
}

/// A catalogue in which each kind of octet is near to an end of a line, to a zero, to a tab or to another digit.
const KEYS: [&str; 7] =
    ["total", "192.0.2.1 2001:db8::1", "J*\u{b}@", "ends with J", "tab\tline\nback\\slash", "ä", ""];

#[test]
fn whatever_bit_is_another_one_no_key_is_lost() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = Folder(dir.path().to_owned());
    let mut writer = CatalogueWriter::open(&folder).expect("a catalogue");
    let numbered: Vec<_> = (0..2).map(FamilyId).flat_map(|family| KEYS.map(|key| (family, key))).collect();
    let numbered: Vec<_> =
        numbered.into_iter().map(|(family, key)| (family, writer.number(family, key), key)).collect();
    writer.flush().expect("written");
    let path = dir.path().join(FILE);
    let whole = fs::read(&path).expect("a file");
    let wanted: Vec<_> = numbered.iter().map(|(family, id, key)| (*family, id.0, (*key).to_owned())).collect();
    for (at, bit) in (0..whole.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut octets = whole.clone();
        octets[at] ^= 1 << bit;
        let mut found = Vec::new();
        let counts = lines::read(&octets, |entry| found.push(entry));
        assert_eq!((&found, counts.damaged), (&wanted, 0), "bit {bit} of octet {at}");
        // each time the file is written anew it is synced, which takes long
        if bit > 0 || !(at.is_multiple_of(16) || at + 1 == whole.len()) {
            continue;
        }
        fs::write(&path, octets).expect("written");
        let mut writer = CatalogueWriter::open(&folder).expect("a catalogue");
        for (family, id, key) in &numbered {
            assert_eq!(writer.catalogue().key(*family, *id), Some(*key), "bit {bit} of octet {at}");
        }
        writer.mend().expect("written");
        assert_eq!(fs::read(&path).expect("a file"), whole, "bit {bit} of octet {at}");
    }
    assert_eq!(copies(dir.path()), Vec::<String>::new(), "no key was lost");
}

/// The copies of a catalogue with damage, the newest last.
fn copies(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    let names = names.map(|name| name.into_string().expect("a name"));
    let mut copies: Vec<String> = names.filter(|name| name.starts_with("catalogue.damaged")).collect();
    copies.sort_by_key(|name| (name.len(), name.clone()));
    copies
}

#[test]
fn the_last_catalogues_with_damage_are_kept() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = Folder(dir.path().to_owned());
    let path = dir.path().join(FILE);
    let mut damaged = Vec::new();
    for turn in 0..12 {
        let mut writer = CatalogueWriter::open(&folder).expect("a catalogue");
        writer.number(FamilyId(0), &format!("key {turn}"));
        writer.number(FamilyId(0), "the last one");
        writer.flush().expect("written");
        let mut octets = fs::read(&path).expect("a file");
        octets[..3].fill(b'z');
        fs::write(&path, &octets).expect("written");
        damaged.push(octets);
        let mut writer = CatalogueWriter::open(&folder).expect("a catalogue");
        assert_eq!(writer.catalogue().damaged_lines(), 1, "turn {turn}");
        writer.mend().expect("written");
        let kept: Vec<_> =
            copies(dir.path()).iter().map(|name| fs::read(dir.path().join(name)).expect("a copy")).collect();
        let first = damaged.len().saturating_sub(COPIES_MAX);
        assert!(kept == damaged[first..], "turn {turn}: {:?}", copies(dir.path()));
    }
}

/// A catalogue with damage, as it is each time.
fn damaged(dir: &Path) -> Vec<u8> {
    let mut writer = CatalogueWriter::open(&Folder(dir.to_owned())).expect("a catalogue");
    for key in KEYS {
        writer.number(FamilyId(0), key);
    }
    writer.flush().expect("written");
    let path = dir.join(FILE);
    let mut octets = fs::read(&path).expect("a file");
    octets[..3].fill(b'z');
    fs::write(&path, &octets).expect("written");
    octets
}

#[test]
fn a_catalogue_that_cannot_be_written_anew_pushes_out_no_copy() {
    let dir = tempfile::tempdir().expect("a folder");
    let octets = damaged(dir.path());
    let older = dir.path().join("catalogue.damaged-4");
    fs::write(&older, "of an earlier damage").expect("written");
    // nothing can be written under the name that new contents have first
    let part = dir.path().join("catalogue.part");
    fs::create_dir(&part).expect("a folder");
    for turn in 0..2 * COPIES_MAX {
        let mut writer = CatalogueWriter::open(&Folder(dir.path().to_owned())).expect("a catalogue");
        assert!(writer.mend().is_err(), "turn {turn}");
    }
    assert_eq!(copies(dir.path()), ["catalogue.damaged-4"]);
    fs::remove_dir(&part).expect("removed");
    let mut writer = CatalogueWriter::open(&Folder(dir.path().to_owned())).expect("a catalogue");
    writer.mend().expect("written");
    assert_eq!(copies(dir.path()), ["catalogue.damaged-4", "catalogue.damaged-5"]);
    assert_eq!(fs::read(dir.path().join("catalogue.damaged-5")).expect("a copy"), octets);
}

#[test]
fn the_same_damage_is_kept_once() {
    let dir = tempfile::tempdir().expect("a folder");
    let octets = damaged(dir.path());
    for _ in 0..3 {
        fs::write(dir.path().join(FILE), &octets).expect("written");
        let mut writer = CatalogueWriter::open(&Folder(dir.path().to_owned())).expect("a catalogue");
        writer.mend().expect("written");
    }
    assert_eq!(copies(dir.path()), ["catalogue.damaged-1"]);
}

#[test]
fn more_damage_costs_its_own_line() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = Folder(dir.path().to_owned());
    let family = FamilyId(0);
    let mut writer = CatalogueWriter::open(&folder).expect("a catalogue");
    for key in KEYS {
        writer.number(family, key);
    }
    writer.flush().expect("written");
    let path = dir.path().join(FILE);
    let mut octets = fs::read(&path).expect("a file");
    let second = octets.iter().position(|octet| *octet == b'\n').expect("a line") + 1;
    octets[second..second + 3].fill(b'z');
    fs::write(&path, octets).expect("written");
    let read = Catalogue::read(&folder).expect("a catalogue");
    assert_eq!((read.len(), read.damaged_lines(), read.repaired_lines()), (KEYS.len() - 1, 1, 0));
    assert_eq!(read.key(family, SeriesId(1)), None);
    assert_eq!(read.key(family, SeriesId(2)), Some(KEYS[2]));
}
