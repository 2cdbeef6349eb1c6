//! The filter language as a whole: text in, rows out.

mod errors;
mod language;
mod oracle;
mod properties;
mod reference;
mod rows;
