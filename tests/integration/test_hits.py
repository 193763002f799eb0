"""A simulated worker without events, whose replies nobody reads: its counters say that its cache is gone."""

import json

from tests.integration.test_commands import sim_worker
from tests.support.http import request
from warmroute.config import WorkerOptions
from warmroute.fleet import WorkerClient
from warmroute.fleet.gauges import read_gauges
from warmroute.native import Router

BLOCK = 16
BLOCKS = 20


async def serve(router: Router, port: int, prompt: int) -> None:
    ids = [100 + (prompt * 7 + place) % 5000 for place in range(BLOCK * BLOCKS + 1)]
    lease = router.route(ids)
    body = {"model": "sim", "prompt": ids, "max_tokens": 1}
    assert (await request(port, "/v1/completions", json.dumps(body).encode())).status == 200
    lease.first_token()
    lease.close()


async def read(router: Router, client: WorkerClient, worker: WorkerOptions) -> None:
    """One look at the worker's metrics."""
    gauges = read_gauges(await client.metrics(worker), None)
    assert gauges is not None
    assert gauges.queries is not None
    assert gauges.hits is not None
    assert router.wants_hits("w")
    router.observe_hits("w", gauges.queries, gauges.hits)


def predicted(router: Router) -> int:
    (worker,) = router.stats()["workers"]
    return int(worker["predicted_blocks"])


async def test_a_cache_that_was_reset_is_noticed_by_the_workers_counters() -> None:
    async with (
        sim_worker("--speed", "100", "--block-size", str(BLOCK)) as (port, _),
        WorkerClient(5) as client,
    ):
        router = Router(block_size=BLOCK)
        router.add_worker("w", url=f"http://127.0.0.1:{port}", kv_blocks=1000)
        worker = WorkerOptions(url=f"http://127.0.0.1:{port}", name="w")
        for prompt in range(20):
            await serve(router, port, prompt)
        await read(router, client, worker)
        for prompt in range(12):
            await serve(router, port, prompt)
        await read(router, client, worker)
        assert predicted(router) == 20 * BLOCKS, "what is found is as expected"

        assert (await request(port, "/reset_prefix_cache", b"")).status == 200
        for prompt in range(12):
            await serve(router, port, prompt)
        await read(router, client, worker)
        assert predicted(router) == 12 * BLOCKS, "what was not used since is gone"
        assert router.stats()["workers"][0]["lost_tokens"]["evicted"] > 0
