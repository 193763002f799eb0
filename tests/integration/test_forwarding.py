"""What goes through the router is what was sent, in both directions."""

from __future__ import annotations

import gzip
import json

import pytest

from tests.integration.conftest import StartRouter
from tests.support.bodies import chat, completion
from tests.support.fake_worker import Exchange, FakeWorker, error, reply
from tests.support.http import Client, request
from tests.support.process import Router

CHAT = "/v1/chat/completions"
JSON = [("content-type", "application/json")]

BODIES = {
    "float": b'{"model":"tiny","temperature":0.30000000000000004,"messages":[{"role":"user","content":"a"}]}',
    "exponents": b'{"model":"tiny","top_p":1E-1,"seed":12345678901234567890123,"messages":[]}',
    "key order and space": b'{ "messages" :[ ] ,\r\n\t"z":1,"a" : 2, "model":"tiny" }\n\n',
    "unknown fields": b'{"model":"tiny","messages":[],"cache_salt":"s","vllm_xargs":{"x":[]},"new":-0.0}',
    "duplicate keys": b'{"model":"tiny","messages":[],"top_p":0.1,"top_p":0.9,"messages":[]}',
    "escapes": rb'{"model":"tiny","messages":[{"role":"user","content":"\u00e9\/\ud83d\ude00\t\u0000"}]}',
    "utf-8": '{"model":"tiny","messages":[{"role":"user","content":"é 😀 \u2028"}]}'.encode(),
    "deep": b'{"model":"tiny","messages":[],"x":' + b"[" * 100 + b"]" * 100 + b"}",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
async def test_worker_gets_the_bytes_of_the_client(worker: FakeWorker, router: Router, body: bytes) -> None:
    answer = await request(router.port, CHAT, body, headers=JSON)
    assert answer.status == 200, answer.body
    assert (await worker.exchange()).request.body == body


async def test_a_30_mb_body_arrives_unchanged(worker: FakeWorker, router: Router) -> None:
    text = "".join(f"row {number}: é\n" for number in range(2_200_000))
    body = json.dumps(chat(text), ensure_ascii=False).encode()
    assert len(body) > 30_000_000
    assert (await request(router.port, CHAT, body, headers=JSON)).status == 200
    assert (await worker.exchange()).request.body == body


async def test_a_chunked_body_arrives_whole(worker: FakeWorker, router: Router) -> None:
    body = json.dumps(chat("x" * 1000)).encode()
    async with await Client.connect(router.port) as client:
        await client.send(CHAT, headers=[*JSON, ("transfer-encoding", "chunked")])
        for start in range(0, len(body), 100):
            piece = body[start : start + 100]
            client.writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        client.writer.write(b"0\r\n\r\n")
        assert (await client.read_head()).status == 200
    assert (await worker.exchange()).request.body == body


async def test_a_client_that_asks_before_it_sends_the_body_is_told_to(
    worker: FakeWorker, router: Router
) -> None:
    body = json.dumps(chat()).encode()
    async with await Client.connect(router.port) as client:
        length = ("content-length", str(len(body)))
        await client.send(CHAT, headers=[*JSON, length, ("expect", "100-continue")])
        assert (await client.read_head()).status == 100
        client.writer.write(body)
        assert (await client.read_head()).status == 200
    assert (await worker.exchange()).request.body == body


async def test_end_to_end_headers_arrive_and_hop_by_hop_headers_do_not(
    worker: FakeWorker, router: Router
) -> None:
    kept = [
        ("Authorization", "Bearer sk-secret"),
        ("X-Request-Id", "r-1"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("X-Twice", "one"),
        ("X-Twice", "two"),
        ("Accept-Encoding", "gzip, br"),
        ("User-Agent", "test/1.0"),
        ("X-Stainless-Retry-Count", "0"),
    ]
    dropped = [
        ("Connection", "keep-alive, X-Named"),
        ("Keep-Alive", "timeout=5"),
        ("X-Named", "for the next hop only"),
        ("Proxy-Connection", "keep-alive"),
        ("Proxy-Authorization", "Basic secret"),
        ("TE", "trailers"),
        ("Upgrade", "h2c"),
    ]
    assert (await request(router.port, CHAT, chat(), headers=[*kept, *dropped])).status == 200
    seen = (await worker.exchange()).request
    for name in {name for name, _ in kept}:
        assert seen.all(name) == [value for key, value in kept if key == name]
    assert {name: seen.all(name) for name, _ in dropped if seen.all(name) and name != "Connection"} == {}
    assert "X-Named" not in (seen.get("connection") or "")
    assert seen.get("content-type") == "application/json"


async def test_the_reply_comes_back_unchanged(worker: FakeWorker, router: Router) -> None:
    body = gzip.compress(b'{"odd": 0.30000000000000004}')
    headers = [
        ("Content-Type", "application/json"),
        ("Content-Encoding", "gzip"),
        ("X-Request-Id", "r-1"),
        ("Set-Cookie", "a=1"),
        ("Set-Cookie", "b=2"),
        ("Connection", "X-Hop"),
        ("X-Hop", "for the router only"),
        ("Keep-Alive", "timeout=5"),
    ]
    worker.then(reply(body, 418, headers))
    answer = await request(router.port, CHAT, chat(), headers=[("x-request-id", "r-1")])
    assert (answer.status, answer.body) == (418, body)
    assert answer.get("content-encoding") == "gzip"
    assert answer.get("x-request-id") == "r-1"
    assert answer.all("set-cookie") == ["a=1", "b=2"]
    assert answer.get("x-hop") is None
    assert answer.get("keep-alive") is None


async def test_a_workers_error_comes_back_unchanged(worker: FakeWorker, router: Router) -> None:
    for status in (400, 401, 404, 413, 422, 429, 500):
        worker.then(error(status, [("retry-after", "7")]))
        answer = await request(router.port, CHAT, chat())
        assert answer.status == status
        assert answer.json()["error"]["message"] == f"scripted {status}"
        assert answer.get("retry-after") == "7"
    assert len(worker.exchanges) == 7  # none of these is tried again


async def test_the_path_and_query_arrive_as_sent(worker: FakeWorker, router: Router) -> None:
    path = "/v1/chat/completions?api-version=2&x=%20%2F&empty="
    assert (await request(router.port, path, chat())).status == 200
    assert (await worker.exchange()).path == path


@pytest.mark.parametrize("path", ["/v1/completions", "/v1/responses", "/v1/messages", "/v1/embeddings"])
async def test_other_paths_are_forwarded(worker: FakeWorker, router: Router, path: str) -> None:
    worker.then(reply({"path": path}))
    body = json.dumps({"model": "tiny", "prompt": "a", "input": "a", "messages": []}).encode()
    answer = await request(router.port, path, body, headers=JSON)
    assert (answer.status, answer.json()) == (200, {"path": path})
    assert (await worker.exchange()).request.body == body


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_other_methods_are_forwarded(worker: FakeWorker, router: Router, method: str) -> None:
    worker.then(reply({"done": True}))
    answer = await request(router.port, "/v1/responses/resp_1", method=method)
    assert (answer.status, answer.json()) == (200, {"done": True})
    assert (await worker.exchange()).request.start[0] == method


async def test_a_reply_without_a_body_ends(worker: FakeWorker, router: Router) -> None:
    async def no_content(exchange: Exchange) -> None:
        await exchange.head(204)

    worker.then(no_content)
    async with await Client.connect(router.port) as client:
        await client.send("/v1/responses/resp_1", method="DELETE")
        assert (await client.read_head()).status == 204
        await client.send(CHAT, chat())
        assert (await client.read_head()).status == 200


async def test_a_bodyless_request_reaches_the_worker_without_one(worker: FakeWorker, router: Router) -> None:
    worker.then(reply({}))
    assert (await request(router.port, "/v1/files", method="GET")).status == 200
    seen = (await worker.exchange()).request
    assert seen.get("transfer-encoding") is None
    assert seen.get("content-length") in (None, "0")


async def test_connections_are_kept_on_both_sides(worker: FakeWorker, router: Router) -> None:
    async with await Client.connect(router.port) as client:
        for _ in range(5):
            await client.send(CHAT, chat())
            assert (await client.read_head()).status == 200
            await client.read_rest()
    assert len({exchange.connection for exchange in worker.exchanges}) == 1


async def test_a_connection_that_the_worker_closed_while_idle_costs_no_request(
    worker: FakeWorker, router: Router
) -> None:
    async def then_close(exchange: Exchange) -> None:
        exchange.keep_alive = False
        await reply({"ok": True})(exchange)

    worker.always(then_close)
    for _ in range(20):
        assert (await request(router.port, CHAT, chat())).status == 200
    assert len(worker.exchanges) == 20


async def test_models_are_the_fleets_union_and_requests_follow_the_model(start_router: StartRouter) -> None:
    fleet = [FakeWorker("tiny"), FakeWorker("other"), FakeWorker("tiny")]
    async with fleet[0], fleet[1], fleet[2], start_router(*fleet) as router:
        await router.sees_ready(3)
        listed = (await router.get("/v1/models")).json()
        assert listed["object"] == "list"
        assert sorted(card["id"] for card in listed["data"]) == ["other", "tiny"]
        for _ in range(6):
            assert (await request(router.port, CHAT, chat(model="other"))).status == 200
    assert [len(worker.exchanges) for worker in fleet] == [0, 6, 0]


async def test_headers_name_the_worker_and_the_overlap(pair: list[FakeWorker], pair_router: Router) -> None:
    ids = list(range(1000, 3000))
    seen = [await request(pair_router.port, "/v1/completions", completion(ids)) for _ in range(4)]
    assert [answer.status for answer in seen] == [200] * 4
    names = {answer.get("x-warmroute-worker") for answer in seen}
    assert len(names) == 1
    assert names != {None}
    overlaps = [int(answer.get("x-warmroute-overlap-tokens") or -1) for answer in seen]
    assert overlaps[0] == 0
    assert all(1900 <= overlap <= 2000 for overlap in overlaps[1:]), overlaps
    assert sorted(len(worker.exchanges) for worker in pair) == [0, 4]


async def test_nothing_secret_is_logged_or_counted(worker: FakeWorker, router: Router) -> None:
    secret = [("authorization", "Bearer sk-topsecret"), ("x-api-key", "topsecret-key")]
    worker.then(error(500))
    for body in (chat("topsecret prompt"), chat("topsecret", user="topsecret-user")):
        await request(router.port, CHAT + "?key=topsecret-query", body, headers=secret)
    await request(router.port, CHAT, b'{"topsecret', headers=[*JSON, *secret])
    metrics = (await router.get("/metrics")).body.decode()
    assert "topsecret" not in metrics
    assert "topsecret" not in router.log_text()
