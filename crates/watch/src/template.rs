//! Commands with places for values.

/// The text with `{name}` replaced by values. A value goes into a command line that people copy, so only letters, digits
/// and what addresses, times and paths have stays as it is.
pub(crate) fn filled(template: &str, value: &dyn Fn(&str) -> Option<String>) -> String {
    let (mut text, mut rest) = (String::new(), template);
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        match after.split_once('}') {
            Some((name, behind)) if value(name).is_some() => {
                text.push_str(&harmless(&value(name).unwrap_or_default()));
                rest = behind;
            }
            _ => {
                text.push('{');
                rest = after;
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

fn harmless(value: &str) -> String {
    let is_fit = |c: char| c.is_alphanumeric() || matches!(c, '.' | ':' | '-' | '_' | '/' | ',' | '+');
    value.chars().map(|c| if is_fit(c) { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::filled;

    #[test]
    fn values_cannot_leave_their_place() {
        let value = |name: &str| match name {
            "host" => Some("198.51.100.7".to_owned()),
            "text" => Some("'; rm -rf /".to_owned()),
            _ => None,
        };
        assert_eq!(filled("weir query 'host {host}' {x} {", &value), "weir query 'host 198.51.100.7' {x} {");
        assert_eq!(filled("a {text}", &value), "a ___rm_-rf_/");
        let found: Vec<_> = super::names("{host} | awk '{print $1}' {x_2} ${HOME} ${a} { {").collect();
        assert_eq!(found, ["host", "x_2"]);
    }
}
