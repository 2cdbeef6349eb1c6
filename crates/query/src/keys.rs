//! Names of fields that flows are grouped by, as nfdump has them.

use std::sync::LazyLock;

use weir_flow::{Column, ColumnType, NamedElement, is_element_name};

/// Why a name is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A name that is not in the table.
    #[error("'{}' is no key of {question}\nhint: {hint}", name.escape_debug())]
    Unknown {
        /// The name.
        name: String,
        /// What the key was for.
        question: &'static str,
        /// The name that was probably meant, or all that are known.
        hint: String,
    },
    /// A length that an address has not, or none where one is needed.
    #[error("'{}' needs a length from 0 to {bits_max}, as in '{example}'", name.escape_debug())]
    Length {
        /// The name as it was written.
        name: String,
        /// Bits of the address.
        bits_max: u8,
        /// How it is written.
        example: &'static str,
    },
}

/// A field whose values are counted. Undirected ones have two columns or more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatisticKey(&'static (&'static str, &'static [Column]));

static STATISTIC_KEYS: &[(&str, &[Column])] = {
    use Column as C;
    &[
        ("srcip", &[C::SrcAddr]),
        ("dstip", &[C::DstAddr]),
        ("ip", &[C::SrcAddr, C::DstAddr]),
        ("nhip", &[C::NextHop]),
        ("nhbip", &[C::BgpNextHop]),
        ("router", &[C::Exporter]),
        ("srcport", &[C::SrcPort]),
        ("dstport", &[C::DstPort]),
        ("port", &[C::SrcPort, C::DstPort]),
        ("proto", &[C::Protocol]),
        ("flags", &[C::TcpFlags]),
        ("tos", &[C::Tos]),
        ("srctos", &[C::Tos]),
        ("dsttos", &[C::DstTos]),
        ("dir", &[C::Direction]),
        ("srcas", &[C::SrcAs]),
        ("dstas", &[C::DstAs]),
        ("as", &[C::SrcAs, C::DstAs]),
        ("prevas", &[C::PrevAs]),
        ("nextas", &[C::NextAs]),
        ("inif", &[C::InIf]),
        ("outif", &[C::OutIf]),
        ("if", &[C::InIf, C::OutIf]),
        ("srcmask", &[C::SrcMask]),
        ("dstmask", &[C::DstMask]),
        ("mask", &[C::SrcMask, C::DstMask]),
        ("srcvlan", &[C::SrcVlan]),
        ("dstvlan", &[C::DstVlan]),
        ("vlan", &[C::SrcVlan, C::DstVlan]),
        ("insrcmac", &[C::SrcMac]),
        ("outdstmac", &[C::PostDstMac]),
        ("indstmac", &[C::DstMac]),
        ("outsrcmac", &[C::PostSrcMac]),
        ("srcmac", &[C::SrcMac, C::PostSrcMac]),
        ("dstmac", &[C::DstMac, C::PostDstMac]),
        ("inmac", &[C::SrcMac, C::DstMac]),
        ("outmac", &[C::PostSrcMac, C::PostDstMac]),
        ("mac", &[C::SrcMac, C::DstMac, C::PostSrcMac, C::PostDstMac]),
        ("ethertype", &[C::Ethertype]),
        ("odid", &[C::ObservationDomain]),
        ("opid", &[C::ObservationPoint]),
        ("ivrf", &[C::IngressVrf]),
        ("evrf", &[C::EgressVrf]),
        ("minttl", &[C::MinTtl]),
        ("maxttl", &[C::MaxTtl]),
        ("event", &[C::FirewallEvent]),
        ("nat", &[C::NatEvent]),
        ("natsrcip", &[C::NatSrcAddr]),
        ("natdstip", &[C::NatDstAddr]),
        ("natip", &[C::NatSrcAddr, C::NatDstAddr]),
        ("natsrcport", &[C::NatSrcPort]),
        ("natdstport", &[C::NatDstPort]),
        ("natport", &[C::NatSrcPort, C::NatDstPort]),
        ("app", &[C::Application]),
        ("sni", &[C::ServerName]),
        ("srcgeo", &[C::SrcCountry]),
        ("dstgeo", &[C::DstCountry]),
        ("geo", &[C::SrcCountry, C::DstCountry]),
    ]
};

/// Every column by its name, but for lists.
static COLUMN_KEYS: LazyLock<Vec<(&str, &[Column])>> = LazyLock::new(|| {
    let columns = Column::ALL.iter().filter(|column| column.column_type() != ColumnType::Elements);
    columns.map(|column| (column.name(), std::slice::from_ref(column))).collect()
});

impl StatisticKey {
    /// Finds a key by nfdump's name for it, or by the name of a column.
    pub fn parse(name: &str) -> Result<Self, KeyError> {
        let mut keys = STATISTIC_KEYS.iter().chain(COLUMN_KEYS.iter());
        keys.find(|(known, _)| *known == name).map(Self).ok_or_else(|| {
            let hint = key_hint(name, STATISTIC_KEYS.iter().map(|(known, _)| *known));
            KeyError::Unknown { name: name.to_owned(), question: "a statistic", hint }
        })
    }

    /// Every key of the table: those that have a name of their own.
    pub fn all() -> impl Iterator<Item = Self> {
        STATISTIC_KEYS.iter().map(Self)
    }

    /// nfdump's name, or that of the column.
    pub fn nfdump_name(self) -> &'static str {
        self.0.0
    }

    /// Columns whose values are counted.
    pub fn columns(self) -> &'static [Column] {
        self.0.1
    }

    /// Name of the column of the answer: the flow's column, or nfdump's name for several.
    pub fn name(self) -> &'static str {
        match self.0.1 {
            [column] => column.name(),
            _ => self.0.0,
        }
    }
}

/// A field that flows of one row agree in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AggregateKey {
    /// The value of a column.
    Column(Column),
    /// The first bits of the addresses of one family; those of the other family as they are.
    Prefix {
        /// A column of addresses.
        column: Column,
        /// IPv6 rather than IPv4.
        v6: bool,
        /// Bits kept.
        length: u8,
    },
    /// The routed prefix that the record has.
    Network {
        /// A column of addresses.
        column: Column,
        /// The column of the length.
        mask: Column,
    },
    /// The value of an Information Element that has no column, as text. Only the SQL engine answers that.
    Element {
        /// Its Private Enterprise Number; 0 for those of IANA.
        enterprise: u32,
        /// Its number.
        id: u16,
    },
}

/// What the name of an element follows.
pub(crate) const ELEMENT: &str = "element ";

static AGGREGATE_COLUMNS: &[(&str, Column)] = {
    use Column as C;
    &[
        ("proto", C::Protocol),
        ("srcip", C::SrcAddr),
        ("dstip", C::DstAddr),
        ("srcport", C::SrcPort),
        ("dstport", C::DstPort),
        ("srcmask", C::SrcMask),
        ("dstmask", C::DstMask),
        ("srcvlan", C::SrcVlan),
        ("dstvlan", C::DstVlan),
        ("srcas", C::SrcAs),
        ("dstas", C::DstAs),
        ("nextas", C::NextAs),
        ("prevas", C::PrevAs),
        ("inif", C::InIf),
        ("outif", C::OutIf),
        ("next", C::NextHop),
        ("bgpnext", C::BgpNextHop),
        ("insrcmac", C::SrcMac),
        ("outdstmac", C::PostDstMac),
        ("indstmac", C::DstMac),
        ("outsrcmac", C::PostSrcMac),
        ("tos", C::Tos),
        ("srctos", C::Tos),
        ("dsttos", C::DstTos),
        ("ethertype", C::Ethertype),
        ("minttl", C::MinTtl),
        ("maxttl", C::MaxTtl),
        ("flags", C::TcpFlags),
        ("router", C::Exporter),
        ("odid", C::ObservationDomain),
        ("opid", C::ObservationPoint),
        ("xsrcip", C::NatSrcAddr),
        ("xdstip", C::NatDstAddr),
        ("xsrcport", C::NatSrcPort),
        ("xdstport", C::NatDstPort),
        ("app", C::Application),
        ("sni", C::ServerName),
        ("srcgeo", C::SrcCountry),
        ("dstgeo", C::DstCountry),
    ]
};

impl AggregateKey {
    /// The keys of a plain aggregation.
    pub const FIVE_TUPLE: [Self; 5] = [
        Self::Column(Column::Protocol),
        Self::Column(Column::SrcAddr),
        Self::Column(Column::DstAddr),
        Self::Column(Column::SrcPort),
        Self::Column(Column::DstPort),
    ];

    /// The column whose type the values have.
    pub fn column(self) -> Column {
        match self {
            Self::Column(column) | Self::Prefix { column, .. } | Self::Network { column, .. } => column,
            Self::Element { .. } => Column::Elements,
        }
    }

    /// nfdump's name of every key.
    pub fn names() -> impl Iterator<Item = &'static str> + Clone {
        let columns = AGGREGATE_COLUMNS.iter().map(|(known, _)| *known);
        columns.chain(["srcip4/N", "srcip6/N", "dstip4/N", "dstip6/N", "srcnet", "dstnet"])
    }

    /// Reads one entry of nfdump's `-A` list: a name, or `srcip4/N`, `srcip6/N`, `dstip4/N`, `dstip6/N`, `srcnet`,
    /// `dstnet`, or the name of a column; or `element NAME`, as in filters, with the registered name of an Information
    /// Element or its `enterprise/number`. An element that fills a column is that column.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        if let Some(name) = text.strip_prefix(ELEMENT) {
            return Self::of_element(name.trim()).ok_or_else(|| KeyError::Unknown {
                name: text.to_owned(),
                question: "an aggregation",
                hint: "write element tlsCipherSuite, with the registered name, or element 39499/336".to_owned(),
            });
        }
        let (name, length) = text.split_once('/').map_or((text, None), |(name, length)| (name, Some(length)));
        if let Some((column, v6)) = prefix_column(name) {
            let bits_max = if v6 { 128 } else { 32 };
            let length = length.and_then(|length| length.parse().ok()).filter(|length| *length <= bits_max);
            let example = if v6 { "srcip6/64" } else { "srcip4/24" };
            let length = length.ok_or_else(|| KeyError::Length { name: text.to_owned(), bits_max, example })?;
            return Ok(Self::Prefix { column, v6, length });
        }
        match text {
            "srcnet" => return Ok(Self::Network { column: Column::SrcAddr, mask: Column::SrcMask }),
            "dstnet" => return Ok(Self::Network { column: Column::DstAddr, mask: Column::DstMask }),
            _ => {}
        }
        let found = AGGREGATE_COLUMNS.iter().find(|(known, _)| *known == text).map(|(_, column)| *column);
        let found =
            found.or_else(|| Column::by_name(text).filter(|column| column.column_type() != ColumnType::Elements));
        found.map(Self::Column).ok_or_else(|| KeyError::Unknown {
            name: text.to_owned(),
            question: "an aggregation",
            hint: key_hint(text, Self::names()),
        })
    }
}

impl AggregateKey {
    fn of_element(name: &str) -> Option<Self> {
        let element = NamedElement::parse(name)?;
        let column = element.numbers.iter().find_map(|(enterprise, id)| Column::of_element(*enterprise, *id));
        let (enterprise, id) = *element.numbers.first()?;
        Some(column.map_or(Self::Element { enterprise, id }, |(column, _)| Self::Column(column)))
    }
}

/// What to write instead of a name that is no key.
fn key_hint(name: &str, keys: impl Iterator<Item = &'static str> + Clone) -> String {
    let columns = COLUMN_KEYS.iter().map(|(column, _)| *column);
    match weir_filter::meant(name, keys.clone().chain(columns)) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None if is_element_name(name) => format!("it is an Information Element: write 'element {name}'"),
        None => format!("the keys are {}, or the name of a column", keys.collect::<Vec<_>>().join(", ")),
    }
}

fn prefix_column(name: &str) -> Option<(Column, bool)> {
    Some(match name {
        "srcip4" => (Column::SrcAddr, false),
        "srcip6" => (Column::SrcAddr, true),
        "dstip4" => (Column::DstAddr, false),
        "dstip6" => (Column::DstAddr, true),
        _ => return None,
    })
}
