"""Write what a real vLLM makes of request bodies, for the Rust tests to compare with.

    python -m tests.support.golden_prompts [--model DIR --out FILE]

Needs vLLM (the committed files: 0.32.0 with transformers 5.19.0). Every body goes through vLLM's own
validation, normalisation, template and tokenizer; what vLLM refuses is written as refused.

Without arguments: the package's tokenizer, with its own template and with each of `templates/`, into
`rust/prompt/tests/golden/`. With `--model`: the tokenizer and template of any model folder.
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
from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
from vllm.entrypoints.openai.completion.protocol import CompletionRequest
from vllm.renderers.online_renderer import OnlineRenderer
from vllm.renderers.registry import renderer_from_config

from tests.support.prompt_bodies import BODIES

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


def golden(renderer: OnlineRenderer) -> list[dict[str, Any]]:
    cases = []
    for name, endpoint, raw in BODIES:
        case: dict[str, Any] = {"name": name, "endpoint": endpoint, "body": raw}
        try:
            prompt = asyncio.run((chat if endpoint == "chat" else completion)(renderer, json.loads(raw)))
            case |= {"text": prompt.get("prompt"), "ids": list(prompt["prompt_token_ids"])}
        except Exception as error:
            case["refused"] = f"{type(error).__name__}: {error}"[:120]
        cases.append(case)
    return cases


def write(path: pathlib.Path, cases: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    path.write_text(f"[\n{lines}\n]\n")
    refused = [f"{case['name']} ({case['refused']})" for case in cases if "refused" in case]
    sys.stdout.write(f"{path}: {len(cases)} cases, refused: {refused}\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.model:
        write(arguments.out, golden(renderer_of(arguments.model, None)))
        return
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(TOKENIZER, folder, dirs_exist_ok=True)
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(MODEL))
        for template in [None, *sorted(TEMPLATES.glob("*.jinja"))]:
            name = template.stem if template else "package"
            source = template.read_text() if template else None
            write(GOLDEN / f"{name}.json", golden(renderer_of(pathlib.Path(folder), source)))


if __name__ == "__main__":
    main()
