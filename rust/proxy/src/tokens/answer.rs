//! A worker's reply to a question for tokens: untrusted bytes to packed ids.

use bytes::Bytes;
use serde::Deserialize;

/// Ids as `/tokenize` or a `/render` path names them.
#[derive(Deserialize)]
struct Ids {
    #[serde(alias = "token_ids")]
    tokens: Vec<u32>,
}

/// The ids in a reply, packed as little-endian `u32`; nothing where it has none.
pub(super) fn read(reply: &[u8]) -> Option<Bytes> {
    let Ids { tokens } = if reply.trim_ascii_start().starts_with(b"[") {
        // A rendered completion is a list of its prompts; it is routed by the first.
        serde_json::from_slice::<Vec<Ids>>(reply).ok()?.into_iter().next()?
    } else {
        serde_json::from_slice(reply).ok()?
    };
    let mut packed = Vec::with_capacity(tokens.len() * 4);
    packed.extend(tokens.iter().flat_map(|id| id.to_le_bytes()));
    Some(packed.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_either_kind() {
        let packed = Some(Bytes::from_static(&[1, 0, 0, 0, 0, 1, 0, 0]));
        for reply in [
            r#"{"count": 2, "max_model_len": 9, "tokens": [1, 256], "token_strs": null}"#,
            r#"{"request_id": "x", "token_ids": [1, 256], "features": null}"#,
            r#"[{"token_ids": [1, 256]}, {"token_ids": [3]}]"#,
        ] {
            assert_eq!(read(reply.as_bytes()), packed, "{reply}");
        }
    }

    #[test]
    fn what_has_no_ids_gives_none() {
        for reply in [
            "",
            "{}",
            "[]",
            "nope",
            r#"{"tokens": [-1]}"#,
            r#"{"tokens": [4294967296]}"#,
            r#"{"tokens": "1"}"#,
        ] {
            assert_eq!(read(reply.as_bytes()), None, "{reply}");
        }
    }
}
