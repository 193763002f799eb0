//! Names for things inside one router.

/// A worker, as the core names it: a slot that a later worker may take over, and which taking it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WorkerId {
    pub(crate) slot: Slot,
    pub(crate) generation: u32,
}

impl WorkerId {
    /// The worker's place in the router's tables.
    pub fn slot(self) -> Slot {
        self.slot
    }
}

/// A worker's place in dense tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

impl Slot {
    /// The slot as an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
