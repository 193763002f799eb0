//! An engine's blocks that are smaller than the router's, put together: SGLang's pages of one token, say.
//!
//! A block of the router is held when all its pages are. Pages are kept with their tokens, as a later run may go on
//! in the middle of a block, and linked within a block, so that a page that goes takes every block that it is part of
//! along. One that goes before the pages after it stays without being held: its tokens are theirs too.

use std::collections::HashMap;

use super::table::Table;
use crate::block::{BlockHash, BlockHasher};
use crate::event::{EngineHash, Tier};

const NIL: u32 = u32::MAX;

/// What a change of pages means for the router's blocks, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// All pages of the block, which follows `parent`, are held.
    Whole { parent: Option<BlockHash>, block: BlockHash },
    /// One of them is not any more.
    Broken { block: BlockHash },
}

/// Where a page stands: `place` in its block, after the page `parent` or, where the block begins, after a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    parent: u32,
    place: u16,
    before: BlockHash,
    /// The block starts a prompt, and `before` is the root of the prompt's chain.
    top: bool,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    name: EngineHash,
    at: Place,
    /// The block that ends with this page.
    block: BlockHash,
    /// The first page after it in its block, and its neighbours among those after the same one.
    child: u32,
    prev: u32,
    next: u32,
    /// By tier.
    copies: [u32; 2],
}

/// The pages of one worker.
#[derive(Debug)]
pub(super) struct Pages {
    /// Numbers of pages, plus one.
    names: Table,
    pages: Vec<Page>,
    free: Vec<u32>,
    /// By page.
    tokens: Vec<u8>,
    /// What else than its tokens tells a page apart.
    keys: HashMap<u32, u64>,
    page_bytes: usize,
    /// Pages in a block.
    parts: u16,
    /// Pages held, by tier.
    held: [usize; 2],
}

impl Pages {
    /// Bytes that a page takes beside its tokens, its name included.
    pub(super) const NAME_BYTES: usize = size_of::<Page>() + 20;

    /// Pages of `page_size` tokens, `parts` of which make a block.
    pub(super) fn new(page_size: usize, parts: u16, seed: u64) -> Pages {
        Pages {
            names: Table::new(0, seed),
            pages: Vec::new(),
            free: Vec::new(),
            tokens: Vec::new(),
            keys: HashMap::new(),
            page_bytes: page_size * 4,
            parts,
            held: [0; 2],
        }
    }

    /// Bytes of tokens in a page.
    pub(super) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    pub(super) fn parts(&self) -> usize {
        usize::from(self.parts)
    }

    pub(super) fn held(&self, tier: Tier) -> usize {
        self.held[tier as usize]
    }

    /// Pages that are kept, those that are not held but stand before others included.
    pub(super) fn kept(&self) -> usize {
        self.pages.len() - self.free.len()
    }

    /// The names of the pages that are held on the device.
    pub(super) fn held_on_device(&self) -> impl Iterator<Item = EngineHash> + '_ {
        let held = self.names.iter().filter(|(_, number)| self.is_held((number.0 - 1) as u32, Tier::Device));
        held.map(|(name, _)| name)
    }

    pub(super) fn bytes(&self) -> usize {
        let pages = self.pages.capacity() * size_of::<Page>() + self.free.capacity() * size_of::<u32>();
        self.names.bytes() + pages + self.tokens.capacity() + self.keys.capacity() * size_of::<(u32, u64)>()
    }

    pub(super) fn find(&self, name: EngineHash) -> Option<u32> {
        self.names.find(name).map(|number| (number.0 - 1) as u32)
    }

    pub(super) fn is_held(&self, id: u32, tier: Tier) -> bool {
        self.pages[id as usize].copies[tier as usize] > 0
    }

    /// The first place of a prompt whose chain begins with `root`.
    pub(super) fn start(root: BlockHash) -> Place {
        Place { parent: NIL, place: 0, before: root, top: true }
    }

    /// The place after a page.
    pub(super) fn after(&self, id: u32) -> Place {
        let page = &self.pages[id as usize];
        if page.at.place + 1 == self.parts {
            Place { parent: NIL, place: 0, before: page.block, top: false }
        } else {
            Place { parent: id, place: page.at.place + 1, ..page.at }
        }
    }

    /// The page of this name at this place: the one that is there, or a new one that nothing holds yet.
    ///
    /// A name that stood for another page stands for that no more.
    pub(super) fn page(
        &mut self,
        name: EngineHash,
        at: Place,
        tokens: &[u8],
        key: Option<u64>,
        hasher: &BlockHasher,
        changes: &mut [Vec<Change>; 2],
    ) -> u32 {
        let other = self.find(name);
        if let Some(id) = other {
            if self.pages[id as usize].at == at && self.tokens_of(id) == tokens {
                return id;
            }
            self.rename(id, changes);
        }
        let id = self.free.pop().unwrap_or(self.pages.len() as u32);
        let page = Page { name, at, block: BlockHash(0), child: NIL, prev: NIL, next: NIL, copies: [0; 2] };
        let start = id as usize * self.page_bytes;
        if id as usize == self.pages.len() {
            self.pages.push(page);
            self.tokens.extend_from_slice(tokens);
        } else {
            self.pages[id as usize] = page;
            self.tokens[start..start + self.page_bytes].copy_from_slice(tokens);
        }
        if let Some(key) = key {
            self.keys.insert(id, key);
        }
        self.link(id);
        if at.place + 1 == self.parts {
            self.pages[id as usize].block = self.hash(id, hasher);
        }
        self.names.insert(name, BlockHash(u64::from(id) + 1));
        // What the new page stands on must not go with the other one.
        other.into_iter().for_each(|id| self.tidy(id));
        id
    }

    /// One more copy of a page.
    pub(super) fn hold(&mut self, id: u32, tier: Tier, changes: &mut Vec<Change>) {
        let copies = &mut self.pages[id as usize].copies[tier as usize];
        *copies += 1;
        if *copies == 1 {
            self.held[tier as usize] += 1;
            self.each_whole(id, tier, |parent, block| changes.push(Change::Whole { parent, block }));
        }
    }

    /// One copy less of a page that is held.
    pub(super) fn release(&mut self, id: u32, tier: Tier, changes: &mut Vec<Change>) {
        if self.pages[id as usize].copies[tier as usize] == 1 {
            self.each_whole(id, tier, |_, block| changes.push(Change::Broken { block }));
            self.held[tier as usize] -= 1;
        }
        self.pages[id as usize].copies[tier as usize] -= 1;
        self.tidy(id);
    }

    /// Forgets what lower tiers hold.
    pub(super) fn clear_lower(&mut self) {
        let lower = Tier::Lower as usize;
        for id in 0..self.pages.len() {
            if std::mem::take(&mut self.pages[id].copies[lower]) > 0 {
                self.tidy(id as u32);
            }
        }
        self.held[lower] = 0;
    }

    /// Calls for each block that `id` is part of and all pages of which are held, where `id` is.
    fn each_whole(&self, id: u32, tier: Tier, mut call: impl FnMut(Option<BlockHash>, BlockHash)) {
        let page = &self.pages[id as usize];
        if page.child == NIL && page.at.place + 1 < self.parts {
            return;
        }
        if self.above(id).skip(1).any(|above| !self.is_held(above, tier)) {
            return;
        }
        let parent = (!page.at.top).then_some(page.at.before);
        let mut left = vec![id];
        while let Some(id) = left.pop() {
            let page = &self.pages[id as usize];
            if page.at.place + 1 == self.parts {
                call(parent, page.block);
            }
            left.extend(self.below(id).filter(|below| self.is_held(*below, tier)));
        }
    }

    /// The page and those before it in its block.
    fn above(&self, id: u32) -> impl Iterator<Item = u32> + '_ {
        let parent = |id: u32| Some(self.pages[id as usize].at.parent).filter(|parent| *parent != NIL);
        std::iter::successors(Some(id), move |&id| parent(id))
    }

    /// The pages right after one in its block.
    fn below(&self, id: u32) -> impl Iterator<Item = u32> + '_ {
        let some = |id: u32| Some(id).filter(|id| *id != NIL);
        std::iter::successors(some(self.pages[id as usize].child), move |&id| {
            some(self.pages[id as usize].next)
        })
    }

    fn tokens_of(&self, id: u32) -> &[u8] {
        let start = id as usize * self.page_bytes;
        &self.tokens[start..start + self.page_bytes]
    }

    /// The hash of the block that ends with a page.
    fn hash(&self, last: u32, hasher: &BlockHasher) -> BlockHash {
        let mut pages: Vec<u32> = self.above(last).collect();
        pages.reverse();
        let tokens: Vec<u8> = pages.iter().flat_map(|id| self.tokens_of(*id)).copied().collect();
        let mut chain = hasher.after(self.pages[last as usize].at.before);
        let block = chain.push(&tokens);
        pages.iter().filter_map(|id| self.keys.get(id)).fold(block, |_, key| chain.mix_in(*key))
    }

    /// Links a new page to the one before it.
    fn link(&mut self, id: u32) {
        let parent = self.pages[id as usize].at.parent;
        if parent == NIL {
            return;
        }
        let next = std::mem::replace(&mut self.pages[parent as usize].child, id);
        self.pages[id as usize].next = next;
        if next != NIL {
            self.pages[next as usize].prev = id;
        }
    }

    fn unlink(&mut self, id: u32) {
        let Page { at, prev, next, .. } = self.pages[id as usize];
        if next != NIL {
            self.pages[next as usize].prev = prev;
        }
        if prev != NIL {
            self.pages[prev as usize].next = next;
        } else if at.parent != NIL {
            self.pages[at.parent as usize].child = next;
        }
    }

    /// Takes the name from a page, which is then not held; see [`Pages::tidy`].
    fn rename(&mut self, id: u32, changes: &mut [Vec<Change>; 2]) {
        for tier in [Tier::Device, Tier::Lower] {
            if self.is_held(id, tier) {
                self.each_whole(id, tier, |_, block| changes[tier as usize].push(Change::Broken { block }));
                self.pages[id as usize].copies[tier as usize] = 0;
                self.held[tier as usize] -= 1;
            }
        }
        self.names.remove(self.pages[id as usize].name);
    }

    /// Drops a page that is not held and that nothing follows, and those before it that only it kept.
    fn tidy(&mut self, id: u32) {
        let mut next = id;
        while next != NIL {
            let Page { name, at, child, copies, .. } = self.pages[next as usize];
            if child != NIL || copies != [0; 2] {
                return;
            }
            self.unlink(next);
            if self.find(name) == Some(next) {
                self.names.remove(name);
            }
            self.keys.remove(&next);
            self.free.push(next);
            next = at.parent;
        }
    }
}
