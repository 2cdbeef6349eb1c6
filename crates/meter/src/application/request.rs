//! Protocols of requests and responses in lines: HTTP/1 (RFC 9112), RTSP (RFC 7826), SIP (RFC 3261), SSDP.

use super::details::RequestDetails;
use super::inspection::Verdict;
use super::text::{begins, clean, line};
use super::{Direction, Protocol};

/// What was seen of the first request and the first response.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// Whether the fields of the request and of the response have begun, and whether they have ended.
    request: Progress,
    response: Progress,
    /// Which way the message goes whose fields are not at their end.
    open: Option<Direction>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Progress {
    #[default]
    Awaited,
    Begun,
    Ended,
}

/// The first line of a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StartLine<'a> {
    Request { method: &'a [u8], target: &'a [u8] },
    Response { status: u16 },
}

impl Exchange {
    /// Takes in the payload of a packet. Fields that go on in a further packet are read from its first whole line on.
    pub(super) fn inspect(
        &mut self,
        protocol: Protocol,
        direction: Direction,
        payload: &[u8],
        details: &mut RequestDetails,
    ) -> Verdict {
        match start_line(payload) {
            Some((StartLine::Request { method, target }, fields)) if self.request == Progress::Awaited => {
                details.method = clean(method);
                details.host = host_of(method, target);
                self.open = Some(direction);
                self.request = read_fields(fields, details);
            }
            Some((StartLine::Response { status }, fields)) if self.response == Progress::Awaited => {
                details.status = Some(status);
                self.open = Some(direction);
                self.response = read_fields(fields, details);
            }
            // Provisional responses show less than the one that follows them (RFC 9110 section 15.2).
            Some((StartLine::Response { status }, _)) if details.status.is_some_and(|status| status < 200) => {
                details.status = Some(status);
            }
            None if self.open == Some(direction) => {
                let open = if self.response == Progress::Awaited { &mut self.request } else { &mut self.response };
                if *open == Progress::Begun {
                    *open = read_fields(payload, details);
                }
            }
            _ => {}
        }
        // Who announces is never answered.
        let answered = self.response == Progress::Ended || protocol == Protocol::Ssdp;
        let final_status = details.status.is_none_or(|status| status >= 200);
        if self.request != Progress::Awaited && answered && final_status { Verdict::Done } else { Verdict::More }
    }
}

/// Takes the first line apart, of whichever of the protocols it is; what follows it comes with it.
pub(super) fn start_line(payload: &[u8]) -> Option<(StartLine<'_>, &[u8])> {
    let (first, rest) = line(payload).unwrap_or((payload, &[]));
    let versions: [&[u8]; 3] = [b"HTTP/", b"RTSP/", b"SIP/"];
    if versions.iter().any(|version| first.starts_with(version)) {
        let status = first.split(|octet| *octet == b' ').nth(1)?;
        let status = std::str::from_utf8(status).ok()?.parse().ok()?;
        return Some((StartLine::Response { status }, rest));
    }
    let mut words = first.splitn(3, |octet| *octet == b' ');
    let (method, target) = (words.next()?, words.next()?);
    // A line that was cut off has no version; the methods were looked at before.
    let version = words.next();
    let named = version.is_none_or(|last| versions.iter().any(|version| contains_version(last, version)));
    let is_method =
        !method.is_empty() && method.iter().all(|octet| octet.is_ascii_uppercase() || b"-_".contains(octet));
    (is_method && named).then_some((StartLine::Request { method, target }, rest))
}

/// Whether a version is at the end of a line; targets may have spaces in them, against the rules.
fn contains_version(last: &[u8], version: &[u8]) -> bool {
    last.windows(version.len()).any(|window| window == version)
}

/// Reads fields up to the empty line behind them.
fn read_fields(mut octets: &[u8], details: &mut RequestDetails) -> Progress {
    while let Some((field, rest)) = line(octets) {
        if field.is_empty() {
            return Progress::Ended;
        }
        let names: [(&[u8], &mut Option<Box<str>>); 3] = [
            (b"host:", &mut details.host),
            (b"user-agent:", &mut details.user_agent),
            (b"server:", &mut details.server),
        ];
        for (name, value) in names {
            if begins(field, name) && (value.is_none() || name == b"host:") {
                *value = clean(&field[name.len()..]).or(value.take());
            }
        }
        octets = rest;
    }
    Progress::Begun
}

/// The host that a target names, where it names one: of CONNECT, and of a URI that is absolute.
fn host_of(method: &[u8], target: &[u8]) -> Option<Box<str>> {
    if method == b"CONNECT" {
        return clean(target);
    }
    let scheme = target.windows(3).position(|window| window == b"://")?;
    clean(target[scheme + 3..].split(|octet| b"/?#".contains(octet)).next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inspected(packets: &[(Direction, &[u8])]) -> (RequestDetails, Verdict) {
        let (mut exchange, mut details) = (Exchange::default(), RequestDetails::default());
        let mut verdict = Verdict::More;
        for (direction, payload) in packets {
            verdict = exchange.inspect(Protocol::Http, *direction, payload, &mut details);
        }
        (details, verdict)
    }

    #[test]
    fn fields_may_come_in_a_further_packet() {
        let (details, verdict) = inspected(&[
            (Direction::Forward, b"GET /secret?x HTTP/1.1\r\nAccept: */*\r\n"),
            (Direction::Forward, b"HOST: www.example.org\r\nUser-Agent: curl/8\r\n\r\n"),
        ]);
        assert_eq!((details.method.as_deref(), details.host.as_deref()), (Some("GET"), Some("www.example.org")));
        assert_eq!((details.user_agent.as_deref(), verdict), (Some("curl/8"), Verdict::More));
    }

    #[test]
    fn a_provisional_response_is_followed_by_another() {
        let (details, verdict) = inspected(&[
            (Direction::Forward, b"PUT / HTTP/1.1\r\nHost: a\r\n\r\n"),
            (Direction::Reverse, b"HTTP/1.1 100 Continue\r\n\r\n"),
            (Direction::Reverse, b"HTTP/1.1 201 Created\r\nServer: b\r\n\r\n"),
        ]);
        assert_eq!((details.status, verdict), (Some(201), Verdict::Done));
    }

    #[test]
    fn targets_tell_hosts() {
        let check = |payload: &[u8], host: Option<&str>| {
            assert_eq!(inspected(&[(Direction::Forward, payload)]).0.host.as_deref(), host);
        };
        check(b"CONNECT example.org:443 HTTP/1.1\r\n\r\n", Some("example.org:443"));
        check(b"DESCRIBE rtsp://example.org/stream RTSP/1.0\r\n\r\n", Some("example.org"));
        check(b"GET / HTTP/1.0\r\n\r\n", None);
    }
}
