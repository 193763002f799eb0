//! The metrics page, with vLLM's names.

use std::fmt::Write as _;

use super::driver::Snapshot;
use crate::engine::{EngineConfig, Histogram, buckets};

/// The page of one engine. What vLLM has no name for is called `warmroute_sim:…`.
pub(super) fn page(snapshot: &Snapshot, config: &EngineConfig, model: &str) -> String {
    let model = model.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let mut page =
        Page { out: String::with_capacity(16 << 10), labels: format!("engine=\"0\",model_name=\"{model}\"") };
    load(&mut page, snapshot);
    tokens(&mut page, snapshot);
    requests(&mut page, snapshot, &model);
    histograms(&mut page, snapshot);
    engine_time(&mut page, snapshot);
    cache_config(&mut page, config);
    page.out
}

struct Page {
    out: String,
    labels: String,
}

impl Page {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _written = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, more_labels: &str, value: f64) {
        let _written = writeln!(self.out, "{name}{{{}{more_labels}}} {value:?}", self.labels);
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.head(name, kind, help);
        self.sample(name, "", value);
    }

    fn histogram<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        histogram: &Histogram<N>,
        bounds: &[f64; N],
    ) {
        self.head(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        for (count, bound) in histogram.cumulative().zip(bounds) {
            self.sample(&bucket, &format!(",le=\"{bound:?}\""), count as f64);
        }
        self.sample(&bucket, ",le=\"+Inf\"", histogram.count() as f64);
        self.sample(&format!("{name}_count"), "", histogram.count() as f64);
        self.sample(&format!("{name}_sum"), "", histogram.sum());
    }
}

fn load(page: &mut Page, snapshot: &Snapshot) {
    let load = snapshot.load;
    let waiting = load.waiting as f64;
    let running = "Requests in execution batches.";
    page.one("vllm:num_requests_running", "gauge", running, load.running as f64);
    page.one("vllm:num_requests_waiting", "gauge", "Requests waiting to be processed.", waiting);
    let name = "vllm:num_requests_waiting_by_reason";
    page.head(name, "gauge", "Waiting requests by reason.");
    page.sample(name, ",reason=\"capacity\"", waiting);
    page.sample(name, ",reason=\"deferred\"", 0.0);
    page.one("vllm:kv_cache_usage_perc", "gauge", "Share of KV blocks in use, 0 to 1.", load.kv_usage());
}

fn tokens(page: &mut Page, snapshot: &Snapshot) {
    let c = &snapshot.counters;
    let (queries, hits) = (c.prefix_queries as f64, c.prefix_hits as f64);
    page.one("vllm:prefix_cache_queries_total", "counter", "Tokens looked up in the prefix cache.", queries);
    page.one("vllm:prefix_cache_hits_total", "counter", "Tokens found in the prefix cache.", hits);
    page.one("vllm:prompt_tokens_total", "counter", "Prompt tokens.", c.prompt_tokens as f64);
    let cached = c.prompt_tokens_cached as f64;
    page.one("vllm:prompt_tokens_cached_total", "counter", "Prompt tokens found in the cache.", cached);
    let name = "vllm:prompt_tokens_by_source_total";
    page.head(name, "counter", "Prompt tokens by source.");
    page.sample(name, ",source=\"local_compute\"", c.prompt_tokens as f64 - cached);
    page.sample(name, ",source=\"local_cache_hit\"", cached);
    page.sample(name, ",source=\"external_kv_transfer\"", 0.0);
    page.one("vllm:generation_tokens_total", "counter", "Generated tokens.", c.generation_tokens as f64);
    page.one("vllm:num_preemptions_total", "counter", "Preemptions.", c.preemptions as f64);
}

fn requests(page: &mut Page, snapshot: &Snapshot, model: &str) {
    let c = &snapshot.counters;
    let name = "vllm:request_success_total";
    page.head(name, "counter", "Requests that ended, by reason.");
    let ended = [("stop", c.finished_stop), ("length", c.finished_length), ("abort", 0), ("error", 0)];
    for (reason, count) in ended {
        page.sample(name, &format!(",finished_reason=\"{reason}\""), count as f64);
    }
    let name = "vllm:admission_rejections_total";
    page.head(name, "counter", "Calls refused by a queue limit.");
    // The one family without the engine's label.
    let rejected = snapshot.rejected as f64;
    let _written =
        writeln!(page.out, "{name}{{model_name=\"{model}\",reason=\"max_num_queued_reqs\"}} {rejected:?}");
}

fn histograms(page: &mut Page, snapshot: &Snapshot) {
    let c = &snapshot.counters;
    let name = "vllm:time_to_first_token_seconds";
    page.histogram(name, "From arrival to the first token.", &c.ttft, &buckets::TTFT);
    let name = "vllm:inter_token_latency_seconds";
    page.histogram(name, "Between two tokens of a request.", &c.inter_token, &buckets::PER_TOKEN);
    let name = "vllm:request_time_per_output_token_seconds";
    page.histogram(name, "A request's mean time per token.", &c.time_per_output_token, &buckets::PER_TOKEN);
    for (name, help, histogram) in [
        ("e2e_request_latency", "From arrival to the last token.", &c.e2e),
        ("request_queue_time", "From arrival to admission.", &c.queue),
        ("request_prefill_time", "From admission to the first token.", &c.prefill),
        ("request_decode_time", "From the first token to the last.", &c.decode),
        ("request_inference_time", "From admission to the last token.", &c.inference),
    ] {
        page.histogram(&format!("vllm:{name}_seconds"), help, histogram, &buckets::REQUEST);
    }
    for (name, histogram) in [
        ("vllm:request_prompt_tokens", &c.request_prompt_tokens),
        ("vllm:request_generation_tokens", &c.request_generation_tokens),
    ] {
        page.histogram(name, "Tokens of finished requests.", histogram, &buckets::REQUEST_TOKENS);
    }
    let name = "vllm:iteration_tokens_total";
    page.histogram(name, "Tokens in a step.", &c.iteration_tokens, &buckets::ITERATION_TOKENS);
}

fn engine_time(page: &mut Page, snapshot: &Snapshot) {
    let c = &snapshot.counters;
    for (name, help, value) in [
        ("steps", "Engine steps.", c.steps as f64),
        ("busy_seconds", "Simulated seconds spent in steps.", c.busy_seconds),
        ("prefill_seconds", "Simulated seconds of them spent on prefill.", c.prefill_seconds),
        (
            "recompute_seconds",
            "Simulated seconds of them spent on prefill tokens that this engine had computed before.",
            c.recompute_seconds,
        ),
        ("computed_tokens", "Tokens computed.", c.computed_tokens as f64),
        ("recomputed_tokens", "Prefill tokens that had been computed before.", c.recomputed_tokens as f64),
        ("aborted", "Requests aborted.", c.aborted as f64),
    ] {
        page.one(&format!("warmroute_sim:{name}_total"), "counter", help, value);
    }
    page.one("warmroute_sim:now_seconds", "gauge", "Simulated seconds since the start.", snapshot.now);
    let help = "Simulated seconds the process was behind its engine at worst.";
    page.one("warmroute_sim:peak_lag_seconds", "gauge", help, snapshot.peak_lag);
}

fn cache_config(page: &mut Page, config: &EngineConfig) {
    let name = "vllm:cache_config_info";
    page.head(name, "gauge", "Information of the LLMEngine CacheConfig");
    let (size, blocks) = (config.block_size, config.num_blocks);
    let tokens = u64::from(size) * u64::from(blocks);
    let _written = writeln!(
        page.out,
        "{name}{{block_size=\"{size}\",cache_dtype=\"auto\",enable_prefix_caching=\"True\",engine=\"0\",\
         kv_cache_size_tokens=\"{tokens}\",num_gpu_blocks=\"{blocks}\",\
         prefix_caching_hash_algo=\"sha256\"}} 1.0"
    );
}
