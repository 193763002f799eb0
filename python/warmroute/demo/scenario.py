"""What is played: agents with long system prompts, and clients that talk to them without pause."""

import json
import random
from dataclasses import dataclass

AREAS = ("finance", "compliance", "sql", "code", "support", "legal", "research", "operations")
VERBS = ("get", "list", "create", "update", "archive", "approve", "compare", "export", "validate", "schedule")
NOUNS = tuple(
    "account invoice policy statement contract report ledger query table branch release ticket customer "
    "risk limit portfolio audit clause budget forecast".split()
)
WORDS = tuple(
    "the a of to for with from and or in on by when which this that value name date amount status number "
    "list result user request response time source target field record order default optional required "
    "returned given set only all each last first between before after current new old error code currency "
    "period owner change check state type unit region group level page".split()
)
TYPES = ("string", "integer", "number", "boolean")


@dataclass(frozen=True, slots=True)
class Scenario:
    """The shape of the play; tokens are approximate, since texts are cut by characters."""

    seed: int = 1
    workers: int = 4
    agents: int = 24
    clients: int = 100
    system_tokens: int = 30_000
    user_tokens: tuple[int, int] = (200, 1_500)
    output_tokens: int = 120


def sentence(generator: random.Random, words: int) -> str:
    """Some words, as a description has them."""
    return " ".join(generator.choices(WORDS, k=words))


def schema(generator: random.Random, area: str) -> str:
    """A tool as agents describe it to a model: one line of JSON."""
    name = f"{generator.choice(VERBS)}_{area}_{generator.choice(NOUNS)}_{generator.randrange(100)}"
    properties = {
        f"{generator.choice(NOUNS)}_{generator.choice(WORDS)}": {
            "type": generator.choice(TYPES),
            "description": sentence(generator, generator.randint(8, 24)),
        }
        for _ in range(generator.randint(3, 8))
    }
    function = {
        "name": name,
        "description": sentence(generator, generator.randint(15, 50)),
        "parameters": {"type": "object", "properties": properties, "required": list(properties)[:2]},
    }
    return json.dumps({"type": "function", "function": function})


def system_prompt(seed: int, agent: int, characters: int) -> str:
    """The system prompt of an agent: who it is, then its tools, cut at a length."""
    generator = random.Random(f"{seed}/agent/{agent}")
    area = AREAS[agent % len(AREAS)]
    parts = [f"You are agent {agent}, the {area} assistant. Use these tools:\n"]
    length = len(parts[0])
    while length < characters:
        parts.append(schema(generator, area) + "\n")
        length += len(parts[-1])
    return "".join(parts)[:characters]


class Bodies:
    """Request bodies as bytes. The part of an agent is made once; a turn adds what the user says."""

    def __init__(self, scenario: Scenario, model: str, characters_per_token: float) -> None:
        """Take the scenario, the model's name, and how long a token is on average."""
        self._scenario = scenario
        self._ratio = characters_per_token
        characters = int(scenario.system_tokens * characters_per_token)
        self._heads = [
            self._head(model, system_prompt(scenario.seed, agent, characters))
            for agent in range(scenario.agents)
        ]
        self._tail = (
            f'"}}],"max_tokens":{scenario.output_tokens},"stream":true,'
            '"stream_options":{"include_usage":true}}'
        ).encode()

    @staticmethod
    def _head(model: str, system: str) -> bytes:
        messages = f'[{{"role":"system","content":{json.dumps(system)}}},{{"role":"user","content":"'
        return f'{{"model":{json.dumps(model)},"messages":{messages}'.encode()

    def turn(self, generator: random.Random) -> tuple[bytes, bytes]:
        """One request in two pieces: an agent drawn at random, and a user turn that was never said before."""
        head = self._heads[generator.randrange(len(self._heads))]
        tokens = generator.randint(*self._scenario.user_tokens)
        characters = int(tokens * self._ratio)
        said = f"{generator.getrandbits(64):016x} " + sentence(generator, characters // 4)
        return head, said[:characters].encode() + self._tail
