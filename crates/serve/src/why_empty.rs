//! Why an answer has no rows, for the user who asked.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_query::FlowQuery;
use weir_sql::EmptyReason;

use crate::problem::Answered;
use crate::service::Question;

/// Why an answer has no rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(crate) struct WhyEmpty {
    /// A few words: `no flows of this time`.
    pub(crate) text: String,
    /// When the first flow of the archive began, in milliseconds since the epoch, where that says more.
    pub(crate) first_ms: Option<i64>,
    /// When the last one ended.
    pub(crate) last_ms: Option<i64>,
}

impl WhyEmpty {
    /// Of a picture of a part of the flows: too few of them were found for one.
    pub(crate) fn too_little() -> Self {
        Self { text: "too few flows in the parts that were read".to_owned(), first_ms: None, last_ms: None }
    }
}

impl Question<'_> {
    /// Why a question about flows has no rows, when it has none. How far the archive reaches is about all flows: who sees a part of
    /// them is not told.
    pub(crate) fn why_empty(&self, query: &FlowQuery, rows: usize) -> Answered<Option<WhyEmpty>> {
        if rows > 0 {
            return Ok(None);
        }
        Ok(Some(self.told(EmptyReason::of_question(self.answers, query)?)))
    }

    /// The same of a question of which only parts were read.
    pub(crate) fn why_empty_parts(&self, query: &FlowQuery, rows: usize) -> Answered<Option<WhyEmpty>> {
        if rows > 0 {
            return Ok(None);
        }
        Ok(Some(self.told(EmptyReason::of_parts(self.answers, query)?)))
    }

    /// The same of a statement.
    pub(crate) fn why_no_rows(&self, rows: usize) -> Option<WhyEmpty> {
        let archive = self.answers.archive().filter(|_| rows == 0)?;
        self.view.is_whole().then(|| self.told(EmptyReason::of_statement(archive)))
    }

    fn told(&self, reason: EmptyReason) -> WhyEmpty {
        let extent_ms = reason.extent_ms.filter(|_| self.view.is_whole());
        WhyEmpty {
            text: reason.text,
            first_ms: extent_ms.map(|(first_ms, _)| first_ms),
            last_ms: extent_ms.map(|(_, last_ms)| last_ms),
        }
    }
}
