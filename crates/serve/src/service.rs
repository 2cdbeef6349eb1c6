//! What every request shares.

use std::path::PathBuf;
use std::sync::Arc;

use axum::response::Response;
use tokio::sync::watch;
use weir_archive::Snapshot;
use weir_query::FlowQuery;
use weir_sql::FlowAnswers;

use crate::access::{Access, Asker, User};
use crate::archive::{AskedArchive, key_of};
use crate::body::{AnswerForm, CachedAnswer};
use crate::cache::{AnswerCache, AnswerKey};
use crate::config::{HttpOptions, QuestionOptions};
use crate::http_counts::HttpCounts;
use crate::live::LiveSample;
use crate::moment::now_ms;
use crate::problem::Answered;
use crate::questions::{Questions, Turn};
use crate::status::Status;

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
    /// Where this process collects, as it was asked for.
    pub collecting: Vec<String>,
}

/// What every request shares.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) options: ServiceOptions,
    pub(crate) archive: Arc<AskedArchive>,
    pub(crate) access: Access,
    pub(crate) questions: Questions,
    pub(crate) cache: AnswerCache,
    pub(crate) live: watch::Receiver<LiveSample>,
    pub(crate) status: Arc<Status>,
    pub(crate) http: HttpCounts,
    pub(crate) started_ms: i64,
    /// Becomes true when the service ends.
    pub(crate) ending: watch::Receiver<bool>,
}

impl Service {
    pub(crate) fn new(
        options: ServiceOptions,
        archive: Arc<AskedArchive>,
        status: Arc<Status>,
        live: watch::Receiver<LiveSample>,
        ending: watch::Receiver<bool>,
    ) -> Self {
        let HttpOptions { hosts, session_length, cache, .. } = &options.http;
        Self {
            access: Access::new(options.users.clone(), hosts.clone(), session_length.duration()),
            questions: Questions::new(&options.questions),
            cache: AnswerCache::new(cache.bytes()),
            archive,
            options,
            live,
            status,
            http: HttpCounts::default(),
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

    /// Answers a question, from the cache when it was asked before. `text` is the question with its times as numbers: the
    /// same text has the same answer as long as the archive does not change.
    pub(crate) async fn answer(
        self: &Arc<Self>,
        asker: &Asker,
        form: AnswerForm,
        text: String,
        work: impl FnOnce(&Question<'_>) -> Answered<CachedAnswer> + Send + 'static,
    ) -> Answered<Response> {
        let service = Arc::clone(self);
        let question = text.clone();
        let work = move |turn: &Turn| {
            let snapshot = service.archive.snapshot()?;
            let key = AnswerKey { state: key_of(&snapshot), form, question };
            if let Some(answer) = service.cache.get(&key) {
                turn.count_cached();
                return Ok(answer.response(turn.took_ms(), true));
            }
            let _admitted = turn.enter()?;
            let answers = service.archive.answers(&snapshot, &turn.control);
            let answer = work(&Question { service: &service, turn, snapshot: &snapshot, answers: &answers })?;
            service.cache.insert(key, answer.clone());
            Ok(answer.response(turn.took_ms(), false))
        };
        self.questions.answer(&asker.name, text, work).await
    }
}

/// A question at work.
pub(crate) struct Question<'a> {
    pub(crate) service: &'a Service,
    pub(crate) turn: &'a Turn,
    pub(crate) snapshot: &'a Arc<Snapshot>,
    pub(crate) answers: &'a FlowAnswers,
}

impl Question<'_> {
    /// The last delivery that the answer has.
    pub(crate) fn position(&self) -> u64 {
        self.snapshot.position().get()
    }

    /// How complete the flows of a question are.
    pub(crate) fn completeness(&self, question: &FlowQuery) -> Answered<crate::completeness::CompletenessBody> {
        let archive = self.answers.archive();
        let archive = archive.ok_or_else(|| crate::Problem::internal("there is no archive"))?;
        Ok(crate::completeness::CompletenessBody::of(&archive.completeness(&question.window)?))
    }
}
