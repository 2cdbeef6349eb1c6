//! Answers that are kept for the same question asked again.

use quick_cache::Weighter;
use quick_cache::sync::Cache;
use weir_archive::FollowPosition;

use crate::body::{AnswerForm, CachedAnswer};

/// What an entry takes besides its body.
const ENTRY_OCTETS: u64 = 256;
/// What a body is expected to take, to size the table of the cache.
const BODY_OCTETS: u64 = 16 << 10;

/// What an answer is about: the same key has the same answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct AnswerKey {
    pub(crate) state: ArchiveKey,
    pub(crate) form: AnswerForm,
    /// How often users, labels and the like were read: answers of before are not given any more.
    pub(crate) reloads: u64,
    /// What of the flows who asks sees.
    pub(crate) view: String,
    /// The question with its times as numbers.
    pub(crate) question: String,
}

/// What an archive has, less what has expired or was set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ArchiveKey {
    pub(crate) content: Content,
    pub(crate) rows_gone: u64,
}

/// What of an archive a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Content {
    /// All deliveries up to a position.
    All { epoch: u32, position: u64 },
    /// Flows and books of a window that is over: numbers that stand for both.
    Window { flows: u64, books: u64 },
}

impl Content {
    pub(crate) fn up_to(position: FollowPosition) -> Self {
        Self::All { epoch: position.epoch, position: position.position.get() }
    }
}

#[derive(Debug, Clone)]
struct Weight;

impl Weighter<AnswerKey, CachedAnswer> for Weight {
    fn weight(&self, key: &AnswerKey, answer: &CachedAnswer) -> u64 {
        ENTRY_OCTETS + (key.question.capacity() + key.view.capacity() + answer.capacity()) as u64
    }
}

/// Answers, together at most as many octets as were asked for.
#[derive(Debug)]
pub(crate) struct AnswerCache(Cache<AnswerKey, CachedAnswer, Weight>);

impl AnswerCache {
    pub(crate) fn new(octets_max: u64) -> Self {
        Self(Cache::with_weighter((octets_max / BODY_OCTETS).max(16) as usize, octets_max, Weight))
    }

    pub(crate) fn get(&self, key: &AnswerKey) -> Option<CachedAnswer> {
        self.0.get(key)
    }

    pub(crate) fn insert(&self, key: AnswerKey, answer: CachedAnswer) {
        self.0.insert(key, answer);
    }

    /// Octets that they take.
    pub(crate) fn octets(&self) -> u64 {
        self.0.weight()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> AnswerKey {
        let state = ArchiveKey { content: Content::All { epoch: 1, position: 7 }, rows_gone: 0 };
        let (reloads, view) = (0, String::new());
        AnswerKey { state, form: AnswerForm::Json, reloads, view, question: format!("question {number}") }
    }

    #[test]
    fn answers_take_no_more_than_they_may() {
        let cache = AnswerCache::new(100_000);
        for number in 0..1000 {
            cache.insert(key(number), CachedAnswer::whole(vec![0; 1000], "text/plain"));
            assert!(cache.octets() <= 100_000, "{}", cache.octets());
        }
        assert!((0..1000).any(|number| cache.get(&key(number)).is_some()));
        // what would not fit is not kept
        cache.insert(key(5000), CachedAnswer::whole(vec![0; 200_000], "text/plain"));
        assert!(cache.get(&key(5000)).is_none());
    }

    #[test]
    fn an_archive_that_has_changed_has_other_answers() {
        let cache = AnswerCache::new(100_000);
        cache.insert(key(1), CachedAnswer::whole(vec![0; 10], "text/plain"));
        let state = ArchiveKey { content: Content::All { epoch: 1, position: 8 }, rows_gone: 0 };
        assert!(cache.get(&key(1)).is_some());
        assert!(cache.get(&AnswerKey { state, ..key(1) }).is_none());
    }

    #[test]
    fn who_sees_something_else_has_other_answers() {
        let cache = AnswerCache::new(100_000);
        cache.insert(key(1), CachedAnswer::whole(vec![0; 10], "text/plain"));
        assert!(cache.get(&AnswerKey { view: "0 net 10.0.0.0/8".to_owned(), ..key(1) }).is_none());
        assert!(cache.get(&AnswerKey { reloads: 1, ..key(1) }).is_none());
    }
}
