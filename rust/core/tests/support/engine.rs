//! A slow, obvious engine, and the batches that it sends.

#![allow(unreachable_pub, reason = "for the tests that include it")]

use std::collections::BTreeMap;

pub const BLOCK: usize = 2;
/// Batches that the engine can send again.
pub const BUFFER: usize = 6;
pub const SALTS: [&str; 2] = ["", "s"];

/// A prefix in blocks: the salt, then one letter a block.
pub type Path = Vec<u8>;

pub fn name(path: &[u8], seed: u64) -> u64 {
    path.iter()
        .fold(seed + 1, |hash, byte| (hash ^ u64::from(*byte) ^ 0x55).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

pub fn tokens(letter: u8) -> [u32; BLOCK] {
    [u32::from(letter), 7]
}

/// The engine: how many copies of each prefix it holds, and the batches it sent.
#[derive(Default)]
pub struct Engine {
    pub held: BTreeMap<Path, u32>,
    /// The same in the lower tier.
    pub lower: BTreeMap<Path, u32>,
    pub process: u64,
    pub number: u64,
    pub made: f64,
    /// Batches by number, the newest [`BUFFER`].
    pub sent: Vec<(u64, Vec<u8>)>,
    pub under_way: Vec<(u64, Vec<u8>)>,
}

impl Engine {
    pub fn send(&mut self, events: &[Vec<u8>]) {
        self.made += 1.0;
        let mut payload = vec![0x92, 0xcb];
        payload.extend(self.made.to_be_bytes());
        payload.push(0x90 | events.len() as u8);
        events.iter().for_each(|event| payload.extend(event));
        self.sent.push((self.number, payload.clone()));
        if self.sent.len() > BUFFER {
            self.sent.remove(0);
        }
        self.under_way.push((self.number, payload));
        self.number += 1;
    }

    /// `["BlockStored", names, parent, tokens, block_size, nil, nil, nil, keys]` for blocks `from..` of a path.
    pub fn stored(&self, path: &[u8], from: usize) -> Vec<u8> {
        let names: Vec<_> = (from + 1..=path.len()).map(|end| name(&path[..end], self.process)).collect();
        let mut event = [&[0x99, 0xab][..], b"BlockStored"].concat();
        event.push(0x90 | names.len() as u8);
        names.iter().for_each(|name| write(&mut event, *name));
        if from == 1 {
            event.push(0xc0)
        } else {
            write(&mut event, name(&path[..from], self.process))
        }
        let ids: Vec<u8> =
            path[from..].iter().flat_map(|letter| tokens(*letter)).map(|id| id as u8).collect();
        event.push(0x90 | ids.len() as u8);
        event.extend(ids);
        event.extend([BLOCK as u8, 0xc0, 0xc0, 0xc0]);
        match SALTS[usize::from(path[0])] {
            salt if from == 1 && !salt.is_empty() => event.extend([0x91, 0x91, 0xa1, salt.as_bytes()[0]]),
            _ => event.push(0xc0),
        }
        event
    }

    pub fn removed(&self, path: &[u8]) -> Vec<u8> {
        let mut event = [&[0x92, 0xac][..], b"BlockRemoved", &[0x91]].concat();
        write(&mut event, name(path, self.process));
        event
    }

    /// Leading blocks of `path` that are held.
    pub fn overlap(&self, path: &[u8]) -> usize {
        (2..=path.len()).take_while(|end| self.held.contains_key(&path[..*end])).count()
    }

    pub fn prompt(&mut self, path: &[u8], full_report: bool) {
        let mut events = Vec::new();
        let held = self.overlap(path);
        if full_report && held > 1 {
            events.push(self.stored(&path[..=held], 1));
        }
        // The last token is always computed, and with it its block.
        let from = held.min(path.len() - 2) + 1;
        events.push(self.stored(path, from));
        for end in from + 1..=path.len() {
            *self.held.entry(path[..end].to_vec()).or_default() += 1;
        }
        self.send(&events);
    }

    pub fn evict(&mut self, at: &[u8]) {
        let Some(path) = self.held.range(at.to_vec()..).next().map(|(path, _)| path.clone()) else { return };
        let event = self.removed(&path);
        let copies = self.held.get_mut(&path).unwrap();
        *copies -= 1;
        if *copies == 0 {
            self.held.remove(&path);
        }
        self.send(&[event]);
    }

    pub fn put_away(&mut self, path: &[u8], named: bool) {
        let ends: Vec<_> = (2..=path.len()).filter(|end| self.held.contains_key(&path[..*end])).collect();
        let event = |end: &usize| {
            let (from, path) = (end - 1, &path[..*end]);
            let mut event = self.stored(path, from);
            // The medium has the place of the seventh field; what is after it are the adapter's name and the keys.
            let keys = if from == 1 && path[0] == 1 { 4 } else { 1 };
            event.truncate(event.len() - keys - 2);
            if named {
                event = [&[0x97, 0xab][..], b"BlockStored", &[0x91]].concat();
                write(&mut event, name(path, self.process));
                event.extend([0xc0, 0x90, 0, 0xc0]);
            } else {
                event[0] = 0x97;
            }
            event.extend(b"\xa3CPU");
            event
        };
        let events: Vec<_> = ends.iter().map(event).collect();
        ends.iter().for_each(|end| *self.lower.entry(path[..*end].to_vec()).or_default() += 1);
        self.send(&events);
    }

    pub fn drop_lower(&mut self, at: &[u8]) {
        let Some(path) = self.lower.range(at.to_vec()..).next().map(|(path, _)| path.clone()) else { return };
        let mut event = self.removed(&path);
        event[0] = 0x93;
        event.extend(b"\xa7STORAGE");
        let copies = self.lower.get_mut(&path).unwrap();
        *copies -= 1;
        if *copies == 0 {
            self.lower.remove(&path);
        }
        self.send(&[event]);
    }

    pub fn clear(&mut self) {
        self.held.clear();
        self.lower.clear();
        self.send(&[[&[0x91, 0xb0][..], b"AllBlocksCleared"].concat()]);
    }

    pub fn restart(&mut self) {
        let made = self.made + 100.0;
        *self = Engine { process: self.process + 1000, made, ..Engine::default() };
    }
}

pub fn write(out: &mut Vec<u8>, name: u64) {
    out.push(0xcf);
    out.extend(name.to_be_bytes());
}

pub fn every_path() -> Vec<Path> {
    (0..2)
        .flat_map(|salt| {
            (0..32).map(move |bits| {
                [salt, bits & 1, bits >> 1 & 1, bits >> 2 & 1, bits >> 3 & 1, bits >> 4 & 1].to_vec()
            })
        })
        .collect()
}
