//! A file of any format, which is recognised by its content.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use weir_flow::{Column, FlowBatch, TableBatch};

use crate::text::{self, BadLine, Dialect};
use crate::{FormatError, columnar, flow_tools, nfcapd};

/// A format of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// nfdump, see [`nfcapd`].
    Nfcapd,
    /// flow-tools, see [`flow_tools`].
    FlowTools,
    /// Zeek's `conn.log`, in its own form or as JSON.
    Zeek,
    /// What `rwcut` of `SiLK` prints.
    Silk,
    /// CSV.
    Csv,
    /// Parquet, see [`columnar`].
    Parquet,
}

impl Format {
    /// Every format.
    pub const ALL: &'static [Self] = &[Self::Nfcapd, Self::FlowTools, Self::Zeek, Self::Silk, Self::Csv, Self::Parquet];

    /// Its name in options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nfcapd => "nfcapd",
            Self::FlowTools => "flow-tools",
            Self::Zeek => "zeek",
            Self::Silk => "silk",
            Self::Csv => "csv",
            Self::Parquet => "parquet",
        }
    }

    /// The format of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|format| format.name() == name)
    }

    /// The format of a file that begins so, `None` when it is none of these.
    pub fn of_start(start: &[u8]) -> Option<Self> {
        match start {
            [0x0c, 0xa5, ..] | [0xa5, 0x0c, ..] => Some(Self::Nfcapd),
            start if start.starts_with(&flow_tools::MAGIC) => Some(Self::FlowTools),
            start if start.starts_with(columnar::MAGIC) => Some(Self::Parquet),
            _ => text::dialect_of(start).map(|dialect| match dialect {
                Dialect::ZeekTabs | Dialect::JsonLines => Self::Zeek,
                Dialect::Silk => Self::Silk,
                Dialect::Csv => Self::Csv,
            }),
        }
    }

    /// The format of a file, `None` when it is none of these.
    pub fn of_file(path: impl AsRef<Path>) -> Result<Option<Self>, FormatError> {
        Ok(Self::of_start(&start_of(path.as_ref())?))
    }
}

fn start_of(path: &Path) -> Result<Vec<u8>, FormatError> {
    let file = File::open(path).map_err(|error| FormatError::open(path, error))?;
    let mut start = Vec::new();
    let read = file.take(text::START_OCTETS as u64).read_to_end(&mut start);
    read.map_err(|error: io::Error| FormatError::read(path, error))?;
    Ok(start)
}

/// Reads a file of any format. As an iterator it yields batches of flows; an error is the last item.
pub enum AnyReader {
    /// A file of nfdump.
    Nfcapd(Box<nfcapd::Reader>),
    /// A file of flow-tools.
    FlowTools(Box<flow_tools::Reader>),
    /// Lines of text.
    Text(Box<text::Reader>),
    /// A Parquet file.
    Columnar(Box<columnar::Reader>),
}

/// Parts of a file that were not read, or have no column.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ReadLosses {
    /// Blocks of octets that could not be read.
    pub blocks: u64,
    /// Records or lines that could not be read.
    pub records: u64,
    /// Values that fit into no column.
    pub values: u64,
    /// The first lines that could not be read.
    pub lines: Vec<BadLine>,
    /// Names of fields that have no column.
    pub fields: Vec<String>,
}

impl AnyReader {
    /// Opens a file: as of the format that is given, or of the one that it looks like. `mapping` names columns for
    /// fields of text and Parquet whatever their names say, or none for those to leave out.
    pub fn open(
        path: impl AsRef<Path>,
        format: Option<Format>,
        mapping: &[(String, Option<Column>)],
    ) -> Result<Self, FormatError> {
        let path = path.as_ref();
        let start = start_of(path)?;
        let not_this = || FormatError::NotThis { path: path.to_owned(), expected: "a file of flows of a known format" };
        let format = format.or_else(|| Format::of_start(&start)).ok_or_else(not_this)?;
        let dialect = match format {
            Format::Nfcapd => return nfcapd::Reader::open(path).map(|reader| Self::Nfcapd(reader.into())),
            Format::FlowTools => return flow_tools::Reader::open(path).map(|reader| Self::FlowTools(reader.into())),
            Format::Parquet => {
                return columnar::Reader::open(path, mapping).map(|reader| Self::Columnar(reader.into()));
            }
            Format::Zeek if start.trim_ascii_start().starts_with(b"{") => Dialect::JsonLines,
            Format::Zeek => Dialect::ZeekTabs,
            Format::Silk => Dialect::Silk,
            Format::Csv => Dialect::Csv,
        };
        text::Reader::open(path, dialect, mapping).map(|reader| Self::Text(reader.into()))
    }

    /// Rows for `exporter_options` that were found since this was last asked.
    pub fn take_options(&mut self) -> Option<TableBatch> {
        match self {
            Self::Nfcapd(reader) => reader.take_options(),
            _ => None,
        }
    }

    /// Octets of the file read so far; 0 where that is not known.
    pub fn octets_read(&self) -> u64 {
        match self {
            Self::Nfcapd(reader) => reader.octets_read(),
            Self::Text(reader) => reader.octets_read(),
            Self::FlowTools(_) | Self::Columnar(_) => 0,
        }
    }

    /// What was not kept so far.
    pub fn lost(&self) -> ReadLosses {
        match self {
            Self::Nfcapd(reader) => {
                let damage = reader.damage();
                let extensions = (damage.extensions_unknown > 0).then(|| "extensions".to_owned());
                ReadLosses {
                    blocks: damage.blocks_damaged,
                    records: damage.records_damaged,
                    values: damage.extensions_unknown,
                    fields: extensions.into_iter().collect(),
                    ..ReadLosses::default()
                }
            }
            Self::FlowTools(_) => ReadLosses::default(),
            Self::Text(reader) => ReadLosses {
                records: reader.lines_bad(),
                lines: reader.bad_lines().to_vec(),
                fields: reader.ignored().map(str::to_owned).collect(),
                ..ReadLosses::default()
            },
            Self::Columnar(reader) => ReadLosses {
                records: reader.rows_refused(),
                values: reader.values_refused(),
                fields: reader.ignored().map(str::to_owned).collect(),
                ..ReadLosses::default()
            },
        }
    }
}

impl Iterator for AnyReader {
    type Item = Result<FlowBatch, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Nfcapd(reader) => reader.next(),
            Self::FlowTools(reader) => reader.next(),
            Self::Text(reader) => reader.next(),
            Self::Columnar(reader) => reader.next(),
        }
    }
}
