//! nfdump's filter language: text becomes a typed [`Predicate`], a predicate becomes a mask over a `FlowBatch`.
//!
//! The tree is plain data with public fields, because two readers take it apart: [`Predicate::mask`] for collectors
//! and blocks, and the query engine, which lowers the same tree to its own expressions. So the tree knows few
//! shapes: directions (`port` is source or destination port) are resolved by the parser into [`Predicate::Or`] of
//! single columns, and whatever a primitive implies (`flags` implies TCP) is part of the [`Operand`] it reads. What
//! speaks against it is that a printed predicate is longer than what was typed.
//!
//! One rule answers every question about missing values: **a test on a null is false**, so its negation is true, and
//! a mask holds no nulls. Every word of the language is in one table, [`primitive`], which the parser, the
//! errors that suggest a word, the canonical text and the reference page all read.

pub mod predicate;
pub mod primitive;

pub mod address_set;
pub mod number_set;
pub mod times;

mod display;
mod element_name;
mod error;
mod include;
mod lex;
mod mask;
mod names;
mod other_names;
mod parse;
mod reader;
mod reference;
mod text;
mod words;

pub use address_set::{AddressFileError, AddressSet, Prefix};
pub use error::ParseError;
pub use mask::FileRecords;
pub use number_set::NumberSet;
pub use other_names::{meant, other_name};
pub use parse::{parse, parse_in_zone};
pub use predicate::{Comparison, ElementNumber, Operand, Predicate, Test, USER_NAME_ELEMENTS};
pub use reader::{Reader, Resolve, resolve_by_system};
pub use reference::reference_markdown;
pub use text::{TextCondition, TextSet};
pub use words::{FilterWord, complete, words};
