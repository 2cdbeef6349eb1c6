//! How large the terminal is.

/// Columns of the terminal that standard output, standard error or standard input is; `COLUMNS` wins where it is set.
pub(crate) fn width() -> Option<usize> {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    told.filter(|columns| *columns > 0).or_else(|| terminal_size::terminal_size().map(|(width, _)| width.0.into()))
}

/// Lines of the terminal that one of them is.
pub(crate) fn height() -> Option<usize> {
    terminal_size::terminal_size().map(|(_, height)| height.0.into())
}
