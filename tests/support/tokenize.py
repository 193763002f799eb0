"""`/tokenize` of a fake worker: with the tokenizer of the package, or another one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.fake_worker import Behaviour, Exchange, reply
from warmroute.native import Prompter
from warmroute.sim import TOKENIZER

Change = Callable[[dict[str, Any], list[int]], list[int]]


def tokenizes(folder: Path = TOKENIZER, change: Change = lambda _, ids: ids) -> Behaviour:
    """Answers with the tokens that the tokenizer of `folder` makes, changed by `change`."""
    prompter = Prompter(str(folder))

    async def behave(exchange: Exchange) -> None:
        asked: dict[str, Any] = json.loads(exchange.request.body)
        path = "/v1/chat/completions" if "messages" in asked else "/v1/completions"
        ids, reason = prompter.local_ids(path, exchange.request.body)
        if ids is None:
            await reply({"error": {"message": reason}}, status=400)(exchange)
            return
        ids = change(asked, ids)
        await reply({"count": len(ids), "max_model_len": 8192, "tokens": ids, "token_strs": None})(exchange)

    return behave


def with_template(folder: Path, old: str, new: str) -> Path:
    """A copy of the package's tokenizer in `folder`, whose chat template has `new` in the place of `old`."""
    folder.mkdir()
    shutil.copy(TOKENIZER / "tokenizer.json", folder)
    config = json.loads((TOKENIZER / "tokenizer_config.json").read_text())
    assert old in config["chat_template"]
    config["chat_template"] = config["chat_template"].replace(old, new)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder
