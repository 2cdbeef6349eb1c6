//! Why a question has no answer.

use std::time::Duration;

use arrow::error::ArrowError;
use datafusion::error::DataFusionError;
use weir_flow::with_causes;
use weir_query::QueryError;

use crate::control::Reached;
use crate::mistake::{Mistake, is_no_text};

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The archive could not be opened.
    #[error("cannot open the archive")]
    Archive(#[source] weir_archive::ArchiveError),
    /// The question was not one for this engine, and was not answered without it either.
    #[error(transparent)]
    Query(#[from] weir_query::QueryError),
    /// The threads or the temporary folder of the engine could not be had.
    #[error("cannot start the query engine")]
    Start(#[source] std::io::Error),
    /// The question is wrong, and the caller can put it right.
    #[error("{0}")]
    Mistake(Box<Mistake>),
    /// The question is one that this engine cannot plan.
    #[error("cannot plan the question")]
    Plan(#[source] Box<DataFusionError>),
    /// The question needs more memory than it may have, and cannot do with less by writing to disk.
    #[error("not enough memory: {0}\nhint: raise the memory limit, or narrow the question by time or by a filter")]
    Memory(String),
    /// The question ran longer than it may.
    #[error(
        "the question ran longer than {time_max:?}: {reached}\nhint: raise the time limit, or narrow the question by time \
         or by a filter"
    )]
    TimeLimit {
        /// How long it may run.
        time_max: Duration,
        /// How far it came.
        reached: Box<Reached>,
    },
    /// The caller does not want the answer any more.
    #[error("the question was cancelled: {reached}")]
    Cancelled {
        /// How far it came.
        reached: Box<Reached>,
    },
    /// A file of the caller cannot be read as a table.
    #[error("cannot read '{path}' as table '{name}'")]
    UserTable {
        /// Name of the table.
        name: String,
        /// Path of the file.
        path: String,
        /// Why.
        source: Box<DataFusionError>,
    },
    /// A table of the caller cannot have that name or type.
    #[error("table '{name}' {reason}")]
    UserTableRefused {
        /// Name of the table.
        name: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A file that is no longer what was written, or a table of the caller that is not valid Parquet.
    #[error("a segment or table cannot be read: {0}\nhint: `weir archive check` lists the damaged segments")]
    Unreadable(String),
    /// The question failed while it ran.
    #[error("the question failed while it ran")]
    Run(#[source] Box<DataFusionError>),
    /// The engine panicked while the question ran: a defect of the engine, or a damaged segment that it did not
    /// recognise as such. The batches before are right, but not all of the answer.
    #[error(
        "the query engine panicked: {0}; the answer is incomplete\nhint: a damaged segment can be the cause; narrow the \
         question by time to find it"
    )]
    Panicked(String),
    /// A file of countries, autonomous systems, labels or interfaces cannot be used.
    #[error("cannot look up addresses")]
    Enrichment(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The answer about a window took longer than it may.
    #[error("the answer took longer than it may\nhint: raise answer_time_max, or narrow the statement")]
    AnswerTime,
    /// The engine went away before the last batch.
    #[error("the query engine was stopped; the answer is incomplete")]
    Stopped,
    /// The answer could not be written.
    #[error("cannot write the answer")]
    Write(#[source] std::io::Error),
}

impl EngineError {
    /// What can be done about it, when that is known and the message does not say it: one line without a prefix.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Query(error) => error.hint(),
            Self::Archive(error) => error.hint(),
            _ => None,
        }
    }

    pub(crate) fn enrichment(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self::Enrichment(Box::new(error))
    }

    /// An error met while a question was planned.
    pub(crate) fn plan(error: DataFusionError) -> Self {
        Self::known(&error).unwrap_or_else(|| Self::Plan(Box::new(error)))
    }

    /// An error met while a question ran.
    pub(crate) fn run(error: DataFusionError) -> Self {
        if let Some(known) = Self::known(&error) {
            return known;
        }
        match error.find_root() {
            // What a function refuses of its arguments, the caller can put right; it knows no place.
            DataFusionError::Plan(message) => Mistake { message: message.clone(), place: None, hint: None }.into(),
            root @ DataFusionError::ParquetError(_) => Self::Unreadable(root.to_string()),
            DataFusionError::ArrowError(source, _) if matches!(**source, ArrowError::ParquetError(_)) => {
                Self::Unreadable(source.to_string())
            }
            DataFusionError::Execution(message) => Mistake::said(message).into(),
            DataFusionError::ArrowError(source, _) if is_about_values(source) => Mistake::computed(source).into(),
            _ => Self::Run(Box::new(error)),
        }
    }

    /// What may happen in planning as well as in running: constants that need too much memory, segments that cannot be
    /// read.
    pub(crate) fn known(error: &DataFusionError) -> Option<Self> {
        match error.find_root() {
            DataFusionError::ResourcesExhausted(reason) => Some(Self::Memory(reason.clone())),
            DataFusionError::External(error) => {
                Some(Self::Unreadable(with_causes(error.downcast_ref::<QueryError>()?)))
            }
            _ => None,
        }
    }
}

/// Whether values of the question are wrong, rather than the engine or a file.
fn is_about_values(error: &ArrowError) -> bool {
    let is_of_computing = matches!(
        error,
        ArrowError::CastError(_)
            | ArrowError::ParseError(_)
            | ArrowError::DivideByZero
            | ArrowError::ArithmeticOverflow(_)
    );
    is_of_computing || is_no_text(error)
}

impl From<Mistake> for EngineError {
    fn from(mistake: Mistake) -> Self {
        Self::Mistake(Box::new(mistake))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BinaryArray};
    use arrow::compute::{CastOptions, cast_with_options};
    use arrow::datatypes::DataType;

    use super::*;

    /// By the error of the engine's own cast, so that another text of it is noticed.
    #[test]
    fn octets_that_are_no_text_are_a_mistake_of_the_question() {
        let octets: ArrayRef = Arc::new(BinaryArray::from(vec![&[192, 0, 2, 1][..]]));
        let options = CastOptions { safe: false, ..CastOptions::default() };
        let error = cast_with_options(&octets, &DataType::Utf8, &options).expect_err("no text");
        let error = EngineError::run(DataFusionError::ArrowError(Box::new(error), None));
        let EngineError::Mistake(mistake) = error else { panic!("{error:?}") };
        assert_eq!(mistake.to_string(), "octets are no text\nhint: write host(src_addr) for the text of an address");
    }
}
