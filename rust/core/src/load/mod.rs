//! What each worker has to do, as this router's own bookings say.

pub(crate) mod active;
pub mod ledger;
pub mod observed;
pub(crate) mod outputs;
