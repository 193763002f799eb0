//! Counters as plain dictionaries.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use warmroute_core::prefix::IndexStats;
use warmroute_core::router::{ERROR_BUCKETS, Loss, Stats, WorkerStats};
use warmroute_core::select::Reason;

/// Fills a dictionary with fields of a struct, each under its own name.
macro_rules! fields {
    ($py:expr, $from:expr; $($field:ident),+ $(,)?) => {{
        let dict = PyDict::new($py);
        $( dict.set_item(stringify!($field), &$from.$field)?; )+
        dict
    }};
}
pub(crate) use fields;

pub(crate) fn router<'py>(py: Python<'py>, stats: &Stats) -> PyResult<Bound<'py, PyDict>> {
    let dict = fields!(py, stats;
        prompt_tokens, overlap_tokens, lower_tokens, unknown_model, prompt_too_long, no_eligible_worker, saturated,
        finished, failed, cancelled, abandoned,
        reported, reported_prompt_tokens, reported_cached_tokens, reported_overlap_tokens, open);
    let decisions = PyDict::new(py);
    for (reason, count) in Reason::ALL.iter().zip(stats.decisions) {
        decisions.set_item(reason.name(), count)?;
    }
    dict.set_item("decisions", decisions)?;
    dict.set_item("error_bounds", &ERROR_BUCKETS[..ERROR_BUCKETS.len() - 1])?;
    dict.set_item("index", index(py, &stats.index)?)?;
    let workers = stats.workers.iter().map(|stats| worker(py, stats));
    dict.set_item("workers", workers.collect::<PyResult<Vec<_>>>()?)?;
    Ok(dict)
}

fn worker<'py>(py: Python<'py>, stats: &WorkerStats) -> PyResult<Bound<'py, PyDict>> {
    let dict = fields!(py, stats;
        name, requests, other_requests, prefilling, queued_tokens, context_tokens, active_blocks, wait_seconds,
        ttft_scale, confirmed_blocks, predicted_blocks, lower_blocks, following);
    dict.set_item("state", stats.state.name())?;
    dict.set_item("suspect", stats.truth.is_suspect())?;
    dict.set_item("errors", stats.truth.errors)?;
    let lost = PyDict::new(py);
    for (loss, tokens) in Loss::ALL.iter().zip(stats.truth.lost_tokens) {
        lost.set_item(loss.name(), tokens)?;
    }
    dict.set_item("lost_tokens", lost)?;
    Ok(dict)
}

fn index<'py>(py: Python<'py>, stats: &IndexStats) -> PyResult<Bound<'py, PyDict>> {
    Ok(fields!(py, stats;
        bytes, max_bytes, nodes, blocks, pairs, confirmed, predicted, lower, evicted_blocks, cut_blocks, expired_blocks,
        capacity_dropped))
}
