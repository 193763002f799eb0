//! What a reply is made of.

use std::sync::Arc;

use hashbrown::HashMap;

use super::Tokenize;

/// Short words, which most vocabularies have as one token with the space before them.
const WORDS: [&str; 32] = [
    " the", " and", " for", " are", " but", " not", " you", " all", " can", " was", " one", " our", " out",
    " day", " get", " has", " how", " new", " now", " old", " see", " two", " way", " who", " did", " its",
    " let", " put", " say", " too", " use", " any",
];

/// Fewer words than these make replies that repeat themselves.
const ENOUGH: usize = 8;

/// The tokens of replies and their text.
#[derive(Debug)]
pub(super) struct Vocabulary {
    texts: HashMap<u32, &'static str>,
    ids: Arc<[u32]>,
}

impl Vocabulary {
    /// Words that are one token each, so that a reply sent back in the next turn has the ids it was made of;
    /// with a vocabulary that lacks them, any ids.
    pub(super) fn new(tokenize: &dyn Tokenize) -> Vocabulary {
        let mut texts = HashMap::new();
        for word in WORDS {
            if let Ok([id]) = tokenize.text(word).as_deref() {
                texts.entry(*id).or_insert(word);
            }
        }
        if texts.len() < ENOUGH {
            texts = (1..).zip(WORDS).collect();
        }
        let mut ids: Vec<u32> = texts.keys().copied().collect();
        ids.sort_unstable();
        Vocabulary { texts, ids: ids.into() }
    }

    /// The ids, in order.
    pub(super) fn ids(&self) -> Arc<[u32]> {
        Arc::clone(&self.ids)
    }

    /// The text of one of them; it needs no escape in JSON.
    pub(super) fn text(&self, id: u32) -> &'static str {
        self.texts.get(&id).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::HashTokenizer;
    use super::*;

    struct LongWords;

    impl Tokenize for LongWords {
        fn chat(&self, _: &[u8]) -> Result<Vec<u32>, String> {
            Err("no chat".to_owned())
        }

        fn text(&self, text: &str) -> Result<Vec<u32>, String> {
            Ok(text.bytes().map(u32::from).collect())
        }
    }

    #[test]
    fn words_have_the_tokenizers_own_ids() {
        let vocabulary = Vocabulary::new(&HashTokenizer);
        assert_eq!(vocabulary.ids().len(), WORDS.len());
        for &id in &*vocabulary.ids() {
            assert_eq!(HashTokenizer.text(vocabulary.text(id)), Ok(vec![id]));
        }
    }

    #[test]
    fn without_short_words_there_are_still_replies() {
        let vocabulary = Vocabulary::new(&LongWords);
        assert!(vocabulary.ids().iter().all(|&id| !vocabulary.text(id).is_empty()));
    }
}
