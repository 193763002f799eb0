"""Write what a real vLLM makes of request bodies, for the Rust tests to compare with.

    python -m tests.support.golden_prompts [--model DIR --out FILE | --templates DIR --out DIR]

Needs vLLM (the committed files: 0.32.0 with transformers 5.19.0). Every body goes through vLLM's own
validation, normalisation, template and tokenizer; what vLLM refuses is written as refused.

Without arguments: the package's tokenizer, with its own template and with each of `templates/`, into
`rust/prompt/tests/golden/`. With `--model`: the tokenizer and template of any model folder. With
`--templates`: the package's tokenizer with each template of a folder, one file a template, without ids.
"""

import argparse
import asyncio
import json
import os
import pathlib
import shutil
import sys
import tempfile
from typing import Any

os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1"}

from vllm.engine.arg_utils import EngineArgs
from vllm.entrypoints.anthropic.protocol import AnthropicMessagesRequest
from vllm.entrypoints.anthropic.serving import AnthropicServingMessages
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.entrypoints.openai.responses.protocol import ResponsesRequest
from vllm.renderers.online_renderer import OnlineRenderer
from vllm.renderers.registry import renderer_from_config

from tests.support import anthropic_bodies, prompt_bodies, response_bodies

BODIES = [*prompt_bodies.BODIES, *response_bodies.BODIES, *anthropic_bodies.BODIES]
ROOT = pathlib.Path(__file__).parents[2]
TOKENIZER = ROOT / "python" / "warmroute" / "data" / "tokenizer"
TEMPLATES = pathlib.Path(__file__).parent / "templates"
GOLDEN = ROOT / "rust" / "prompt" / "tests" / "golden"

# The smallest model that vLLM takes; none of it matters for prompts.
MODEL = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "max_position_embeddings": 32768,
    "vocab_size": 8064,
}

# Templates of other models put them into the prompt, and fail without them.
NAMED_TOKENS = {"bos_token": "<|endoftext|>", "unk_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}


def renderer_of(model: pathlib.Path, template: str | None) -> OnlineRenderer:
    config = EngineArgs(model=str(model), load_format="dummy", dtype="float32").create_engine_config()
    return OnlineRenderer(
        config.model_config,
        renderer_from_config(config),
        request_logger=None,
        chat_template=template,
        chat_template_content_format="auto",
        enable_auto_tools=True,
    )


async def chat(renderer: OnlineRenderer, body: object) -> Any:
    result = await renderer.render_chat(ChatCompletionRequest.model_validate(body))
    if not isinstance(result, tuple):
        raise ValueError(result.error.message)
    return result[1][0]


async def completion(renderer: OnlineRenderer, body: object) -> Any:
    result = await renderer.render_completion(CompletionRequest.model_validate(body))
    if not isinstance(result, list):
        raise ValueError(result.error.message)
    return result[0]


async def responses(renderer: OnlineRenderer, body: Any) -> Any:
    if body.get("previous_response_id"):
        raise ValueError("the stored conversation is not known")
    result = await renderer.render_responses(ResponsesRequest.model_validate(body))
    if not hasattr(result, "engine_input"):
        raise ValueError(result.error.message)
    return result.engine_input


async def messages(renderer: OnlineRenderer, body: object) -> Any:
    """As the worker's handler does, without an engine behind it."""
    request = AnthropicMessagesRequest.model_validate(body)
    serving = object.__new__(AnthropicServingMessages)
    serving.online_renderer, serving.model_config = renderer, renderer.model_config
    effort = "none"
    if request.thinking is not None and request.thinking.type == "disabled":
        effort = await serving._probe_disabled_thinking_effort()
    chat_request = serving.to_chat_completion_request(
        request,
        merge_inline_system=serving._should_merge_inline_system(renderer),
        disabled_thinking_effort=effort,
    )
    result = await renderer.render_chat(chat_request)
    if not isinstance(result, tuple):
        raise ValueError(result.error.message)
    return result[1][0]


RENDER = {"chat": chat, "completion": completion, "responses": responses, "messages": messages}


def golden(renderer: OnlineRenderer, *, ids: bool = True) -> list[dict[str, Any]]:
    cases = []
    for name, endpoint, raw in BODIES:
        case: dict[str, Any] = {"name": name, "endpoint": endpoint, "body": raw}
        try:
            prompt = asyncio.run(RENDER[endpoint](renderer, json.loads(raw)))
            case |= {"text": prompt.get("prompt")}
            if ids:
                case["ids"] = list(prompt["prompt_token_ids"])
        except Exception as error:
            case["refused"] = f"{type(error).__name__}: {error}"[:120]
        cases.append(case)
    return cases


def templates(renderer: OnlineRenderer, folder: pathlib.Path, out: pathlib.Path) -> None:
    """One renderer serves all: the template is an argument. Its tokenizer stays in `out`."""
    for template in sorted(folder.glob("*.jinja")):
        renderer.chat_template = template.read_text()
        write(out / f"{template.stem}.json", golden(renderer, ids=False))


def write(path: pathlib.Path, cases: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    path.write_text(f"[\n{lines}\n]\n")
    refused = [case["name"] for case in cases if "refused" in case]
    sys.stdout.write(f"{path}: {len(cases)} cases, refused: {len(refused)}\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--templates", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.model:
        write(arguments.out, golden(renderer_of(arguments.model, None)))
        return
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(TOKENIZER, folder, dirs_exist_ok=True)
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(MODEL))
        if arguments.templates:
            tokenizer = arguments.out / "tokenizer"
            shutil.copytree(folder, tokenizer, dirs_exist_ok=True)
            named = json.loads((tokenizer / "tokenizer_config.json").read_text()) | NAMED_TOKENS
            (tokenizer / "tokenizer_config.json").write_text(json.dumps(named))
            templates(renderer_of(tokenizer, None), arguments.templates, arguments.out)
            return
        for template in [None, *sorted(TEMPLATES.glob("*.jinja"))]:
            name = template.stem if template else "package"
            source = template.read_text() if template else None
            write(GOLDEN / f"{name}.json", golden(renderer_of(pathlib.Path(folder), source)))


if __name__ == "__main__":
    main()
