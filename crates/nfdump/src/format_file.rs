//! The configuration file with formats of the user's own.

use anyhow::Context;

/// Names of formats and their texts. `path` is what `-C` says: a file, `none`, or nothing for the file that the
/// environment names.
pub(crate) fn formats(path: Option<&str>) -> anyhow::Result<Vec<(String, String)>> {
    let from_environment = std::env::var("NFCONF").ok();
    let Some(path) = path.or(from_environment.as_deref()).filter(|path| *path != "none") else {
        return Ok(Vec::new());
    };
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read the formats of {path}"))?;
    Ok(text.lines().filter_map(format).collect())
}

/// Reads a line such as `fmt.name = "fmt:%ts %sa"`; other lines are of no concern.
fn format(line: &str) -> Option<(String, String)> {
    let (name, value) = line.trim().split_once('=')?;
    let name = name.trim().strip_prefix("fmt.")?;
    let value = value.trim();
    let value = value.strip_prefix('"').and_then(|value| value.split('"').next()).unwrap_or(value);
    Some((name.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_file() {
        let own = |name: &str, text: &str| Some((name.to_owned(), text.to_owned()));
        assert_eq!(format("fmt.mine = \"fmt:%ts %sa\"  # mine"), own("mine", "fmt:%ts %sa"));
        assert_eq!(format("fmt.mine=fmt:%pkt"), own("mine", "fmt:%pkt"));
        assert_eq!(format("# fmt.mine = x").or(format("geodb.path = \"x\"")), None);
    }
}
