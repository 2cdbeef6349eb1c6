//! Columns of texts, of which an agent may answer one wrongly, or not at all, for ever.
//!
//! What depends on a column that was not read stays as it was written: an interface whose `ifName` is missing in one poll would be called by
//! its `ifDescr`, which is another name. A column that is answered wrongly poll after poll is one that the agent does not have: its
//! interfaces would have no names at all otherwise. What speaks against it is that an agent which fails for that long and then recovers has
//! its interfaces renamed twice.

/// So many polls in a row in which a column is answered wrongly, and the agent does not have it.
pub(crate) const WRONG_POLLS_MAX: u32 = 4;

/// A column that makes the name or the description of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Text {
    /// `ifName`.
    Name,
    /// `ifDescr`.
    Descr,
    /// `ifAlias`.
    Alias,
}

impl Text {
    pub(crate) const ALL: [Self; 3] = [Self::Name, Self::Descr, Self::Alias];

    /// Its name in the MIB.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Name => "ifName",
            Self::Descr => "ifDescr",
            Self::Alias => "ifAlias",
        }
    }
}

/// How a column was answered in a poll.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnEnd {
    /// To its end; also when it has no rows.
    #[default]
    Whole,
    /// With an error, with what is no answer, or not at all whenever it was asked for and all others were read.
    Wrong,
    /// It was not read, or not to its end.
    Missing,
}

/// Of each column of texts (in the order of [`Text::ALL`]) whether something is so.
pub(crate) type ByText<T> = [T; Text::ALL.len()];

/// Columns of texts that were not read in a poll, although the agent may have them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnreadTexts(ByText<bool>);

impl UnreadTexts {
    pub(crate) fn has(self, text: Text) -> bool {
        self.0[text as usize]
    }
}

#[cfg(test)]
impl UnreadTexts {
    pub(crate) fn of(texts: &[Text]) -> Self {
        Self(Text::ALL.map(|text| texts.contains(&text)))
    }
}

/// Counts polls in which columns of an agent are answered wrongly.
#[derive(Debug, Default)]
pub(crate) struct WrongTexts {
    in_a_row: ByText<u32>,
}

impl WrongTexts {
    /// Takes note of a poll, and finds out which columns are not known now. A poll that does not come to a column says nothing of it.
    pub(crate) fn note(&mut self, ends: ByText<ColumnEnd>) -> UnreadTexts {
        for (count, end) in self.in_a_row.iter_mut().zip(ends) {
            match end {
                ColumnEnd::Whole => *count = 0,
                ColumnEnd::Wrong => *count = count.saturating_add(1),
                ColumnEnd::Missing => {}
            }
        }
        let given_up = self.given_up();
        UnreadTexts(Text::ALL.map(|text| {
            let place = text as usize;
            ends[place] != ColumnEnd::Whole && !given_up[place]
        }))
    }

    /// Columns that are taken for ones that the agent does not have.
    pub(crate) fn given_up(&self) -> ByText<bool> {
        self.in_a_row.map(|count| count >= WRONG_POLLS_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_that_is_always_wrong_is_not_waited_for() {
        use ColumnEnd::{Missing, Whole, Wrong};
        let mut wrong = WrongTexts::default();
        let (name, none) = (UnreadTexts::of(&[Text::Name]), UnreadTexts::default());
        for _ in 1..WRONG_POLLS_MAX {
            assert_eq!(wrong.note([Wrong, Whole, Whole]), name);
        }
        // a poll that did not come to it is not counted, and does not forget
        assert_eq!(wrong.note([Missing, Whole, Whole]), name);
        assert_eq!((wrong.note([Wrong, Whole, Whole]), wrong.given_up()), (none, [true, false, false]));
        assert_eq!(wrong.note([Missing, Whole, Whole]), none);
        assert_eq!((wrong.note([Whole; 3]), wrong.given_up()), (none, [false; 3]));
        assert_eq!(wrong.note([Wrong, Whole, Missing]), UnreadTexts::of(&[Text::Name, Text::Alias]), "it counts anew");
    }
}
