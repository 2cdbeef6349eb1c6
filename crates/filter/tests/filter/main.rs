//! The filter language as a whole: text in, rows out.

mod elements;
mod errors;
mod interop;
mod language;
mod nfcapd;
mod oracle;
mod outside;
mod properties;
mod reference;
mod rows;
