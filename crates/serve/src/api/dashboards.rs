//! Dashboards: questions that are looked at together, kept as files that people can read and put under version control.
//!
//! A panel is a question as the pages have it in their address, so whoever can read a link can write a panel. What a question
//! means is not known here: the pages say what they do not understand of it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::extract::{BodyText, IfMatch, PathText};
use super::named_files::{NamedFiles, tag, with_tag};
use crate::access::Asker;
use crate::body::json;
use crate::problem::{Answered, Problem, TextPlace};
use crate::questions::Turn;
use crate::service::Service;
use crate::users::Role;

/// Panels of a dashboard: each is a question that is asked again and again.
const PANELS_MAX: usize = 24;
/// Octets of a question.
const QUESTION_MAX: usize = 4096;

/// A dashboard.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct DashboardBody {
    name: String,
    title: String,
    /// What is looked at, in its order; empty when there is an error.
    panels: Vec<Panel>,
    /// What is wrong with the file, if anything.
    error: Option<Problem>,
    /// The file; empty when it cannot be read.
    text: String,
    /// The tag of the file, which the header `If-Match` of a change names: it is refused with 412 when the file is another one
    /// by then. Empty when it cannot be read.
    etag: String,
}

/// The file of a dashboard.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DashboardFile {
    title: String,
    #[serde(default)]
    panels: Vec<Panel>,
}

/// A question of a dashboard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Panel {
    /// What is seen.
    title: String,
    /// The question as in the address of the page Explore, such as `filter=proto+tcp&by=dst_port&from=-1d`.
    #[serde(default)]
    question: String,
    /// Whether it has the whole width.
    #[serde(default)]
    wide: bool,
}

/// Lists the dashboards.
#[utoipa::path(
    get, path = "/dashboards", tag = "dashboards",
    responses((status = 200, body = Vec<DashboardBody>), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn list(State(service): State<Arc<Service>>, asker: Asker) -> Answered<Response> {
    // filters of others may name addresses
    asker.needs_all_flows()?;
    let files = files(&service);
    let work = move |_: &Turn| {
        let body = |(name, text): (String, Answered<String>)| match text {
            Ok(text) => body(name, text),
            Err(problem) => unreadable(name, problem),
        };
        json(&files.all()?.into_iter().map(body).collect::<Vec<_>>())
    };
    service.questions.answer(&asker, "dashboards".to_owned(), work).await
}

/// Shows a dashboard.
#[utoipa::path(
    get, path = "/dashboards/{name}", tag = "dashboards",
    params(("name" = String, Path, description = "The name of the dashboard")),
    responses((status = 200, body = DashboardBody), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn show(
    State(service): State<Arc<Service>>,
    asker: Asker,
    PathText(name): PathText,
) -> Answered<Response> {
    asker.needs_all_flows()?;
    let (files, text) = (files(&service), format!("dashboard {name}"));
    let work = move |_: &Turn| {
        let text = files.read(&name)?;
        answer(name, text)
    };
    service.questions.answer(&asker, text, work).await
}

/// Makes or changes a dashboard. The body is the text of the file, which is checked first.
#[utoipa::path(
    put, path = "/dashboards/{name}", tag = "dashboards",
    request_body(content = String, content_type = "application/toml"),
    params(
        ("name" = String, Path, description = "The name of the dashboard"),
        ("If-Match" = Option<String>, Header, description = "The `etag` of the file that the change is based on"),
        ("If-None-Match" = Option<String>, Header, description = "`*` for a new dashboard: it is refused when there is one of the name"),
    ),
    responses((status = 200, body = DashboardBody), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn put(
    State(service): State<Arc<Service>>,
    asker: Asker,
    PathText(name): PathText,
    based_on: IfMatch,
    BodyText(text): BodyText,
) -> Answered<Response> {
    asker.needs(Role::Analyst)?;
    asker.needs_all_flows()?;
    let (files, line) = (files(&service), format!("dashboard put {name}"));
    let work = move |turn: &Turn| {
        parse(&text)?;
        files.of_turn(turn).write(&name, &text, &based_on)?;
        answer(name, text)
    };
    service.questions.answer(&asker, line, work).await
}

/// Removes a dashboard.
#[utoipa::path(
    delete, path = "/dashboards/{name}", tag = "dashboards",
    params(
        ("name" = String, Path, description = "The name of the dashboard"),
        ("If-Match" = Option<String>, Header, description = "The `etag` of the file that is meant"),
    ),
    responses((status = 204), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn delete(
    State(service): State<Arc<Service>>,
    asker: Asker,
    PathText(name): PathText,
    based_on: IfMatch,
) -> Answered<StatusCode> {
    asker.needs(Role::Analyst)?;
    asker.needs_all_flows()?;
    let (files, line) = (files(&service), format!("dashboard delete {name}"));
    let work = move |turn: &Turn| files.of_turn(turn).remove(&name, &based_on);
    service.questions.answer(&asker, line, work).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn files(service: &Service) -> NamedFiles {
    NamedFiles::new(service.dashboards(), "dashboard")
}

fn body(name: String, text: String) -> DashboardBody {
    let (file, error) = match parse(&text) {
        Ok(file) => (file, None),
        Err(problem) => (DashboardFile::default(), Some(problem)),
    };
    let etag = tag(&text);
    DashboardBody { name, title: file.title, panels: file.panels, error, text, etag }
}

/// A file of which there is no text.
fn unreadable(name: String, problem: Problem) -> DashboardBody {
    let (title, text, etag) = (String::new(), String::new(), String::new());
    DashboardBody { name, title, panels: Vec::new(), error: Some(problem), text, etag }
}

fn answer(name: String, text: String) -> Answered<Response> {
    let body = body(name, text);
    Ok(with_tag(json(&body)?, &body.etag))
}

fn parse(text: &str) -> Answered<DashboardFile> {
    let file: DashboardFile = toml::from_str(text).map_err(|error| {
        let place = error.span().map(|span| TextPlace { from: span.start, to: span.end });
        let problem = Problem::request(error.message())
            .with_hint("a dashboard has title, and [[panels]] with title and question");
        Problem { place: place.map(Box::new), ..problem }
    })?;
    if file.panels.len() > PANELS_MAX {
        let detail = format!("there are {} panels, and {PANELS_MAX} is the most", file.panels.len());
        return Err(Problem::request(detail).with_hint("make two dashboards of it"));
    }
    match file.panels.iter().find(|panel| panel.question.len() > QUESTION_MAX) {
        Some(panel) => {
            let title = panel.title.escape_debug();
            Err(Problem::request(format!("the question of '{title}' is longer than {QUESTION_MAX} octets")))
        }
        None => Ok(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_panels() {
        let text = "title = 'Border'\n[[panels]]\ntitle = 'Ports'\nquestion = 'by=dst_port&from=-1d'\nwide = true\n";
        let body = body("border".to_owned(), text.to_owned());
        assert_eq!((body.title.as_str(), body.error), ("Border", None));
        let question = "by=dst_port&from=-1d".to_owned();
        assert_eq!(body.panels, [Panel { title: "Ports".to_owned(), question, wide: true }]);
    }

    #[test]
    fn what_is_wrong_has_a_place() {
        let text = "title = 'Border'\ncolour = 'red'\n";
        let problem = parse(text).expect_err("an unknown key");
        let place = problem.place.expect("a place");
        assert_eq!(&text[place.from..place.to], "colour");
        assert!(problem.detail.contains("unknown field `colour`"), "{}", problem.detail);
        assert!(problem.hint.is_some());
        let many = format!("title = 'x'\n{}", "[[panels]]\ntitle = 'y'\n".repeat(PANELS_MAX + 1));
        assert!(parse(&many).expect_err("too many").detail.contains("there are 25 panels"));
        let long = format!("title = 'x'\n[[panels]]\ntitle = 'y'\nquestion = '{}'\n", "a".repeat(QUESTION_MAX + 1));
        assert!(parse(&long).expect_err("too long").detail.contains("'y' is longer"));
    }
}
