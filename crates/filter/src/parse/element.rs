//! `element NAME`: Information Elements that have no column of their own, by their registered names.

use weir_flow::registry::DataType;
use weir_flow::{Column, NamedElement, element};

use super::Parser;
use crate::element_name::{WORD, interned};
use crate::error::ParseError;
use crate::lex::Kind;
use crate::predicate::{ElementNumber, Operand, Predicate, Test};
use crate::primitive::{Form, Join, Phrase, form_of_column};

impl Parser<'_> {
    /// Whether the name of an element is next.
    pub(super) fn is_element(&self) -> bool {
        self.is_word(WORD)
    }

    /// A test of an element: of a number as other numbers, of a text as columns of text.
    pub(super) fn element(&mut self) -> Result<Predicate, ParseError> {
        self.advance();
        let (name, span) = (self.word(), self.span());
        let found = NamedElement::parse(name).filter(|_| self.kind() == Kind::Word);
        let is_registered = |found: &NamedElement| found.numbers.iter().any(|(pen, id)| element(*pen, *id).is_some());
        let Some(found) = found.filter(is_registered) else {
            let error =
                ParseError::new(format!("expected the name of an Information Element, found {}", self.found()), span);
            return Err(
                error.with_hint("an element is written 'element tlsCipherSuite', or 'element 39499/336'".to_owned())
            );
        };
        self.advance();
        let text = format!("{WORD} {name}");
        let column = found.numbers.iter().find_map(|(enterprise, id)| Column::of_element(*enterprise, *id));
        if let Some((column, form)) = column.and_then(|(column, _)| Some((column, form_of_column(column)?))) {
            let phrase = Phrase { form, join: Join::Any, operands: vec![Operand::Column(column)] };
            return self.behind_phrase(&phrase, &text);
        }
        let elements = interned(&found.numbers);
        match found.data_type {
            DataType::Unsigned(octets) if octets <= 8 => {
                let number = ElementNumber { elements, shift: 0, bits: 8 * octets };
                let phrase = Phrase { form: Form::Number, join: Join::Any, operands: vec![Operand::Element(number)] };
                self.behind_phrase(&phrase, &text)
            }
            DataType::Text => {
                self.text_condition(&text, None, |condition| Test::ElementText { elements, condition }.into())
            }
            _ => Err(ParseError::new(format!("'{name}' is neither a number nor a text"), span)
                .with_hint("weir sql shows it: element(elements, 'NAME')".to_owned())),
        }
    }
}
