//! Which headers go on, and which belong to one connection only.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

/// The tenant that a request belongs to, where its body's `user` is not to be taken.
pub(crate) const TENANT: HeaderName = HeaderName::from_static("x-warmroute-tenant");
/// The session that a request belongs to.
pub(crate) const SESSION: HeaderName = HeaderName::from_static("x-session-id");
/// A request's name in every log on its way.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The worker that answered.
pub(crate) const WORKER: HeaderName = HeaderName::from_static("x-warmroute-worker");
/// Tokens of the prompt that the worker was taken to hold.
pub(crate) const OVERLAP: HeaderName = HeaderName::from_static("x-warmroute-overlap-tokens");
/// How the prompt was had.
pub(crate) const RUNG: HeaderName = HeaderName::from_static("x-warmroute-rung");
/// vLLM's choice of a data-parallel rank.
pub(crate) const DP_RANK: HeaderName = HeaderName::from_static("x-data-parallel-rank");
/// What the OpenAI clients obey before they try again.
pub(crate) const SHOULD_RETRY: HeaderName = HeaderName::from_static("x-should-retry");

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// Headers that mean this connection and not the message.
const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    KEEP_ALIVE,
    PROXY_CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Takes out of `headers` what belongs to the connection it came on.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    if headers.contains_key(header::CONNECTION) {
        let named: Vec<HeaderName> = headers
            .get_all(header::CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .filter_map(|name| name.trim().parse().ok())
            .collect();
        for name in named {
            headers.remove(name);
        }
    }
    // Names of headers that are there are compared by number; looking each of these up would hash nine names.
    while let Some(name) = headers.keys().find(|name| HOP_BY_HOP.contains(name)).cloned() {
        headers.remove(name);
    }
}

/// The value of `name` as text.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// `text` as a header value; what a header cannot hold is left out.
pub(crate) fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or_else(|_| {
        let plain: String = text.chars().filter(|char| char.is_ascii_graphic() || *char == ' ').collect();
        HeaderValue::from_str(&plain).unwrap_or(HeaderValue::from_static(""))
    })
}

/// `number` as a header value.
pub(crate) fn number(number: u64) -> HeaderValue {
    HeaderValue::from(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_connection_names_goes_too() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-One"),
            ("connection", " x-two"),
            ("x-one", "1"),
            ("x-two", "2"),
            ("x-three", "3"),
            ("transfer-encoding", "chunked"),
            ("te", "trailers"),
            ("authorization", "Bearer k"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        remove_hop_by_hop(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["authorization", "x-three"]);
    }

    #[test]
    fn a_name_that_no_header_holds_is_stripped() {
        assert_eq!(value("wörker\n1"), "wrker1");
    }
}
