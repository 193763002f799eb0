//! What is done to the index and to the reference.

use proptest::prelude::*;

use super::WORKERS;
use super::reference::Path;
use crate::prefix::Forget as What;

#[derive(Clone, Debug)]
pub(super) enum Operation {
    Predict {
        worker: u32,
        prompt: Path,
        lifetime: u64,
    },
    Store {
        worker: u32,
        path: Path,
        from: usize,
    },
    Remove {
        worker: u32,
        path: Path,
    },
    /// Removes the deepest blocks that the worker holds on a path, as an engine evicts.
    RemoveTail {
        worker: u32,
        path: Path,
        blocks: usize,
    },
    /// Puts blocks away in the worker's lower tier.
    StoreLower {
        worker: u32,
        path: Path,
        from: usize,
    },
    /// The same for the last `blocks` blocks of a path, by the name of the last one.
    KeepLower {
        worker: u32,
        path: Path,
        blocks: usize,
    },
    RemoveLower {
        worker: u32,
        path: Path,
        blocks: usize,
    },
    /// Forgets everything, or what lower tiers hold, so many blocks at a time.
    Forget {
        worker: u32,
        what: What,
        at_once: usize,
    },
    DropPredictions {
        worker: u32,
    },
    AddWorker {
        worker: u32,
        capacity: Option<u32>,
    },
    RemoveWorker {
        worker: u32,
    },
    SetCapacity {
        worker: u32,
        capacity: Option<u32>,
    },
    Occupy {
        worker: u32,
        blocks: u32,
        lifetime: u64,
    },
    DropUntil {
        worker: u32,
        until: u64,
    },
    Refresh {
        worker: u32,
        path: Path,
        lifetime: u64,
    },
    Expire {
        nodes: usize,
    },
    Wait {
        time: u64,
    },
}

fn path() -> impl Strategy<Value = Path> {
    prop::collection::vec(prop_oneof![6 => Just(0_u8), 2 => Just(1), 1 => Just(2)], 1..18)
}

pub(super) fn operation(capacities: bool) -> impl Strategy<Value = Operation> {
    let worker = || 0..WORKERS;
    let capacity = move || {
        let some = if capacities { 3 } else { 0 };
        prop_oneof![some => (0_u32..25).prop_map(Some), 2 => Just(None)]
    };
    let from = |path: Path| {
        let len = path.len();
        (Just(path), prop_oneof![2 => Just(0), 3 => 0..len])
    };
    use Operation::*;
    prop_oneof![
        12 => (worker(), path(), 0_u64..30).prop_map(|(worker, prompt, lifetime)| Predict { worker, prompt, lifetime }),
        10 => (worker(), path().prop_flat_map(from)).prop_map(|(worker, (path, from))| Store { worker, path, from }),
        6 => (worker(), path()).prop_map(|(worker, path)| Remove { worker, path }),
        6 => (worker(), path(), 1_usize..6).prop_map(|(worker, path, blocks)| RemoveTail { worker, path, blocks }),
        4 => (worker(), path().prop_flat_map(from)).prop_map(|(worker, (path, from))| StoreLower { worker, path, from }),
        6 => (worker(), path(), 1_usize..4).prop_map(|(worker, path, blocks)| KeepLower { worker, path, blocks }),
        5 => (worker(), path(), 1_usize..4).prop_map(|(worker, path, blocks)| RemoveLower { worker, path, blocks }),
        2 => (worker(), prop_oneof![Just(What::Everything), Just(What::LowerTiers)], 1_usize..9)
            .prop_map(|(worker, what, at_once)| Forget { worker, what, at_once }),
        1 => worker().prop_map(|worker| DropPredictions { worker }),
        1 => (worker(), capacity()).prop_map(|(worker, capacity)| AddWorker { worker, capacity }),
        1 => worker().prop_map(|worker| RemoveWorker { worker }),
        1 => (worker(), capacity()).prop_map(|(worker, capacity)| SetCapacity { worker, capacity }),
        1 => (worker(), 0_u32..9, 0_u64..30).prop_map(|(worker, blocks, lifetime)| Occupy { worker, blocks, lifetime }),
        1 => (worker(), 0_u64..20).prop_map(|(worker, until)| DropUntil { worker, until }),
        3 => (worker(), path(), 0_u64..30).prop_map(|(worker, path, lifetime)| Refresh { worker, path, lifetime }),
        2 => (0_usize..100).prop_map(|nodes| Expire { nodes }),
        2 => (0_u64..10).prop_map(|time| Wait { time }),
    ]
}
