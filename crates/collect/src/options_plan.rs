//! Where the records of an options template have what is read of them.

use std::cell::OnceCell;
use std::fmt::Write;

use weir_flow::registry::{self, DataType};
use weir_flow::{AddressText, OptionsKind};
use weir_wire::value::be_uint;
use weir_wire::{ElementId, ListKind, ScopeType, Template};

use crate::clock::SYSTEM_INIT_TIME_MS;
use crate::list_kinds;
use crate::records::Records;
use crate::sampling::SamplerFields;

// Numbers of elements, by what they report.
const INTERFACES: [u16; 4] = [10, 14, 252, 253];
const INTERFACE_NAMES: [u16; 2] = [82, 83];
const VRFS: [u16; 2] = [234, 235];
const VRF_NAME: u16 = 236;
const ROUTE_DISTINGUISHER: u16 = 90;
const APPLICATION: u16 = 95;
const APPLICATION_DESCRIPTION: u16 = 94;
const APPLICATION_NAME: u16 = 96;
const PRIVATE_ENTERPRISE: u16 = 346;
const INFORMATION_ELEMENT: u16 = 303;
const ELEMENT_NAME: u16 = 341;
const ELEMENT_DESCRIPTION: u16 = 340;
const ELEMENT_TYPE: u16 = 339;
/// Exporter addresses, process identifiers, line cards, observation domains.
const SYSTEM_SCOPES: [u16; 7] = [130, 131, 141, 143, 144, 149, 211];

/// Octets of the text of a scope, about. What is longer is cut there, and ends in an ellipsis; in IPFIX the whole of it
/// is among the elements.
const SCOPE_OCTETS_MAX: usize = 1024;

/// Where the records of an options template have what the table has columns for.
///
/// It is compiled once for a template, and what is read of each record goes only through fields that take octets of it:
/// so a record costs as much as it has octets, whatever its template is like.
#[derive(Debug)]
pub(crate) struct OptionsPlan {
    pub(crate) netflow9: bool,
    pub(crate) sampling: SamplerFields,
    /// Of the time at which the exporter started.
    system_init: Option<usize>,
    /// Of fields that are scopes, those with octets.
    pub(crate) scopes: Box<[ScopeField]>,
    /// What records are about that report no sampling rate.
    kind: OptionsKind,
    /// The scope that NetFlow v9 says is an interface.
    scope_interface: Option<usize>,
    interface: Option<usize>,
    vrf: Option<usize>,
    /// Application or route distinguisher.
    pub(crate) key_octets: Option<usize>,
    pub(crate) enterprise: Option<usize>,
    element: Option<usize>,
    element_type: Option<usize>,
    /// By [`OptionsKind`]: the fields that name and describe a thing.
    pub(crate) names: [[Option<usize>; 2]; OptionsKind::ALL.len()],
    /// Hash of what all records of the template are about, once it is known.
    pub(crate) common_hash: OnceCell<u64>,
}

/// A scope field, and how it is written.
#[derive(Debug)]
pub(crate) struct ScopeField {
    pub(crate) field: usize,
    name: ScopeName,
    form: ScopeForm,
}

/// How the value of a scope is written.
#[derive(Debug, Clone, Copy)]
enum ScopeForm {
    /// As a number, where it is no longer than one.
    Number,
    Address,
    Text,
    Octets,
}

#[derive(Debug)]
enum ScopeName {
    Known(&'static str),
    /// A scope type of NetFlow v9 that has no name.
    Type(u16),
    Element(ElementId),
}

impl ScopeField {
    fn of(field: usize, element: ElementId, netflow9: bool) -> Self {
        let ElementId { enterprise, id } = element;
        if netflow9 {
            let name = match ScopeType::from_id(id) {
                ScopeType::Other(number) => ScopeName::Type(number),
                scope => ScopeName::Known(scope_name(scope)),
            };
            return Self { field, name, form: ScopeForm::Number };
        }
        let known = registry::element(enterprise, id);
        let form = known.map_or(ScopeForm::Number, |element| match element.data_type {
            DataType::MacAddress | DataType::Ipv4Address | DataType::Ipv6Address => ScopeForm::Address,
            DataType::Text => ScopeForm::Text,
            DataType::OctetArray => ScopeForm::Octets,
            _ => ScopeForm::Number,
        });
        Self { field, name: known.map_or(ScopeName::Element(element), |known| ScopeName::Known(&known.name)), form }
    }
}

impl OptionsPlan {
    pub(crate) fn compile(template: &Template, netflow9: bool) -> Self {
        let is_scope_type = |field: usize| netflow9 && field < template.scope_count();
        // the first field with one of these elements of the registry
        let position = |ids: &[u16]| {
            let wanted = |(field, specifier): (usize, &weir_wire::FieldSpecifier)| {
                let ElementId { enterprise, id } = specifier.element;
                (enterprise == 0 && ids.contains(&id) && !is_scope_type(field)).then_some(field)
            };
            template.filled_fields().find_map(wanted)
        };
        let first_scope = template.fields().first().map(|field| field.element);
        let of_system = match first_scope {
            Some(scope) if netflow9 => {
                matches!(ScopeType::from_id(scope.id), ScopeType::System | ScopeType::LineCard | ScopeType::Cache)
            }
            Some(scope) => scope.enterprise == 0 && SYSTEM_SCOPES.contains(&scope.id),
            None => false,
        };
        let has = |ids: &[u16]| position(ids).is_some();
        let kind = match () {
            () if has(&[INFORMATION_ELEMENT]) && has(&[ELEMENT_NAME, ELEMENT_TYPE]) => OptionsKind::Type,
            () if has(&[APPLICATION]) => OptionsKind::Application,
            () if has(&INTERFACE_NAMES) => OptionsKind::Interface,
            () if has(&[VRF_NAME]) => OptionsKind::Vrf,
            () if of_system => OptionsKind::System,
            () => OptionsKind::Other,
        };
        let scopes = || template.filled_fields().filter(|(field, _)| *field < template.scope_count());
        let scope_interface =
            scopes().find(|(_, field)| netflow9 && ScopeType::from_id(field.element.id) == ScopeType::Interface);
        let names = std::array::from_fn(|kind| {
            let (names, descriptions) = names_of(OptionsKind::ALL[kind]);
            [position(names), position(descriptions)]
        });
        Self {
            netflow9,
            sampling: SamplerFields::of(template, netflow9),
            system_init: position(&[SYSTEM_INIT_TIME_MS]).filter(|field| *field >= template.scope_count()),
            scopes: scopes().map(|(field, specifier)| ScopeField::of(field, specifier.element, netflow9)).collect(),
            kind,
            scope_interface: scope_interface.map(|(field, _)| field),
            interface: position(&INTERFACES),
            vrf: position(&VRFS),
            key_octets: position(&[APPLICATION, ROUTE_DISTINGUISHER]),
            enterprise: position(&[PRIVATE_ENTERPRISE]),
            element: position(&[INFORMATION_ELEMENT]),
            element_type: position(&[ELEMENT_TYPE]),
            names,
            common_hash: OnceCell::new(),
        }
    }

    /// When the exporter started, milliseconds since the epoch, if the records report it. Exporters that keep NetFlow's
    /// uptimes in IPFIX records report it this way and not in the records themselves.
    pub(crate) fn system_init_ms(&self, records: Records<'_>) -> Option<i64> {
        let last = records.len().checked_sub(1)?;
        number(self.system_init, records, last).map(|value| value as i64)
    }

    /// What the records of a set are about, by whether the first one reports a sampling rate, which may be known.
    pub(crate) fn kind(&self, records: Records<'_>, first_has_rate: Option<bool>) -> OptionsKind {
        let has_rate = || records.len() > 0 && self.sampling.rate(records, 0).is_some();
        let is_sampler = self.kind != OptionsKind::Type && first_has_rate.unwrap_or_else(has_rate);
        if is_sampler { OptionsKind::Sampler } else { self.kind }
    }

    pub(crate) fn key(&self, kind: OptionsKind, records: Records<'_>, record: usize) -> Option<u64> {
        let interface =
            || number(self.interface, records, record).or_else(|| number(self.scope_interface, records, record));
        match kind {
            OptionsKind::Type => number(self.element, records, record),
            OptionsKind::Sampler => self.sampling.sampler(records, record).or_else(interface),
            OptionsKind::Interface => interface(),
            OptionsKind::Vrf => number(self.vrf, records, record),
            OptionsKind::Application | OptionsKind::System | OptionsKind::Other => None,
        }
    }

    /// Appends names and values of the scope, as far as a text of a reasonable length has them.
    pub(crate) fn push_scope(&self, text: &mut String, records: Records<'_>, record: usize) {
        for scope in &self.scopes {
            if !text.is_empty() {
                text.push(' ');
            }
            if text.len() >= SCOPE_OCTETS_MAX {
                text.push('…');
                return;
            }
            match &scope.name {
                ScopeName::Known(name) => text.push_str(name),
                ScopeName::Type(number) => {
                    text.push_str("scope");
                    push_number(text, (*number).into());
                }
                ScopeName::Element(ElementId { enterprise, id }) => {
                    push_number(text, (*enterprise).into());
                    text.push('/');
                    push_number(text, (*id).into());
                }
            }
            text.push('=');
            let octets = records.octets_of(scope.field, record);
            let shown = &octets[..octets.len().min(SCOPE_OCTETS_MAX / 4)];
            match (scope.form, be_uint(shown)) {
                (ScopeForm::Number, Some(number)) => push_number(text, number),
                // a `String` takes everything
                (ScopeForm::Address, _) => drop(write!(text, "{}", AddressText(shown))),
                (ScopeForm::Text, _) if !text_of(shown).is_empty() => push_text(text, text_of(shown)),
                _ => push_octets(text, shown),
            }
            if shown.len() < octets.len() {
                text.push('…');
            }
        }
    }

    /// Elements that are lists by the type records of an exporter (RFC 5610).
    pub(crate) fn lists_reported(&self, records: Records<'_>) -> Vec<(ElementId, ListKind)> {
        // IPFIX only: NetFlow v9 has no enterprise numbers
        if self.element_type.is_none() || self.netflow9 {
            return Vec::new();
        }
        let lists = (0..records.len()).filter_map(|record| {
            let element = ElementId {
                enterprise: number(self.enterprise, records, record).unwrap_or(0).try_into().ok()?,
                id: u16::try_from(number(self.element, records, record)?).ok()? & 0x7fff,
            };
            let data_type = DataType::from_number(number(self.element_type, records, record)?.try_into().ok()?)?;
            Some((element, list_kinds::kind_of(data_type)?))
        });
        lists.filter(|(element, _)| registry::element(element.enterprise, element.id).is_none()).collect()
    }
}

/// Appends a number in decimal digits. The formatting of the language costs several times as much, for each scope of each
/// record that anybody sends.
fn push_number(text: &mut String, number: u64) {
    let mut digits = [0; 20];
    let (mut first, mut rest) = (digits.len(), number);
    while first == digits.len() || rest > 0 {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    text.push_str(std::str::from_utf8(&digits[first..]).unwrap_or_default());
}

/// Appends a text, in quotes where it could be taken for another scope.
fn push_text(text: &mut String, value: &str) {
    let is_special = |character: char| character.is_whitespace() || matches!(character, '=' | '"' | '\\');
    if !value.contains(is_special) {
        text.push_str(value);
        return;
    }
    text.push('"');
    for character in value.chars() {
        if matches!(character, '"' | '\\') {
            text.push('\\');
        }
        text.push(character);
    }
    text.push('"');
}

/// Appends octets in hexadecimal digits.
fn push_octets(text: &mut String, octets: &[u8]) {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value & 0xf)]);
    text.push_str("0x");
    text.extend(octets.iter().flat_map(|octet| [digit(octet >> 4), digit(*octet)]));
}

pub(crate) fn number(field: Option<usize>, records: Records<'_>, record: usize) -> Option<u64> {
    records.number(field?, record)
}

/// Text without the zeros and blanks that fill it up; `None` when nothing is left.
pub(crate) fn text(field: Option<usize>, records: Records<'_>, record: usize) -> Option<&str> {
    Some(text_of(records.octets_of(field?, record))).filter(|text| !text.is_empty())
}

fn text_of(octets: &[u8]) -> &str {
    let end = octets.iter().position(|octet| *octet == 0).unwrap_or(octets.len());
    let text = match std::str::from_utf8(&octets[..end]) {
        Ok(text) => text,
        // what precedes an octet that is no text still is
        Err(error) => std::str::from_utf8(&octets[..error.valid_up_to()]).unwrap_or_default(),
    };
    text.trim()
}

/// Which elements name and describe a thing of a kind.
const fn names_of(kind: OptionsKind) -> (&'static [u16], &'static [u16]) {
    match kind {
        OptionsKind::Interface => (&[82], &[83]),
        OptionsKind::Vrf => (&[VRF_NAME], &[]),
        OptionsKind::Application => (&[APPLICATION_NAME], &[APPLICATION_DESCRIPTION]),
        // of the sampler, else of what is sampled
        OptionsKind::Sampler => (&[84, 335, 82], &[83]),
        OptionsKind::Type => (&[ELEMENT_NAME], &[ELEMENT_DESCRIPTION]),
        OptionsKind::System | OptionsKind::Other => (&[82, 84, 335, 96, VRF_NAME], &[83, 94]),
    }
}

const fn scope_name(scope: ScopeType) -> &'static str {
    match scope {
        ScopeType::System => "system",
        ScopeType::Interface => "interface",
        ScopeType::LineCard => "line_card",
        ScopeType::Cache => "cache",
        ScopeType::Template => "template",
        ScopeType::Other(_) => "other",
    }
}
