//! What a primitive is.

use crate::Operand;
use crate::names::Names;

/// What follows a phrase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Nothing; true for every flow.
    Always,
    /// Nothing; true for flows of a family.
    Family { v6: bool },
    /// `[COMP] NUMBER` or `in [ NUMBER … ]`.
    Number,
    /// As `Number`, and names may stand for numbers.
    Named(&'static Names),
    /// An address, a prefix, or `in [ … ]`.
    Address,
    /// `ADDRESS/LENGTH` or `ADDRESS MASK`.
    Net,
    /// Six octets in hexadecimal.
    Mac,
    /// `[COMP] TIME`.
    Time,
    /// `[=] TEXT`, `like PATTERN`, `exactly TEXT` or `in [ TEXT … ]`.
    Text,
    /// `LETTERS`, `=LETTERS` or `[COMP] NUMBER`.
    Flags,
    /// Nothing; true where the number is 0.
    Zero,
    /// Nothing; true where the port lies in the block of ports of a NAT event.
    Block,
    /// A user name.
    User,
    /// As `Number`, about the place of a record in its file.
    RecordNumber,
    /// The ident of a file.
    Ident,
    /// nfdump knows the phrase, but flows have no column for it; the text says what to do instead.
    Unanswerable(&'static str),
}

impl Form {
    /// Whether the words ask for any value of what they read, rather than for one.
    pub(super) fn reads_any_number(self) -> bool {
        !matches!(self, Self::Zero | Self::Block | Self::User | Self::Ident)
    }
}

/// A direction and what it makes a primitive read; several operands are joined by "or".
#[derive(Debug, Clone, Copy)]
pub(crate) struct Direction(pub &'static str, pub &'static [Operand]);

/// One primitive.
#[derive(Debug)]
pub(crate) struct Primitive {
    pub name: &'static str,
    pub form: Form,
    pub directions: &'static [Direction],
    /// A filter that shows it.
    pub example: &'static str,
    /// One sentence for the reference page.
    pub doc: &'static str,
}
