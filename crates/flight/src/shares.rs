//! Who has most of what all users share.

use std::collections::HashMap;

/// The user of most of these, who makes way when there are too many: so nobody loses anything by what others keep.
pub(crate) fn most_frequent<'a>(users: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for user in users {
        *counts.entry(user).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(user, _)| user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_most_makes_way() {
        assert_eq!(most_frequent(["ann", "bob", "bob"].into_iter()), Some("bob"));
        assert_eq!(most_frequent([].into_iter()), None);
    }
}
