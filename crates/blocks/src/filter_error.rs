//! A filter that cannot be parsed, as an error of the option that holds it.

use weir_chain::OptionError;
use weir_filter::ParseError;

/// The error with its place in the filter, which is what whoever reads the chain file cannot add.
pub(crate) fn option_error(key: &'static str, text: &str, error: &ParseError) -> OptionError {
    let before = &text[..text.floor_char_boundary(error.span.start)];
    let line = 1 + before.matches('\n').count();
    let letter = 1 + before.rsplit('\n').next().unwrap_or_default().chars().count();
    let place = match line {
        1 => format!("look at letter {letter} of the filter"),
        _ => format!("look at line {line}, letter {letter} of the filter"),
    };
    let hint = match &error.hint {
        Some(hint) => format!("{place}: {hint}"),
        None => place,
    };
    OptionError::new(key, format!("'{key}' is no filter: {}", error.message)).with_hint(hint)
}
