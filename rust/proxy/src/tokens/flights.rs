//! Questions that are under way: who asks the same waits for the one answer.

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::cache::{Key, Said};

/// What became of a question; nothing while it is under way.
type Outcome = Option<Said>;

/// The questions that are under way, by key.
#[derive(Clone, Debug, Default)]
pub(super) struct Flights(Arc<Mutex<HashMap<Key, watch::Receiver<Outcome>>>>);

/// A place in a flight.
pub(super) enum Place {
    /// Whoever has it asks.
    Pilot(Flight),
    /// Whoever has it waits for the pilot.
    Passenger(watch::Receiver<Outcome>),
}

/// A question under way. Dropped without an answer, it leaves its passengers to ask themselves.
pub(super) struct Flight {
    flights: Flights,
    key: Key,
    outcome: watch::Sender<Outcome>,
}

impl Flights {
    /// Joins the question for `key`, or begins it.
    pub(super) fn join(&self, key: Key) -> Place {
        let mut open = self.0.lock();
        if let Some(receiver) = open.get(&key) {
            return Place::Passenger(receiver.clone());
        }
        let (outcome, receiver) = watch::channel(None);
        open.insert(key, receiver);
        Place::Pilot(Flight { flights: self.clone(), key, outcome })
    }
}

impl Flight {
    /// Gives every passenger the answer.
    pub(super) fn land(self, said: Said) {
        self.outcome.send_replace(Some(said));
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.flights.0.lock().remove(&self.key);
    }
}

/// Waits for the pilot's answer; nothing where the pilot left without one.
pub(super) async fn landed(mut receiver: watch::Receiver<Outcome>) -> Option<Said> {
    match receiver.wait_for(Option::is_some).await {
        Ok(outcome) => outcome.clone(),
        Err(_) => None,
    }
}
