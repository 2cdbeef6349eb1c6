//! Options of components: one documented struct is their keys in a chain file, their flags, help, defaults and schema.
//!
//! The macro [`options!`](crate::options) writes such a struct once. From it come [`Options::specs`], of which the
//! reference page, the help of commands and the JSON schema are made, and [`Options::take`], which reads the struct
//! from a chain file or from the words of a command line. A command builds the struct; nothing is printed to be parsed
//! again. Why there is a macro of our own and not three derives: decision 0015. What speaks against it is that a reader
//! has to learn it; it has one form.
//!
//! ```
//! use weir_chain::{ByteSize, TimeSpan, choices, options};
//!
//! choices! {
//!     /// What happens to rows over the limit.
//!     pub enum Overflow {
//!         /// Drop them and count them.
//!         Drop = "drop",
//!         /// Write them to disk.
//!         Spill = "spill",
//!     }
//! }
//!
//! options! {
//!     /// Options of an example.
//!     pub struct ExampleOptions {
//!         /// The column to look at. Without a default, it must be given.
//!         column: String,
//!         /// Wait this long.
//!         idle_timeout: TimeSpan = TimeSpan::from_secs(15),
//!         /// Use at most this much memory.
//!         memory: Option<ByteSize>,
//!         /// Number of threads.
//!         threads: usize = 1 => 1..=256,
//!         /// What happens to rows over the limit.
//!         overflow: Overflow = Overflow::Drop,
//!     }
//! }
//!
//! let options: ExampleOptions =
//!     weir_chain::options::parse("column = 'bytes'\nidle_timeout = '5m'").expect("options");
//! assert_eq!((options.idle_timeout.as_secs_f64(), options.threads), (300.0, 1));
//! let error = weir_chain::options::parse::<ExampleOptions>("colum = 'bytes'").expect_err("misspelt");
//! assert_eq!(error.hint.as_deref(), Some("did you mean 'column'?"));
//! ```

mod given;
pub mod schema;
mod secret;
mod units;
mod value;

pub use given::{Given, read};
pub use secret::Secret;
pub use units::{ByteSize, Rate, TimeSpan, UnitError};
pub use value::{OptionText, OptionValue, Problem, ValueType};

use std::ops::RangeInclusive;
use std::path::Path;

use crate::OptionError;

/// One option, as help, reference pages and schemas show it.
#[derive(Debug, Clone, PartialEq)]
pub struct OptionSpec {
    /// Key in a chain file; with hyphens in place of underscores the long flag of a command.
    pub key: &'static str,
    /// Type of the value.
    pub value_type: ValueType,
    /// The numbers that are allowed, when only some are.
    pub range: Option<RangeInclusive<u64>>,
    /// Default as written in a chain file; `None` when there is none.
    pub default: Option<String>,
    /// Whether the option must be given.
    pub is_required: bool,
    /// What it does, for users.
    pub doc: String,
    /// What happens when a switch that is on by default is off: the help of its flag `--no-…`.
    pub off: Option<&'static str>,
}

impl OptionSpec {
    /// The first sentence of the documentation.
    pub fn summary(&self) -> &str {
        self.doc.split_once(". ").map_or(self.doc.as_str(), |(first, _)| first).trim_end_matches('.')
    }
}

/// The option struct of a component; written by [`options!`](crate::options).
pub trait Options: Default + Send + 'static {
    /// Every option, in the order of the struct.
    fn specs() -> Vec<OptionSpec>;

    /// Reads every option from what was given. [`read`] also refuses keys that no option has.
    fn take(given: &Given) -> Result<Self, OptionError>;

    /// The options that differ from their defaults, as values of a chain file.
    fn changed(&self) -> Vec<(&'static str, toml::Value)>;
}

/// Reads options from the text of a table of a chain file. Relative paths stay relative.
pub fn parse<O: Options>(text: &str) -> Result<O, OptionError> {
    let table = text.parse::<toml::Table>().map_err(|error| OptionError::new("", error.message().to_owned()))?;
    read(&Given::from_table(table, Path::new("")))
}

/// The text of the lines of a doc comment: one paragraph, without the space that each line begins with.
#[doc(hidden)]
pub fn doc_text(lines: &str) -> String {
    lines.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Writes an option struct: `key: Type`, `key: Type = default` or `key: Type = default => range`, each with a doc
/// comment that is its help. Without a default an option must be given, unless it is an `Option`. A switch that is on by
/// default has what its flag does behind it: `key: bool = true; off "Leave it alone"`. After the struct
/// `includes { name: Struct }` adds the options of other structs. See [the module](crate::options).
#[macro_export]
macro_rules! options {
    (
        $(#[doc = $about:literal])*
        $visibility:vis struct $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $field:ident : $type:ty $(= $default:expr)? $(=> $range:expr)? $(; off $off:literal)?
            ),* $(,)?
        }
        $(includes { $($(#[doc = $part_doc:literal])* $part:ident : $part_type:ty),* $(,)? })?
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone)]
        $visibility struct $name {
            $($(#[doc = $doc])* pub $field: $type,)*
            $($($(#[doc = $part_doc])* pub $part: $part_type,)*)?
        }

        impl Default for $name {
            fn default() -> Self {
                Self {
                    $($field: $crate::options!(@default $type $(, $default)?),)*
                    $($($part: <$part_type as Default>::default(),)*)?
                }
            }
        }

        impl $crate::options::Options for $name {
            fn specs() -> Vec<$crate::options::OptionSpec> {
                #[allow(unused_mut, reason = "a struct may have neither fields of its own nor parts")]
                let mut specs = vec![$(
                    $crate::options::Given::spec::<$type>(
                        stringify!($field),
                        concat!($($doc, "\n"),*),
                        $crate::options!(@optional $($default)?),
                        $crate::options!(@optional $($range)?),
                        $crate::options!(@optional $($off)?),
                    ),
                )*];
                $($(specs.extend(<$part_type as $crate::options::Options>::specs());)*)?
                specs
            }

            #[allow(unused_variables, reason = "a struct may have no fields")]
            fn take(given: &$crate::options::Given) -> Result<Self, $crate::OptionError> {
                Ok(Self {
                    $($field: given.value::<$type>(
                        stringify!($field),
                        $crate::options!(@optional $($default)?),
                        $crate::options!(@optional $($range)?),
                    )?,)*
                    $($($part: <$part_type as $crate::options::Options>::take(given)?,)*)?
                })
            }

            fn changed(&self) -> Vec<(&'static str, $crate::toml::Value)> {
                #[allow(unused_mut, reason = "a struct may have neither fields of its own nor parts")]
                let mut changed: Vec<(&'static str, $crate::toml::Value)> = Vec::new();
                #[allow(unused_variables, reason = "a struct may have no fields")]
                let usual = Self::default();
                $(
                    let value = $crate::options::OptionValue::to_toml(&self.$field);
                    if let Some(value) = value.filter(|value| {
                        $crate::options::OptionValue::to_toml(&usual.$field).as_ref() != Some(value)
                    }) {
                        changed.push((stringify!($field), value));
                    }
                )*
                $($(changed.extend($crate::options::Options::changed(&self.$part));)*)?
                changed
            }
        }
    };
    (@default $type:ty) => { <$type as $crate::options::OptionValue>::unset() };
    (@default $type:ty, $default:expr) => { $default };
    (@optional) => { None };
    (@optional $value:expr) => { Some($value) };
}

/// Writes an enum whose values are words of an option, each with a doc comment that is its help.
#[macro_export]
macro_rules! choices {
    (
        $(#[doc = $about:literal])*
        $visibility:vis enum $name:ident {
            $($(#[doc = $doc:literal])* $variant:ident = $word:literal),* $(,)?
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        $visibility enum $name { $($(#[doc = $doc])* $variant,)* }

        impl $name {
            /// Every value.
            $visibility const ALL: &'static [Self] = &[$(Self::$variant),*];
            /// The words of all values, each with its help.
            $visibility const WORDS: &'static [(&'static str, &'static str)] = &[$(($word, concat!($($doc),*)),)*];

            /// The word of the value.
            $visibility fn word(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }
        }

        impl $crate::options::OptionText for $name {
            fn value_type() -> $crate::options::ValueType {
                $crate::options::ValueType::Choice(Self::WORDS)
            }

            fn parse_text(text: &str) -> Result<Self, $crate::options::Problem> {
                Self::ALL.iter().copied().find(|value| value.word() == text)
                    .ok_or_else(|| $crate::options::Problem::no_choice(text, Self::WORDS))
            }

            fn text(&self) -> String {
                self.word().to_owned()
            }

            fn unset() -> Self {
                Self::ALL[0]
            }
        }
    };
}

#[cfg(test)]
mod tests;
