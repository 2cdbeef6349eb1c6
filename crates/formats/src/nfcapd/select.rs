//! Which files `-r`, `-R` and `-M` of nfdump name.
//!
//! Files are taken in the order of their names, directory by directory. A range goes by names, level by level, and not
//! by what is in the files; so it is known without opening one.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::civil::DateTime;

use crate::FormatError;

/// The hierarchies of directories that `nfcapd -S` makes.
const HIERARCHIES: &[&str] =
    &["", "%Y/%m/%d", "%Y/%m/%d/%H", "%Y/%W/%u", "%Y/%W/%u/%H", "%Y/%j", "%Y/%j/%H", "%Y-%m-%d", "%Y-%m-%d/%H"];

/// Directories below one that is searched, at most: links may lead round in a circle.
const LEVELS_MAX: usize = 32;

/// The files that were asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selected {
    /// The files, in nfdump's order.
    pub files: Vec<PathBuf>,
    /// Directories that were named and are not there; there is another one.
    pub missing: Vec<PathBuf>,
}

/// The files that `-r` (`read`), `-R` (`range`) and `-M` (`directories`) of nfdump name, in nfdump's order.
///
/// `-r FILE`, or every file under a directory; `-R DIR`, `-R DIR/FILE` for that file and later ones, `-R DIR/F1:F2`,
/// `-R DIR/SUB/F1:SUB/F2`; `-M DIR/A:B:C` for the same in several directories, and `-M DIR/@` for every one in a directory.
pub fn select(read: Option<&str>, range: Option<&str>, directories: Option<&str>) -> Result<Selected, FormatError> {
    let asked = |text: &str| FormatError::Selection(text.to_owned());
    let of_files = |files| Selected { files, missing: Vec::new() };
    match (read, range, directories) {
        (Some(_), Some(_), _) => Err(asked("-r and -R cannot be given together")),
        (None, None, Some(_)) => Err(asked("-M needs -r or -R\nhint: -R . reads all files of the directories")),
        (None, None, None) => Err(asked("no input is named")),
        (Some(file), None, None) if Path::new(file).is_dir() => {
            files_of(&[file.into()], &Range::default()).map(of_files)
        }
        (Some(file), None, None) if Path::new(file).is_file() => Ok(of_files(vec![file.into()])),
        (Some(file), None, None) => Err(FormatError::Selection(format!("'{file}' is neither a file nor a directory"))),
        (Some(file), None, Some(directories)) => {
            let (sources, missing) = sources(directories)?;
            Ok(Selected { files: in_each(file, &sources)?, missing })
        }
        (None, Some(range), None) => {
            let (source, range) = range_of(range)?;
            files_of(&[source], &range).map(of_files)
        }
        (None, Some(range), Some(directories)) => {
            let (sources, missing) = sources(directories)?;
            let range = range_in(range, &sources)?;
            Ok(Selected { files: files_of(&sources, &range)?, missing })
        }
    }
}

/// The directories that `-M` names, and those that are not there.
fn sources(text: &str) -> Result<(Vec<PathBuf>, Vec<PathBuf>), FormatError> {
    if let Some(parent) = text.strip_suffix('@') {
        let parent = Path::new(if parent.is_empty() { "." } else { parent });
        let found = entries(parent)?.into_iter().filter_map(|(path, is_dir)| is_dir.then_some(path)).collect();
        return Ok((found, Vec::new()));
    }
    let mut names = text.split(':');
    let first = PathBuf::from(names.next().unwrap_or_default());
    let parent = first.parent().map(Path::to_owned).unwrap_or_default();
    let named = std::iter::once(first).chain(names.map(|name| parent.join(name)));
    let (found, missing): (Vec<_>, Vec<_>) = named.partition(|path| path.is_dir());
    match missing.first() {
        Some(other) if found.is_empty() => {
            Err(FormatError::Selection(format!("'{}' is not a directory", other.display())))
        }
        _ => Ok((found, missing)),
    }
}

/// A file of that name in each directory, or in the sub-directory where a hierarchy has it.
fn in_each(file: &str, sources: &[PathBuf]) -> Result<Vec<PathBuf>, FormatError> {
    if file.starts_with('/') {
        return Err(FormatError::Selection("the path after -r cannot begin with '/' when -M is given".to_owned()));
    }
    let place = |source: &PathBuf| {
        let directly = source.join(file);
        if directly.is_file() {
            return Some(directly);
        }
        sub_directory(source, file).map(|sub| source.join(sub).join(file))
    };
    let found: Vec<PathBuf> = sources.iter().filter_map(place).collect();
    if found.is_empty() {
        return Err(FormatError::Selection(format!("'{file}' is in none of the directories")));
    }
    Ok(found)
}

/// From where to where files are taken, by level of directories below a source.
#[derive(Debug, Default)]
struct Range {
    /// The first file's path, by its parts; empty for all files at every level.
    first: Vec<String>,
    /// The last file's path, as many parts; empty when there is no last one.
    last: Vec<String>,
}

impl Range {
    fn new(first: &str, last: Option<&str>) -> Self {
        let parts = |path: &str| path.split('/').map(str::to_owned).collect();
        Self { first: parts(first), last: last.map(parts).unwrap_or_default() }
    }

    /// Whether there are files at this level: 1 is directly in a source.
    fn has_files(&self, level: usize) -> bool {
        self.first.is_empty() || level == self.first.len()
    }

    /// Whether a directory may lead to files. `path` has the names from the source on.
    fn enters(&self, path: &[String]) -> bool {
        if self.first.is_empty() {
            return true;
        }
        path.len() < self.first.len()
            && path >= &self.first[..path.len()]
            && self.last.get(..path.len()).is_none_or(|last| path <= last)
    }

    /// Whether a file is taken, by its name.
    fn takes(&self, name: &str) -> bool {
        self.first.last().is_none_or(|first| name >= first.as_str())
            && self.last.last().is_none_or(|last| name <= last.as_str())
    }
}

/// What `-R` names alone: a source and a range in it.
fn range_of(text: &str) -> Result<(PathBuf, Range), FormatError> {
    let (path, last) = split(text)?;
    let metadata = fs::metadata(path).map_err(|error| FormatError::open(Path::new(path), error))?;
    if metadata.is_dir() {
        return match last {
            Some(_) => Err(FormatError::Selection(format!("'{path}' is a directory, a range begins with a file"))),
            None => Ok((path.into(), Range::default())),
        };
    }
    let parts: Vec<&str> = path.split('/').collect();
    let last = last.map(|last| beside(path, last));
    // as many parts of the path belong to the range as the last file has
    let levels = last.as_deref().map_or(1, |last| last.split('/').count());
    let Some(above) = parts.len().checked_sub(levels) else {
        return Err(FormatError::Selection(format!("'{text}': both files must be equally deep")));
    };
    let source = match parts[..above].join("/") {
        root if root.is_empty() && path.starts_with('/') => "/".to_owned(),
        here if here.is_empty() => ".".to_owned(),
        other => other,
    };
    Ok((source.into(), Range::new(&parts[above..].join("/"), last.as_deref())))
}

/// The last file of a range, with the directories that a hierarchy has it in, when it is not next to the first.
fn beside(first: &str, last: &str) -> String {
    if last.contains('/') {
        return last.to_owned();
    }
    let mut parents = Path::new(first).ancestors().skip(1);
    let found = parents.find_map(|parent| sub_directory(parent, last));
    found.filter(|sub| !sub.is_empty()).map_or_else(|| last.to_owned(), |sub| format!("{sub}/{last}"))
}

/// What `-R` names below the directories of `-M`.
fn range_in(text: &str, sources: &[PathBuf]) -> Result<Range, FormatError> {
    let (path, last) = split(text)?;
    if path.starts_with('/') {
        return Err(FormatError::Selection("the path after -R cannot begin with '/' when -M is given".to_owned()));
    }
    if path == "." {
        return Ok(Range::default());
    }
    let source = sources.first().map_or_else(|| Path::new("."), PathBuf::as_path);
    let placed = |file: &str| {
        if source.join(file).is_file() {
            return Ok(file.to_owned());
        }
        sub_directory(source, file)
            .map(|sub| format!("{sub}/{file}"))
            .ok_or_else(|| FormatError::Selection(format!("'{file}' is not in '{}'", source.display())))
    };
    let first = placed(path)?;
    let last = match last {
        Some(last) if first != path => Some(placed(last)?),
        other => other.map(str::to_owned),
    };
    if last.as_deref().is_some_and(|last| last.split('/').count() != first.split('/').count()) {
        return Err(FormatError::Selection(format!("'{text}': both files must be equally deep")));
    }
    Ok(Range::new(&first, last.as_deref()))
}

/// Parts the first file and the last.
fn split(text: &str) -> Result<(&str, Option<&str>), FormatError> {
    let mut parts = text.split(':');
    let clean = |path: &str| path.len() > 1 && path.ends_with('/');
    let first = parts.next().unwrap_or_default();
    let first = if clean(first) { first.trim_end_matches('/') } else { first };
    let first = first.strip_prefix("./").filter(|rest| !rest.is_empty()).unwrap_or(first);
    match (parts.next(), parts.next()) {
        (_, Some(_)) => Err(FormatError::Selection(format!("'{text}' has more than one ':'"))),
        (Some(""), None) => Err(FormatError::Selection(format!("'{text}' names no file after ':'"))),
        (Some(last), None) if last.starts_with('/') => {
            Err(FormatError::Selection(format!("the last file '{last}' cannot begin with '/'")))
        }
        (last, None) => Ok((first, last)),
    }
}

/// The sub-directory of `directory` in which a hierarchy of nfcapd has a file of that name, by the time in it.
fn sub_directory(directory: &Path, file: &str) -> Option<String> {
    let digits = file.strip_prefix("nfcapd.").filter(|digits| matches!(digits.len(), 12 | 14))?;
    let format = if digits.len() == 12 { "%Y%m%d%H%M" } else { "%Y%m%d%H%M%S" };
    let time = DateTime::strptime(format, digits).ok()?;
    let mut hierarchies = HIERARCHIES.iter().map(|hierarchy| time.strftime(hierarchy).to_string());
    hierarchies.find(|sub| directory.join(sub).join(file).is_file())
}

/// All files of the sources that a range takes.
fn files_of(sources: &[PathBuf], range: &Range) -> Result<Vec<PathBuf>, FormatError> {
    let mut found = Vec::new();
    for source in sources {
        walk(source, range, &mut Vec::new(), &mut found)?;
    }
    Ok(found)
}

fn walk(directory: &Path, range: &Range, names: &mut Vec<String>, found: &mut Vec<PathBuf>) -> Result<(), FormatError> {
    for (path, is_dir) in entries(directory)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if is_dir {
            names.push(name);
            if names.len() < LEVELS_MAX && range.enters(names) {
                walk(&path, range, names, found)?;
            }
            names.pop();
        } else if !is_passed_over(&name) && range.has_files(names.len() + 1) && range.takes(&name) {
            found.push(path);
        }
    }
    Ok(())
}

/// Files that nfdump passes over: books of nfexpire, what is still being written, captures.
fn is_passed_over(name: &str) -> bool {
    name == ".nfstat"
        || name.starts_with("nfcapd.current")
        || [".stat", ".DS_Store", "pcap"].iter().any(|part| name.contains(part))
}

/// What is in a directory, by name, and whether it is a directory itself.
fn entries(directory: &Path) -> Result<Vec<(PathBuf, bool)>, FormatError> {
    let failed = |error| FormatError::open(directory, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_dir = path.is_dir();
        if is_dir || path.is_file() {
            found.push((path, is_dir));
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of two sources, each with a hierarchy of days.
    fn tree() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a directory");
        for source in ["a", "b"] {
            for day in ["01", "02", "03"] {
                let folder = root.path().join(source).join("2020/01").join(day);
                fs::create_dir_all(&folder).expect("made");
                for minute in ["00", "05", "10"] {
                    fs::write(folder.join(format!("nfcapd.202001{day}00{minute}")), "").expect("written");
                }
            }
            for minute in ["00", "05", "10"] {
                fs::write(root.path().join(source).join(format!("nfcapd.2020011500{minute}")), "").expect("written");
            }
            for other in ["nfcapd.current.7", ".nfstat", "a.pcap"] {
                fs::write(root.path().join(source).join(other), "").expect("written");
            }
        }
        root
    }

    /// The files are named by source and time: `a 01 00`, `a 15 05`.
    fn check(read: Option<&str>, range: Option<&str>, directories: Option<&str>, expected: &[&str]) {
        let root = tree();
        let absolute = |path: &str| format!("{}/{path}", root.path().display());
        let placed =
            |path: Option<&str>| path.map(|path| if directories.is_some() { path.to_owned() } else { absolute(path) });
        let found = select(placed(read).as_deref(), placed(range).as_deref(), directories.map(absolute).as_deref());
        let name = |path: &PathBuf| {
            let path = path.strip_prefix(root.path()).expect("below").to_string_lossy().into_owned();
            let digits = &path[path.len() - 12..];
            format!("{} {} {}", &path[..1], &digits[6..8], &digits[10..])
        };
        let found: Vec<_> = match &found {
            Ok(found) => found.files.iter().map(name).collect(),
            Err(error) => vec![error.to_string().replace(&absolute(""), "")],
        };
        assert_eq!(found, expected, "-r {read:?} -R {range:?} -M {directories:?}");
    }

    #[test]
    fn one_file_or_all() {
        check(Some("a/nfcapd.202001150005"), None, None, &["a 15 05"]);
        let all = ["01 00", "01 05", "01 10", "02 00", "02 05", "02 10", "03 00", "03 05", "03 10"];
        let all: Vec<_> = all.iter().chain(&["15 00", "15 05", "15 10"]).map(|time| format!("a {time}")).collect();
        let all: Vec<_> = all.iter().map(String::as_str).collect();
        check(Some("a"), None, None, &all);
        check(None, Some("a"), None, &all);
        check(Some("a/none"), None, None, &["'a/none' is neither a file nor a directory"]);
    }

    #[test]
    fn ranges() {
        check(None, Some("a/nfcapd.202001150005"), None, &["a 15 05", "a 15 10"]);
        check(None, Some("a/nfcapd.202001150000:nfcapd.202001150005"), None, &["a 15 00", "a 15 05"]);
        // files are compared by their names, whatever directory they are in
        let by_name = ["a 01 05", "a 01 10", "a 02 00", "a 02 05", "a 02 10", "a 03 00", "a 03 05"];
        check(None, Some("a/2020/01/01/nfcapd.202001010005:2020/01/03/nfcapd.202001030005"), None, &by_name);
        check(None, Some("a/2020/01/01/nfcapd.202001010005:nfcapd.202001030005"), None, &by_name);
        check(None, Some("a:nfcapd.202001150005"), None, &["'a' is a directory, a range begins with a file"]);
        check(None, Some("a/nfcapd.202001150005:x:y"), None, &["'a/nfcapd.202001150005:x:y' has more than one ':'"]);
    }

    #[test]
    fn several_directories() {
        check(Some("nfcapd.202001150005"), None, Some("a:b"), &["a 15 05", "b 15 05"]);
        check(Some("nfcapd.202001150005"), None, Some("@"), &["a 15 05", "b 15 05"]);
        check(Some("nfcapd.202001020005"), None, Some("a:b"), &["a 02 05", "b 02 05"]);
        check(None, Some("nfcapd.202001150005"), Some("a:b"), &["a 15 05", "a 15 10", "b 15 05", "b 15 10"]);
        let range = "2020/01/02/nfcapd.202001020005:2020/01/02/nfcapd.202001020010";
        check(None, Some(range), Some("a:b"), &["a 02 05", "a 02 10", "b 02 05", "b 02 10"]);
        check(None, Some("nfcapd.202001020005:nfcapd.202001020010"), Some("b"), &["b 02 05", "b 02 10"]);
        check(None, None, Some("a:b"), &["-M needs -r or -R\nhint: -R . reads all files of the directories"]);
        check(None, Some("."), Some("c:d"), &["'c' is not a directory"]);
    }

    /// nfdump goes on with the directories that are there.
    #[test]
    fn a_directory_that_is_missing() {
        check(Some("nfcapd.202001150005"), None, Some("a:c"), &["a 15 05"]);
        let root = tree();
        let found = select(None, Some("nfcapd.202001150010"), Some(&format!("{}/c:b", root.path().display())));
        let found = found.expect("one is there");
        assert_eq!((found.files.len(), found.missing), (1, vec![root.path().join("c")]));
    }
}
