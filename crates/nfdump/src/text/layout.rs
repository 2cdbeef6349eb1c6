//! Formats that are made of tags: lines, and comma-separated values.

use std::fmt::Write;

use weir_flow::Column;

use super::release::Release;
use super::tags::{Counter, Field, Port, Tag};

/// Why the text of a format means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// A format that is not known by name.
    #[error("unknown output mode '{}'\nhint: the modes are {known}", name.escape_debug())]
    UnknownFormat {
        /// The name.
        name: String,
        /// The names that are known.
        known: String,
    },
    /// A tag that is not in the table.
    #[error("output format parse error at: %{}\nhint: the tags are {known}", tag.escape_debug())]
    UnknownTag {
        /// The tag, without the `%`.
        tag: String,
        /// The tags that are known.
        known: String,
    },
    /// Something other than a comma between two tags of comma-separated values.
    #[error("expected ',' and a tag after '{}'", before.escape_debug())]
    NoComma {
        /// The text up to there.
        before: String,
    },
    /// Nothing to write.
    #[error("the output format has no tag")]
    Empty,
    /// Formats that contain each other.
    #[error("output formats contain each other more than {depth_max} deep at %{}", name.escape_debug())]
    TooDeep {
        /// The format.
        name: String,
        /// How deep they may.
        depth_max: usize,
    },
}

/// Formats may contain formats, nested this deep.
const DEPTH_MAX: usize = 8;

/// A piece of a line.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Piece {
    Literal(String),
    Field(Field),
}

/// The pieces of a line, and the heading above it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layout {
    pub(super) pieces: Vec<Piece>,
    pub(super) heading: String,
}

/// nfdump's formats of one line each.
static NAMED: &[(&str, &str)] = &[
    ("line", "%ts %td %pr %sap -> %dap %pkt %byt %fl"),
    ("gline", "%ts %td %pr %gsap -> %gdap %pkt %byt %fl"),
    ("long", "%ts %td %pr %sap -> %dap %flg %tos %pkt %byt %fl"),
    ("glong", "%ts %td %pr %gsap -> %gdap %flg %tos %pkt %byt %fl"),
    ("extended", "%ts %td %pr %sap -> %dap %flg %tos %pkt %byt %pps %bps %bpp %fl"),
    ("biline", "%ts %td %pr %sap <-> %dap %opkt %ipkt %obyt %ibyt %fl"),
    ("bilong", "%ts %td %pr %sap <-> %dap %flg %tos %opkt %ipkt %obyt %ibyt %fl"),
    ("nsel", "%tevt %evt %xevt %pr %sap -> %dap %xsap -> %xdap %ibyt %obyt"),
    ("nat", "%tevt %evt %pr %sap -> %dap %nsap -> %ndap"),
    ("nel", "%tevt %evt %pr %sap -> %dap %nsap -> %ndap"),
];

/// Comma-separated values when nothing else is asked for.
pub(super) const CSV: &str = "%ts,%td,%pr,%sa,%sp,%da,%dp,%pkt,%byt,%fl";

/// What 1.7.8 has of them in another way.
static NAMED_CHANGED: &[(&str, &str)] = &[
    ("nsel", "%ts %evt %xevt %pr %sap -> %dap %xsap -> %xdap %ibyt %obyt"),
    ("nat", "%ts %evt %pr %sap -> %dap %nsap -> %ndap"),
];

/// Formats that 1.7.8 does not have any more.
static NAMED_GONE: &[&str] = &["nel"];

/// nfdump's formats of one line each, by name.
pub(super) fn named(release: Release) -> impl Iterator<Item = (&'static str, &'static str)> {
    let changed = |name: &str| NAMED_CHANGED.iter().find(|(changed, _)| *changed == name);
    NAMED
        .iter()
        .filter(move |(name, _)| !(release.is_last() && NAMED_GONE.contains(name)))
        .map(move |named| *changed(named.0).filter(|_| release.is_last()).unwrap_or(named))
}

/// Formats by name, those of a configuration file before nfdump's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) own: &'a [(String, String)],
    pub(super) release: Release,
}

impl<'a> Names<'a> {
    pub(super) fn find(self, name: &str) -> Option<&'a str> {
        let own = self.own.iter().find(|(known, _)| known == name).map(|(_, format)| format.as_str());
        own.or_else(|| named(self.release).find(|(known, _)| *known == name).map(|(_, format)| format))
    }
}

/// Makes a layout of the text after `fmt:`. Each address is `long_by` octets longer than usual.
pub(super) fn lines(text: &str, names: Names<'_>, long_by: usize) -> Result<Layout, FormatError> {
    let mut layout = Layout { pieces: Vec::new(), heading: String::new() };
    add_lines(text, names, long_by, 0, &mut layout)?;
    if layout.pieces.is_empty() { Err(FormatError::Empty) } else { Ok(layout) }
}

fn add_lines(
    text: &str,
    names: Names<'_>,
    long_by: usize,
    depth: usize,
    layout: &mut Layout,
) -> Result<(), FormatError> {
    let mut rest = text;
    while !rest.is_empty() {
        let Some(tagged) = rest.strip_prefix('%') else {
            let (literal, next) = rest.split_at(rest.find('%').unwrap_or(rest.len()));
            // nfdump leaves the literals out of the heading
            layout.heading.extend(std::iter::repeat_n(' ', literal.chars().count()));
            layout.pieces.push(Piece::Literal(literal.to_owned()));
            rest = next;
            continue;
        };
        let (name, next) = split_name(tagged);
        match (Tag::by_name(name, names.release), names.find(name)) {
            (Some(tag), _) => {
                let blanks = if tag.has_wide_heading(names.release) { long_by } else { 0 };
                layout.heading.extend(std::iter::repeat_n(' ', blanks));
                layout.heading.push_str(tag.heading);
                layout.pieces.push(Piece::Field(tag.field));
            }
            (None, Some(_)) if depth == DEPTH_MAX => {
                return Err(FormatError::TooDeep { name: name.to_owned(), depth_max: DEPTH_MAX });
            }
            (None, Some(format)) => {
                let format = format.strip_prefix("fmt:").unwrap_or(format);
                add_lines(format, names, long_by, depth + 1, layout)?;
            }
            (None, None) => return Err(unknown(name, names.release, |_| true)),
        }
        rest = next;
    }
    Ok(())
}

/// Makes a layout of the text after `csv:`; the commas are literals.
pub(super) fn csv(text: &str, release: Release) -> Result<Layout, FormatError> {
    let mut layout = Layout { pieces: Vec::new(), heading: String::new() };
    let mut rest = text.trim_start_matches(' ');
    while !rest.is_empty() {
        let before = || FormatError::NoComma { before: text[..text.len() - rest.len()].to_owned() };
        let (name, next) = split_name(rest.strip_prefix('%').ok_or_else(before)?);
        let tag = Tag::by_name(name, release).filter(|tag| !tag.csv_heading.is_empty());
        let tag = tag.ok_or_else(|| unknown(name, release, |tag| !tag.csv_heading.is_empty()))?;
        if !layout.pieces.is_empty() {
            layout.heading.push(',');
            layout.pieces.push(Piece::Literal(",".to_owned()));
        }
        layout.heading.push_str(tag.csv_heading);
        layout.pieces.push(Piece::Field(tag.field));
        rest = next.trim_start_matches(' ');
        if !rest.is_empty() {
            let before = || FormatError::NoComma { before: text[..text.len() - rest.len()].to_owned() };
            rest = rest.strip_prefix(',').ok_or_else(before)?.trim_start_matches(' ');
            if rest.is_empty() {
                return Err(FormatError::NoComma { before: text.to_owned() });
            }
        }
    }
    if layout.pieces.is_empty() { Err(FormatError::Empty) } else { Ok(layout) }
}

/// The columns of comma-separated values of 1.7.1.
pub(super) fn csv_of_1_7_1() -> Layout {
    use Column as C;
    let macs = [C::SrcMac, C::PostDstMac, C::DstMac, C::PostSrcMac].map(Field::Mac);
    // latencies, which are not kept
    let latency = Field::Empty("", "    0.000");
    let fields = [
        Field::TimeSeconds(C::Start),
        Field::TimeSeconds(C::End),
        Field::Duration,
        Field::Address(C::SrcAddr),
        Field::Address(C::DstAddr),
        Field::Port(Port::Of(C::SrcPort)),
        Field::Port(Port::Of(C::DstPort)),
        Field::ProtocolName,
        Field::Flags,
    ];
    let numbers = |columns: &[Column]| columns.iter().map(|column| Field::Number(*column, 0)).collect::<Vec<_>>();
    let counters = [Counter::Packets, Counter::Bytes, Counter::PacketsOut, Counter::BytesOut].map(Field::Counter);
    let routing = [C::InIf, C::OutIf, C::SrcAs, C::DstAs, C::SrcMask, C::DstMask, C::DstTos, C::Direction];
    let fields = fields
        .into_iter()
        .chain(numbers(&[C::ForwardingStatus, C::Tos]))
        .chain(counters)
        .chain(numbers(&routing))
        .chain([Field::Address(C::NextHop), Field::Address(C::BgpNextHop)])
        .chain(numbers(&[C::SrcVlan, C::DstVlan]))
        .chain(macs)
        .chain((0..10).map(Field::Label))
        .chain([latency; 3])
        .chain([Field::Address(C::Exporter), Field::Engine, Field::ExporterNumber, Field::Time(C::Received)]);
    let comma = || Piece::Literal(",".to_owned());
    let pieces = fields.flat_map(|field| [comma(), Piece::Field(field)]).skip(1).collect();
    let heading = "ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt,opkt,obyt,in,out,sas,das,smk,dmk,dtos,dir,nh,nhb,svln,dvln,ismc,odmc,\
                   idmc,osmc,mpls1,mpls2,mpls3,mpls4,mpls5,mpls6,mpls7,mpls8,mpls9,mpls10,cl,sl,al,ra,eng,exid,tr";
    Layout { pieces, heading: heading.to_owned() }
}

/// nfdump's fixed set of columns, with times in milliseconds.
pub(super) fn csv_fast() -> Layout {
    use Column as C;
    let fields = [
        Field::Count,
        Field::Family(0),
        Field::Number(C::Start, 0),
        Field::Number(C::End, 0),
        Field::Number(C::Protocol, 0),
        Field::Address(C::SrcAddr),
        Field::Number(C::SrcPort, 0),
        Field::Address(C::DstAddr),
        Field::Number(C::DstPort, 0),
        Field::Number(C::SrcAs, 0),
        Field::Number(C::DstAs, 0),
        Field::Number(C::InIf, 0),
        Field::Number(C::OutIf, 0),
        Field::Flags,
        Field::Number(C::Tos, 0),
        Field::Counter(Counter::Packets),
        Field::Counter(Counter::Bytes),
    ];
    let comma = || Piece::Literal(",".to_owned());
    let pieces = fields.into_iter().flat_map(|field| [comma(), Piece::Field(field)]).skip(1).collect();
    let heading = "cnt,af,firstSeen,lastSeen,proto,srcAddr,srcPort,dstAddr,dstPort,srcAS,dstAS,input,output,flags,srcTos,packets,bytes";
    Layout { pieces, heading: heading.to_owned() }
}

/// What nfdump calls pipe: numbers with strokes between them, addresses as four words.
pub(super) fn pipe() -> Layout {
    use Column as C;
    let fields = [
        // groups without an address are of IPv4
        Field::Family(2),
        Field::Number(C::Start, 0),
        Field::Number(C::End, 0),
        Field::Number(C::Protocol, 0),
        Field::AddressWords(C::SrcAddr),
        Field::Number(C::SrcPort, 0),
        Field::AddressWords(C::DstAddr),
        Field::Number(C::DstPort, 0),
        Field::Number(C::SrcAs, 0),
        Field::Number(C::DstAs, 0),
        Field::Number(C::InIf, 0),
        Field::Number(C::OutIf, 0),
        Field::Number(C::TcpFlags, 0),
        Field::Number(C::Tos, 0),
        Field::Counter(Counter::Packets),
        Field::Counter(Counter::Bytes),
    ];
    let stroke = || Piece::Literal("|".to_owned());
    let pieces = fields.into_iter().flat_map(|field| [stroke(), Piece::Field(field)]).skip(1).collect();
    Layout { pieces, heading: String::new() }
}

/// A name ends before the first octet that is neither a letter nor a digit.
fn split_name(text: &str) -> (&str, &str) {
    text.split_at(text.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(text.len()))
}

fn unknown(name: &str, release: Release, is_offered: impl Fn(&Tag) -> bool) -> FormatError {
    let mut known = String::new();
    for tag in Tag::all(release).filter(|tag| is_offered(tag)) {
        // writing to a text does not fail
        let _ = write!(known, "{}%{}", if known.is_empty() { "" } else { " " }, tag.name);
    }
    FormatError::UnknownTag { tag: name.to_owned(), known }
}
