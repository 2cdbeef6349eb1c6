//! Files that are read again.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;

use crate::access::Asker;
use crate::body::json;
use crate::problem::{Answered, Problem};
use crate::questions::Turn;
use crate::reload::ReloadAnswer;
use crate::service::Service;
use crate::users::Role;
use crate::version_keeper::KEEPING_MAX;

/// Reads users, certificates, what is known about addresses and corrections of sampling again, as SIGHUP does. What is wrong leaves all as it was.
#[utoipa::path(
    post, path = "/reload", tag = "service",
    responses((status = 200, body = ReloadAnswer), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn reload(State(service): State<Arc<Service>>, asker: Asker) -> Answered<Response> {
    asker.needs(Role::Admin)?;
    let asked = Arc::clone(&service);
    let name = asker.name.clone();
    let work = move |_: &Turn| {
        let answer = asked.reload(&name)?;
        // all of it is in use by now, and the answer does not depend on it
        if !asked.reloads.versions.wait(KEEPING_MAX) {
            tracing::warn!("new versions of files about addresses are in use, and not kept yet");
        }
        json(&answer)
    };
    service.questions.answer(&asker, "reload".to_owned(), work).await
}
