//! A node: a run of blocks, and which worker holds how much of it.

use crate::block::BlockHash;
use crate::time::Time;

/// No node.
pub(super) const NIL: u32 = u32::MAX;

/// The longest run. It bounds what one split, merge or eviction costs, and makes lengths fit 16 bits.
/// Short under test, so that small trees meet it.
pub(super) const MAX_RUN: usize = if cfg!(test) { 6 } else { 4096 };

/// A run of blocks that follow one another, with no branch inside.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) run: Vec<BlockHash>,
    /// By worker, ascending.
    pub(super) holders: Vec<Holder>,
    /// The block before the run; meaningless where `top` is set.
    ///
    /// A hash and not a node, so that splitting and merging the parent leaves its children alone.
    pub(super) parent: BlockHash,
    /// The first blocks of all children, combined by exclusive or: the child itself where there is one.
    pub(super) child_xor: u64,
    pub(super) touched: Time,
    pub(super) children: u32,
    pub(super) older: u32,
    pub(super) newer: u32,
    /// What the table calls the first block of the run; the others follow, modulo 2^16.
    pub(super) base: u16,
    /// The run starts a prompt.
    pub(super) top: bool,
}

/// What one worker holds of a run: `confirmed` blocks, then predicted ones up to `held`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Holder {
    pub(super) worker: u32,
    pub(super) confirmed: u16,
    pub(super) held: u16,
    /// Neighbours in one of the worker's two lists, as nodes.
    pub(super) prev: u32,
    pub(super) next: u32,
    /// When the predicted blocks cease to count; zero where there are none.
    pub(super) expires: Time,
}

/// [`Holder`] without its place in lists; all zero for a worker that holds nothing of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) confirmed: usize,
    pub(super) held: usize,
    pub(super) expires: Time,
}

/// The lists of a worker's entries; each of its holders is in exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// Some blocks are predicted; least recently touched first.
    Predicted = 0,
    /// All blocks are confirmed; least recently used first.
    Confirmed = 1,
}

impl Node {
    /// A node with the same children and time of touch, and nothing else.
    pub(super) fn shape(&self) -> Node {
        let Node { child_xor, children, touched, .. } = *self;
        Node { child_xor, children, touched, ..Node::default() }
    }

    /// Bytes allocated by the run and the holders.
    pub(super) fn heap_bytes(&self) -> usize {
        self.run.capacity() * size_of::<BlockHash>() + self.holders.capacity() * size_of::<Holder>()
    }

    pub(super) fn position(&self, worker: u32) -> Result<usize, usize> {
        self.holders.binary_search_by_key(&worker, |holder| holder.worker)
    }

    /// The entry of `worker`.
    pub(super) fn holder(&self, worker: u32) -> Option<&Holder> {
        self.position(worker).ok().map(|place| &self.holders[place])
    }

    pub(super) fn span(&self, worker: u32) -> Span {
        self.position(worker).map(|i| self.holders[i].span()).unwrap_or_default()
    }

    /// The most blocks of the run that any worker holds.
    pub(super) fn longest(&self) -> usize {
        self.holders.iter().map(|holder| usize::from(holder.held)).max().unwrap_or(0)
    }

    /// The name in the table of the block at `index`.
    pub(super) fn offset(&self, index: usize) -> u16 {
        self.base.wrapping_add(index as u16)
    }

    /// The index of the block that the table calls `offset`.
    pub(super) fn index(&self, offset: u16) -> usize {
        usize::from(offset.wrapping_sub(self.base))
    }
}

impl Holder {
    pub(super) fn new(worker: u32, span: Span) -> Holder {
        let (confirmed, held) = (span.confirmed as u16, span.held as u16);
        Holder { worker, confirmed, held, prev: NIL, next: NIL, expires: span.expires }
    }

    pub(super) fn span(&self) -> Span {
        let (confirmed, held) = (usize::from(self.confirmed), usize::from(self.held));
        Span { confirmed, held, expires: self.expires }
    }

    pub(super) fn set(&mut self, span: Span) {
        self.confirmed = span.confirmed as u16;
        self.held = span.held as u16;
        self.expires = span.expires;
    }
}

impl Span {
    pub(super) fn new(confirmed: usize, held: usize, expires: Time) -> Span {
        Span { confirmed, held, expires: if held > confirmed { expires } else { Time::ZERO } }
    }

    pub(super) fn predicted(self) -> usize {
        self.held - self.confirmed
    }

    /// The span without its last `blocks` blocks.
    pub(super) fn without(self, blocks: usize) -> Span {
        let held = self.held - blocks;
        Span::new(self.confirmed.min(held), held, self.expires)
    }

    /// The list that a holder with this span is in.
    pub(super) fn list(self) -> Option<List> {
        match (self.confirmed, self.held) {
            (_, 0) => None,
            (confirmed, held) if confirmed < held => Some(List::Predicted),
            _ => Some(List::Confirmed),
        }
    }

    /// The span cut at `at`: what is before it, and what is from there on.
    pub(super) fn split(self, at: usize) -> (Span, Span) {
        let before = Span::new(self.confirmed.min(at), self.held.min(at), self.expires);
        let after = Span::new(self.confirmed.saturating_sub(at), self.held.saturating_sub(at), self.expires);
        (before, after)
    }
}
