"""The command line of warmroute."""

import os
import sys
from collections.abc import Sequence

from warmroute.cli import commands
from warmroute.cli.parser import Parser
from warmroute.errors import ConfigError, WarmrouteError

DESCRIPTION = "Send each LLM request to the vLLM worker whose KV cache is already warm for its prompt."
FAILED, USAGE = 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status: 0, 1 where it failed, 2 where it was asked for wrongly."""
    parser = Parser(prog="warmroute", description=DESCRIPTION)
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for register in commands.ALL:
        register(subparsers)
    parsed = parser.parse_args(arguments)
    # The data plane has a thread a core: a tokenizer that spreads one prompt over threads of its own, which
    # spin for more, takes the processor from other requests.
    os.environ.setdefault("FASTOKENS_BPE_THREADS", "1")
    try:
        status: int = parsed.run(parsed)
    except ConfigError as error:
        print(f"warmroute: {error}", file=sys.stderr)
        return USAGE
    except (WarmrouteError, OSError) as error:
        print(f"warmroute: {error}", file=sys.stderr)
        return FAILED
    return status
