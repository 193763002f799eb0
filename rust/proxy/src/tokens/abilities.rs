//! What each worker was found to answer, so that it is not asked in vain.

use std::time::{Duration, Instant};

use hashbrown::HashMap;

/// How long a path that a worker does not have is not asked for: the worker may be replaced.
const ABSENT_FOR: Duration = Duration::from_secs(300);
/// How long a worker that failed or was too slow is left alone.
const REST: Duration = Duration::from_secs(5);
/// Workers that are remembered; past it everything is forgotten, and costs a question each.
const WORKERS: usize = 4096;

/// What a worker is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The ids of the very request, by its path with `/render` behind it: exact for every field.
    Render,
    /// The ids of its messages or text, by `/tokenize`, which every version of vLLM has.
    Tokenize,
}

#[derive(Debug, Default)]
struct Known {
    without_render: Option<Instant>,
    without_tokenize: Option<Instant>,
    rests: Option<Instant>,
}

/// What is known of the workers, by URL.
#[derive(Debug, Default)]
pub(super) struct Abilities(HashMap<String, Known>);

impl Abilities {
    /// The ways in which the worker may be asked, best first.
    pub(super) fn ways(&self, url: &str, now: Instant) -> impl Iterator<Item = Way> {
        let known = self.0.get(url);
        let until =
            |pick: fn(&Known) -> Option<Instant>| known.and_then(pick).is_some_and(|until| now < until);
        let rests = until(|known| known.rests);
        let render = !rests && !until(|known| known.without_render);
        let tokenize = !rests && !until(|known| known.without_tokenize);
        [(render, Way::Render), (tokenize, Way::Tokenize)]
            .into_iter()
            .filter_map(|(may, way)| may.then_some(way))
    }

    /// The worker does not have that path.
    pub(super) fn is_without(&mut self, url: &str, way: Way, now: Instant) {
        let known = self.known(url);
        let until = match way {
            Way::Render => &mut known.without_render,
            Way::Tokenize => &mut known.without_tokenize,
        };
        *until = Some(now + ABSENT_FOR);
    }

    /// The worker failed, or took too long.
    pub(super) fn failed(&mut self, url: &str, now: Instant) {
        self.known(url).rests = Some(now + REST);
    }

    fn known(&mut self, url: &str) -> &mut Known {
        if self.0.len() >= WORKERS && !self.0.contains_key(url) {
            self.0.clear();
        }
        self.0.entry_ref(url).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_worker_lacks_is_not_asked_for_a_while() {
        let (mut abilities, now) = (Abilities::default(), Instant::now());
        let ways = |abilities: &Abilities, after| abilities.ways("u", now + after).collect::<Vec<_>>();
        assert_eq!(ways(&abilities, Duration::ZERO), [Way::Render, Way::Tokenize]);
        abilities.is_without("u", Way::Render, now);
        assert_eq!(ways(&abilities, Duration::ZERO), [Way::Tokenize]);
        abilities.failed("u", now);
        assert_eq!(ways(&abilities, Duration::ZERO), []);
        assert_eq!(ways(&abilities, REST), [Way::Tokenize]);
        assert_eq!(ways(&abilities, ABSENT_FOR), [Way::Render, Way::Tokenize]);
        assert_eq!(abilities.ways("other", now).count(), 2);
    }

    #[test]
    fn workers_are_bounded() {
        let (mut abilities, now) = (Abilities::default(), Instant::now());
        for number in 0..2 * WORKERS {
            abilities.failed(&number.to_string(), now);
            assert!(abilities.0.len() <= WORKERS);
        }
    }
}
