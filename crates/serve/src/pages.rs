//! The pages, which are inside the binary.
//!
//! The pages are built by npm into `web/dist`, and a checkout need not have them: then a page says how to build them. Whoever
//! builds them touches this file, as `make web` does, so that they get into the next build of the binary.

use std::borrow::Cow;

use axum::body::Bytes;
use axum::http::{HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};
use rust_embed::{Embed, EmbeddedFile};

use crate::Problem;

/// Scripts, styles and pictures come from here, and from nowhere else.
pub(crate) const CONTENT_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
     img-src 'self' data: blob:; font-src 'self'; connect-src 'self'; manifest-src 'self'; worker-src 'self'; \
     base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The page that others are parts of.
const INDEX: &str = "index.html";
/// The folder of files whose names change with their contents.
const HASHED: &str = "assets/";

/// What npm built.
#[derive(Embed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct Built;

/// What says that nothing was built.
#[derive(Embed)]
#[folder = "pages"]
struct Fallback;

fn file(path: &str) -> Option<EmbeddedFile> {
    if Built::get(INDEX).is_some() { Built::get(path) } else { Fallback::get(path) }
}

/// Answers with a file. Pages have one address and find their parts behind `#`, so an unknown path is not found.
pub(crate) async fn serve(uri: Uri) -> Response {
    let path = uri.path().trim_start_matches('/');
    let path = if path.is_empty() { INDEX } else { path };
    let Some(found) = file(path) else {
        return Problem::not_found(format!("there is no '{}'", uri.path().escape_debug())).into_response();
    };
    let cache = if path.starts_with(HASHED) { "public, max-age=31536000, immutable" } else { "no-cache" };
    let octets = match found.data {
        Cow::Borrowed(octets) => Bytes::from_static(octets),
        Cow::Owned(octets) => octets.into(),
    };
    let mut response = octets.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type(path)));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(cache));
    response
}

/// The media type of a file by its ending.
fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(path: &str) -> (u16, String) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let response = runtime.block_on(serve(path.parse().expect("a path")));
        let cache = response.headers().get(header::CACHE_CONTROL).and_then(|value| value.to_str().ok());
        (response.status().as_u16(), cache.unwrap_or_default().to_owned())
    }

    #[test]
    fn there_is_a_page_and_nothing_beyond_its_folder() {
        assert_eq!(status("/"), (200, "no-cache".to_owned()));
        assert_eq!(status("/index.html").0, 200);
        for path in ["/no", "/../Cargo.toml", "/%2e%2e/Cargo.toml", "/..%2fCargo.toml", "//etc/passwd"] {
            assert_eq!(status(path).0, 404, "{path}");
        }
    }

    #[test]
    fn the_fallback_says_how_pages_are_built() {
        let page = Fallback::get(INDEX).expect("a page");
        let text = String::from_utf8_lossy(&page.data);
        assert!(text.contains("make web"), "{text}");
        assert!(!text.contains("<script"), "no script runs without a build");
    }
}
