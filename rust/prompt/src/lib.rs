//! From a request body to exact token ids.
