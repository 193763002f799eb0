//! Where the warm path gives up.

/// What is done for this request is not known here, or is an error: minijinja renders it in full.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stop;

pub(super) type Ran<T> = Result<T, Stop>;
