//! The table of primitives: every word that a filter may use, what follows it, and what it reads.
//!
//! A *phrase* is a direction and the name of a primitive: `port`, `src port`, `bgp next ip`. The parser looks the
//! longest phrase up; everything that is known about it is here.

mod form;
mod table;

pub(crate) use form::{Direction, Form, Primitive};
pub(crate) use table::SPELLINGS;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use weir_flow::{Column, ColumnType};

use crate::Operand;
use crate::element_name::element_phrase;
use Form::{Address, Mac, Number, Text, Time, Unanswerable};
use table::{ADDRESSES, MPLS, PRIMITIVES, UNANSWERABLE};

/// How the operands of a phrase join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Join {
    Any,
    All,
}

/// What the parser finds under a phrase.
#[derive(Debug, Clone)]
pub(crate) struct Phrase {
    pub form: Form,
    pub join: Join,
    pub operands: Vec<Operand>,
}

/// Every primitive, addresses first.
pub(crate) fn primitives() -> impl Iterator<Item = &'static Primitive> {
    ADDRESSES.iter().chain(PRIMITIVES).chain(MPLS)
}

/// What nfdump can ask and flows cannot answer yet, and why.
pub(crate) fn unanswerable() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    UNANSWERABLE.iter()
}

/// Words of the longest phrase.
pub(crate) const PHRASE_WORDS_MAX: usize = 5;

static PHRASES: LazyLock<BTreeMap<String, Phrase>> = LazyLock::new(|| {
    let mut phrases = BTreeMap::new();
    for primitive in primitives() {
        let form = primitive.form;
        for Direction(direction, operands) in primitive.directions {
            let phrase = Phrase { form, join: Join::Any, operands: operands.to_vec() };
            add(&mut phrases, &join_words(direction, primitive.name), &phrase);
        }
        add_src_and_dst(&mut phrases, primitive);
    }
    for (phrase, hint) in UNANSWERABLE {
        let form = Unanswerable(hint);
        phrases.insert((*phrase).to_owned(), Phrase { form, join: Join::Any, operands: Vec::new() });
    }
    for (spelling, phrase) in SPELLINGS {
        if let Some(meaning) = phrases.get(*phrase).cloned() {
            phrases.insert((*spelling).to_owned(), meaning);
        }
    }
    for &column in Column::ALL {
        let operands = vec![Operand::Column(column)];
        let Some(form) = form_of_column(column) else { continue };
        phrases.entry(column.name().to_owned()).or_insert(Phrase { form, join: Join::Any, operands });
    }
    phrases
});

fn join_words(direction: &str, name: &str) -> String {
    if direction.is_empty() { name.to_owned() } else { format!("{direction} {name}") }
}

/// Adds a phrase and its spellings by other words: `host` for `ip`, `xlate` for `nat`, `exporter` for `router`.
fn add(phrases: &mut BTreeMap<String, Phrase>, text: &str, phrase: &Phrase) {
    let spellings = text.split(' ').fold(vec![String::new()], |texts, word| {
        let words: &[&str] = match word {
            "ip" => &["ip", "host"],
            "nat" => &["nat", "xlate"],
            "router" => &["router", "exporter"],
            _ => std::slice::from_ref(&word),
        };
        texts.iter().flat_map(|text| words.iter().map(move |word| join_words(text, word))).collect()
    });
    phrases.extend(spellings.into_iter().map(|spelling| (spelling, phrase.clone())));
}

/// `src or dst port` and `src and dst port` of nfdump 1.6.
fn add_src_and_dst(phrases: &mut BTreeMap<String, Phrase>, primitive: &Primitive) {
    let of = |wanted: &str| primitive.directions.iter().find(|Direction(words, _)| *words == wanted);
    let (Some(Direction(_, src)), Some(Direction(_, dst))) = (of("src"), of("dst")) else { return };
    // An undirected `mac` has two operands on each side, which "and" cannot join flat.
    if src.len() > 1 || dst.len() > 1 || primitive.form == Form::Block {
        return;
    }
    let operands = [*src, *dst].concat();
    for (word, join) in [("or", Join::Any), ("and", Join::All)] {
        for (first, second) in [("src", "dst"), ("dst", "src")] {
            let text = format!("{first} {word} {second} {}", primitive.name);
            add(phrases, &text, &Phrase { form: primitive.form, join, operands: operands.clone() });
        }
    }
}

/// Any column may be asked by its name in the schema.
pub(crate) fn form_of_column(column: Column) -> Option<Form> {
    match column.column_type() {
        ColumnType::U8 | ColumnType::U16 | ColumnType::U32 | ColumnType::U64 => Some(Number),
        ColumnType::Time => Some(Time),
        ColumnType::Address => Some(Address),
        ColumnType::Mac => Some(Mac),
        ColumnType::Text => Some(Text),
        ColumnType::Octets | ColumnType::Elements => None,
    }
}

/// Every phrase in every spelling.
pub(crate) fn phrases() -> impl Iterator<Item = &'static str> {
    PHRASES.keys().map(String::as_str)
}

/// The meaning of a phrase in lower case, words parted by one space.
pub(crate) fn find_phrase(text: &str) -> Option<&'static Phrase> {
    PHRASES.get(text)
}

/// The phrase that reads this operand alone, for canonical text.
pub(crate) fn phrase_of(operand: Operand) -> String {
    let in_table = primitives().find_map(|primitive| {
        let reads_it = |direction: &&Direction| direction.1 == [operand] && primitive.form.reads_any_number();
        primitive.directions.iter().find(reads_it).map(|Direction(words, _)| join_words(words, primitive.name))
    });
    match (in_table, operand) {
        (Some(phrase), _) => phrase,
        (None, Operand::Column(column)) => column.name().to_owned(),
        (None, Operand::Element(number)) => element_phrase(number.elements),
        // Every other operand is in the table, which a test checks.
        (None, other) => format!("{other:?}"),
    }
}

/// The largest value that an operand can have.
pub(crate) fn value_max(operand: Operand) -> u64 {
    match operand {
        Operand::Column(Column::SrcMask | Column::DstMask) => 128,
        Operand::Column(column) => match column.column_type() {
            ColumnType::U8 => u8::MAX.into(),
            ColumnType::U16 => u16::MAX.into(),
            ColumnType::U32 => u32::MAX.into(),
            _ => u64::MAX,
        },
        Operand::TcpFlags => u16::MAX.into(),
        Operand::IcmpType | Operand::IcmpCode | Operand::TtlSpread => u8::MAX.into(),
        Operand::Element(number) => u64::MAX.checked_shr(64 - u32::from(number.bits)).unwrap_or(0),
        Operand::MplsBottom => 0xf_ffff,
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operand_has_a_phrase_that_reads_it() {
        let columns = Column::ALL.iter().filter(|column| form_of_column(**column).is_some());
        let operands = columns.filter(|column| **column != Column::Flows).map(|column| Operand::Column(*column));
        let computed = [
            Operand::Flows,
            Operand::TcpFlags,
            Operand::IcmpType,
            Operand::IcmpCode,
            Operand::DurationMs,
            Operand::PacketsPerSecond,
            Operand::BitsPerSecond,
            Operand::BytesPerPacket,
            Operand::MplsBottom,
            Operand::TtlSpread,
            Operand::RecordNumber,
        ];
        let tabled = primitives().flat_map(|primitive| primitive.directions).flat_map(|direction| direction.1);
        let elements = tabled.copied().filter(|operand| matches!(operand, Operand::Element(_)));
        for operand in operands.chain(computed).chain(elements) {
            let phrase = phrase_of(operand);
            let found = find_phrase(&phrase).unwrap_or_else(|| panic!("'{phrase}' is not in the table"));
            assert_eq!(found.operands, [operand], "{phrase}");
        }
    }

    #[test]
    fn phrases_are_short_and_spellings_lead_somewhere() {
        for phrase in phrases() {
            assert!(phrase.split(' ').count() <= PHRASE_WORDS_MAX, "{phrase}");
            assert_eq!(phrase, phrase.to_ascii_lowercase());
        }
        for (spelling, phrase) in SPELLINGS {
            assert!(find_phrase(spelling).is_some(), "{spelling} for {phrase}");
        }
    }
}
