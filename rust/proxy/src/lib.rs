//! The HTTP data plane.
