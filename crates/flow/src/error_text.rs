//! Errors as text, for logs and answers.
//!
//! Errors of weir do not repeat their causes in their own text, so a line of a log needs the whole chain. It is here because every
//! crate that writes such lines depends on this one.

/// The text of an error and those of all its causes, in one line: `cannot write flows: append: no space left on device`.
pub fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Layer(&'static str, Option<Box<dyn Error>>);

    impl fmt::Display for Layer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Layer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref()
        }
    }

    #[test]
    fn causes_follow_their_error() {
        let error = Layer("no space left", None);
        assert_eq!(with_causes(&error), "no space left");
        let error = Layer("cannot write flows", Some(Box::new(Layer("append", Some(Box::new(error))))));
        assert_eq!(with_causes(&error), "cannot write flows: append: no space left");
    }
}
