//! Answers as text.
//!
//! The formats are those of [`weir_print`]; what is here joins them to an [`Answer`] on its way.

use std::io::Write;

use weir_print::{PrintError, write_batches};

pub use weir_print::{Format, OutputOptions};

use crate::{Answer, EngineError};

/// Writes an answer and returns the number of its rows.
///
/// When the reader of the text goes away (a closed pipe, as behind `head`), the rest of the answer is cancelled and
/// that is no error.
pub fn write_answer(
    answer: Answer,
    format: Format,
    options: &OutputOptions,
    to: &mut dyn Write,
) -> Result<u64, EngineError> {
    let schema = answer.schema().clone();
    write_batches(answer, &schema, format, options, to).map_err(|error| match error {
        PrintError::Batches(error) => error,
        PrintError::Write(error) => EngineError::Write(error),
    })
}
