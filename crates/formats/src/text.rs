//! Flows as lines of text: Zeek's `conn.log`, what `rwcut` of `SiLK` prints, CSV.
//!
//! The names of the fields say what they are: columns of ours, or names of those programs. Fields of other names are not
//! kept, and reported once by [`Reader::ignored`]. A line in which a value cannot be read is not kept either, because half a
//! flow is worse than none; it is counted, and the first ones are reported with their numbers.

pub(crate) mod cell;
pub(crate) mod fields;
mod json;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use weir_flow::{Column, ColumnType, FlowBatch, FlowBatchBuilder};

use crate::FormatError;
use cell::Cell;
use fields::Part;

/// Octets of a line at most.
pub const LINE_OCTETS_MAX: usize = 1 << 20;
/// Flows in a batch.
const BATCH_ROWS: usize = 16_384;
/// Bad lines that are reported; more are only counted.
pub const BAD_LINES_TOLD: usize = 10;
/// Octets of the file that are looked at for a title line.
pub(crate) const START_OCTETS: usize = 4096;

/// How fields are parted, and where their names are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Zeek's own form: tabulators, and the names in a line `#fields`.
    ZeekTabs,
    /// One object of JSON on each line, as Zeek writes it.
    JsonLines,
    /// Fields between `|`, with blanks around them; the names are the first line.
    Silk,
    /// Commas, with quotes where needed; the names are the first line.
    Csv,
}

/// A line that was not kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Its number, from 1.
    pub number: u64,
    /// What is wrong with it.
    pub what: String,
}

/// Reads a file. As an iterator it yields batches of flows; an error is the last item.
pub struct Reader {
    path: PathBuf,
    input: BufReader<File>,
    dialect: Dialect,
    /// Names that the user gave a meaning, or none.
    mapping: Vec<(String, Option<Column>)>,
    names: Vec<String>,
    parts: Vec<Part>,
    ignored: BTreeSet<String>,
    line: Vec<u8>,
    number: u64,
    octets_read: u64,
    rows: Rows,
    bad: u64,
    bad_lines: Vec<BadLine>,
    ended: bool,
}

impl Reader {
    /// Opens a file. `mapping` names columns for fields whatever their names say, or none for those to leave out.
    pub fn open(
        path: impl AsRef<Path>,
        dialect: Dialect,
        mapping: &[(String, Option<Column>)],
    ) -> Result<Self, FormatError> {
        let path = path.as_ref().to_owned();
        let file = File::open(&path).map_err(|error| FormatError::open(&path, error))?;
        let mut reader = Self {
            path,
            input: BufReader::with_capacity(1 << 20, file),
            dialect,
            mapping: mapping.to_vec(),
            names: Vec::new(),
            parts: Vec::new(),
            ignored: BTreeSet::new(),
            line: Vec::new(),
            number: 0,
            octets_read: 0,
            rows: Rows::default(),
            bad: 0,
            bad_lines: Vec::new(),
            ended: false,
        };
        if matches!(dialect, Dialect::Silk | Dialect::Csv) && reader.next_line()? {
            let title = reader.split();
            reader.name(title);
        }
        Ok(reader)
    }

    /// Names of fields that are not kept.
    pub fn ignored(&self) -> impl Iterator<Item = &str> {
        self.ignored.iter().map(String::as_str)
    }

    /// Lines that were not kept.
    pub fn lines_bad(&self) -> u64 {
        self.bad
    }

    /// The first of them.
    pub fn bad_lines(&self) -> &[BadLine] {
        &self.bad_lines
    }

    /// Octets of the file read so far.
    pub fn octets_read(&self) -> u64 {
        self.octets_read
    }

    /// Takes the names of the fields.
    fn name(&mut self, names: Vec<String>) {
        let mapped = |name: &String| {
            let known = self.mapping.iter().find(|(known, _)| known == name.trim());
            match known {
                Some((_, column)) => column.map_or(Part::LeftOut, Part::Column),
                None => fields::part(name),
            }
        };
        self.parts = names.iter().map(mapped).collect();
        if self.dialect == Dialect::Csv && fields::is_of_nfdump(&names) {
            for part in &mut self.parts {
                *part = match *part {
                    Part::Column(Column::Protocol) => Part::NfdumpProtocol,
                    Part::Column(Column::DstPort) => Part::NfdumpPort,
                    other => other,
                };
            }
        }
        let ignored = names.iter().zip(&self.parts).filter(|(name, part)| **part == Part::Ignored && !name.is_empty());
        self.ignored.extend(ignored.map(|(name, _)| name.trim().to_owned()));
        self.names = names;
    }

    /// Reads the next line into `self.line`, without its end; false at the end of the file.
    fn next_line(&mut self) -> Result<bool, FormatError> {
        self.line.clear();
        let read = io::Read::take(&mut self.input, LINE_OCTETS_MAX as u64 + 1).read_until(b'\n', &mut self.line);
        let read = read.map_err(|error| FormatError::read(&self.path, error))?;
        if read > LINE_OCTETS_MAX {
            let what = "a line is longer than 1 MiB";
            return Err(FormatError::Damaged { path: self.path.clone(), octet: self.octets_read, what });
        }
        self.octets_read += read as u64;
        self.number += 1;
        while self.line.last().is_some_and(|octet| matches!(octet, b'\n' | b'\r')) {
            self.line.pop();
        }
        Ok(read > 0)
    }

    /// The fields of the line.
    fn split(&self) -> Vec<String> {
        let text = String::from_utf8_lossy(&self.line);
        match self.dialect {
            Dialect::ZeekTabs => text.split('\t').map(str::to_owned).collect(),
            Dialect::Silk => {
                // rwcut ends each line with a delimiter as well
                let text = text.trim_end().strip_suffix('|').unwrap_or(&text);
                text.split('|').map(|field| field.trim().to_owned()).collect()
            }
            Dialect::Csv if !text.contains('"') => text.split(',').map(|field| field.trim().to_owned()).collect(),
            Dialect::Csv => {
                let mut lines = csv::ReaderBuilder::new();
                let mut lines =
                    lines.has_headers(false).flexible(true).trim(csv::Trim::All).from_reader(text.as_bytes());
                let mut record = csv::StringRecord::new();
                match lines.read_record(&mut record) {
                    Ok(true) => record.iter().map(str::to_owned).collect(),
                    _ => Vec::new(),
                }
            }
            Dialect::JsonLines => Vec::new(),
        }
    }

    /// Takes the line: a flow, names, or nothing.
    fn take_line(&mut self) -> Result<(), String> {
        if self.line.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        match self.dialect {
            Dialect::ZeekTabs if self.line.starts_with(b"#") => {
                if let Some(names) = self.line.strip_prefix(b"#fields\t") {
                    let names = String::from_utf8_lossy(names).split('\t').map(str::to_owned).collect();
                    self.name(names);
                }
                return Ok(());
            }
            Dialect::JsonLines => {
                let text = String::from_utf8_lossy(&self.line);
                let found = json::fields(&text).ok_or_else(|| "no object of JSON".to_owned())?;
                let (names, values): (Vec<String>, Vec<String>) = found.into_iter().unzip();
                if names != self.names {
                    self.name(names);
                }
                return self.take_row(&values);
            }
            _ => {}
        }
        let values = self.split();
        // nfdump puts a summary behind its CSV
        if self.dialect == Dialect::Csv && values.first().is_some_and(|first| first == "Summary") {
            self.parts.clear();
        }
        if self.parts.is_empty() {
            return if self.number > 1 && self.names.is_empty() {
                Err("no names of fields precede it".to_owned())
            } else {
                Ok(())
            };
        }
        if values.len() != self.parts.len() {
            return Err(format!("{} fields, where {} have names", values.len(), self.parts.len()));
        }
        self.take_row(&values)
    }

    /// Takes the values of a line. A field with arrows is not kept from then on.
    fn take_row(&mut self, values: &[String]) -> Result<(), String> {
        let taken = self.rows.take(&self.parts, &self.names, values);
        if std::mem::take(&mut self.rows.has_arrows) {
            let directions = self.parts.iter_mut().zip(&self.names);
            for (part, name) in directions.filter(|(part, _)| **part == Part::DirectionOrArrow) {
                *part = Part::Ignored;
                self.ignored.insert(format!("{} (arrows)", name.trim()));
            }
        }
        taken
    }

    fn next_batch(&mut self) -> Result<bool, FormatError> {
        while self.rows.builder().rows() < BATCH_ROWS {
            if !self.next_line()? {
                return Ok(false);
            }
            if let Err(what) = self.take_line() {
                self.bad += 1;
                if self.bad_lines.len() < BAD_LINES_TOLD {
                    self.bad_lines.push(BadLine { number: self.number, what });
                }
            }
        }
        Ok(true)
    }
}

impl Iterator for Reader {
    type Item = Result<FlowBatch, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        match self.next_batch() {
            Ok(more) => {
                self.ended = !more;
                let builder = self.rows.builder();
                (builder.rows() > 0).then(|| Ok(builder.finish()))
            }
            Err(error) => {
                self.ended = true;
                Some(Err(error))
            }
        }
    }
}

/// Rows of a batch, and the one that is read.
#[derive(Default)]
struct Rows {
    builder: Option<FlowBatchBuilder>,
    cells: Vec<(Column, Cell)>,
    /// Whether a field that may be a direction has an arrow.
    has_arrows: bool,
}

impl Rows {
    fn builder(&mut self) -> &mut FlowBatchBuilder {
        self.builder.get_or_insert_with(|| FlowBatchBuilder::new(BATCH_ROWS))
    }

    /// Takes the values of a line as a row.
    fn take(&mut self, parts: &[Part], names: &[String], values: &[String]) -> Result<(), String> {
        self.cells.clear();
        let (mut duration_ms, mut protocol, mut source, mut destination) = (None, None, None, None);
        let mut is_icmp_by_name = false;
        for ((part, name), value) in parts.iter().zip(names).zip(values) {
            let value = value.trim();
            if matches!(part, Part::Ignored | Part::LeftOut) || cell::is_empty(value) {
                continue;
            }
            let bad = || format!("'{value}' is no value of '{}'", name.trim());
            match part {
                Part::Column(column) => {
                    let read = cell::read(*column, value).ok_or_else(bad)?;
                    if *column == Column::Protocol && self.get(Column::Protocol).is_none() {
                        is_icmp_by_name = value.eq_ignore_ascii_case("icmp");
                    }
                    self.set(*column, read);
                }
                Part::DurationSecs => duration_ms = Some(cell::secs_as_ms(value).ok_or_else(bad)?),
                Part::DurationMs => duration_ms = Some(value.parse().map_err(|_| bad())?),
                Part::NfdumpProtocol => {
                    let read = cell::read_nfdump_protocol(value).ok_or_else(bad)?;
                    self.set(Column::Protocol, read);
                }
                Part::NfdumpPort => {
                    let read = cell::read_nfdump_port(value).ok_or_else(bad)?;
                    self.set(Column::DstPort, read);
                }
                Part::ZeekProtocol => protocol = Some(value.parse::<u8>().map_err(|_| bad())?),
                Part::ZeekSource => source = Some(value.parse::<u16>().map_err(|_| bad())?),
                Part::ZeekDestination => destination = Some(value.parse::<u16>().map_err(|_| bad())?),
                Part::Engine => {
                    let (kind, id) = value.split_once('/').ok_or_else(bad)?;
                    for (column, text) in [(Column::EngineType, kind), (Column::EngineId, id)] {
                        let read = cell::read(column, text).ok_or_else(bad)?;
                        self.set(column, read);
                    }
                }
                Part::DirectionOrArrow => match cell::read(Column::Direction, value) {
                    Some(read) => self.set(Column::Direction, read),
                    None if cell::is_arrow(value) => self.has_arrows = true,
                    None => return Err(bad()),
                },
                Part::Ignored | Part::LeftOut => {}
            }
        }
        self.protocol(protocol, is_icmp_by_name);
        self.ports(source, destination);
        self.times(duration_ms)?;
        self.push();
        Ok(())
    }

    /// Sets a value; the first that a line has for a column counts.
    fn set(&mut self, column: Column, cell: Cell) {
        if self.get(column).is_none() {
            self.cells.push((column, cell));
        }
    }

    fn get(&self, column: Column) -> Option<&Cell> {
        self.cells.iter().find(|(known, _)| *known == column).map(|(_, cell)| cell)
    }

    /// The protocol of Zeek: its number, where there is one, and else what its name tells. It calls ICMP of both families
    /// by one name, and so may others; a number is what it is, and so are the names of nfdump, which has one for each.
    fn protocol(&mut self, number: Option<u8>, is_icmp_by_name: bool) {
        const ICMPV6: u8 = 58;
        let is_v6 = matches!(self.get(Column::SrcAddr), Some(Cell::Octets(address)) if address.len() == 16);
        let named = (is_icmp_by_name && is_v6).then_some(ICMPV6);
        if let Some(number) = number.or(named) {
            self.cells.retain(|(column, _)| *column != Column::Protocol);
            self.set(Column::Protocol, Cell::Number(number.into()));
        }
    }

    /// Ports of Zeek, which for ICMP are type and code. Where the type asks for an answer, the second is not the code but
    /// the type of the answer.
    fn ports(&mut self, source: Option<u16>, destination: Option<u16>) {
        let icmp = matches!(self.get(Column::Protocol), Some(Cell::Number(1 | 58)));
        let is_pair = icmp && source.zip(destination).is_some_and(cell::is_icmp_pair);
        let destination = if is_pair { Some(0) } else { destination };
        let columns = if icmp { [Column::IcmpType, Column::IcmpCode] } else { [Column::SrcPort, Column::DstPort] };
        for (column, port) in columns.into_iter().zip([source, destination]) {
            if let Some(port) = port {
                self.set(column, Cell::Number(if icmp { (port & 0xff).into() } else { port.into() }));
            }
        }
    }

    /// Times that follow from others. A flow needs at least one.
    fn times(&mut self, duration_ms: Option<i64>) -> Result<(), String> {
        let time = |rows: &Self, column| match rows.get(column) {
            Some(Cell::Time(ms)) => Some(*ms),
            _ => None,
        };
        let (start, end, received) = (time(self, Column::Start), time(self, Column::End), time(self, Column::Received));
        let duration_ms = duration_ms.unwrap_or(0);
        let start = start.or_else(|| end.map(|end| end.saturating_sub(duration_ms))).or(received);
        let start = start.ok_or_else(|| "there is no time".to_owned())?;
        let end = end.unwrap_or_else(|| start.saturating_add(duration_ms));
        self.set(Column::Start, Cell::Time(start));
        self.set(Column::End, Cell::Time(end));
        // what has no time of reception was received when the flow had ended
        self.set(Column::Received, Cell::Time(end));
        Ok(())
    }

    fn push(&mut self) {
        let cells = std::mem::take(&mut self.cells);
        let builder = self.builder();
        builder.begin_rows(1);
        for (column, cell) in &cells {
            match (cell, column.column_type()) {
                (Cell::Time(ms), _) => builder.time(*column).push(Some(*ms)),
                (Cell::Octets(octets), ColumnType::Text) => builder.text(*column).push(Some(octets)),
                (Cell::Octets(octets), _) => builder.address(*column).push(Some(octets)),
                (Cell::Number(number), ColumnType::U8) => builder.u8(*column).push(Some(*number as u8)),
                (Cell::Number(number), ColumnType::U16) => builder.u16(*column).push(Some(*number as u16)),
                (Cell::Number(number), ColumnType::U32) => builder.u32(*column).push(Some(*number as u32)),
                (Cell::Number(number), _) => builder.u64(*column).push(Some(*number)),
            }
        }
        self.cells = cells;
    }
}

/// What the first octets of a file say: which dialect it is, when it is one at all.
pub(crate) fn dialect_of(start: &[u8]) -> Option<Dialect> {
    if start.starts_with(b"#separator") || start.windows(9).any(|octets| octets == b"\n#fields\t") {
        return Some(Dialect::ZeekTabs);
    }
    let text = String::from_utf8_lossy(start);
    let first = text.lines().next()?;
    if first.trim_start().starts_with("{\"") {
        return Some(Dialect::JsonLines);
    }
    // a title is taken for one when at least two fields of it have a meaning
    let known = |delimiter| {
        first.split(delimiter).filter(|name| fields::part(name.trim_matches('"')) != Part::Ignored).count() >= 2
    };
    match () {
        () if first.contains('|') && known('|') => Some(Dialect::Silk),
        () if known(',') => Some(Dialect::Csv),
        () => None,
    }
}
