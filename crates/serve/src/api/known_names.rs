//! What files and exporters know about values of columns: countries, systems and labels of addresses, names of interfaces.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use weir_flow::{Column, ColumnType, parse_address};

use super::extract::Body;
use super::interfaces::{InterfaceBody, InterfaceKey, describe};
use super::parameters::column;
use crate::access::Asker;
use crate::body::json;
use crate::moment::{moment, now_ms};
use crate::problem::{Answered, Problem};
use crate::service::{Question, Reads, Service};

/// Values of a request.
const VALUES_MAX: usize = 500;

/// Values whose names are asked for.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NamesBody {
    /// Values by their columns, at most 500 together: addresses, and of `in_if` and `out_if` `EXPORTER/INDEX`.
    #[schema(value_type = Object)]
    values: BTreeMap<String, Vec<String>>,
    /// Names as they were valid at this time; the newest ones without it.
    at: Option<String>,
    /// The first moment of a window that ends with `at` or now. What was called otherwise at that moment has `changed`.
    from: Option<String>,
}

/// What is known about a value; what is not known is left out.
#[derive(Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct KnownName {
    /// Label of an address, name of an interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    /// Code of the country of an address.
    #[serde(skip_serializing_if = "Option::is_none")]
    country: Option<String>,
    /// Number of the autonomous system of an address.
    #[serde(rename = "as", skip_serializing_if = "Option::is_none")]
    asn: Option<u32>,
    /// What an exporter says about an interface.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<String>,
    /// Speed of an interface in bits a second: the newest of the 7 days before the time, or before the newest counters of any
    /// exporter up to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    speed: Option<u64>,
    /// True when something else was known about the address at the beginning of the window.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<bool>,
}

/// Names by value, by column.
type Names = BTreeMap<String, BTreeMap<String, KnownName>>;

/// Gives names to values, as far as the files of [enrichment] and exporters know any.
#[utoipa::path(
    post, path = "/names", tag = "catalogue", request_body = NamesBody,
    responses(
        (status = 200, body = BTreeMap<String, BTreeMap<String, KnownName>>),
        (status = "default", body = Problem, content_type = "application/problem+json")
    )
)]
pub(crate) async fn names(
    State(service): State<Arc<Service>>,
    asker: Asker,
    Body(body): Body<NamesBody>,
) -> Answered<Response> {
    if asker.view.has_pseudonyms() {
        return Err(Problem::forbidden("what is known about an address is not known about its image"));
    }
    let count: usize = body.values.values().map(Vec::len).sum();
    if count > VALUES_MAX {
        return Err(Problem::request(format!("{count} values are asked for, and {VALUES_MAX} are possible")));
    }
    let time = |text: Option<&str>| text.map(|text| moment(text, now_ms())).transpose();
    let (from_ms, at_ms) = (time(body.from.as_deref())?, time(body.at.as_deref())?);
    let work = move |question: &Question<'_>| {
        let mut names = Names::new();
        for (name, values) in &body.values {
            let column = column(name)?;
            let found = match column {
                Column::InIf | Column::OutIf => of_interfaces(question, values, at_ms)?,
                column if column.column_type() == ColumnType::Address => {
                    of_addresses(question, values, from_ms, at_ms)?
                }
                // nothing is known about the others
                _ => BTreeMap::new(),
            };
            names.insert(name.clone(), found);
        }
        json(&names)
    };
    service.ask(&asker, format!("names of {count} values"), Reads::NoFlows, work).await
}

/// What files know about addresses, by the versions of a time, and whether it was the same at the beginning of a window.
fn of_addresses(
    question: &Question<'_>,
    values: &[String],
    from_ms: Option<i64>,
    at_ms: Option<i64>,
) -> Answered<BTreeMap<String, KnownName>> {
    let enrichment = question.service.archive.enrichment();
    let mut names = BTreeMap::new();
    for value in values {
        let octets = octets(value)?;
        let known = enrichment.address(&octets, at_ms);
        let is_changed = from_ms.is_some_and(|from_ms| enrichment.address(&octets, Some(from_ms)) != known);
        let name = KnownName {
            label: known.label,
            country: known.country,
            asn: known.asn,
            changed: is_changed.then_some(true),
            ..KnownName::default()
        };
        if name != KnownName::default() {
            names.insert(value.clone(), name);
        }
    }
    Ok(names)
}

/// Names of interfaces. What exporters report is about all flows: who sees a part of them has the names of the file.
fn of_interfaces(
    question: &Question<'_>,
    values: &[String],
    at_ms: Option<i64>,
) -> Answered<BTreeMap<String, KnownName>> {
    let mut found: BTreeMap<InterfaceKey, InterfaceBody> = BTreeMap::new();
    let key = |value: &String| {
        let wrong = || Problem::request(format!("'{}' is not EXPORTER/INDEX", value.escape_debug()));
        let (exporter, index) = value.rsplit_once('/').ok_or_else(wrong)?;
        Ok::<InterfaceKey, Problem>((octets(exporter)?, index.parse().map_err(|_| wrong())?))
    };
    for value in values {
        found.insert(key(value)?, InterfaceBody::default());
    }
    describe(question, &mut found, at_ms)?;
    let mut names = BTreeMap::new();
    for value in values {
        let Some(InterfaceBody { name, description, speed_bps, .. }) = found.get(&key(value)?) else { continue };
        let known = KnownName {
            label: name.clone(),
            description: description.clone(),
            speed: *speed_bps,
            ..KnownName::default()
        };
        if known != KnownName::default() {
            names.insert(value.clone(), known);
        }
    }
    Ok(names)
}

fn octets(address: &str) -> Answered<Vec<u8>> {
    let octets = parse_address(address);
    octets.ok_or_else(|| Problem::request(format!("'{}' is not an address", address.escape_debug())))
}
