//! What may be let in beyond the first try of a request.

mod budget;
mod seconds;

pub use budget::RetryBudget;
