//! What making one prompt may cost: prompts that were seen are made where streams wait, others where they do not.

use std::cell::Cell;

use crate::Body;
use crate::encode::Encoder;

/// How many times as long the reference takes to encode a text as the fast tokenizer.
const REFERENCE_COST: usize = 64;
/// To look up a message and render it takes as long as reading so many bytes.
const MESSAGE_COST: usize = 64;

/// The work on one prompt, up to a limit.
#[derive(Debug)]
pub(crate) struct Work<'e> {
    encoder: &'e Encoder,
    /// Bytes that may be read, that may be encoded, and that a body may have which is rendered in full.
    limit: usize,
    read: Cell<usize>,
    encoded: Cell<usize>,
    known: Cell<(usize, usize)>,
}

impl<'e> Work<'e> {
    /// `limit` bytes that were not seen before may be read, and as many encoded.
    pub(crate) fn new(encoder: &'e Encoder, limit: usize) -> Work<'e> {
        let (read, encoded, known) = Default::default();
        Work { encoder, limit, read, encoded, known }
    }

    /// Asks to read `bytes` of JSON that were not seen; `None` where that is beyond the limit.
    pub(crate) fn read(&self, bytes: usize) -> Option<()> {
        self.take(&self.read, bytes)
    }

    /// Asks to look up so many messages; `None` where that is beyond the limit.
    pub(crate) fn look_up(&self, messages: usize) -> Option<()> {
        self.read(messages.saturating_mul(MESSAGE_COST))
    }

    /// Steps of a template that may be run: one takes about as long as reading ten bytes.
    pub(crate) fn steps(&self) -> usize {
        self.limit
    }

    /// Asks for the encoder of `bytes` of text that were not seen; `None` where that is beyond the limit.
    pub(crate) fn encoder(&self, bytes: usize) -> Option<&'e Encoder> {
        let cost = if self.encoder.is_fast() { 1 } else { REFERENCE_COST };
        self.take(&self.encoded, bytes.saturating_mul(cost))?;
        Some(self.encoder)
    }

    /// Whether the limit is not reached, and `body` is short enough to be rendered in full.
    pub(crate) fn may_render(&self, body: &Body<'_>) -> bool {
        body.raw().len() <= self.limit && self.read.get() <= self.limit && self.encoded.get() <= self.limit
    }

    /// That many bytes of JSON were known.
    pub(crate) fn knew_raw(&self, bytes: usize) {
        let (raw, text) = self.known.get();
        self.known.set((raw + bytes, text));
    }

    /// That many bytes of text were known.
    pub(crate) fn knew_text(&self, bytes: usize) {
        let (raw, text) = self.known.get();
        self.known.set((raw, text + bytes));
    }

    /// The bytes of JSON and of text that were known. They count when a prompt is made, and not for each try.
    pub(crate) fn known(&self) -> (usize, usize) {
        self.known.take()
    }

    fn take(&self, taken: &Cell<usize>, bytes: usize) -> Option<()> {
        taken.set(taken.get().saturating_add(bytes));
        (taken.get() <= self.limit).then_some(())
    }
}
