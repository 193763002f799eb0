//! The way down: from a place in the tree along a prompt, as far as the tree knows it.

use super::PrefixIndex;
use super::node::NIL;
use crate::block::BlockHash;

/// How far a walk came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    /// The deepest node, or [`NIL`] above all nodes.
    pub(super) at: u32,
    /// Blocks of its run that are on the path.
    pub(super) within: usize,
    /// Blocks of the prompt that were found.
    pub(super) depth: usize,
}

impl Reach {
    /// Above all nodes: where every prompt starts.
    pub(super) const ROOT: Reach = Reach { at: NIL, within: 0, depth: 0 };
}

impl PrefixIndex {
    /// The node of a block and its index in the run.
    #[inline]
    pub(super) fn find(&self, hash: BlockHash) -> Option<(u32, usize)> {
        let place = self.table.find(hash, |place| self.slab.is(place, hash))?;
        Some((place.node, self.slab[place.node].index(place.offset)))
    }

    /// The node above `id`.
    pub(super) fn parent_of(&self, id: u32) -> Option<u32> {
        let node = &self.slab[id];
        if node.top { None } else { self.find(node.parent).map(|(parent, _)| parent) }
    }

    /// Walks on from `from` along `blocks`.
    pub(super) fn descend(&self, from: Reach, blocks: &[BlockHash]) -> Reach {
        let mut reach = from;
        if reach.at != NIL {
            let more = common(&self.slab[reach.at].run[reach.within..], blocks);
            reach.within += more;
            reach.depth += more;
        }
        while let Some(child) = self.child(reach, blocks) {
            let within = common(&self.slab[child].run, &blocks[reach.depth..]);
            reach = Reach { at: child, within, depth: reach.depth + within };
        }
        reach
    }

    /// The node that continues a path along `blocks`.
    #[inline]
    pub(super) fn child(&self, reach: Reach, blocks: &[BlockHash]) -> Option<u32> {
        let next = *blocks.get(reach.depth)?;
        // A block that is known elsewhere comes from blocks that are no prompt: it is not on this path.
        let (child, 0) = self.find(next)? else { return None };
        let (node, above) = (&self.slab[child], self.slab_get(reach.at));
        let follows = match above {
            None => node.top,
            Some(above) => {
                !node.top && above.run.len() == reach.within && above.run.last() == Some(&node.parent)
            }
        };
        follows.then_some(child)
    }

    fn slab_get(&self, id: u32) -> Option<&super::node::Node> {
        (id != NIL).then(|| &self.slab[id])
    }
}

/// How many blocks `run` and `blocks` have in common from the start.
///
/// Hashes are chained: where one is equal, all before it are, so the last one is compared first.
#[inline]
pub(super) fn common(run: &[BlockHash], blocks: &[BlockHash]) -> usize {
    let len = run.len().min(blocks.len());
    let (run, blocks) = (&run[..len], &blocks[..len]);
    if run.last() == blocks.last() {
        return len;
    }
    let (mut equal, mut unequal) = (0, len - 1);
    while equal < unequal {
        let middle = equal + (unequal - equal) / 2;
        if run[middle] == blocks[middle] { equal = middle + 1 } else { unequal = middle }
    }
    equal
}
