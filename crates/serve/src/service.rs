//! What every request shares.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use axum::response::Response;
use tokio::sync::watch;
use weir_archive::Snapshot;
use weir_flight::FlightOptions;
use weir_flow::Column;
use weir_postgres::PostgresOptions;
use weir_query::{FlowQuery, Select, TimeWindow};
use weir_secure::TlsServer;
use weir_sql::{EnrichmentFiles, FlowAnswer, FlowAnswers};

use crate::access::{Access, Asker};
use crate::archive::AskedArchive;
use crate::audit::{AuditLog, AuditOptions};
use crate::body::{AnswerForm, CachedAnswer};
use crate::cache::{AnswerCache, AnswerKey, ArchiveKey, Content};
use crate::completeness::CompletenessBody;
use crate::config::{HttpOptions, QuestionOptions};
use crate::http_counts::HttpCounts;
use crate::ingesting::{Ingest, Ingesting};
use crate::live::{LiveHistory, LiveSample};
use crate::moment::now_ms;
use crate::problem::Answered;
use crate::questions::{Questions, Turn};
use crate::reload::{Reloader, Reloads};
use crate::sending::Sending;
use crate::status::Status;
use crate::users::User;
use crate::view::View;
use crate::wire_certificates::WireCertificates;
use crate::wire_counts::WireCounts;

/// How long threads of a question that has ended may take before its temporary files are removed all the same.
pub(crate) const CLOSING_MAX: Duration = Duration::from_millis(300);

/// What a service is made of.
#[derive(Debug, Clone, Default)]
pub struct ServiceOptions {
    /// Folder of the archive.
    pub archive: PathBuf,
    /// How it listens.
    pub http: HttpOptions,
    /// How much questions may use.
    pub questions: QuestionOptions,
    /// Who may ask; without users whoever is on this machine.
    pub users: Vec<User>,
    /// Folder of watch files, which the API lists and changes.
    pub watches: Option<PathBuf>,
    /// Folder of dashboards; the folder `dashboards` of the archive without it.
    pub dashboards: Option<PathBuf>,
    /// How the wire of Postgres is spoken.
    pub postgres: PostgresOptions,
    /// How Flight SQL is spoken.
    pub flight: FlightOptions,
    /// Where this process collects, as it was asked for.
    pub collecting: Vec<String>,
    /// Where flows that programs push go; they are refused without it.
    pub ingest: Option<Ingest>,
    /// Where it is written down who asked what.
    pub audit: AuditOptions,
    /// Files about addresses and interfaces.
    pub enrichment: EnrichmentFiles,
    /// How the configuration is read again.
    pub reloader: Option<Reloader>,
}

/// What a service stands on.
pub(crate) struct Parts {
    pub(crate) archive: Arc<AskedArchive>,
    pub(crate) status: Arc<Status>,
    pub(crate) live: watch::Receiver<LiveSample>,
    pub(crate) live_history: Arc<LiveHistory>,
    pub(crate) wires: WireCounts,
    pub(crate) ending: watch::Receiver<bool>,
}

/// How a service listens, opened before it begins so that what is wrong is an error at the start.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) address: SocketAddr,
    pub(crate) audit: Arc<AuditLog>,
    pub(crate) tls: Option<TlsServer>,
    pub(crate) wire_certificates: WireCertificates,
    pub(crate) proxies: Vec<IpAddr>,
}

/// Answers in memory.
#[derive(Debug)]
pub(crate) struct AnswerMemory {
    /// Those that are kept for whoever asks the same again.
    pub(crate) cache: AnswerCache,
    /// Those that clients have not taken.
    pub(crate) sending: Sending,
}

/// What every request shares.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) options: ServiceOptions,
    pub(crate) archive: Arc<AskedArchive>,
    pub(crate) access: Access,
    pub(crate) questions: Questions,
    pub(crate) answers: AnswerMemory,
    pub(crate) live: watch::Receiver<LiveSample>,
    pub(crate) live_history: Arc<LiveHistory>,
    pub(crate) status: Arc<Status>,
    pub(crate) http: HttpCounts,
    pub(crate) wires: WireCounts,
    pub(crate) listening: Listening,
    pub(crate) reloads: Reloads,
    pub(crate) ingesting: Option<Ingesting>,
    pub(crate) started_ms: i64,
    /// Becomes true when the service ends.
    pub(crate) ending: watch::Receiver<bool>,
}

impl Service {
    pub(crate) fn new(parts: Parts, listening: Listening, options: ServiceOptions) -> Self {
        let Parts { archive, status, live, live_history, wires, ending } = parts;
        Self {
            access: Access::new(options.users.clone(), &options.http),
            questions: Questions::new(&options.questions, Arc::clone(&listening.audit)),
            answers: AnswerMemory {
                cache: AnswerCache::new(options.http.cache.bytes()),
                sending: Sending::new(options.http.sending_max.bytes()),
            },
            archive,
            ingesting: options.ingest.as_ref().map(Ingesting::new),
            options,
            live,
            live_history,
            status,
            http: HttpCounts::default(),
            wires,
            listening,
            reloads: Reloads::default(),
            started_ms: now_ms(),
            ending,
        }
    }

    /// The folder of what watches found.
    pub(crate) fn journal(&self) -> PathBuf {
        self.archive.folder().join("watch")
    }

    /// The folder of dashboards.
    pub(crate) fn dashboards(&self) -> PathBuf {
        self.options.dashboards.clone().unwrap_or_else(|| self.archive.folder().join("dashboards"))
    }

    /// Octets that an answer may have.
    pub(crate) fn answer_octets_max(&self) -> usize {
        usize::try_from(self.options.http.answer_max.bytes()).unwrap_or(usize::MAX)
    }

    /// Answers a question of which nothing is kept.
    pub(crate) async fn ask<T: Send + 'static>(
        self: &Arc<Self>,
        asker: &Asker,
        text: String,
        reads: Reads,
        work: impl FnOnce(&Question<'_>) -> Answered<T> + Send + 'static,
    ) -> Answered<T> {
        let (service, view) = (Arc::clone(self), Arc::clone(&asker.view));
        let work = move |turn: &Turn| {
            let snapshot = service.archive.snapshot()?;
            let answers = service.archive.answers(&snapshot, &turn.control, &view);
            let admitted = turn.enter(reads.rows_max(&answers))?;
            let answer =
                work(&Question { service: &service, turn, snapshot: &snapshot, answers: &answers, view: &view });
            turn.note_busy(answers.close(CLOSING_MAX));
            turn.leave(admitted);
            answer
        };
        self.questions.answer(asker, text, work).await
    }

    /// Answers a question, from the cache when it was asked before. `text` is the question with its times as numbers: the
    /// same text has the same answer as long as the archive does not change, or what it has of the window does not.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        asker: &Asker,
        form: AnswerForm,
        text: String,
        reads: Reads,
        work: impl FnOnce(&Question<'_>) -> Answered<CachedAnswer> + Send + 'static,
    ) -> Answered<Response> {
        let service = Arc::clone(self);
        let (question, view) = (text.clone(), Arc::clone(&asker.view));
        let work = move |turn: &Turn| {
            let snapshot = service.archive.snapshot()?;
            // before what a reload changes is taken: an old answer must not be kept as one of after it
            let reloads = service.reloads.done();
            let answers = service.archive.answers(&snapshot, &turn.control, &view);
            let state = state_of(&answers, &snapshot, reads, turn)?;
            let key = AnswerKey { state, form, reloads, view: view.identity(), question };
            if let Some(answer) = service.answers.cache.get(&key) {
                turn.count_cached();
                turn.note_rows(answer.rows());
                return Ok(answer.response(turn.took_ms(), true));
            }
            let admitted = turn.enter(reads.rows_max(&answers))?;
            let question = Question { service: &service, turn, snapshot: &snapshot, answers: &answers, view: &view };
            let answer = work(&question);
            turn.note_busy(answers.close(CLOSING_MAX));
            turn.leave(admitted);
            let answer = answer?;
            turn.note_rows(answer.rows());
            service.answers.cache.insert(key, answer.clone());
            Ok(answer.response(turn.took_ms(), false))
        };
        self.questions.answer(asker, text, work).await
    }
}

/// What a question reads.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reads {
    /// Flows of a window, and its books.
    Flows(TimeWindow),
    /// Of the flows of a window about so many at most, and its books.
    PartOf(TimeWindow, u64),
    /// One of so many flows of a window, and its books.
    OneOf(TimeWindow, u64),
    /// No flows.
    NoFlows,
    /// Whatever its statement says.
    Anything,
}

impl Reads {
    /// Rows that are read at most, as far as that is known.
    fn rows_max(self, answers: &FlowAnswers) -> u64 {
        match self {
            Self::Flows(window) => answers.archive().map_or(u64::MAX, |archive| archive.estimate(&window).rows_max),
            Self::PartOf(window, rows) => Self::Flows(window).rows_max(answers).min(rows),
            Self::OneOf(window, one_of) => Self::Flows(window).rows_max(answers).div_ceil(one_of),
            Self::NoFlows => 0,
            Self::Anything => u64::MAX,
        }
    }
}

/// What an answer depends on: flows and books of a window that is over, or else everything.
fn state_of(answers: &FlowAnswers, snapshot: &Snapshot, reads: Reads, turn: &Turn) -> Answered<ArchiveKey> {
    // what is said about times that are still to come changes with the clock
    match (reads, answers.archive()) {
        (Reads::Flows(window) | Reads::PartOf(window, _) | Reads::OneOf(window, _), Some(archive))
            if window.until_ms.is_some_and(|until| until < now_ms()) =>
        {
            // its books are read
            let _admitted = turn.enter_quick()?;
            let mut hasher = DefaultHasher::new();
            serde_json::to_string(&CompletenessBody::of(&archive.completeness(&window)?))?.hash(&mut hasher);
            let content = Content::Window { flows: archive.content(&window), books: hasher.finish() };
            // what has gone is not among the segments any more
            Ok(ArchiveKey { content, rows_gone: 0 })
        }
        _ => {
            let rows_gone = snapshot.rows_expired().saturating_add(snapshot.rows_set_aside());
            Ok(ArchiveKey { content: Content::up_to(snapshot.follow_position()), rows_gone })
        }
    }
}

/// A question at work.
pub(crate) struct Question<'a> {
    pub(crate) service: &'a Service,
    pub(crate) turn: &'a Turn,
    pub(crate) snapshot: &'a Arc<Snapshot>,
    pub(crate) answers: &'a FlowAnswers,
    /// What of the flows who asks sees.
    pub(crate) view: &'a View,
}

impl Question<'_> {
    /// The last delivery that the answer has.
    pub(crate) fn position(&self) -> u64 {
        self.snapshot.position().get()
    }

    /// Answers a question, in what who asks sees.
    pub(crate) fn ask(&self, query: &FlowQuery) -> Answered<FlowAnswer> {
        self.check(query)?;
        Ok(self.answers.ask(query)?)
    }

    /// Refuses columns that who asks does not see. The scan hides them in any case: this says so.
    pub(crate) fn check(&self, query: &FlowQuery) -> Answered<()> {
        let selected: Vec<Column> = match &query.select {
            Select::List { columns, .. } => columns.clone(),
            Select::Statistic { key, .. } => key.columns().to_vec(),
            Select::Aggregate { keys, .. } => keys.iter().map(|key| key.column()).collect(),
        };
        selected.into_iter().try_for_each(|column| self.view.check(column))?;
        self.check_filter(query)
    }

    /// Refuses a filter of columns that who asks does not see.
    pub(crate) fn check_filter(&self, query: &FlowQuery) -> Answered<()> {
        query.filter.columns().into_iter().try_for_each(|column| self.view.check(column))
    }

    /// How complete the flows of a question are.
    pub(crate) fn completeness(&self, question: &FlowQuery) -> Answered<CompletenessBody> {
        let archive = self.answers.archive();
        let archive = archive.ok_or_else(|| crate::Problem::internal("there is no archive"))?;
        let found = CompletenessBody::of(&archive.completeness(&question.window)?);
        Ok(if self.view.is_whole() { found } else { found.without_counts() })
    }
}
