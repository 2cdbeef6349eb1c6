//! Commands with places for values.

/// What takes the place of a name, in a command line that people copy.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TemplateValue {
    /// A value of flows, which any sender may have chosen: only letters, digits and what addresses, times and paths have
    /// stays as it is.
    Flows(String),
    /// A path that the operator has chosen: in quotes of the shell where it needs them, so that it is the same path.
    Path(String),
}

impl TemplateValue {
    fn in_command(&self) -> String {
        match self {
            Self::Flows(value) => value.chars().map(|c| if is_harmless(c) { c } else { '_' }).collect(),
            Self::Path(path) if path.chars().all(is_harmless) => path.clone(),
            Self::Path(path) => format!("'{}'", path.replace('\'', r"'\''")),
        }
    }

    /// Whether it has quotes of its own, which must not be within others.
    fn is_quoted(&self) -> bool {
        matches!(self, Self::Path(path) if !path.chars().all(is_harmless))
    }
}

/// A quote of the shell that is not closed, and where it is in the command.
type OpenQuote = Option<(char, usize)>;

/// The quote that is open behind a piece of a command, which begins at a place in it.
fn open_behind(mut open: OpenQuote, piece: &str, begin: usize) -> OpenQuote {
    let mut letters = piece.char_indices();
    while let Some((place, letter)) = letters.next() {
        match (open, letter) {
            (None, '\'' | '"') => open = Some((letter, begin + place)),
            (Some((quote, _)), letter) if letter == quote => open = None,
            // the next letter is one of the text (POSIX, Shell Command Language, 2.2)
            (None | Some(('"', _)), '\\') => {
                letters.next();
            }
            _ => {}
        }
    }
    open
}

/// The text with `{name}` replaced by values. Quotes of the text around a value that has its own are left out, or end before it
/// and begin again behind it.
pub(crate) fn filled(template: &str, value: &dyn Fn(&str) -> Option<TemplateValue>) -> String {
    let (mut text, mut rest, mut open) = (String::new(), template, None);
    while let Some((before, after)) = rest.split_once('{') {
        open = open_behind(open, before, text.len());
        text.push_str(before);
        let named = after.split_once('}').and_then(|(name, behind)| Some((value(name)?, behind)));
        let Some((value, behind)) = named else {
            text.push('{');
            rest = after;
            continue;
        };
        rest = behind;
        let command = value.in_command();
        match open.filter(|_| value.is_quoted()) {
            None => text.push_str(&command),
            Some((quote, place)) if place + 1 == text.len() && behind.starts_with(quote) => {
                text.truncate(place);
                text.push_str(&command);
                rest = &behind[1..];
                open = None;
            }
            Some((quote, _)) => {
                text.push(quote);
                text.push_str(&command);
                open = Some((quote, text.len()));
                text.push(quote);
            }
        }
    }
    text.push_str(rest);
    text
}

/// The names of a text that stand in braces. What programs read in braces, such as `{print $1}` and `${HOME}`, is no name.
pub(crate) fn names(template: &str) -> impl Iterator<Item = &str> {
    let is_name = |text: &str| {
        let is_fit = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        !text.is_empty() && text.chars().all(is_fit)
    };
    let places = template.match_indices('{').filter(|(place, _)| !template[..*place].ends_with('$'));
    places.filter_map(|(place, _)| Some(template[place + 1..].split_once('}')?.0)).filter(move |name| is_name(name))
}

fn is_harmless(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '.' | ':' | '-' | '_' | '/' | ',' | '+')
}

#[cfg(test)]
mod tests {
    use super::{TemplateValue, filled};

    #[test]
    fn values_cannot_leave_their_place() {
        let value = |name: &str| match name {
            "host" => Some(TemplateValue::Flows("198.51.100.7".to_owned())),
            "text" => Some(TemplateValue::Flows("'; rm -rf /".to_owned())),
            _ => None,
        };
        assert_eq!(filled("weir query 'host {host}' {x} {", &value), "weir query 'host 198.51.100.7' {x} {");
        assert_eq!(filled("a {text}", &value), "a ___rm_-rf_/");
        let found: Vec<_> = super::names("{host} | awk '{print $1}' {x_2} ${HOME} ${a} { {").collect();
        assert_eq!(found, ["host", "x_2"]);
    }

    /// A shell that reads the command finds the path again (POSIX, Shell Command Language, 2.2.2).
    #[test]
    fn a_path_is_quoted_where_it_needs_that() {
        let command = |path: &str| {
            let value = |name: &str| (name == "archive").then(|| TemplateValue::Path(path.to_owned()));
            filled("weir query -R {archive} {x}", &value)
        };
        assert_eq!(command("/srv/flows_2"), "weir query -R /srv/flows_2 {x}");
        assert_eq!(command("/srv/my arch"), "weir query -R '/srv/my arch' {x}");
        assert_eq!(command("/srv/{x} it's"), r"weir query -R '/srv/{x} it'\''s' {x}");
    }
    /// A shell makes the same words of both, but for the path (POSIX, Shell Command Language, 2.2).
    #[test]
    fn a_path_within_quotes_is_the_same_path() {
        let command = |template: &str| {
            let value = |name: &str| match name {
                "archive" => Some(TemplateValue::Path("/srv/my arch".to_owned())),
                "host" => Some(TemplateValue::Flows("192.0.2.1".to_owned())),
                _ => None,
            };
            filled(template, &value)
        };
        for (template, expected) in [
            ("weir query -R '{archive}' 'host {host}'", "weir query -R '/srv/my arch' 'host 192.0.2.1'"),
            (r#"weir query -R "{archive}" {host}"#, "weir query -R '/srv/my arch' 192.0.2.1"),
            (r#"ls "{archive}/x" '{x} {archive}'"#, r#"ls ""'/srv/my arch'"/x" '{x} ''/srv/my arch'''"#),
            ("ls 'a'{archive}'b'", "ls 'a''/srv/my arch''b'"),
            (r#"ls "\"{archive}\"" \'{archive}"#, r#"ls "\""'/srv/my arch'"\"" \''/srv/my arch'"#),
        ] {
            assert_eq!(command(template), expected, "{template}");
        }
    }
}
