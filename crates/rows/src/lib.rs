//! Rows of record batches: what several components do with them.
//!
//! A component that keeps, orders, groups or writes rows is made of these parts; a part knows no component. They are
//! flat: rows stay columns or octets in one buffer, and nothing is allocated per row.

pub mod flow_columns;
pub mod numbers;

pub mod fit;
pub mod five_tuple;
pub mod gather;
pub mod keys;

pub mod by_start;
pub mod windows;

pub mod folds;
pub mod grouping;

pub mod addresses;
pub mod crypto_pan;

#[cfg(any(test, feature = "naive"))]
#[expect(missing_docs, reason = "fields of plain rows, named after their columns")]
pub mod naive;
#[cfg(any(test, feature = "naive"))]
#[expect(missing_docs, reason = "fields of plain rows, named after their columns")]
pub mod test_flows;
