//! Labels of prefixes and names of interfaces, from text files.
//!
//! One record a line, fields between commas (RFC 4180 without line breaks in fields). A file with a mistake is refused as a
//! whole, with the line: half a table would label half of the flows, and nobody would see which.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::path::{Path, PathBuf};

use super::prefix_map::{PrefixMap, PrefixMapBuilder, TooManyPrefixes};

/// Most lines of a file of labels.
const LABELS_MAX: usize = 1 << 26;

/// Why a file is no table.
#[derive(Debug, thiserror::Error)]
pub enum TextTableError {
    /// It cannot be read.
    #[error("file {} cannot be read", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A line of it is wrong.
    #[error("file {}, line {line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// It has more different texts than a table can have.
    #[error("file {} does not fit into a table", path.display())]
    TooMany {
        /// The file.
        path: PathBuf,
        /// What is too much.
        #[source]
        source: TooManyPrefixes,
    },
}

/// Reads labels of prefixes: a line `prefix,label` for each.
///
/// # Errors
///
/// The file cannot be read, a line is no prefix and label, or a prefix has two labels.
pub fn read_labels(path: &Path) -> Result<PrefixMap<String>, TextTableError> {
    texts_of_prefixes(path, ["prefix", "label"])
}

/// Reads names of exporters: a line `exporter,name` for each, an address or a prefix of several.
///
/// # Errors
///
/// The file cannot be read, a line is no address and name, or an exporter has two names.
pub fn read_exporters(path: &Path) -> Result<PrefixMap<String>, TextTableError> {
    texts_of_prefixes(path, ["exporter", "name"])
}

fn texts_of_prefixes(path: &Path, columns: [&str; 2]) -> Result<PrefixMap<String>, TextTableError> {
    let mut labels = PrefixMapBuilder::new(LABELS_MAX);
    let mut lines: HashMap<(IpAddr, u8), usize> = HashMap::new();
    for record in read(path, &columns)? {
        let (address, bits) = parse_prefix(&record.fields[0]).map_err(|what| wrong(path, &record, &what))?;
        if let Some(line) = lines.insert((address, bits), record.line) {
            let what = format!("prefix '{}' is in line {line} already", record.fields[0]);
            return Err(wrong(path, &record, &what));
        }
        labels.insert(address, bits, record.fields[1].clone());
    }
    labels.build().map_err(|source| TextTableError::TooMany { path: path.to_owned(), source })
}

/// Names of interfaces by exporter and SNMP index.
#[derive(Debug, Default)]
pub struct InterfaceNames {
    indexes: HashMap<(u128, u32), u32, foldhash::fast::FixedState>,
    names: Vec<String>,
    known: HashMap<String, u32>,
}

impl InterfaceNames {
    /// Reads a line `exporter,if_index,name` for each interface.
    ///
    /// # Errors
    ///
    /// The file cannot be read, a line is no such record, or an interface has two names.
    pub fn read(path: &Path) -> Result<Self, TextTableError> {
        let mut names = Self::default();
        for record in read(path, &["exporter", "if_index", "name"])? {
            let is_new = names.add(&record).map_err(|what| wrong(path, &record, &what))?;
            if !is_new {
                return Err(wrong(path, &record, "this interface is in an earlier line already"));
            }
        }
        Ok(names)
    }

    fn add(&mut self, record: &Record) -> Result<bool, String> {
        let [exporter, if_index, name] = &record.fields[..] else { return Err("has no three fields".to_owned()) };
        let address: IpAddr = exporter.parse().map_err(|_| format!("'{exporter}' is no address"))?;
        let if_index = if_index.parse().map_err(|_| format!("'{if_index}' is no index of an interface"))?;
        Ok(self.insert(address, if_index, name))
    }

    /// Sets the name of an interface; false when it had one, which is replaced.
    pub fn insert(&mut self, exporter: IpAddr, if_index: u32, name: &str) -> bool {
        let number = if let Some(known) = self.known.get(name) {
            *known
        } else {
            let number = self.names.len() as u32;
            self.names.push(name.to_owned());
            self.known.insert(name.to_owned(), number);
            number
        };
        self.indexes.insert((mapped(exporter), if_index), number).is_none()
    }

    /// The place of the name of an interface in [`names`](Self::names); the exporter is 4 or 16 octets.
    #[inline]
    pub fn find(&self, exporter: &[u8], if_index: u32) -> Option<u32> {
        let exporter = if let Ok(v4) = <[u8; 4]>::try_from(exporter) {
            mapped(IpAddr::from(v4))
        } else {
            u128::from_be_bytes(<[u8; 16]>::try_from(exporter).ok()?)
        };
        self.indexes.get(&(exporter, if_index)).copied()
    }

    /// The name of an interface.
    pub fn name(&self, exporter: &[u8], if_index: u32) -> Option<&str> {
        self.names.get(self.find(exporter, if_index)? as usize).map(String::as_str)
    }

    /// Adds those of another table; a name there replaces one here.
    pub fn extend(&mut self, others: &Self) {
        for ((exporter, if_index), number) in &others.indexes {
            if let Some(name) = others.names.get(*number as usize) {
                self.insert(Ipv6Addr::from_bits(*exporter).into(), *if_index, name);
            }
        }
    }

    /// The index and the name of every interface, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &str)> {
        let named = self.indexes.iter().map(|((_, if_index), number)| (*if_index, self.names.get(*number as usize)));
        named.filter_map(|(if_index, name)| Some((if_index, name?.as_str())))
    }

    /// All names, each once.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Octets of memory, about.
    pub fn octets(&self) -> usize {
        self.indexes.capacity() * size_of::<(u128, u32, u32)>()
    }
}

/// An address as a number, that of IPv4 as the one mapped into IPv6.
fn mapped(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => 0xffff << 32 | u128::from(u32::from(address)),
        IpAddr::V6(address) => address.into(),
    }
}

/// A prefix, or an address alone.
fn parse_prefix(text: &str) -> Result<(IpAddr, u8), String> {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let address: IpAddr = address.parse().map_err(|_| format!("'{text}' is no prefix"))?;
    let (first, width) = match address {
        IpAddr::V4(address) => (u128::from(u32::from(address)) << 96, 32),
        IpAddr::V6(address) => (address.into(), 128),
    };
    let bits = match bits.map_or(Ok(width), str::parse) {
        Ok(bits) if bits <= width => bits,
        _ => return Err(format!("'{text}' is no prefix: its length is no number from 0 to {width}")),
    };
    let behind = u128::MAX.checked_shr(u32::from(bits)).unwrap_or(0);
    if first & behind != 0 {
        return Err(format!("'{text}' is no prefix: bits behind the first {bits} are not zero"));
    }
    Ok((address, bits))
}

/// A record and its line.
#[derive(Debug, PartialEq, Eq)]
struct Record {
    line: usize,
    fields: Vec<String>,
}

/// The records of a file that has these columns. A first line with their names is left out, and so are empty lines and
/// those that begin with `#`.
fn read(path: &Path, columns: &[&str]) -> Result<Vec<Record>, TextTableError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| TextTableError::Unreadable { path: path.to_owned(), source })?;
    let mut records = Vec::new();
    for (at, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let record = Record { line: at + 1, fields: fields(line) };
        if record.fields.len() != columns.len() {
            let (found, names) = (record.fields.len(), columns.join(", "));
            return Err(wrong(path, &record, &format!("has {found} fields, but these are needed: {names}")));
        }
        if records.is_empty() && record.fields == columns {
            continue;
        }
        records.push(record);
    }
    Ok(records)
}

/// The error about a record.
fn wrong(path: &Path, record: &Record, what: &str) -> TextTableError {
    TextTableError::Line { path: path.to_owned(), line: record.line, what: what.to_owned() }
}

fn fields(line: &str) -> Vec<String> {
    let mut fields = Vec::new();
    let mut rest = line.trim_end_matches('\r');
    loop {
        let field = rest.trim_start();
        let (value, after) = if let Some(quoted) = field.strip_prefix('"') {
            quoted_field(quoted)
        } else {
            let end = field.find(',').unwrap_or(field.len());
            (field[..end].trim_end().to_owned(), &field[end..])
        };
        fields.push(value);
        match after.split_once(',') {
            Some((_, next)) => rest = next,
            None => return fields,
        }
    }
}

/// A field behind its opening quote, and what comes after its closing one. A quote inside is written twice.
fn quoted_field(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('"') {
        value.push_str(before);
        match after.strip_prefix('"') {
            Some(more) => {
                value.push('"');
                rest = more;
            }
            None => return (value, after),
        }
    }
    value.push_str(rest);
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_split_as_rfc_4180_says() {
        let cases: &[(&str, &[&str])] = &[
            ("10.0.0.0/8,office", &["10.0.0.0/8", "office"]),
            ("10.0.0.0/8 , office \r", &["10.0.0.0/8", "office"]),
            ("a,\"b, \"\"c\"\"\"", &["a", "b, \"c\""]),
            ("a,\" b \",", &["a", " b ", ""]),
            (",", &["", ""]),
            ("a,\"never closed", &["a", "never closed"]),
        ];
        for (line, expected) in cases {
            assert_eq!(fields(line), *expected, "{line:?}");
        }
    }

    #[test]
    fn header_comments_and_empty_lines_are_left_out() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "\u{feff}a,b\n\n# why\n1,2\na,b\n").expect("written");
        let records = read(file.path(), &["a", "b"]).expect("records");
        let found: Vec<_> = records.iter().map(|record| (record.line, record.fields.join(","))).collect();
        assert_eq!(found, [(4, "1,2".to_owned()), (5, "a,b".to_owned())]);
        let error = read(file.path(), &["a", "b", "c"]).expect_err("too few fields");
        assert!(error.to_string().ends_with("line 1: has 2 fields, but these are needed: a, b, c"), "{error}");
    }

    fn written(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), text).expect("written");
        file
    }

    fn refused<T: std::fmt::Debug>(load: fn(&Path) -> Result<T, TextTableError>, text: &str) -> String {
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
            assert_eq!(refused(read_labels, text), expected);
        }
        let cases = [
            ("router,1,a", "line 1: 'router' is no address"),
            ("10.0.0.1,eth0,a", "line 1: 'eth0' is no index of an interface"),
            ("10.0.0.1,1,a\n10.0.0.1,1,b", "line 2: this interface is in an earlier line already"),
        ];
        for (text, expected) in cases {
            assert_eq!(refused(InterfaceNames::read, text), expected);
        }
    }

    #[test]
    fn interfaces_are_found_by_exporter_and_index() {
        let file =
            written("exporter,if_index,name\n10.0.0.1,1,a\n10.0.0.1,2,b\n2001:db8::1,1,c\n::ffff:10.0.0.2,1,a\n");
        let interfaces = InterfaceNames::read(file.path()).expect("interfaces");
        let name = |exporter: &str, if_index| match exporter.parse().expect("an address") {
            IpAddr::V4(address) => interfaces.name(&address.octets(), if_index),
            IpAddr::V6(address) => interfaces.name(&address.octets(), if_index),
        };
        assert_eq!(name("10.0.0.1", 1), Some("a"));
        assert_eq!(name("10.0.0.1", 2), Some("b"));
        assert_eq!(name("10.0.0.1", 3), None);
        assert_eq!(name("2001:db8::1", 1), Some("c"));
        assert_eq!(name("10.0.0.2", 1), Some("a"));
        assert_eq!(interfaces.find(&[1, 2, 3], 1), None);
        let mut all = InterfaceNames::default();
        all.insert([10, 0, 0, 1].into(), 1, "before");
        all.insert([10, 0, 0, 1].into(), 9, "kept");
        all.extend(&interfaces);
        assert_eq!([all.name(&[10, 0, 0, 1], 1), all.name(&[10, 0, 0, 1], 9)], [Some("a"), Some("kept")]);
        let mut named: Vec<_> = all.iter().collect();
        named.sort_unstable();
        assert_eq!(named, [(1, "a"), (1, "a"), (1, "c"), (2, "b"), (9, "kept")]);
    }
}
