//! Everything over HTTP: questions, watches, metrics, pages.
