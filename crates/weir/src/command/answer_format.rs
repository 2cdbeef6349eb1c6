//! The format of an answer, as an argument.

use clap::ValueEnum;
use weir_print::Texts;
use weir_sql::output::Format;

/// Format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FormatArg {
    /// Aligned columns for people
    Table,
    /// Comma-separated values with a header line
    Csv,
    /// One JSON array of objects
    Json,
    /// One JSON object a line
    Ndjson,
    /// Nothing: count the rows only
    Null,
}

impl From<FormatArg> for Format {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Table => Self::Table,
            FormatArg::Csv => Self::Csv,
            FormatArg::Json => Self::Json,
            FormatArg::Ndjson => Self::Ndjson,
            FormatArg::Null => Self::Null,
        }
    }
}

/// How CSV writes texts, by the flag `--raw`.
pub(super) fn texts(raw: bool) -> Texts {
    if raw { Texts::Raw } else { Texts::Harmless }
}
