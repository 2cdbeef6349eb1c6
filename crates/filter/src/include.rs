//! `@include FILE`: files as part of a filter.
//!
//! What a file holds takes the place of the directive, word for word, as in nfdump: it may be half a filter, or entries
//! of a list. So `@include a and port 80` is not `( contents of a ) and port 80`. What speaks for it is that the files
//! of nfdump's users work; a mistake in a file is reported with its line, and points at the directive.

use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;

use crate::error::ParseError;
use crate::lex::{Kind, tokens};

/// Files may include files so deep.
pub(crate) const INCLUDE_NESTING_MAX: usize = 10;

/// All included files together may have this many octets, one for each time that they are included.
pub(crate) const INCLUDED_OCTETS_MAX: usize = 256 << 20;

/// A filter with what it includes.
#[derive(Debug)]
pub(crate) struct Expanded {
    pub(crate) text: String,
    /// Where pieces begin in `text`, and what they are.
    pieces: Vec<(usize, Piece)>,
}

#[derive(Debug, Clone)]
enum Piece {
    /// A part of the filter itself, from this octet of it on.
    Own(usize),
    /// A part of a file.
    Included {
        /// The directive in the filter itself, though a file in between may have included this one.
        directive: Range<usize>,
        file: String,
        /// Line of the file that the piece begins in.
        line: usize,
    },
}

impl Expanded {
    pub(crate) fn new(text: &str, folder: Option<&Path>) -> Result<Self, ParseError> {
        let mut expanded = Self { text: String::with_capacity(text.len()), pieces: Vec::new() };
        expanded.add(text, folder, None, 0)?;
        Ok(expanded)
    }

    /// Adds a text: the filter itself, or a file with the directive that asked for it.
    fn add(
        &mut self,
        text: &str,
        folder: Option<&Path>,
        included: Option<(&Range<usize>, &str)>,
        depth: usize,
    ) -> Result<(), ParseError> {
        let piece = |at: usize| match included {
            None => Piece::Own(at),
            Some((directive, file)) => {
                Piece::Included { directive: directive.clone(), file: file.to_owned(), line: line_of(text, at) }
            }
        };
        let mut at = 0;
        for token in tokens(text).map_err(|error| piece(0).place(text, error))? {
            if token.kind != Kind::Include {
                continue;
            }
            self.push(&text[at..token.span.start], piece(at));
            let name = file_name(&text[token.span.clone()]);
            let directive = included.map_or_else(|| token.span.clone(), |(directive, _)| directive.clone());
            let contents = self.read(name, folder, depth, &directive)?;
            self.push("\n", piece(token.span.start));
            self.add(&contents, folder, Some((&directive, name)), depth + 1)?;
            self.push("\n", piece(token.span.end));
            at = token.span.end;
        }
        self.push(&text[at..], piece(at));
        Ok(())
    }

    fn push(&mut self, text: &str, piece: Piece) {
        self.pieces.push((self.text.len(), piece));
        self.text.push_str(text);
    }

    fn read(
        &self,
        name: &str,
        folder: Option<&Path>,
        depth: usize,
        directive: &Range<usize>,
    ) -> Result<String, ParseError> {
        let error = |message: String| ParseError::new(message, directive.clone());
        let Some(folder) = folder else {
            return Err(error("'@include' is not allowed here".to_owned())
                .with_hint("a filter in this place is one text; put the contents of the file here".to_owned()));
        };
        if depth == INCLUDE_NESTING_MAX {
            return Err(error(format!("files include files deeper than {INCLUDE_NESTING_MAX}")));
        }
        let left = INCLUDED_OCTETS_MAX.saturating_sub(self.text.len());
        let mut text = String::new();
        let read = File::open(folder.join(name)).and_then(|file| file.take(left as u64 + 1).read_to_string(&mut text));
        match read {
            Ok(octets) if octets > left => {
                Err(error(format!("included files have more than {} MiB", INCLUDED_OCTETS_MAX >> 20)))
            }
            Ok(_) => Ok(text),
            Err(cause) => Err(error(format!("cannot read '{}': {cause}", name.escape_debug()))),
        }
    }

    /// The error as it is about the filter itself.
    pub(crate) fn in_original(&self, error: ParseError) -> ParseError {
        let after = self.pieces.partition_point(|(start, _)| *start <= error.span.start);
        let Some((start, piece)) = after.checked_sub(1).and_then(|index| self.pieces.get(index)) else { return error };
        let end = self.pieces.get(after).map_or(self.text.len(), |(start, _)| *start);
        let span = error.span.start - start..error.span.end.min(end) - start;
        piece.place(&self.text[*start..end], ParseError { span, ..error })
    }
}

impl Piece {
    /// An error about a text of which this is the beginning.
    fn place(&self, text: &str, error: ParseError) -> ParseError {
        match self {
            Self::Own(offset) => ParseError { span: error.span.start + offset..error.span.end + offset, ..error },
            Self::Included { directive, file, line } => {
                let line = line + line_of(text, error.span.start) - 1;
                let message = format!("in '{}', line {line}: {}", file.escape_debug(), error.message);
                ParseError { message, span: directive.clone(), ..error }
            }
        }
    }
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text.get(..at).unwrap_or(text).matches('\n').count()
}

/// The name in `@include NAME` or `@include 'NAME'`.
fn file_name(directive: &str) -> &str {
    let name = directive.split_once(char::is_whitespace).map_or("", |(_, name)| name.trim());
    let unquoted = ['\'', '"'].into_iter().find_map(|quote| name.strip_prefix(quote)?.strip_suffix(quote));
    unquoted.unwrap_or(name)
}
