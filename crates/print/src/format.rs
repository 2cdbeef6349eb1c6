//! Which formats there are, and what can be chosen about them.

use jiff::tz::TimeZone;
use weir_flow::Column;

use crate::Bars;

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// Aligned columns for people: names of protocols, letters of flags, scaled numbers.
    #[default]
    Table,
    /// Comma-separated values (RFC 4180) with a header line; null is empty.
    Csv,
    /// One JSON array of objects.
    Json,
    /// One JSON object a line.
    Ndjson,
    /// Nothing: rows are counted only.
    Null,
}

impl Format {
    /// Every format.
    pub const ALL: &'static [Format] = &[Self::Table, Self::Csv, Self::Json, Self::Ndjson, Self::Null];

    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Ndjson => "ndjson",
            Self::Null => "null",
        }
    }

    /// Finds a format by its name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.name() == name)
    }
}

/// How text is made for people. The formats for programs always write times in UTC and numbers in full.
#[derive(Debug, Clone)]
pub struct OutputOptions {
    /// Zone of the times in tables.
    pub zone: TimeZone,
    /// Whether tables scale counters from a million on (`1.2 M`) and round numbers with a fraction to six digits.
    pub scaled: bool,
    /// Whether tables and CSV begin with the names of the columns.
    pub header: bool,
    /// Whether tables head columns with short labels rather than with their names in SQL, and have type and code of ICMP in
    /// the place of the destination port.
    pub labels: bool,
    /// Columns that tables do not show: others are printed by them.
    pub hidden: Vec<Column>,
    /// What CSV does with texts.
    pub texts: Texts,
    /// What decimals are in JSON.
    pub decimals: Decimals,
    /// Bars next to the rows of tables.
    pub bars: Option<Bars>,
}

/// What CSV does with texts, of which many came over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Texts {
    /// Writes out what a terminal obeys, and puts an apostrophe before what a spreadsheet would compute.
    #[default]
    Harmless,
    /// Has them as they came.
    Raw,
}

/// What decimals are in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decimals {
    /// Numbers with all of their digits.
    #[default]
    Numbers,
    /// Texts, but for whole numbers of 64 bits: for readers that take all other numbers as floating point, and would change
    /// their digits.
    Texts,
}

impl Default for OutputOptions {
    fn default() -> Self {
        Self {
            zone: TimeZone::UTC,
            scaled: true,
            header: true,
            labels: false,
            hidden: Vec::new(),
            texts: Texts::Harmless,
            decimals: Decimals::Numbers,
            bars: None,
        }
    }
}

/// The name of a zone for people: that of its region, `UTC` for all names of that, or how far it is ahead of UTC.
pub fn zone_name(zone: &TimeZone) -> String {
    let offset = || zone.to_fixed_offset().map_or_else(|_| "local".to_owned(), |offset| offset.to_string());
    match zone.iana_name() {
        Some(
            "Etc/UTC" | "Etc/UCT" | "Etc/Zulu" | "Etc/Universal" | "UCT" | "Zulu" | "Universal" | "GMT" | "Etc/GMT",
        ) => "UTC".to_owned(),
        Some(name) => name.to_owned(),
        None => offset(),
    }
}
