//! Ids for chats with media.
//!
//! The worker's tokens are known up to the first of them. From there on ids stand in that are not the worker's: two
//! for what the media are, then those of the text as far as the next. So prompts with other media share the blocks
//! before them and none after, and prompts with the same ones share what they have in common.

use crate::chat::{MARK, Request, WithoutMedia};
use crate::template::{ChatTemplate, ContentFormat};
use crate::{Body, Exact, Refused};

/// Texts that a worker might put in a medium's place, where it is not known. What is before them is encoded the same
/// with each, or is not taken to be known.
const STAND_INS: [&str; 4] = ["\\n", " ", "<", "a"];

impl Exact {
    /// The ids of the chat of `body`, which has media.
    ///
    /// # Errors
    /// As [`Exact::ids`] for all other reasons.
    pub(crate) fn ids_with_media(
        &self,
        body: &Body<'_>,
        template: &ChatTemplate,
        format: ContentFormat,
    ) -> Result<Vec<u32>, Refused> {
        let chat = WithoutMedia::of(body, format)?;
        let encode = |text: &str| self.encode(text, body.add_special_tokens());
        let fill = |request: Request<'_>| self.fill(template, request);
        let marked = fill(chat.with_text(body, MARK)?)?;
        let mut pieces = marked.split(MARK);
        let before = pieces.next().unwrap_or_default();

        let mut ids = encode(&format!("{before}{MARK}"))?;
        match chat.as_parts(body)? {
            Some(request) => keep_equal(&mut ids, &encode(&fill(request)?)?),
            None => {
                for text in STAND_INS {
                    keep_equal(&mut ids, &encode(&fill(chat.with_text(body, text)?)?)?);
                }
            }
        }
        let mut keys = chat.keys();
        for piece in pieces {
            ids.extend(keys.next().into_iter().flatten());
            ids.extend(self.encode(piece, false)?);
        }
        // A template that leaves out a message leaves out its media, too; they count all the same.
        ids.extend(keys.flatten());
        Ok(ids)
    }
}

/// Cuts `ids` to what it begins with in common with `other`.
fn keep_equal(ids: &mut Vec<u32>, other: &[u32]) {
    let equal = ids.iter().zip(other).take_while(|(ours, theirs)| ours == theirs).count();
    ids.truncate(equal);
}
