import json
import random

import pytest

from warmroute.demo.scenario import Bodies, Scenario, system_prompt

SCENARIO = Scenario(agents=3, system_tokens=500, user_tokens=(20, 50), output_tokens=7)


def body(bodies: Bodies, generator: random.Random) -> dict[str, object]:
    document: dict[str, object] = json.loads(b"".join(bodies.turn(generator)))
    return document


def test_a_turn_is_a_streamed_chat_completion() -> None:
    turn = body(Bodies(SCENARIO, "sim", 4.0), random.Random(1))
    assert turn["model"] == "sim"
    assert turn["max_tokens"] == 7
    assert turn["stream_options"] == {"include_usage": True}
    messages = turn["messages"]
    assert isinstance(messages, list)
    assert [message["role"] for message in messages] == ["system", "user"]
    assert len(messages[0]["content"]) == 500 * 4
    assert 20 * 4 <= len(messages[1]["content"]) <= 50 * 4


def test_one_seed_gives_one_play() -> None:
    first, second = (Bodies(SCENARIO, "sim", 4.0) for _ in range(2))
    assert [first.turn(random.Random(5)) for _ in range(3)] == [
        second.turn(random.Random(5)) for _ in range(3)
    ]
    assert system_prompt(1, 0, 2_000) != system_prompt(2, 0, 2_000)


def test_agents_share_no_more_than_their_first_words() -> None:
    prompts = [system_prompt(1, agent, 5_000) for agent in range(24)]
    assert len({prompt[:120] for prompt in prompts}) == 24


def test_user_turns_differ_and_agents_recur() -> None:
    bodies, generator = Bodies(SCENARIO, "sim", 4.0), random.Random(1)
    turns = [bodies.turn(generator) for _ in range(50)]
    assert len({said for _, said in turns}) == 50
    assert len({head for head, _ in turns}) == SCENARIO.agents


@pytest.mark.parametrize("ratio", [0.5, 3.3, 6.0])
def test_texts_are_as_long_as_their_tokens_are(ratio: float) -> None:
    head, _ = Bodies(SCENARIO, "sim", ratio).turn(random.Random(1))
    assert len(head) >= int(500 * ratio)
