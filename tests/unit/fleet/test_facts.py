import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmroute.fleet.facts import MODELS_LIMIT, Model, Tokens, read_metrics, read_models, read_tokens

PAGE = """# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
# TYPE vllm:cache_config_info gauge
process_start_time_seconds 1.79602709789e+09
vllm:cache_config_info{block_size="32",enable_prefix_caching="True",layout="\\"}",num_gpu_blocks="512"} 1.0
vllm:cache_config_info{block_size="32",enable_prefix_caching="False",engine="1",num_gpu_blocks="700"} 1.0
"""


def test_models_are_read() -> None:
    text = json.dumps(
        {
            "object": "list",
            "data": [
                {"id": "llama", "created": 5, "owned_by": "vllm", "max_model_len": 8192, "root": "x"},
                {"id": "adapter", "max_model_len": None},
            ],
        }
    )
    assert read_models(text) == (Model("llama", 5, "vllm", 8192, "x"), Model("adapter"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"data": {}}',
        '{"data": []}',
        '{"data": [1]}',
        '{"data": [{"id": ""}]}',
        '{"data": [{"id": 3}]}',
    ],
)
def test_what_is_not_a_list_of_models_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the JSON reader's own error is one too
        read_models(text)


def test_the_number_of_models_is_bounded() -> None:
    text = json.dumps({"data": [{"id": f"m{n}"} for n in range(MODELS_LIMIT + 5)]})
    assert len(read_models(text)) == MODELS_LIMIT


def test_the_cache_of_the_asked_rank_is_read_without_its_null_block() -> None:
    first, second = read_metrics(PAGE, (), None), read_metrics(PAGE, (), 1)
    assert (first.block_size, first.kv_blocks, first.prefix_caching) == (32, 511, True)
    assert (second.kv_blocks, second.prefix_caching) == (699, False)
    assert first.started == 1.79602709789e9


@pytest.mark.parametrize(
    "page",
    [
        "",
        "vllm:cache_config_info{} 1",
        'vllm:cache_config_info{block_size="None",num_gpu_blocks="-3"} 1',
        'vllm:cache_config_info{block_size="9999999999999999999999",num_gpu_blocks="1"} 1',
        "process_start_time_seconds soon",
    ],
)
def test_a_page_that_does_not_say_gives_nothing(page: str) -> None:
    facts = read_metrics(page, (), None)
    assert (facts.block_size, facts.kv_blocks, facts.prefix_caching, facts.started) == (
        None,
        None,
        None,
        None,
    )


def test_tokens_are_read() -> None:
    text = '{"count": 2, "max_model_len": 100, "tokens": [1, 4294967295], "token_strs": null}'
    assert read_tokens(text) == Tokens([1, 2**32 - 1], 100)
    assert read_tokens('{"tokens": []}') == Tokens([])


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"tokens": 1}', '{"tokens": [-1]}', '{"tokens": [1.5]}', '{"tokens": [true]}']
)
def test_what_is_no_list_of_tokens_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the JSON reader's own error is one too
        read_tokens(text)


@given(st.text())
def test_no_text_breaks_the_readers(text: str) -> None:
    read_metrics(text, (), 0)
    read_metrics("vllm:cache_config_info{" + text + "} 1", (), 0)
    with contextlib.suppress(ValueError):
        read_models(text)
    with contextlib.suppress(ValueError):
        read_tokens(text)
