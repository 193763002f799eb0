//! The workers that a router knows.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::FleetError;
use crate::ids::{Slot, WorkerId};

/// What is known of a worker. What is `None` or empty is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerSpec {
    /// Its name, unique in the fleet.
    pub name: String,
    /// Where it serves, as `http://host:port`.
    pub url: String,
    /// KV blocks that it has.
    pub kv_blocks: Option<u32>,
    /// Tokens in one of its blocks.
    pub block_size: Option<u32>,
    /// Names of models that it serves, adapters included; empty while it has not told.
    pub models: Vec<String>,
    /// Those of them that are LoRA adapters: their blocks are apart from the base model's.
    pub adapters: Vec<String>,
    /// The longest context it takes, in tokens.
    pub max_model_len: Option<u32>,
    /// Requests it may have at once.
    pub max_requests: Option<u32>,
    /// Its data-parallel rank, where one address serves several.
    pub dp_rank: Option<u32>,
}

/// Whether a worker takes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WorkerState {
    /// It takes requests.
    Ready,
    /// It does not answer; it is taken in again when it does.
    Down,
    /// It finishes what it has and takes nothing more.
    Draining,
}

impl WorkerState {
    /// Its name in metrics, logs and replies.
    pub fn name(self) -> &'static str {
        match self {
            WorkerState::Ready => "ready",
            WorkerState::Down => "down",
            WorkerState::Draining => "draining",
        }
    }
}

/// A worker of the fleet. Shared, so that a lease keeps the address of a worker that has left.
#[derive(Debug)]
pub struct Worker {
    /// Its place and generation.
    pub id: WorkerId,
    /// What is known of it.
    pub spec: WorkerSpec,
    /// A hash of its name, the same in every router.
    pub(crate) name_hash: u64,
}

#[derive(Debug)]
struct Place {
    worker: Arc<Worker>,
    ready: bool,
    draining: bool,
}

impl Place {
    fn state(&self) -> WorkerState {
        match (self.draining, self.ready) {
            (true, _) => WorkerState::Draining,
            (false, true) => WorkerState::Ready,
            (false, false) => WorkerState::Down,
        }
    }
}

/// The workers by slot and by name.
#[derive(Debug, Default)]
pub struct Fleet {
    places: Vec<Option<Place>>,
    /// Places that are left: the first one is taken again.
    free: BTreeSet<Slot>,
    by_name: HashMap<String, Slot>,
    generations: u32,
    revision: u64,
}

impl Fleet {
    /// Counts the changes of the fleet: while it is the same, so is all that is known of every worker.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Takes in a worker, ready.
    ///
    /// # Errors
    /// [`FleetError::DuplicateWorker`].
    pub fn add(&mut self, spec: WorkerSpec) -> Result<Arc<Worker>, FleetError> {
        if self.by_name.contains_key(&spec.name) {
            return Err(FleetError::DuplicateWorker(spec.name));
        }
        let index = self.free.pop_first().map_or(self.places.len(), Slot::index);
        if index == self.places.len() {
            self.places.push(None);
        }
        let slot = Slot(index as u32);
        self.generations = self.generations.wrapping_add(1);
        self.revision += 1;
        self.by_name.insert(spec.name.clone(), slot);
        let worker = worker(WorkerId { slot, generation: self.generations }, spec);
        self.places[index] = Some(Place { worker: Arc::clone(&worker), ready: true, draining: false });
        Ok(worker)
    }

    /// Changes what is known of the worker named in `spec`.
    ///
    /// # Errors
    /// [`FleetError::UnknownWorker`].
    pub fn update(&mut self, spec: WorkerSpec) -> Result<Arc<Worker>, FleetError> {
        let place = self.place_mut(&spec.name)?;
        place.worker = worker(place.worker.id, spec);
        Ok(Arc::clone(&place.worker))
    }

    /// Says whether a worker answers.
    ///
    /// # Errors
    /// [`FleetError::UnknownWorker`].
    pub fn set_ready(&mut self, name: &str, ready: bool) -> Result<Arc<Worker>, FleetError> {
        let place = self.place_mut(name)?;
        place.ready = ready;
        Ok(Arc::clone(&place.worker))
    }

    /// Lets a worker finish what it has, and gives it nothing more.
    ///
    /// # Errors
    /// [`FleetError::UnknownWorker`].
    pub fn drain(&mut self, name: &str) -> Result<Arc<Worker>, FleetError> {
        let place = self.place_mut(name)?;
        place.draining = true;
        Ok(Arc::clone(&place.worker))
    }

    /// Lets a worker that drains take requests again.
    ///
    /// # Errors
    /// [`FleetError::UnknownWorker`].
    pub fn resume(&mut self, name: &str) -> Result<Arc<Worker>, FleetError> {
        let place = self.place_mut(name)?;
        place.draining = false;
        Ok(Arc::clone(&place.worker))
    }

    /// Forgets a worker.
    ///
    /// # Errors
    /// [`FleetError::UnknownWorker`].
    pub fn remove(&mut self, name: &str) -> Result<Arc<Worker>, FleetError> {
        let unknown = || FleetError::UnknownWorker(name.to_owned());
        let slot = self.by_name.remove(name).ok_or_else(unknown)?;
        self.revision += 1;
        self.free.insert(slot);
        self.places[slot.index()].take().map(|place| place.worker).ok_or_else(unknown)
    }

    /// The worker of this name.
    ///
    /// # Errors
    /// [`FleetError::UnknownWorker`].
    pub fn get(&self, name: &str) -> Result<&Arc<Worker>, FleetError> {
        let place = self.by_name.get(name).and_then(|slot| self.places[slot.index()].as_ref());
        place.map(|place| &place.worker).ok_or_else(|| FleetError::UnknownWorker(name.to_owned()))
    }

    /// The worker in `slot`.
    pub fn at(&self, slot: Slot) -> Option<&Arc<Worker>> {
        self.places.get(slot.index())?.as_ref().map(|place| &place.worker)
    }

    /// Every worker with its state, by slot.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<Worker>, WorkerState)> {
        self.places.iter().flatten().map(|place| (&place.worker, place.state()))
    }

    /// How many workers there are.
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Whether there is no worker.
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    fn place_mut(&mut self, name: &str) -> Result<&mut Place, FleetError> {
        let slot = self.by_name.get(name).copied();
        let place = slot.and_then(|slot| self.places[slot.index()].as_mut());
        self.revision += 1;
        place.ok_or_else(|| FleetError::UnknownWorker(name.to_owned()))
    }
}

fn worker(id: WorkerId, spec: WorkerSpec) -> Arc<Worker> {
    let name_hash = xxh3_64(spec.name.as_bytes());
    Arc::new(Worker { id, spec, name_hash })
}

impl Worker {
    /// Whether it serves `model`; a worker that has not told its models may serve any.
    pub fn serves(&self, model: Option<&str>) -> bool {
        self.spec.models.is_empty()
            || model.is_none_or(|wanted| self.spec.models.iter().any(|each| each == wanted))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_worker_takes_the_first_place_that_is_left() {
        let mut fleet = Fleet::default();
        let add = |name: &str, fleet: &mut Fleet| {
            let spec = WorkerSpec { name: name.to_owned(), ..WorkerSpec::default() };
            fleet.add(spec).unwrap().id.slot.0
        };
        assert_eq!(["a", "b", "c", "d"].map(|name| add(name, &mut fleet)), [0, 1, 2, 3]);
        for name in ["c", "a"] {
            fleet.remove(name).unwrap();
        }
        assert_eq!(["e", "f", "g"].map(|name| add(name, &mut fleet)), [0, 2, 4]);
        assert_eq!((fleet.len(), fleet.iter().count()), (5, 5));
    }
}
