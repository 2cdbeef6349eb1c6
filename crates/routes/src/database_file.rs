//! `MaxMind` DB files for tests, written as their specification (version 2.0) says: a binary search tree, 16 zeros, the
//! data, a marker and the metadata.

/// A value of the data section.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Text(&'static str),
    U16(u16),
    U32(u32),
    U64(u64),
    Map(Vec<(&'static str, Value)>),
    Array(Vec<Value>),
}

impl Value {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => {
                head(2, text.len(), out);
                out.extend_from_slice(text.as_bytes());
            }
            Self::U16(number) => number_of(5, u64::from(*number), out),
            Self::U32(number) => number_of(6, u64::from(*number), out),
            Self::U64(number) => number_of(9, *number, out),
            Self::Map(entries) => {
                head(7, entries.len(), out);
                for (key, value) in entries {
                    Self::Text(key).write(out);
                    value.write(out);
                }
            }
            Self::Array(values) => {
                head(11, values.len(), out);
                for value in values {
                    value.write(out);
                }
            }
        }
    }
}

/// A control octet, and those that follow from a type over 7 or a size over 28.
fn head(kind: u8, size: usize, out: &mut Vec<u8>) {
    let short = size.min(29) as u8;
    assert!(size < 29 + 256, "longer values are not needed");
    if kind <= 7 {
        out.push(kind << 5 | short);
    } else {
        out.extend([short, kind - 7]);
    }
    if size >= 29 {
        out.push((size - 29) as u8);
    }
}

/// A number without its leading zeros.
fn number_of(kind: u8, number: u64, out: &mut Vec<u8>) {
    let octets = number.to_be_bytes();
    let significant = &octets[number.leading_zeros() as usize / 8..];
    head(kind, significant.len(), out);
    out.extend_from_slice(significant);
}

#[derive(Debug, Clone, Copy)]
enum Record {
    Empty,
    Node(usize),
    Data(usize),
}

/// A file that is being made.
#[derive(Debug)]
pub(crate) struct MmdbFile {
    ip_version: u16,
    record_bits: u16,
    nodes: Vec<[Record; 2]>,
    data: Vec<u8>,
}

impl MmdbFile {
    pub(crate) fn new(ip_version: u16, record_bits: u16) -> Self {
        Self { ip_version, record_bits, nodes: vec![[Record::Empty; 2]], data: Vec::new() }
    }

    /// Writes a value that prefixes can lead to.
    pub(crate) fn value(&mut self, value: &Value) -> usize {
        let offset = self.data.len();
        value.write(&mut self.data);
        offset
    }

    /// Leads a prefix to a value, of IPv4 in the upper 32 bits. Shorter prefixes must come first.
    pub(crate) fn insert(&mut self, is_v4: bool, first: u128, bits: u8, value: usize) {
        let (first, bits) = if is_v4 && self.ip_version == 6 { (first >> 96, bits + 96) } else { (first, bits) };
        assert!(bits > 0, "the root is a node");
        let mut node = 0;
        for depth in 0..bits {
            let side = (first >> (127 - depth) & 1) as usize;
            if depth + 1 == bits {
                self.nodes[node][side] = Record::Data(value);
                return;
            }
            node = match self.nodes[node][side] {
                Record::Node(next) => next,
                around => {
                    self.nodes.push([around; 2]);
                    let next = self.nodes.len() - 1;
                    self.nodes[node][side] = Record::Node(next);
                    next
                }
            };
        }
    }

    pub(crate) fn octets(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for records in &self.nodes {
            let [left, right] = records.map(|record| self.number(record));
            match self.record_bits {
                24 => out.extend([&left.to_be_bytes()[1..], &right.to_be_bytes()[1..]].concat()),
                28 => {
                    let middle = (left >> 24 << 4 | right >> 24) as u8;
                    out.extend([&left.to_be_bytes()[1..], &[middle], &right.to_be_bytes()[1..]].concat());
                }
                _ => out.extend([left.to_be_bytes(), right.to_be_bytes()].concat()),
            }
        }
        out.extend([0; 16]);
        out.extend_from_slice(&self.data);
        out.extend_from_slice(b"\xab\xcd\xefMaxMind.com");
        self.metadata().write(&mut out);
        out
    }

    fn number(&self, record: Record) -> u32 {
        match record {
            Record::Empty => self.nodes.len() as u32,
            Record::Node(node) => node as u32,
            Record::Data(offset) => (self.nodes.len() + 16 + offset) as u32,
        }
    }

    fn metadata(&self) -> Value {
        Value::Map(vec![
            ("node_count", Value::U32(self.nodes.len() as u32)),
            ("record_size", Value::U16(self.record_bits)),
            ("ip_version", Value::U16(self.ip_version)),
            ("database_type", Value::Text("Test")),
            ("languages", Value::Array(vec![Value::Text("en")])),
            ("binary_format_major_version", Value::U16(2)),
            ("binary_format_minor_version", Value::U16(0)),
            ("build_epoch", Value::U64(1_700_000_000)),
            ("description", Value::Map(vec![("en", Value::Text("made for a test"))])),
        ])
    }
}
