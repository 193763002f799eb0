//! Token ids from Python, without a copy where the memory allows it.

use std::cell::Cell;

use pyo3::buffer::{Element, PyBuffer, PyUntypedBuffer};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyMemoryView, PySequence};
use warmroute_core::block::{BlockHash, BlockHasher, Namespace};

use crate::errors;

/// Prompts from this many bytes on are hashed without the GIL; for shorter ones giving it up costs more.
const RELEASE_BYTES: usize = 16 * 1024;

/// Digits of a number that an error repeats.
const MAX_DIGITS: usize = 32;

/// A prompt cut into blocks.
pub(crate) struct Hashed {
    pub(crate) blocks: Vec<BlockHash>,
    pub(crate) tokens: u32,
}

/// Hashes `tokens`: bytes of packed little-endian `u32`, any buffer of 32-bit or 64-bit integers, or a sequence.
pub(crate) fn hash(
    tokens: &Bound<'_, PyAny>,
    hasher: &BlockHasher,
    space: &Namespace<'_>,
) -> PyResult<Hashed> {
    let py = tokens.py();
    if let Ok(bytes) = tokens.cast::<PyBytes>() {
        let ids = bytes.as_bytes();
        let tokens = count(py, ids.len())?;
        let blocks = if ids.len() >= RELEASE_BYTES {
            py.detach(|| hash_ids(hasher, space, ids))
        } else {
            hash_ids(hasher, space, ids)
        };
        return Ok(Hashed { blocks, tokens });
    }
    if let Ok(buffer) = PyUntypedBuffer::get(tokens) {
        let cells = Cells { py, hasher, space };
        // PyO3 takes `<` and `>` for one another on a little-endian machine: what names its order is looked at here.
        match buffer.format().to_bytes() {
            [b'<', rest @ ..] if cfg!(target_endian = "little") && matches!(rest, b"I" | b"L") => {
                let packed = PyMemoryView::from(tokens)?.call_method0("tobytes")?;
                return hash(&packed, hasher, space);
            }
            [b'<' | b'>' | b'!', ..] => {
                return Err(wrong(py, &format!("a buffer of {:?}", buffer.format())));
            }
            _ => {}
        }
        let wide = |id: i128| u32::try_from(id).map_err(|_| id);
        if let Ok(buffer) = buffer.as_typed::<u32>() {
            return cells.hash(buffer, Ok);
        } else if let Ok(buffer) = buffer.as_typed::<i32>() {
            return cells.hash(buffer, |id| wide(id.into()));
        } else if let Ok(buffer) = buffer.as_typed::<i64>() {
            return cells.hash(buffer, |id| wide(id.into()));
        } else if let Ok(buffer) = buffer.as_typed::<u64>() {
            return cells.hash(buffer, |id| wide(id.into()));
        } else if let Ok(buffer) = buffer.as_typed::<u8>() {
            let ids = buffer.to_vec(py)?;
            let tokens = count(py, ids.len())?;
            return Ok(Hashed { blocks: py.detach(|| hash_ids(hasher, space, &ids)), tokens });
        }
        return Err(wrong(py, &format!("a buffer of {:?}", buffer.format())));
    }
    let ids = sequence(tokens)?;
    let tokens = count(py, ids.len())?;
    Ok(Hashed { blocks: py.detach(|| hash_ids(hasher, space, &ids)), tokens })
}

fn hash_ids(hasher: &BlockHasher, space: &Namespace<'_>, ids: &[u8]) -> Vec<BlockHash> {
    let mut blocks = Vec::new();
    hasher.hash_ids(space, ids, &mut blocks);
    blocks
}

fn count(py: Python<'_>, bytes: usize) -> PyResult<u32> {
    if !bytes.is_multiple_of(4) {
        return Err(errors::invalid(
            py,
            format!("tokens has {bytes} bytes: packed little-endian 32-bit ids are a multiple of 4"),
        ));
    }
    length(py, bytes / 4)
}

fn length(py: Python<'_>, tokens: usize) -> PyResult<u32> {
    u32::try_from(tokens)
        .map_err(|_| errors::invalid(py, format!("tokens has {tokens} ids: at most {}", u32::MAX)))
}

struct Cells<'a, 'py> {
    py: Python<'py>,
    hasher: &'a BlockHasher,
    space: &'a Namespace<'a>,
}

impl Cells<'_, '_> {
    /// Hashes a buffer in place. Its owner may write to it, so the GIL is kept: a few microseconds.
    fn hash<T: Element>(
        &self,
        buffer: &PyBuffer<T>,
        id: impl Fn(T) -> Result<u32, i128>,
    ) -> PyResult<Hashed> {
        let tokens = length(self.py, buffer.item_count())?;
        let blocks = if let Some(memory) = buffer.as_slice_ptr() {
            // SAFETY: the memory stays where it is while `buffer` holds its export, and it is aligned and sized for
            // `T`, whose format `as_typed` checked; `Cell` has the layout of `T`, and any bits are a number. The GIL
            // is held until the slice is gone, so that Python code does not write to it; whoever writes to an array
            // from another thread without the GIL races with every reader of the buffer protocol.
            #[expect(unsafe_code, reason = "hashing 120 KB in place instead of copying it first")]
            let cells = unsafe { &*(memory.as_ptr() as *const [Cell<T>]) };
            self.hash_each(cells, |cell| id(cell.get()))
        } else {
            self.hash_each(&buffer.to_vec(self.py)?, |value| id(*value))
        };
        Ok(Hashed { blocks: blocks?, tokens })
    }

    fn hash_each<C>(&self, cells: &[C], id: impl Fn(&C) -> Result<u32, i128>) -> PyResult<Vec<BlockHash>> {
        let size = self.hasher.block_size();
        let mut chain = self.hasher.chain(self.space);
        let mut blocks = Vec::with_capacity(cells.len() / size);
        let mut packed = vec![0_u8; size * 4];
        let pack = |cell: &C, place: &mut [u8]| {
            let id = id(cell).map_err(|id| out_of_range(self.py, &id.to_string()))?;
            place.copy_from_slice(&id.to_le_bytes());
            Ok::<_, PyErr>(())
        };
        for block in cells.chunks(size) {
            for (cell, place) in block.iter().zip(packed.chunks_exact_mut(4)) {
                pack(cell, place)?;
            }
            if block.len() == size {
                blocks.push(chain.push(&packed));
            }
        }
        Ok(blocks)
    }
}

fn out_of_range(py: Python<'_>, id: &str) -> PyErr {
    errors::invalid(py, format!("token id {id} is out of range: use 0 to {}", u32::MAX))
}

fn wrong(py: Python<'_>, what: &str) -> PyErr {
    let allowed = "bytes of packed little-endian 32-bit ids, a buffer of 32-bit or 64-bit integers, or ints";
    errors::invalid(py, format!("tokens is {what}: use {allowed}"))
}

/// Packs a sequence of ints.
fn sequence(tokens: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let py = tokens.py();
    if tokens.is_instance_of::<pyo3::types::PyString>() {
        return Err(wrong(py, "a str"));
    }
    // A sequence has an end; an iterator may not.
    if tokens.cast::<PySequence>().is_err() {
        return Err(wrong(py, &tokens.get_type().to_string()));
    }
    let mut ids = Vec::with_capacity(tokens.len().unwrap_or(0) * 4);
    for item in tokens.try_iter()? {
        let item = item?;
        let Ok(id) = item.extract::<u32>() else {
            // What is not an int is named by its type alone: it may be the prompt itself.
            if !item.is_instance_of::<PyInt>() {
                return Err(wrong(py, &format!("a sequence with a {}", item.get_type().name()?)));
            }
            return Err(out_of_range(
                py,
                &item.repr()?.to_string().chars().take(MAX_DIGITS).collect::<String>(),
            ));
        };
        ids.extend_from_slice(&id.to_le_bytes());
    }
    Ok(ids)
}
