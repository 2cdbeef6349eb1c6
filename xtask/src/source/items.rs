//! Items of a source that are measured: structs with their fields, `impl` blocks with their lines.

use super::{Source, is_word};

/// A struct with fields.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Struct {
    /// Its name, or the macro variable that is expanded to it.
    pub(crate) name: String,
    /// Line of the word `struct`, counted from 1.
    pub(crate) line: usize,
    /// Fields, named or numbered.
    pub(crate) fields: usize,
}

/// An `impl` block, of a trait or not.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Impl {
    /// The last name of the type's path, without its arguments.
    pub(crate) type_name: String,
    /// Line of the word `impl`, counted from 1.
    pub(crate) line: usize,
    /// Lines from the word `impl` to the closing brace, both included.
    pub(crate) lines: usize,
}

impl Source {
    /// Structs outside of test regions. One that a macro puts together is seen as the macro writes it, so fields that
    /// the macro repeats count once.
    pub(crate) fn structs(&self) -> Vec<Struct> {
        self.words_outside_tests("struct").into_iter().filter_map(|at| self.structure(at)).collect()
    }

    /// `impl` blocks outside of test regions.
    pub(crate) fn impls(&self) -> Vec<Impl> {
        let starts = self.words_outside_tests("impl").into_iter();
        starts.filter(|&at| self.begins_item(at)).filter_map(|at| self.implementation(at)).collect()
    }

    /// Names of structs and enums outside of test regions.
    pub(crate) fn types(&self) -> Vec<String> {
        let words = ["struct", "enum", "union"].into_iter();
        let named = words.flat_map(|word| self.words_outside_tests(word).into_iter().map(move |at| at + word.len()));
        named.filter_map(|at| self.name_after(at)).collect()
    }

    fn structure(&self, at: usize) -> Option<Struct> {
        let name = self.name_after(at + "struct".len())?;
        let fields = match self.fields_start(at)? {
            open if self.code[open] == b'{' => self.pieces(open + 1, self.closing_brace(open)?),
            open => self.pieces(open + 1, self.closing(open, b'(', b')')?),
        };
        Some(Struct { name, line: self.line_of(at), fields })
    }

    /// The brace or parenthesis that opens the fields; `None` for a struct without any.
    fn fields_start(&self, at: usize) -> Option<usize> {
        let mut angles = 0_usize;
        for (at, octet) in self.code.iter().enumerate().skip(at) {
            match octet {
                b'<' => angles += 1,
                b'>' if self.code[at - 1] != b'-' => angles = angles.checked_sub(1)?,
                b'{' | b'(' if angles == 0 => return Some(at),
                b';' if angles == 0 => return None,
                _ => {}
            }
        }
        None
    }

    fn closing(&self, from: usize, open: u8, close: u8) -> Option<usize> {
        let mut depth = 0_usize;
        for (at, &octet) in self.code.iter().enumerate().skip(from) {
            if octet == open {
                depth += 1;
            } else if octet == close {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        None
    }

    /// How many pieces the commas between two offsets part, those within brackets of any kind not counted.
    fn pieces(&self, from: usize, to: usize) -> usize {
        let (mut pieces, mut nested, mut is_empty) = (0, 0_usize, true);
        for at in from..to {
            let octet = self.code[at];
            match octet {
                b'(' | b'[' | b'{' | b'<' => nested += 1,
                b'>' if matches!(self.code[at - 1], b'-' | b'=') => {}
                b')' | b']' | b'}' | b'>' => nested = nested.saturating_sub(1),
                b',' if nested == 0 => {
                    pieces += usize::from(!is_empty);
                    is_empty = true;
                    continue;
                }
                _ => {}
            }
            is_empty &= octet.is_ascii_whitespace();
        }
        pieces + usize::from(!is_empty)
    }

    /// True when the word at `at` begins an item, and is not a type such as `-> impl Iterator`.
    fn begins_item(&self, at: usize) -> bool {
        let before = self.code[..at].trim_ascii_end();
        matches!(before.last(), None | Some(b'}' | b'{' | b';' | b']')) || before.ends_with(b"unsafe")
    }

    fn implementation(&self, at: usize) -> Option<Impl> {
        let open = self.body_start(at)?;
        let header = String::from_utf8_lossy(&self.code[at + "impl".len()..open]).into_owned();
        let span = at..self.closing_brace(open)? + 1;
        Some(Impl { type_name: implemented(&header)?, line: self.line_of(at), lines: self.lines_of(&span) })
    }
}

/// The name of the type in the header of an `impl` block: of `<T> Trait<T> for a::Type<T> where …` it is `Type`.
fn implemented(header: &str) -> Option<String> {
    let header = outside_angles(header);
    let header = header.split_once(" where ").map_or(header.as_str(), |(before, _)| before);
    let named = header.rsplit_once(" for ").map_or(header, |(_, after)| after);
    let path = named.split(|c: char| c.is_whitespace() || "&*()[],+".contains(c)).rfind(|word| !word.is_empty())?;
    let name = path.rsplit("::").next().unwrap_or(path).trim_start_matches('$');
    (!name.is_empty() && name.bytes().all(is_word)).then(|| name.to_owned())
}

/// The text without what is within angle brackets, white space joined.
fn outside_angles(text: &str) -> String {
    let (mut kept, mut angles, mut before) = (String::new(), 0_usize, ' ');
    for char in text.chars() {
        match char {
            '<' => angles += 1,
            '>' if before != '-' => angles = angles.saturating_sub(1),
            _ if angles == 0 => kept.push(if char.is_whitespace() { ' ' } else { char }),
            _ => {}
        }
        before = char;
    }
    kept.push(' ');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_structs(text: &str, expected: &[(&str, usize)]) {
        let found = Source::new(text).structs();
        let found: Vec<(&str, usize)> = found.iter().map(|found| (found.name.as_str(), found.fields)).collect();
        assert_eq!(found, expected, "in {text}");
    }

    fn check_impls(text: &str, expected: &[(&str, usize)]) {
        let found = Source::new(text).impls();
        let found: Vec<(&str, usize)> = found.iter().map(|found| (found.type_name.as_str(), found.lines)).collect();
        assert_eq!(found, expected, "in {text}");
    }

    #[test]
    fn fields_are_counted() {
        check_structs("struct A { a: u8, pub b: u8 }\nstruct B { a: u8, b: u8, }", &[("A", 2), ("B", 2)]);
        check_structs("struct A;\nstruct B {}\nstruct C()\n;", &[("B", 0), ("C", 0)]);
        check_structs("pub struct A<'a, T>(pub &'a T, Vec<(u8, u8)>);", &[("A", 2)]);
        check_structs("struct A<T> where T: Copy { a: T }", &[("A", 1)]);
        check_structs("#[cfg(test)]\nmod tests { struct A { a: u8 } }", &[]);
    }

    #[test]
    fn commas_within_types_and_attributes_part_no_fields() {
        check_structs(
            "struct A {\n /// One, two.\n #[arg(long, short)]\n a: HashMap<u8, [u8; 2]>,\n b: fn(u8, u8) -> u8, c: u8 }",
            &[("A", 3)],
        );
        check_structs("macro_rules! m { () => { struct $name { $($field: $type,)* } } }", &[("$name", 1)]);
        check_structs("options! { /// Doc.\n pub struct A { a: u8 = 1, b: u8 = 2 } }", &[("A", 2)]);
    }

    #[test]
    fn impl_blocks_are_found_by_their_type() {
        check_impls("impl A {\n}\nimpl<T: B<u8>> C for a::D<T> where T: E {\n\n}", &[("A", 2), ("D", 3)]);
        check_impls("impl fmt::Display for A { }\nunsafe impl Send for B {}", &[("A", 1), ("B", 1)]);
        check_impls("impl From<A> for B {}\nimpl Iterator for &mut C<'_> {}", &[("B", 1), ("C", 1)]);
        check_impls("#[doc(hidden)]\nimpl A {}", &[("A", 1)]);
    }

    #[test]
    fn types_of_the_word_impl_are_no_blocks() {
        check_impls("fn a(x: impl Fn(u8)) -> impl Iterator<Item = u8> {\n}", &[]);
        check_impls("#[cfg(test)]\nmod tests { impl A {} }", &[]);
    }
}
