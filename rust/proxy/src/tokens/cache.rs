//! Token ids that workers gave, by what they were asked, within a number of bytes and a time.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hashbrown::HashMap;
use warmroute_prompt::Endpoint;

/// How long ids are good for: a worker that was started anew may have another tokenizer.
const LIFETIME: Duration = Duration::from_secs(600);
/// What an entry takes beside its ids.
const ENTRY_BYTES: usize = 256;

/// What was asked. 128 bits under keys of this process: nobody outside can make two bodies alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key(u64, u64);

/// Makes keys.
#[derive(Debug, Default)]
pub(super) struct Keys(RandomState, RandomState);

impl Keys {
    /// The key of a body. All of it counts: any field may change how a worker renders a prompt.
    pub(super) fn of(&self, endpoint: Endpoint, body: &[u8]) -> Key {
        let hash = |state: &RandomState| state.hash_one(Asked(endpoint, body));
        Key(hash(&self.0), hash(&self.1))
    }
}

#[derive(Hash)]
struct Asked<'a>(Endpoint, &'a [u8]);

/// What a worker said: its ids, packed as little-endian `u32`, or that it has none for such a body.
pub(super) type Said = Option<Bytes>;

#[derive(Debug)]
struct Entry {
    said: Said,
    at: Instant,
    used: u64,
}

impl Entry {
    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.said.as_ref().map_or(0, Bytes::len)
    }
}

/// The answers used last.
#[derive(Debug)]
pub(super) struct Cache {
    entries: HashMap<Key, Entry>,
    by_use: BTreeMap<u64, Key>,
    bytes: usize,
    most: usize,
    clock: u64,
}

impl Cache {
    /// An empty one that holds `most` bytes.
    pub(super) fn new(most: usize) -> Cache {
        Cache { entries: HashMap::new(), by_use: BTreeMap::new(), bytes: 0, most, clock: 0 }
    }

    /// What was said, where that is not too long ago.
    pub(super) fn get(&mut self, key: Key, now: Instant) -> Option<Said> {
        let entry = self.entries.get_mut(&key)?;
        if now.saturating_duration_since(entry.at) > LIFETIME {
            self.remove(key);
            return None;
        }
        self.by_use.remove(&entry.used);
        self.clock += 1;
        entry.used = self.clock;
        self.by_use.insert(self.clock, key);
        Some(entry.said.clone())
    }

    /// Keeps what was said, and lets go of what was not used for longest.
    pub(super) fn put(&mut self, key: Key, said: Said, now: Instant) {
        self.remove(key);
        self.clock += 1;
        let entry = Entry { said, at: now, used: self.clock };
        if entry.bytes() > self.most {
            return;
        }
        self.bytes += entry.bytes();
        self.by_use.insert(self.clock, key);
        self.entries.insert(key, entry);
        while self.bytes > self.most
            && let Some((_, oldest)) = self.by_use.first_key_value()
        {
            self.remove(*oldest);
        }
    }

    /// Bytes that are held.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn remove(&mut self, key: Key) {
        if let Some(entry) = self.entries.remove(&key) {
            self.bytes -= entry.bytes();
            self.by_use.remove(&entry.used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same, slow and plain: a list, the one used last at its end.
    struct Model(Vec<(Key, Said, Instant)>, usize);

    impl Model {
        fn bytes(&self) -> usize {
            self.0.iter().map(|(_, said, _)| ENTRY_BYTES + said.as_ref().map_or(0, Bytes::len)).sum()
        }

        fn get(&mut self, key: Key, now: Instant) -> Option<Said> {
            let at = self.0.iter().position(|(each, ..)| *each == key)?;
            let entry = self.0.remove(at);
            if now - entry.2 > LIFETIME {
                return None;
            }
            self.0.push(entry.clone());
            Some(entry.1)
        }

        fn put(&mut self, key: Key, said: Said, now: Instant) {
            self.0.retain(|(each, ..)| *each != key);
            if ENTRY_BYTES + said.as_ref().map_or(0, Bytes::len) > self.1 {
                return;
            }
            self.0.push((key, said, now));
            while self.bytes() > self.1 {
                self.0.remove(0);
            }
        }
    }

    #[test]
    fn it_equals_the_obvious_model() {
        let mut random = fastrand::Rng::with_seed(3);
        let (mut cache, mut model) = (Cache::new(3000), Model(Vec::new(), 3000));
        let mut now = Instant::now();
        for _ in 0..20_000 {
            now += Duration::from_millis(random.u64(..20_000));
            let key = Key(random.u64(..12), 0);
            if random.bool() {
                assert_eq!(cache.get(key, now), model.get(key, now));
            } else {
                let size = if random.u8(..20) == 0 { 4000 } else { random.usize(..600) };
                let said = (random.u8(..4) > 0).then(|| Bytes::from(vec![0; size]));
                cache.put(key, said.clone(), now);
                model.put(key, said, now);
            }
            assert_eq!((cache.bytes(), cache.entries.len()), (model.bytes(), model.0.len()));
            assert_eq!(cache.by_use.len(), cache.entries.len());
        }
    }

    #[test]
    fn a_key_is_of_the_endpoint_and_of_every_byte() {
        let keys = Keys::default();
        let key = keys.of(Endpoint::Completions, b"{}");
        assert_eq!(key, keys.of(Endpoint::Completions, b"{}"));
        assert_ne!(key, keys.of(Endpoint::ChatCompletions, b"{}"));
        assert_ne!(key, keys.of(Endpoint::Completions, b"{} "));
        assert_ne!(key, Keys::default().of(Endpoint::Completions, b"{}"));
    }
}
