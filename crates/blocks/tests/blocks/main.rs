//! Blocks together: their reference page, and whole chains of them.

mod reference;
