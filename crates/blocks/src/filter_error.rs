//! A filter that cannot be parsed, as an error of the option that holds it.

use weir_chain::OptionError;
use weir_filter::ParseError;

/// The error with the line of the filter that has the mistake, and carets under it, as `weir query` shows it.
pub(crate) fn option_error(key: &'static str, text: &str, error: &ParseError) -> OptionError {
    // the hint comes last, as that of any other option
    let picture = ParseError { hint: None, ..error.clone() }.render(text);
    OptionError { hint: error.hint.clone(), ..OptionError::new(key, format!("'{key}' is no filter\n{picture}")) }
}
