//! New nodes at the end of a path.

use super::PrefixIndex;
use super::node::{MAX_RUN, NIL};
use super::table::{Place, WARM};
use super::walk::Reach;
use crate::block::BlockHash;

/// A run that grows bit by bit has up to a sixteenth more room than blocks.
const SLACK: usize = 16;

/// Room made for each new block before it is added: its hash, its place in a table that has just grown, and
/// a little for the holder. What the table needs in fact is asked for block by block.
const BLOCK_BYTES: usize = size_of::<BlockHash>() + 14;

impl PrefixIndex {
    /// Adds what `reach` left of `blocks` at the end of a leaf and in new nodes; gives how far the path goes then.
    ///
    /// What is added has no holders yet. The path ends early where the budget has no room for more, and
    /// where a block is known in another place, which a prompt's own blocks never are.
    pub(super) fn grow(&mut self, reach: Reach, blocks: &[BlockHash]) -> Reach {
        let mut reach = reach;
        while reach.depth < blocks.len() {
            if reach.at != NIL && reach.within < self.slab[reach.at].run.len() {
                match self.split(reach.at, reach.within, reach.at) {
                    Some((upper, _)) => reach.at = upper,
                    None => break,
                }
            }
            let wanted = (blocks.len() - reach.depth).min(MAX_RUN);
            let leaf = reach.at != NIL && self.slab[reach.at].children == 0;
            let room = if leaf { MAX_RUN - self.slab[reach.at].run.len() } else { 0 };
            let (wanted, grown) = if room > 0 {
                let wanted = wanted.min(room);
                (wanted, self.extend(reach.at, &blocks[reach.depth..reach.depth + wanted]))
            } else {
                let Some((leaf, grown)) = self.leaf(reach.at, &blocks[reach.depth..reach.depth + wanted])
                else {
                    break;
                };
                (reach.at, reach.within) = (leaf, 0);
                (wanted, grown)
            };
            reach.within += grown;
            reach.depth += grown;
            if grown < wanted {
                break;
            }
        }
        self.counters.cut_blocks += (blocks.len() - reach.depth) as u64;
        reach
    }

    /// A new child of `above` with as much of `run` as there is room for; none where there is none.
    fn leaf(&mut self, above: u32, run: &[BlockHash]) -> Option<(u32, usize)> {
        if !self.fit(above, |index| index.slab.growth() + BLOCK_BYTES) {
            return None;
        }
        let id = self.slab.insert();
        self.attach(id, above, run[0]);
        let grown = self.extend(id, run);
        if grown == 0 {
            self.detach(id, run[0]);
            self.discard(id);
            return None;
        }
        Some((id, grown))
    }

    /// Adds as much of `more` to the run of a leaf as there is room for; gives how much.
    fn extend(&mut self, id: u32, more: &[BlockHash]) -> usize {
        let before = self.slab[id].run.len();
        let all = self.fit(id, |_| more.len() * BLOCK_BYTES);
        let room = if all { more.len() } else { (self.room() / BLOCK_BYTES).min(more.len()) };
        self.reserve(id, room);
        for (at, &hash) in more[..room].iter().enumerate() {
            if at % WARM == 0 {
                self.table.warm(&more[at..room.min(at + WARM)]);
            }
            if self.table.growth(hash) > 0 && !self.fit(id, |index| index.table.growth(hash)) {
                break;
            }
            let node = &self.slab[id];
            let place = Place { node: id, offset: node.offset(node.run.len()) };
            let slab = &self.slab;
            if !self.table.insert(hash, place, |place| slab.is(place, hash)) {
                break;
            }
            self.slab[id].run.push(hash);
        }
        let grown = self.slab[id].run.len() - before;
        if grown < room {
            self.shrink_run(id);
        }
        grown
    }

    /// Makes a run's room for `more` blocks, and for a few beyond them where it grows bit by bit.
    fn reserve(&mut self, id: u32, more: usize) {
        let len = self.slab[id].run.len();
        let before = self.slab[id].run.capacity();
        if before - len >= more {
            return;
        }
        // Both are there while the run moves.
        let slack =
            if (len + more + len / SLACK) * size_of::<BlockHash>() <= self.room() { len / SLACK } else { 0 };
        self.slab[id].run.reserve_exact(more + slack);
        self.heap += (self.slab[id].run.capacity() - before) * size_of::<BlockHash>();
    }

    /// Links a new node below `above`, as the newest.
    fn attach(&mut self, id: u32, above: u32, first: BlockHash) {
        let parent = match above {
            NIL => None,
            above => {
                let above = &mut self.slab[above];
                above.children += 1;
                above.child_xor ^= first.0;
                above.run.last().copied()
            }
        };
        let node = &mut self.slab[id];
        node.top = parent.is_none();
        node.parent = parent.unwrap_or_default();
        node.touched = self.now;
        self.lru_push(id);
    }

    /// Undoes what [`PrefixIndex::attach`] did to the parent.
    pub(super) fn detach(&mut self, id: u32, first: BlockHash) {
        if let Some(parent) = self.parent_of(id) {
            let parent = &mut self.slab[parent];
            parent.children -= 1;
            parent.child_xor ^= first.0;
        }
    }

    /// Gives back what a run has reserved beyond its blocks.
    pub(super) fn shrink_run(&mut self, id: u32) {
        let run = &mut self.slab[id].run;
        let before = run.capacity();
        run.shrink_to_fit();
        self.heap -= (before - run.capacity()) * size_of::<BlockHash>();
    }
}
