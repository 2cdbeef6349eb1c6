//! A question that runs, and its answer on the way.
//!
//! The question works in its own thread and puts rows, as octets of messages, into a short queue. A client that does not read
//! fills the queue, and the question waits: until the client reads, leaves, cancels, or the time is over. What waits in
//! between is a few pieces, whatever the answer has.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, SchemaRef};
use bytes::Bytes;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use weir_sql::service::check_whole;
use weir_sql::{
    AnswerSender, Asker, Engine, ParameterValue, QueryControl, Question, Reason, Refusal, check_statement_size,
};

use crate::catalogue::{self, CatalogueSession};
use crate::collation::without_collations;
use crate::messages::Format;
use crate::replies::PgColumn;
use crate::rows::RowWriter;
use crate::settings::Settings;

/// Pieces that wait.
const PIECES_WAITING_MAX: usize = 4;
/// Octets of a piece.
const PIECE_OCTETS: usize = 64 << 10;

/// A statement with its values.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// As it came, for places of mistakes.
    pub(crate) text: String,
    pub(crate) values: Vec<ParameterValue>,
    pub(crate) formats: Vec<Format>,
}

impl Asked {
    /// Octets of the text, the values and their formats.
    pub(crate) fn octets(&self) -> usize {
        let value = |value: &ParameterValue| {
            let held = match value {
                ParameterValue::Text(text) => text.len(),
                ParameterValue::Typed(value) => value.size(),
            };
            size_of::<ParameterValue>() + held
        };
        self.text.len() + self.formats.len() + self.values.iter().map(value).sum::<usize>()
    }
}

/// What a question says.
#[derive(Debug)]
enum Event {
    Columns(Vec<PgColumn>),
    Rows(Piece),
}

/// Messages of rows.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    octets: Bytes,
    /// Where each row ends, and how many rows were taken already.
    ends: Vec<u32>,
    taken: usize,
}

impl Piece {
    /// The first rows, at most so many; with their number.
    fn take(&mut self, rows_max: usize) -> (Bytes, usize) {
        let before = self.taken.checked_sub(1).map_or(0, |last| self.ends[last] as usize);
        let rows = rows_max.min(self.ends.len() - self.taken);
        self.taken += rows;
        let end = self.taken.checked_sub(1).map_or(0, |last| self.ends[last] as usize);
        (self.octets.slice(before..end), rows)
    }

    fn is_empty(&self) -> bool {
        self.taken == self.ends.len()
    }
}

/// An answer on its way. Dropping it cancels the question.
#[derive(Debug)]
pub(crate) struct Running {
    events: mpsc::Receiver<Event>,
    task: AbortOnDrop,
    columns: Option<Arc<[PgColumn]>>,
    piece: Piece,
    rows_left: u64,
    is_ended: bool,
}

/// A task that ends with whoever waits for it.
#[derive(Debug)]
struct AbortOnDrop(JoinHandle<Result<(), Refusal>>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What an answer gives next.
#[derive(Debug)]
pub(crate) enum Next {
    Rows(Bytes, usize),
    /// There is no more.
    End,
}

fn question(text: &str, settings: &Settings) -> Question {
    Question { text: text.to_owned(), zone: settings.zone(), time_max: settings.time_max() }
}

/// The statement as the engine takes it. How large it is, is checked before anything parses it.
fn prepared(engine: &Engine, text: &str, session: &CatalogueSession) -> Result<String, Refusal> {
    check_statement_size(text, &PostgreSqlDialect {})?;
    let text = without_collations(text);
    Ok(catalogue::prepared(engine, &text, session)?.into_owned())
}

impl Running {
    /// Begins to answer a statement with at most so many rows.
    pub(crate) fn start(
        asker: &Arc<dyn Asker>,
        asked: Asked,
        settings: &Settings,
        database: &str,
        rows_max: u64,
    ) -> Self {
        let (sender, events) = mpsc::channel(PIECES_WAITING_MAX);
        let handle = Handle::current();
        let (text, zone) = (question(&format!("postgres {}", asked.text), settings), settings.zone());
        let session = CatalogueSession::new(asker.name(), database, settings);
        let work = move |engine: &Engine, control: &QueryControl| {
            let sender = AnswerSender::new(sender, handle, control);
            let statement = prepared(engine, &asked.text, &session)?;
            let answer = engine.sql_with(&statement, &asked.values, control)?;
            let schema = Arc::clone(answer.schema());
            sender.send(Event::Columns(columns_of(&schema)))?;
            let mut writer = RowWriter::new(&schema, &asked.formats, zone);
            for batch in answer {
                writer.write(&batch?, PIECE_OCTETS, |octets, ends| {
                    sender.send(Event::Rows(Piece { octets: octets.into(), ends, taken: 0 }))
                })?;
            }
            check_whole(control)
        };
        let task = AbortOnDrop(tokio::spawn(asker.ask(text, Box::new(work))));
        Self { events, task, columns: None, piece: Piece::default(), rows_left: rows_max, is_ended: false }
    }

    /// The columns of the answer, once they are known. It may be dropped and asked again.
    pub(crate) async fn columns(&mut self) -> Result<Arc<[PgColumn]>, Refusal> {
        if let Some(columns) = &self.columns {
            return Ok(Arc::clone(columns));
        }
        match self.events.recv().await {
            Some(Event::Columns(columns)) => {
                let columns: Arc<[PgColumn]> = columns.into();
                self.columns = Some(Arc::clone(&columns));
                Ok(columns)
            }
            Some(Event::Rows(_)) => Err(Refusal::new(Reason::Internal, "rows came before their columns")),
            None => {
                self.end().await?;
                Err(Refusal::new(Reason::Internal, "the question ended without columns"))
            }
        }
    }

    /// The next rows, at most so many. It may be dropped and asked again.
    pub(crate) async fn next(&mut self, rows_max: usize) -> Result<Next, Refusal> {
        self.columns().await?;
        while self.piece.is_empty() {
            if self.is_ended {
                return Ok(Next::End);
            }
            match self.events.recv().await {
                Some(Event::Rows(piece)) => self.piece = piece,
                Some(Event::Columns(_)) => {}
                None => {
                    self.end().await?;
                    self.is_ended = true;
                }
            }
        }
        let (octets, rows) = self.piece.take(rows_max);
        let left = self.rows_left.checked_sub(rows as u64).ok_or_else(|| {
            Refusal::new(Reason::Limit, "the answer has more rows than it may")
                .with_hint("write LIMIT, or raise the option rows_max")
        })?;
        self.rows_left = left;
        Ok(Next::Rows(octets, rows))
    }

    /// How the question ended.
    async fn end(&mut self) -> Result<(), Refusal> {
        match (&mut self.task.0).await {
            Ok(ended) => ended,
            Err(_) => Err(Refusal::new(Reason::Internal, "the question ended without an answer")),
        }
    }
}

fn columns_of(schema: &SchemaRef) -> Vec<PgColumn> {
    let column =
        |field: &FieldRef| PgColumn { name: field.name().clone(), kind: crate::kinds::PgKind::of_field(field) };
    schema.fields().iter().map(column).collect()
}

/// Columns of a statement and types of its parameters, which is a question of its own.
pub(crate) async fn describe(
    asker: &Arc<dyn Asker>,
    text: &str,
    declared: Vec<u32>,
    settings: &Settings,
    database: &str,
) -> Result<(Vec<PgColumn>, Vec<u32>), Refusal> {
    let (sender, described) = oneshot::channel();
    let asked = question(&format!("postgres describe {text}"), settings);
    let (text, session) = (text.to_owned(), CatalogueSession::new(asker.name(), database, settings));
    let work = move |engine: &Engine, control: &QueryControl| {
        let statement = prepared(engine, &text, &session)?;
        let kinds: Vec<_> = declared.iter().map(|oid| crate::arguments::declared(*oid)).collect();
        let description = engine.describe_on(&statement, &kinds, control)?;
        let oids = description.parameters.iter().enumerate().map(|(position, field)| {
            let known = declared.get(position).copied().filter(|oid| *oid != 0);
            known.unwrap_or_else(|| crate::arguments::described(field))
        });
        // whoever asked may have gone
        let _ = sender.send((columns_of(&description.columns), oids.collect()));
        Ok(())
    };
    asker.ask(asked, Box::new(work)).await?;
    described.await.map_err(|_| Refusal::new(Reason::Internal, "the statement was not described"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_taken_row_by_row() {
        let mut piece = Piece { octets: Bytes::from_static(b"aabbbc"), ends: vec![2, 5, 6], taken: 0 };
        assert_eq!(piece.take(2), (Bytes::from_static(b"aabbb"), 2));
        assert!(!piece.is_empty());
        assert_eq!(piece.take(5), (Bytes::from_static(b"c"), 1));
        assert!(piece.is_empty());
        assert_eq!(piece.take(5).1, 0);
    }
}
