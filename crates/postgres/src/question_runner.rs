//! The questions of a session: begun when their portal is first asked, waited for, and sent.

use std::sync::Arc;

use weir_sql::{Asker, Refusal};

use crate::cancel::CancelKey;
use crate::connection::Connection;
use crate::errors::PgError;
use crate::failure::Failure;
use crate::portals::{Content, Portal};
use crate::replies::PgColumn;
use crate::running::{Asked, Next, Running, describe};
use crate::settings::Settings;
use crate::shared::Shared;

/// Asks the questions of a session, and sends their answers.
pub(crate) struct QuestionRunner {
    asker: Arc<dyn Asker>,
    pub(crate) settings: Settings,
    database: String,
    pub(crate) key: CancelKey,
    shared: Arc<Shared>,
}

impl QuestionRunner {
    pub(crate) fn new(
        asker: Arc<dyn Asker>,
        settings: Settings,
        database: String,
        key: CancelKey,
        shared: Arc<Shared>,
    ) -> Self {
        Self { asker, settings, database, key, shared }
    }

    /// Sends rows of a portal, at most so many, or all for 0; with their description when that is wanted. Gives their number.
    pub(crate) async fn rows(
        &mut self,
        connection: &mut Connection,
        portal: &mut Portal,
        rows_max: usize,
        is_described: bool,
    ) -> Result<usize, Failure> {
        let Content::Question(asked) = &portal.content else { return Ok(0) };
        let (text, formats) = (asked.text.clone(), asked.formats.clone());
        let refused = |refusal: Refusal| Failure::from(PgError::of_refusal(refusal, &text));
        self.key.requests.mark_unchanged();
        let (running, wait) = self.running(connection, portal);
        let columns = wait.until(running.columns()).await?.map_err(refused)?;
        if is_described {
            connection.replies.row_description(&columns, &formats);
        }
        portal.columns = Some(columns);
        let mut rows = 0;
        while rows_max == 0 || rows < rows_max {
            let left = if rows_max == 0 { usize::MAX } else { rows_max - rows };
            let (running, wait) = self.running(connection, portal);
            match wait.until(running.next(left)).await?.map_err(refused)? {
                Next::Rows(octets, count) => {
                    rows += count;
                    connection.write_rows(&octets).await?;
                    self.shared.counts.rows.add(count as u64);
                }
                Next::End => {
                    portal.is_ended = true;
                    portal.running = None;
                    break;
                }
            }
        }
        Ok(rows)
    }

    /// Passes over rows of a portal, at most so many. Gives their number.
    pub(crate) async fn pass_over(
        &mut self,
        connection: &mut Connection,
        portal: &mut Portal,
        rows_max: usize,
    ) -> Result<usize, Failure> {
        let mut rows = 0;
        self.key.requests.mark_unchanged();
        while rows < rows_max && !portal.is_ended {
            let (running, wait) = self.running(connection, portal);
            let next = wait.until(running.next(rows_max - rows)).await?;
            match next.map_err(|refusal| PgError::of_refusal(refusal, ""))? {
                Next::Rows(_, count) => rows += count,
                Next::End => portal.is_ended = true,
            }
        }
        Ok(rows)
    }

    /// Describes the rows of a portal that asks a question.
    pub(crate) async fn describe_portal(
        &mut self,
        connection: &mut Connection,
        portal: &mut Portal,
    ) -> Result<(), Failure> {
        let Content::Question(asked) = &portal.content else { return Ok(()) };
        let (text, formats) = (asked.text.clone(), asked.formats.clone());
        self.key.requests.mark_unchanged();
        let (running, wait) = self.running(connection, portal);
        let columns = wait.until(running.columns()).await?;
        let columns = columns.map_err(|refusal| PgError::of_refusal(refusal, &text))?;
        connection.replies.row_description(&columns, &formats);
        Ok(())
    }

    /// Columns of a statement and types of its parameters, of which the client has declared some.
    pub(crate) async fn describe_statement(
        &mut self,
        connection: &mut Connection,
        text: &str,
        declared: Vec<u32>,
    ) -> Result<(Vec<PgColumn>, Vec<u32>), Failure> {
        let Self { asker, settings, key, database, .. } = self;
        key.requests.mark_unchanged();
        let wait = Wait { connection, key };
        let described = wait.until(describe(asker, text, declared, settings, database)).await?;
        Ok(described.map_err(|refusal| PgError::of_refusal(refusal, text))?)
    }

    /// The question of a portal, which begins now if it has not, and how to wait for it.
    fn running<'a>(
        &'a mut self,
        connection: &'a mut Connection,
        portal: &'a mut Portal,
    ) -> (&'a mut Running, Wait<'a>) {
        let Self { asker, settings, shared, key, database } = self;
        let running = portal.running.get_or_insert_with(|| {
            let asked = match &portal.content {
                Content::Question(asked) => asked.clone(),
                _ => Asked { text: String::new(), values: Vec::new(), formats: Vec::new() },
            };
            Running::start(asker, asked, settings, database, shared.options.rows_max)
        });
        (running, Wait { connection, key })
    }
}

/// How a session waits for a question: it also reads what the client sends, and looks for a request to cancel.
struct Wait<'a> {
    connection: &'a mut Connection,
    key: &'a mut CancelKey,
}

impl Wait<'_> {
    async fn until<T>(self, answer: impl Future<Output = T>) -> Result<T, Failure> {
        tokio::pin!(answer);
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => return Ok(answer),
                // the sender lives as long as the key
                _ = self.key.requests.changed() => {
                    return Err(PgError::new("57014", "the statement was cancelled at the request of its user").into());
                }
                filled = self.connection.fill() => filled?,
            }
        }
    }
}
