//! Bodies of requests, as they arrive.
//!
//! A body is read before its request is handled, and must be there soon: a client that sends an octet now and then would hold a
//! connection, and what has come of the body, for ever.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderMap, header};
use futures::StreamExt;
use tokio::time::timeout;

use crate::problem::{Answered, Problem};

/// The same request with its body in memory. Refuses a body that is compressed, is larger than `octets_max`, or takes longer than
/// `time_max`.
pub(super) async fn whole(request: Request, octets_max: usize, time_max: Duration) -> Answered<Request> {
    check_coding(request.headers())?;
    let (head, body) = request.into_parts();
    let late = |_| {
        Problem::request(format!("the body of the request did not come within {time_max:?}"))
            .with_hint("the option 'header_timeout' sets the time")
    };
    let body = timeout(time_max, read(body, octets_max)).await.map_err(late)??;
    Ok(Request::from_parts(head, Body::from(body)))
}

/// Refuses a body that would have to be decoded first (RFC 9110 section 8.4): read as it is, it would have mistakes that nobody
/// made.
fn check_coding(headers: &HeaderMap) -> Answered<()> {
    let values = headers.get_all(header::CONTENT_ENCODING);
    let mut codings =
        values.iter().flat_map(|value| value.as_bytes().split(|octet| *octet == b',')).map(<[u8]>::trim_ascii);
    match codings.find(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity")) {
        Some(coding) => {
            Err(Problem::coding(format!("a body with Content-Encoding: {} is not decoded", coding.escape_ascii()))
                .with_hint("send it as it is, without Content-Encoding; Parquet may be compressed within (zstd)"))
        }
        None => Ok(()),
    }
}

async fn read(body: Body, octets_max: usize) -> Answered<Bytes> {
    let mut pieces = body.into_data_stream();
    let mut octets = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece =
            piece.map_err(|error| Problem::request(format!("the body of the request is broken off: {error}")))?;
        if octets.len() + piece.len() > octets_max {
            return Err(Problem::too_large("the body of the request is too large"));
        }
        octets.extend_from_slice(&piece);
    }
    Ok(octets.into())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::http::HeaderValue;
    use futures::stream;
    use tokio::runtime::Builder;

    use super::*;

    fn arrived(body: Body, time_max: Duration) -> Result<Bytes, u16> {
        let runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
        let read = async {
            let request = whole(Request::new(body), 8, time_max).await?;
            read(request.into_body(), 8).await
        };
        runtime.block_on(read).map_err(|problem| problem.status)
    }

    #[test]
    fn a_body_comes_whole_and_soon_or_is_refused() {
        let long = Duration::from_mins(1);
        let pieces = |pieces: &[&'static str]| {
            let pieces: Vec<_> =
                pieces.iter().map(|piece| Ok::<_, Infallible>(Bytes::from_static(piece.as_bytes()))).collect();
            stream::iter(pieces)
        };
        assert_eq!(arrived(Body::empty(), long).as_deref(), Ok(&b""[..]));
        assert_eq!(arrived(Body::from_stream(pieces(&["1234", "5678"])), long).as_deref(), Ok(&b"12345678"[..]));
        assert_eq!(arrived(Body::from_stream(pieces(&["1234", "56789"])), long), Err(413));
        let endless = pieces(&["1"]).chain(stream::pending());
        assert_eq!(arrived(Body::from_stream(endless), Duration::from_millis(1)), Err(400));
    }

    #[test]
    fn a_body_that_must_be_decoded_is_refused() {
        let check = |codings: &[&'static str]| {
            let values = codings.iter().map(|&coding| (header::CONTENT_ENCODING, HeaderValue::from_static(coding)));
            check_coding(&values.collect::<HeaderMap>()).map_err(|problem| (problem.status, problem.detail))
        };
        assert_eq!((check(&[]), check(&["Identity"]), check(&["identity, ", ""])), (Ok(()), Ok(()), Ok(())));
        let refused = |coding: &str| Err((415, format!("a body with Content-Encoding: {coding} is not decoded")));
        assert_eq!(check(&["gzip"]), refused("gzip"));
        assert_eq!(check(&["identity", "identity , br"]), refused("br"));
    }
}
