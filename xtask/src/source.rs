//! A scanner of Rust sources: blanks out what is not code, then finds functions, modules and test regions
//! ([`items`]: structs and `impl` blocks; [`uses`]: names of other files).

mod items;
mod uses;

use std::ops::Range;

pub(crate) use uses::Import;

/// A Rust source whose comments, strings and character literals are blanks. Lines and offsets stay what they were.
#[derive(Debug)]
pub(crate) struct Source {
    code: Vec<u8>,
    /// Offset of the first octet of each line.
    line_starts: Vec<usize>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    /// Its name, or the macro variable that stands for it.
    pub(crate) name: String,
    /// Line of the word `fn`, counted from 1.
    pub(crate) line: usize,
    /// Lines from the word `fn` to the closing brace, both included.
    pub(crate) lines: usize,
}

impl Source {
    /// Scans a source text.
    pub(crate) fn new(text: &str) -> Self {
        let code = blank(text.as_bytes());
        let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { code, line_starts }
    }

    /// Number of lines, without those of `#[cfg(test)] mod … { … }`.
    pub(crate) fn lines_outside_tests(&self) -> usize {
        let all = self.line_starts.iter().filter(|&&start| start < self.code.len()).count();
        let tests: usize = self.test_regions().iter().map(|region| self.lines_of(region)).sum();
        all - tests
    }

    /// Functions with a body outside of test regions, nested ones included.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let regions = self.test_regions();
        let outside = |at: usize| !regions.iter().any(|region| region.contains(&at));
        self.words("fn").filter(|&at| outside(at)).filter_map(|at| self.function(at)).collect()
    }

    /// Names of the modules that are declared here.
    pub(crate) fn modules(&self) -> Vec<(String, usize)> {
        self.words("mod").filter_map(|at| Some((self.name_after(at + 3)?, self.line_of(at)))).collect()
    }

    fn function(&self, at: usize) -> Option<Function> {
        let name = self.name_after(at + 2)?;
        let open = self.body_start(at)?;
        let span = at..self.closing_brace(open)? + 1;
        Some(Function { name, line: self.line_of(at), lines: self.lines_of(&span) })
    }

    /// The brace that opens the body, or `None` for a declaration. Braces of constant arguments (`Foo<{ N }>`,
    /// `[u8; { N }]`) are not the body: they stand inside of angle brackets, brackets or parentheses.
    fn body_start(&self, from: usize) -> Option<usize> {
        let (mut nested, mut angles) = (0_usize, 0_usize);
        let mut at = from;
        while let Some(&octet) = self.code.get(at) {
            match octet {
                b'(' | b'[' => nested += 1,
                b')' | b']' => nested = nested.checked_sub(1)?,
                b'<' if nested == 0 => angles += 1,
                b'>' if nested == 0 && self.code[at - 1] != b'-' => angles = angles.checked_sub(1)?,
                b'{' if nested == 0 && angles == 0 => return Some(at),
                b'{' => at = self.closing_brace(at)?,
                b'}' => return None,
                b';' if nested == 0 => return None,
                _ => {}
            }
            at += 1;
        }
        None
    }

    fn closing_brace(&self, open: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for (at, octet) in self.code.iter().enumerate().skip(open) {
            match octet {
                b'{' => depth += 1,
                b'}' if depth == 1 => return Some(at),
                b'}' => depth -= 1,
                _ => {}
            }
        }
        None
    }

    /// Octets from `#[cfg(test)]` to the end of the module that it stands before.
    fn test_regions(&self) -> Vec<Range<usize>> {
        let mut regions: Vec<Range<usize>> = Vec::new();
        for at in self.words("cfg") {
            let covered = regions.last().is_some_and(|last| last.contains(&at));
            if let Some(end) = self.test_module_end(at)
                && !covered
            {
                regions.push(at..end);
            }
        }
        regions
    }

    /// Given the offset of the word `cfg`, the end of the test module that the attribute belongs to.
    fn test_module_end(&self, cfg: usize) -> Option<usize> {
        let rest = self.code.get(cfg + 3..)?;
        let is_test = rest.starts_with(b"(test)") || rest.starts_with(b"(all(test");
        if !is_test || !self.code[..cfg].ends_with(b"#[") {
            return None;
        }
        let module = self.words("mod").find(|&at| at > cfg)?;
        let between = self.code.get(cfg..module)?;
        let is_next_item = !between.iter().any(|octet| matches!(octet, b'{' | b'}' | b';'));
        let open = self.body_start(module)?;
        if is_next_item { self.closing_brace(open).map(|end| end + 1) } else { None }
    }

    /// Offsets of a keyword: a whole word that is not a raw identifier (`r#fn`).
    fn words<'a>(&'a self, word: &'a str) -> impl Iterator<Item = usize> + 'a {
        let word = word.as_bytes();
        (0..self.code.len().saturating_sub(word.len())).filter(move |&at| {
            let before = at.checked_sub(1).map_or(b' ', |before| self.code[before]);
            let after = self.code[at + word.len()];
            let is_raw = before == b'#' && at >= 2 && self.code[at - 2] == b'r';
            self.code[at..].starts_with(word) && !is_raw && !is_word(before) && !is_word(after)
        })
    }

    /// Offsets of a word that is in no test region.
    fn words_outside_tests(&self, word: &str) -> Vec<usize> {
        let regions = self.test_regions();
        self.words(word).filter(|at| !regions.iter().any(|region| region.contains(at))).collect()
    }

    /// The identifier, or macro variable, after white space at `from`. `None` for `fn(` of a function pointer.
    fn name_after(&self, from: usize) -> Option<String> {
        let rest = self.code.get(from..)?.trim_ascii_start();
        let rest = rest.strip_prefix(b"r#").unwrap_or(rest);
        let sigil = usize::from(rest.first() == Some(&b'$'));
        let length = sigil + rest[sigil..].iter().take_while(|&&octet| is_word(octet)).count();
        (length > sigil).then(|| String::from_utf8_lossy(&rest[..length]).into_owned())
    }

    fn line_of(&self, at: usize) -> usize {
        self.line_starts.partition_point(|&start| start <= at)
    }

    fn lines_of(&self, span: &Range<usize>) -> usize {
        self.line_of(span.end.saturating_sub(1)) + 1 - self.line_of(span.start)
    }
}

fn is_word(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || octet == b'_' || octet >= 0x80
}

/// Overwrites comments and literals with blanks; line ends stay.
fn blank(text: &[u8]) -> Vec<u8> {
    let mut code = text.to_vec();
    let mut at = 0;
    while at < text.len() {
        let end = literal_end(text, at);
        for octet in &mut code[at..end] {
            if *octet != b'\n' {
                *octet = b' ';
            }
        }
        at = end.max(at + 1);
    }
    code
}

/// End of the comment or literal that starts at `at`, or `at` itself when code does.
fn literal_end(text: &[u8], at: usize) -> usize {
    let rest = &text[at..];
    let length = match rest {
        [b'/', b'/', ..] => rest.iter().position(|&octet| octet == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => block_comment_length(rest),
        [b'"', ..] => string_length(rest),
        [b'\'', ..] => char_length(rest),
        [b'r', ..] if starts_word(text, at) => raw_string_length(rest),
        _ => 0,
    };
    at + length
}

/// True when no identifier runs into the `r` at `at`; the prefixes of `br"…"` and `cr"…"` may.
fn starts_word(text: &[u8], at: usize) -> bool {
    match text[..at] {
        [] | [b'b' | b'c'] => true,
        [.., before, b'b' | b'c'] | [.., before] => !is_word(before),
    }
}

/// Block comments nest.
fn block_comment_length(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

fn string_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of a character literal, or 0 for a lifetime or a label.
fn char_length(rest: &[u8]) -> usize {
    if rest.get(1) == Some(&b'\\') {
        // The octet after the backslash may itself be a quote.
        return rest.iter().skip(3).position(|&octet| octet == b'\'').map_or(rest.len(), |at| at + 4);
    }
    let width = match rest.get(1) {
        None | Some(b'\'') => return 0,
        Some(first) => first.leading_ones().max(1) as usize,
    };
    if rest.get(1 + width) == Some(&b'\'') { width + 2 } else { 0 }
}

/// Length of `r"…"` or `r#"…"#` with any number of hashes, or 0 when it is neither.
fn raw_string_length(rest: &[u8]) -> usize {
    let hashes = rest[1..].iter().take_while(|&&octet| octet == b'#').count();
    if rest.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let body = 2 + hashes;
    let is_end =
        |at: usize| rest[at] == b'"' && rest[at + 1..].iter().take(hashes).filter(|&&o| o == b'#').count() == hashes;
    (body..rest.len()).find(|&at| is_end(at)).map_or(rest.len(), |at| at + 1 + hashes)
}

#[cfg(test)]
mod tests;
