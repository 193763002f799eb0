"""Many agents of one program over one stream: decisions and reports are pipelined, and end with the stream.

python examples/python/agents.py 127.0.0.1:50051 --model llama
"""

import argparse
import asyncio
from array import array
from collections import Counter

from warmroute.client import AsyncClient, AsyncStream

TURNS = 3


async def agent(stream: AsyncStream, number: int, model: str) -> list[str]:
    """One agent: its turns share a prefix, so they go to one worker."""
    tokens = array("I", (number * 1_000 + index % 1_000 for index in range(4_000)))
    workers = []
    for turn in range(TURNS):
        tokens.extend(range(turn, turn + 200))
        async with await stream.route(tokens, model=model, tenant=f"agent-{number}") as reservation:
            # ... send the request to `reservation.url`, and report its first token:
            await reservation.first_token()
            workers.append(reservation.worker)
    return workers


async def main() -> None:
    """Run ten agents."""
    parser = argparse.ArgumentParser()
    parser.add_argument("router", help="HOST:PORT of the gRPC endpoint")
    parser.add_argument("--model", default="", help="model; empty for any")
    parser.add_argument("--key", help="API key")
    arguments = parser.parse_args()
    async with AsyncClient(arguments.router, api_key=arguments.key) as client, client.stream() as stream:
        turns = await asyncio.gather(*(agent(stream, number, arguments.model) for number in range(10)))
    for number, workers in enumerate(turns):
        print(f"agent {number}: {' → '.join(workers)}")
    print(Counter(worker for workers in turns for worker in workers))


if __name__ == "__main__":
    asyncio.run(main())
