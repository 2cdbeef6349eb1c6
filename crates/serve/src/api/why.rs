//! Why a flow is in an answer: which parts of a filter take it.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;
use weir_filter::Predicate;
use weir_flow::{ColumnType, FlowBatch, FlowBatchBuilder, parse_address};

use super::extract::Body;
use super::parameters::{column, filter_reader};
use crate::access::Asker;
use crate::body::json;
use crate::problem::{Answered, Problem};
use crate::questions::Turn;
use crate::service::Service;

/// Parts of a filter that are told apart.
const PARTS_MAX: usize = 1000;
/// Octets of a filter: each part is written out with all that it is made of, so the answer has many times as many.
const FILTER_OCTETS_MAX: usize = 32 << 10;

/// A filter and a flow.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WhyBody {
    /// In nfdump's language.
    filter: String,
    /// Columns and values of the flow, as `/flows` gives them. What is left out is null.
    #[schema(value_type = Object)]
    flow: Map<String, Value>,
}

/// A part of a filter, and whether it takes the flow.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct FilterPart {
    /// The part, in nfdump's language.
    text: String,
    /// and, or, not or test.
    kind: &'static str,
    /// Whether it takes the flow.
    holds: bool,
    /// Columns that a test reads.
    columns: Vec<&'static str>,
    /// What it is made of.
    #[schema(no_recursion)]
    parts: Vec<FilterPart>,
}

/// Says which parts of a filter take a flow. A test of a column that is null is false.
#[utoipa::path(
    post, path = "/filter/why", tag = "catalogue", request_body = WhyBody,
    responses((status = 200, body = FilterPart), (status = "default", body = Problem, content_type = "application/problem+json"))
)]
pub(crate) async fn why(
    State(service): State<Arc<Service>>,
    asker: Asker,
    Body(body): Body<WhyBody>,
) -> Answered<Response> {
    let text = format!("why filter={:?}", body.filter);
    let work = move |turn: &Turn| {
        let _admitted = turn.enter_quick()?;
        json(&parts_of(&body)?)
    };
    service.questions.answer(&asker, text, work).await
}

fn parts_of(body: &WhyBody) -> Answered<FilterPart> {
    let text = body.filter.trim();
    if text.len() > FILTER_OCTETS_MAX {
        return Err(Problem::too_large(format!("the filter has more than {FILTER_OCTETS_MAX} octets")));
    }
    let predicate = match text {
        "" => Predicate::True,
        text => filter_reader().parse(text).map_err(|error| Problem::of_filter(&error))?,
    };
    let flow = flow_of(&body.flow)?;
    let mut left = PARTS_MAX;
    part(&predicate, &flow, &mut left)
}

/// The flow as a batch of one row.
fn flow_of(values: &Map<String, Value>) -> Answered<FlowBatch> {
    let mut builder = FlowBatchBuilder::new(1);
    builder.begin_rows(1);
    for (name, value) in values.iter().filter(|(_, value)| !value.is_null()) {
        let column = column(name)?;
        let wrong = || Problem::request(format!("'{name}' of the flow is not a value of that column"));
        let number = || {
            let digits = value.as_str().and_then(|text| text.parse::<u64>().ok());
            value.as_u64().or(digits).ok_or_else(wrong)
        };
        let text = || value.as_str().ok_or_else(wrong);
        match column.column_type() {
            ColumnType::U8 => builder.u8(column).push(Some(u8::try_from(number()?).map_err(|_| wrong())?)),
            ColumnType::U16 => builder.u16(column).push(Some(u16::try_from(number()?).map_err(|_| wrong())?)),
            ColumnType::U32 => builder.u32(column).push(Some(u32::try_from(number()?).map_err(|_| wrong())?)),
            ColumnType::U64 => builder.u64(column).push(Some(number()?)),
            ColumnType::Time => builder.time(column).push(Some(value.as_i64().ok_or_else(wrong)?)),
            ColumnType::Address => {
                builder.address(column).push(Some(&parse_address(text()?).ok_or_else(wrong)?));
            }
            ColumnType::Text => builder.text(column).push(Some(text()?.as_bytes())),
            // no filter of a page is about them, and their texts are not unique
            ColumnType::Mac | ColumnType::Octets | ColumnType::Elements => {}
        }
    }
    Ok(builder.finish())
}

fn part(predicate: &Predicate, flow: &FlowBatch, left: &mut usize) -> Answered<FilterPart> {
    *left = left.checked_sub(1).ok_or_else(|| {
        Problem::request(format!("the filter has more than {PARTS_MAX} parts"))
            .with_hint("write addresses and ports as lists")
    })?;
    let (kind, inner): (&str, &[Predicate]) = match predicate {
        Predicate::And(parts) => ("and", parts),
        Predicate::Or(parts) => ("or", parts),
        Predicate::Not(part) => ("not", std::slice::from_ref(part)),
        Predicate::True | Predicate::False | Predicate::Test(_) => ("test", &[]),
    };
    let columns = match predicate {
        Predicate::Test(test) => test.columns().iter().map(|column| column.name()).collect(),
        _ => Vec::new(),
    };
    let mask = predicate.mask(flow);
    Ok(FilterPart {
        text: predicate.to_string(),
        kind,
        holds: mask.len() == 1 && mask.value(0),
        columns,
        parts: inner.iter().map(|inner| part(inner, flow, left)).collect::<Answered<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(filter: &str, flow: &Value) -> Answered<FilterPart> {
        let predicate = weir_filter::parse(filter).expect("a filter");
        let flow = flow_of(flow.as_object().expect("an object"))?;
        part(&predicate, &flow, &mut PARTS_MAX.clone())
    }

    #[test]
    fn each_part_says_whether_it_takes_the_flow() {
        let flow = json!({ "protocol": 6, "src_addr": "10.0.0.1", "dst_port": 443, "bytes": "9007199254740993" });
        let found = of("proto tcp and (src ip 10.0.0.2 or dst port 443) and not bytes < 100", &flow).expect("parts");
        assert!(found.holds && found.kind == "and", "{found:?}");
        let either = &found.parts[1];
        assert_eq!(either.parts.iter().map(|part| part.holds).collect::<Vec<_>>(), [false, true]);
        assert_eq!(either.parts[1].columns, ["dst_port"]);
        assert_eq!((found.parts[2].kind, found.parts[2].holds, found.parts[2].parts[0].holds), ("not", true, false));
        let nothing = of("src port 80", &json!({})).expect("parts");
        assert!(!nothing.holds, "a test of null is false");
    }

    #[test]
    fn what_is_no_value_is_a_problem() {
        for flow in [
            json!({ "colour": 1 }),
            json!({ "protocol": 300 }),
            json!({ "src_addr": "here" }),
            json!({ "start": "now" }),
        ] {
            assert_eq!(of("proto tcp", &flow).expect_err("wrong").status, 400, "{flow}");
        }
    }

    #[test]
    fn a_filter_that_would_be_written_out_many_times_is_refused() {
        let body = |filter: String| WhyBody { filter, flow: Map::new() };
        let either = |times: usize| format!("{}proto tcp", "proto tcp or ".repeat(times));
        assert!(parts_of(&body(either(10))).is_ok());
        assert_eq!(parts_of(&body(either(FILTER_OCTETS_MAX / 13))).expect_err("long").status, 413);
    }
}
