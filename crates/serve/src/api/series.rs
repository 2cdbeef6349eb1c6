//! Statistics over time.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use weir_chain::TimeSpan;
use weir_series::{Family, Resolution, SeriesError, SeriesId, SeriesStore};

use super::extract::Params;
use super::parameters::limit;
use super::question_text::given;
use super::timeline::SeriesBody;
use crate::access::Asker;
use crate::archive::STATISTICS;
use crate::body::json;
use crate::moment::{now_ms, window};
use crate::problem::{Answered, Problem, with_causes};
use crate::questions::Turn;
use crate::service::Service;

/// Keys that are listed unless a request asks for another number, and the most.
const KEYS: (usize, usize) = (1000, 100_000);
/// Points that an answer may have.
const POINTS_MAX: i64 = 20_000;
/// How much is fetched where no time is given.
const SPAN_MS: i64 = 86_400_000;

/// Which series.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct SeriesParams {
    /// The keys of this family are listed; the families without it.
    family: Option<String>,
    /// Keys that have this text.
    #[serde(rename = "match")]
    matched: Option<String>,
    /// Keys at most: 1000, up to 100,000.
    limit: Option<usize>,
}

/// What series there are.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SeriesAnswer {
    /// The families.
    families: Vec<FamilyBody>,
    /// Lengths of steps that are kept, in milliseconds.
    steps_ms: Vec<i64>,
    /// The keys of the family that was asked for.
    keys: Vec<String>,
}

/// Series of one kind.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FamilyBody {
    name: String,
    metrics: Vec<String>,
}

impl FamilyBody {
    fn of(family: &Family) -> Self {
        let metrics = family.metrics.iter().map(|metric| metric.name.clone()).collect();
        Self { name: family.name.clone(), metrics }
    }
}

/// Lists families of statistics, and keys.
#[utoipa::path(
    get, path = "/series", tag = "series", params(SeriesParams),
    responses((status = 200, body = SeriesAnswer), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(
    State(service): State<Arc<Service>>,
    asker: Asker,
    Params(params): Params<SeriesParams>,
) -> Answered<Response> {
    asker.needs_all_flows()?;
    let limit = limit(params.limit, KEYS.0, KEYS.1)?;
    let asked = Arc::clone(&service);
    let (of_family, of_key) = (given("family", params.family.as_deref()), given("match", params.matched.as_deref()));
    let text = format!("series{of_family}{of_key}");
    let work = move |turn: &Turn| {
        let _admitted = turn.enter_quick()?;
        let store = open(&asked)?;
        let mut keys: Vec<String> = Vec::new();
        if let Some(name) = &params.family {
            let (id, _) = family(&store, name)?;
            let catalogue = store.catalogue().map_err(|error| unreadable(&error))?;
            let has = |key: &str| params.matched.as_deref().is_none_or(|text| key.contains(text));
            keys.extend(catalogue.series(id).map(|(_, key)| key).filter(|key| has(key)).take(limit).map(str::to_owned));
        }
        json(&SeriesAnswer {
            families: store.families().iter().map(FamilyBody::of).collect(),
            steps_ms: store.resolutions().iter().map(|one| i64::from(one.step_secs) * 1000).collect(),
            keys,
        })
    };
    service.questions.answer(&asker, text, work).await
}

/// Which values.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct FetchParams {
    /// The family.
    family: String,
    /// The key; `total` has one only, which need not be given.
    key: Option<String>,
    /// The metric: one of the family; all of them without it.
    metric: Option<String>,
    /// Steps that begin at this time or later; a day before the end without it.
    from: Option<String>,
    /// Steps that begin before this time.
    until: Option<String>,
    /// Length of steps, such as 1m; without it the shortest that are kept for so long and are not too many.
    step: Option<String>,
}

/// Values of a series.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct FetchAnswer {
    /// Length of a step in milliseconds.
    step_ms: i64,
    /// When each step begins, in milliseconds since the epoch.
    times: Vec<i64>,
    /// A series of each metric, whose values are sums over a step.
    series: Vec<SeriesBody>,
    /// Which steps have no values because a file of the statistics is damaged; absent when none is.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    damaged: Vec<String>,
}

/// Fetches the values of a series.
#[utoipa::path(
    get, path = "/series/fetch", tag = "series", params(FetchParams),
    responses((status = 200, body = FetchAnswer), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn fetch(
    State(service): State<Arc<Service>>,
    asker: Asker,
    Params(params): Params<FetchParams>,
) -> Answered<Response> {
    asker.needs_all_flows()?;
    let window = window(params.from.as_deref(), params.until.as_deref())?;
    let until_ms = window.until_ms.unwrap_or_else(now_ms);
    let from_ms = window.from_ms.unwrap_or(until_ms.saturating_sub(SPAN_MS));
    let step = params
        .step
        .as_deref()
        .map(|step| step.parse::<TimeSpan>().map_err(|error| Problem::request(format!("'step': {error}"))));
    let step = step.transpose()?;
    let asked = Arc::clone(&service);
    let (family_name, key) = (&params.family, given("key", params.key.as_deref()));
    let text = format!("series fetch family={family_name}{key} from={from_ms} until={until_ms}");
    let work = move |turn: &Turn| {
        let _admitted = turn.enter_quick()?;
        let store = open(&asked)?;
        let (id, found) = family(&store, &params.family)?;
        let series = series_of(&store, id, params.key.as_deref())?;
        let resolution = resolution(&store, step, from_ms, until_ms)?;
        let range = (from_ms.div_euclid(1000), until_ms.div_euclid(1000).saturating_add(1));
        let fetched = store.fetch(id, Some(&[series]), resolution, range.0, range.1);
        let fetched = fetched.map_err(|error| unreadable(&error))?;
        let times = (0..fetched.known.len()).map(|step| fetched.time_secs(step) * 1000).collect();
        let metrics = found.metrics.iter().enumerate();
        let wanted = metrics.filter(|(_, metric)| params.metric.as_ref().is_none_or(|name| *name == metric.name));
        let values = |(number, metric): (usize, &weir_series::Metric)| SeriesBody {
            name: metric.name.clone(),
            values: match fetched.series.first() {
                Some(series) => {
                    fetched.totals(found, series, number).map(|total| total.map(|total| total as f64)).collect()
                }
                None => vec![None; fetched.known.len()],
            },
        };
        let step_ms = i64::from(fetched.step_secs) * 1000;
        let damaged = fetched.damaged.iter().map(ToString::to_string).collect();
        json(&FetchAnswer { step_ms, times, series: wanted.map(values).collect(), damaged })
    };
    service.questions.answer(&asker, text, work).await
}

fn open(service: &Service) -> Answered<SeriesStore> {
    SeriesStore::open(&service.archive.folder().join(STATISTICS)).map_err(|error| match error {
        SeriesError::NoStore(_) => Problem::not_found("the archive has no statistics")
            .with_hint("weir serve --statistics and weir collect --statistics keep them"),
        error => unreadable(&error),
    })
}

fn unreadable(error: &SeriesError) -> Problem {
    Problem::archive(with_causes(error))
}

fn family<'a>(store: &'a SeriesStore, name: &str) -> Answered<(weir_series::FamilyId, &'a Family)> {
    store.family(name).ok_or_else(|| {
        let names: Vec<&str> = store.families().iter().map(|family| family.name.as_str()).collect();
        Problem::not_found(format!("there are no series by '{}'", name.escape_debug()))
            .with_hint(format!("there are series by {}", names.join(", ")))
    })
}

fn series_of(store: &SeriesStore, id: weir_series::FamilyId, key: Option<&str>) -> Answered<SeriesId> {
    let catalogue = store.catalogue().map_err(|error| unreadable(&error))?;
    let mut all = catalogue.series(id);
    match (key, all.next(), all.next()) {
        (Some(key), ..) => catalogue
            .id(id, key)
            .ok_or_else(|| Problem::not_found(format!("there is no series of '{}'", key.escape_debug()))),
        (None, Some((only, _)), None) => Ok(only),
        (None, ..) => Err(Problem::request("'key' must be given: the family has several series")),
    }
}

/// The steps that were asked for, or the finest that reach so far back and are not too many.
fn resolution(store: &SeriesStore, step: Option<TimeSpan>, from_ms: i64, until_ms: i64) -> Answered<Resolution> {
    let all = store.resolutions();
    let lengths = || all.iter().map(|one| format!("{}s", one.step_secs)).collect::<Vec<_>>().join(", ");
    if let Some(step) = step {
        let found = all.iter().find(|one| i64::from(one.step_secs) * 1000 == step.millis());
        let missing = || {
            Problem::request(format!("there are no steps of {step}"))
                .with_hint(format!("there are steps of {}", lengths()))
        };
        return found.copied().ok_or_else(missing);
    }
    let kept = store.resolution_for(from_ms.div_euclid(1000), now_ms().div_euclid(1000));
    let span_secs = until_ms.saturating_sub(from_ms).div_euclid(1000);
    let is_fit = |one: &&Resolution| {
        one.step_secs >= kept.step_secs && span_secs / i64::from(one.step_secs.max(1)) <= POINTS_MAX
    };
    Ok(all.iter().find(is_fit).copied().unwrap_or(kept))
}
