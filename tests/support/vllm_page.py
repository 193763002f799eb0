"""A `/metrics` page in the shape and of the size of vLLM's: which names, labels and histograms there are."""

from __future__ import annotations

from collections.abc import Iterator

GAUGES = ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "engine_sleep_state")
COUNTERS = (
    "num_preemptions",
    "prompt_tokens",
    "generation_tokens",
    "prefix_cache_queries",
    "prefix_cache_hits",
)
HISTOGRAMS = (
    "request_prompt_tokens request_generation_tokens iteration_tokens_total request_max_num_generation_tokens"
    " request_params_n request_params_max_tokens time_to_first_token_seconds inter_token_latency_seconds "
    "request_time_per_output_token_seconds e2e_request_latency_seconds request_queue_time_seconds "
    "request_inference_time_seconds request_prefill_time_seconds request_decode_time_seconds "
    "request_prefill_kv_computed_tokens request_num_preemptions"
).split()
BOUNDS = [mantissa * 10.0**exponent for exponent in range(-3, 6) for mantissa in (1, 2, 5)]


def page(
    *,
    running: int = 0,
    waiting: int = 0,
    usage: float = 0.0,
    steps: int = 0,
    started: float = 1.79e9,
    model: str = "llama",
    engines: int = 1,
    blocks: int = 1000,
) -> bytes:
    """The page; every engine says the same."""
    values = {"num_requests_running": running, "num_requests_waiting": waiting, "kv_cache_usage_perc": usage}
    lines = [
        "# HELP python_info Python platform information",
        "# TYPE python_info gauge",
        'python_info{major="3"} 1.0',
    ]
    lines += ["# TYPE process_start_time_seconds gauge", f"process_start_time_seconds {started!r}"]
    labels = [f'engine="{engine}",model_name="{model}"' for engine in range(engines)]
    for name in GAUGES:
        lines += _metric(name, "gauge", [(name, each, values.get(name, 0)) for each in labels])
    lines += _metric(
        "num_requests_waiting_by_reason",
        "gauge",
        [("num_requests_waiting_by_reason", f'{each},reason="capacity"', waiting) for each in labels],
    )
    for name in COUNTERS:
        lines += _metric(name, "counter", [(f"{name}_total", each, steps * 100) for each in labels])
        lines += _metric(f"{name}_created", "gauge", [(f"{name}_created", each, started) for each in labels])
    for name in HISTOGRAMS:
        lines += _histogram(name, labels, steps)
    config = f'block_size="16",enable_prefix_caching="True",num_gpu_blocks="{blocks}"'
    lines += _metric(
        "cache_config_info",
        "gauge",
        [("cache_config_info", f'{config},engine="{n}"', 1) for n in range(engines)],
    )
    return ("\n".join(lines) + "\n").encode()


def _metric(name: str, kind: str, samples: list[tuple[str, str, float]]) -> Iterator[str]:
    yield f"# HELP vllm:{name} What {name.replace('_', ' ')} says of an engine, in a usual sentence."
    yield f"# TYPE vllm:{name} {kind}"
    yield from (f"vllm:{sample}{{{labels}}} {float(value)!r}" for sample, labels, value in samples)


def _histogram(name: str, labels: list[str], count: int) -> Iterator[str]:
    samples: list[tuple[str, str, float]] = []
    for each in labels:
        engine, _, model = each.partition(",")
        samples += [
            (f"{name}_bucket", f'{engine},le="{bound}",{model}', count) for bound in (*BOUNDS, "+Inf")
        ]
        samples += [(f"{name}_count", each, count), (f"{name}_sum", each, count * 3)]
    yield from _metric(name, "histogram", samples)
    yield from _metric(f"{name}_created", "gauge", [(f"{name}_created", each, 1.0) for each in labels])
