//! Information Elements by number, name and type.
//!
//! The IANA elements (RFC 7012 and the registry it founded) are a table of text beside this file, read once on first
//! use. Elements of other enterprises that we know are in a second table of the same shape, and the field types from
//! 32768 up that vendors took in NetFlow v9, which has no enterprise numbers, in a third. An element in none of them is
//! still kept, as octets under its numbers.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Enterprise number under which RFC 5103 section 6.1 puts the reverse of every IANA element.
pub const REVERSE_ENTERPRISE: u32 = 29305;

/// ntop, whose nProbe reports the addresses of tunnels.
pub const NTOP_ENTERPRISE: u32 = 35632;

/// What ntop's elements have more in `NetFlow` v9, which has no enterprise numbers, than under its own number in IPFIX
/// (nProbe User's Guide, "Flow Information Elements").
pub const NTOP_NETFLOW9_BASE: u16 = 57472;

/// Abstract data types of RFC 7012 section 3.1 and RFC 6313 section 4.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DataType {
    /// Octets without further structure.
    OctetArray,
    /// Unsigned integer of at most this many octets (1, 2, 4, 8 or 32).
    Unsigned(u8),
    /// Signed integer of at most this many octets.
    Signed(u8),
    /// IEEE 754 number of at most this many octets.
    Float(u8),
    /// 1 for true, 2 for false (RFC 7011 section 6.1.5).
    Boolean,
    /// Six octets.
    MacAddress,
    /// UTF-8 text.
    Text,
    /// Seconds since the epoch.
    DateTimeSeconds,
    /// Milliseconds since the epoch.
    DateTimeMilliseconds,
    /// NTP timestamp with microsecond precision.
    DateTimeMicroseconds,
    /// NTP timestamp with nanosecond precision.
    DateTimeNanoseconds,
    /// Four octets.
    Ipv4Address,
    /// Sixteen octets.
    Ipv6Address,
    /// Values of one element (RFC 6313 section 4.1).
    BasicList,
    /// Records of one Template (RFC 6313 section 4.2).
    SubTemplateList,
    /// Records of several Templates (RFC 6313 section 4.3).
    SubTemplateMultiList,
}

impl DataType {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "octetArray" => Self::OctetArray,
            "unsigned8" => Self::Unsigned(1),
            "unsigned16" => Self::Unsigned(2),
            "unsigned32" => Self::Unsigned(4),
            "unsigned64" => Self::Unsigned(8),
            "unsigned256" => Self::Unsigned(32),
            "signed8" => Self::Signed(1),
            "signed16" => Self::Signed(2),
            "signed32" => Self::Signed(4),
            "signed64" => Self::Signed(8),
            "float32" => Self::Float(4),
            "float64" => Self::Float(8),
            "boolean" => Self::Boolean,
            "macAddress" => Self::MacAddress,
            "string" => Self::Text,
            "dateTimeSeconds" => Self::DateTimeSeconds,
            "dateTimeMilliseconds" => Self::DateTimeMilliseconds,
            "dateTimeMicroseconds" => Self::DateTimeMicroseconds,
            "dateTimeNanoseconds" => Self::DateTimeNanoseconds,
            "ipv4Address" => Self::Ipv4Address,
            "ipv6Address" => Self::Ipv6Address,
            "basicList" => Self::BasicList,
            "subTemplateList" => Self::SubTemplateList,
            "subTemplateMultiList" => Self::SubTemplateMultiList,
            _ => return None,
        })
    }

    /// The type that an exporter names by this number in a type options record (RFC 5610 section 3.1; the numbers of
    /// lists are those of RFC 6313 section 11.1).
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::OctetArray,
            1 => Self::Unsigned(1),
            2 => Self::Unsigned(2),
            3 => Self::Unsigned(4),
            4 => Self::Unsigned(8),
            5 => Self::Signed(1),
            6 => Self::Signed(2),
            7 => Self::Signed(4),
            8 => Self::Signed(8),
            9 => Self::Float(4),
            10 => Self::Float(8),
            11 => Self::Boolean,
            12 => Self::MacAddress,
            13 => Self::Text,
            14 => Self::DateTimeSeconds,
            15 => Self::DateTimeMilliseconds,
            16 => Self::DateTimeMicroseconds,
            17 => Self::DateTimeNanoseconds,
            18 => Self::Ipv4Address,
            19 => Self::Ipv6Address,
            20 => Self::BasicList,
            21 => Self::SubTemplateList,
            22 => Self::SubTemplateMultiList,
            23 => Self::Unsigned(32),
            _ => return None,
        })
    }

    /// Whether values are lists of others.
    pub const fn is_list(self) -> bool {
        matches!(self, Self::BasicList | Self::SubTemplateList | Self::SubTemplateMultiList)
    }
}

/// What the registry says about one Information Element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// Private Enterprise Number, 0 for IANA's own.
    pub enterprise: u32,
    /// Element number.
    pub id: u16,
    /// Name, such as `octetDeltaCount`.
    pub name: String,
    /// Abstract data type.
    pub data_type: DataType,
    /// Data type semantics, such as `deltaCounter`.
    pub semantics: &'static str,
    /// Units, empty when there are none.
    pub units: &'static str,
}

struct Registry {
    by_id: HashMap<(u32, u16), Element, foldhash::fast::RandomState>,
    by_name: HashMap<String, (u32, u16)>,
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let mut registry = Registry { by_id: HashMap::default(), by_name: HashMap::new() };
    for line in lines(include_str!("registry/iana.tsv")) {
        registry.read_line(0, &line);
    }
    for line in lines(include_str!("registry/enterprises.tsv")) {
        if let Some((enterprise, rest)) = line.split_first()
            && let Ok(enterprise) = enterprise.parse()
        {
            registry.read_line(enterprise, rest);
        }
    }
    for line in lines(include_str!("registry/netflow9.tsv")) {
        registry.read_line(0, &line);
    }
    registry
});

fn lines(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    table.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(|line| line.split('\t').collect())
}

impl Registry {
    fn read_line(&mut self, enterprise: u32, fields: &[&'static str]) {
        let [id, name, data_type, rest @ ..] = fields else { return };
        let (Ok(id), Some(data_type)) = (id.parse(), DataType::parse(data_type)) else { return };
        let semantics = rest.first().copied().unwrap_or("default");
        let units = rest.get(1).copied().unwrap_or("");
        let element = Element { enterprise, id, name: (*name).to_owned(), data_type, semantics, units };
        // the field types that only NetFlow v9 has room for have no reverse
        if enterprise == 0 && id < 1 << 15 {
            let reverse = Element { enterprise: REVERSE_ENTERPRISE, name: reverse_name(name), ..element.clone() };
            self.insert(reverse);
        }
        self.insert(element);
    }

    fn insert(&mut self, element: Element) {
        let key = (element.enterprise, element.id);
        self.by_name.entry(element.name.clone()).or_insert(key);
        self.by_id.insert(key, element);
    }
}

/// RFC 5103 section 6.3: "reverse", then the name with its first letter in upper case.
fn reverse_name(name: &str) -> String {
    let mut letters = name.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("reverse{first}{}", letters.as_str())
}

/// Finds an element by its numbers.
pub fn element(enterprise: u32, id: u16) -> Option<&'static Element> {
    REGISTRY.by_id.get(&(enterprise, id))
}

/// Finds an element by its registered name.
pub fn element_by_name(name: &str) -> Option<&'static Element> {
    let (enterprise, id) = *REGISTRY.by_name.get(name)?;
    element(enterprise, id)
}

/// An element as a person names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedElement {
    /// Enterprise and number; those of ntop have a second one in `NetFlow` v9.
    pub numbers: Vec<(u32, u16)>,
    /// How its octets are read.
    pub data_type: DataType,
}

impl NamedElement {
    /// Finds an element by its registered name, in letters of either case, or by `enterprise/number`; IANA's by its number
    /// alone. The name of an element of ntop, with or without the prefix that it has in `NetFlow` v9, stands for both of its
    /// numbers.
    pub fn parse(name: &str) -> Option<Self> {
        let key = REGISTRY.by_name.get(name).or_else(|| BY_SMALL_NAME.get(&name.to_ascii_lowercase()));
        let (enterprise, id) = if let Some(key) = key {
            *key
        } else {
            let (enterprise, id) = name.split_once('/').unwrap_or(("0", name));
            (enterprise.trim().parse().ok()?, id.trim().parse().ok()?)
        };
        let other = match enterprise {
            0 => id.checked_sub(NTOP_NETFLOW9_BASE).map(|id| (NTOP_ENTERPRISE, id)),
            NTOP_ENTERPRISE => id.checked_add(NTOP_NETFLOW9_BASE).map(|id| (0, id)),
            _ => None,
        };
        let numbers: Vec<_> = [Some((enterprise, id)), other].into_iter().flatten().collect();
        let known = numbers.iter().find_map(|(enterprise, id)| element(*enterprise, *id));
        Some(Self { data_type: known.map_or(DataType::OctetArray, |known| known.data_type), numbers })
    }
}

/// Whether a word is the registered name of an element, in letters of either case.
pub fn is_element_name(name: &str) -> bool {
    name.contains(|letter: char| letter.is_ascii_alphabetic()) && NamedElement::parse(name).is_some()
}

/// Elements by their names in small letters; of several the one of the smallest enterprise and number.
static BY_SMALL_NAME: LazyLock<HashMap<String, (u32, u16)>> = LazyLock::new(|| {
    let mut names = HashMap::new();
    for element in elements() {
        names.entry(element.name.to_ascii_lowercase()).or_insert((element.enterprise, element.id));
    }
    names
});

/// Every known element, in the order of enterprise and number.
pub fn elements() -> Vec<&'static Element> {
    let mut all: Vec<_> = REGISTRY.by_id.values().collect();
    all.sort_by_key(|element| (element.enterprise, element.id));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_tables_is_read() {
        let iana = lines(include_str!("registry/iana.tsv")).count();
        let others = lines(include_str!("registry/enterprises.tsv")).count();
        assert!(iana > 490, "the table is cut off");
        let netflow9 = lines(include_str!("registry/netflow9.tsv")).count();
        assert_eq!(elements().len(), 2 * iana + others + netflow9);
    }

    #[test]
    fn elements_by_number_and_name() {
        let octets = element(0, 1).expect("octetDeltaCount");
        assert_eq!(
            (octets.name.as_str(), octets.data_type, octets.units),
            ("octetDeltaCount", DataType::Unsigned(8), "octets")
        );
        assert_eq!(element_by_name("sourceIPv6Address").map(|e| e.id), Some(27));
        assert_eq!(element_by_name("reverseOctetDeltaCount").map(|e| (e.enterprise, e.id)), Some((29305, 1)));
        assert_eq!(element(0, 65535), None);
    }

    #[test]
    fn elements_as_people_name_them() {
        let numbers = |name: &str| NamedElement::parse(name).map(|found| found.numbers);
        assert_eq!(numbers("interfaceName"), Some(vec![(0, 82)]));
        assert_eq!(numbers("INTERFACENAME"), Some(vec![(0, 82)]));
        assert_eq!(numbers("82"), Some(vec![(0, 82)]));
        assert_eq!(numbers("9/12235"), Some(vec![(9, 12235)]));
        assert_eq!(numbers("dns_ttl_answer"), Some(vec![(35632, 352), (0, 57824)]));
        assert_eq!(numbers("57824"), Some(vec![(0, 57824), (35632, 352)]));
        assert_eq!(numbers("no such element"), None);
        assert_eq!(NamedElement::parse("tlsCipherSuite").map(|found| found.data_type), Some(DataType::Unsigned(2)));
        assert_eq!(NamedElement::parse("12345/6").map(|found| found.data_type), Some(DataType::OctetArray));
    }

    #[test]
    fn columns_name_registered_elements_only() {
        for column in crate::Column::ALL {
            for &id in column.spec().elements {
                assert!(element(0, id).is_some(), "{column} names element {id}, which is not registered");
            }
            for &(enterprise, id) in column.spec().enterprise_elements {
                assert!(element(enterprise, id).is_some(), "{column} names {enterprise}/{id}, which is not registered");
            }
        }
    }
}
