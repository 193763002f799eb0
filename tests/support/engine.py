"""Real vLLM workers on the CPU, from a kit: a folder with `install.sh`, `make_tiny_model.py` and `start.sh`.

`ENGINE_KIT` names the folder; without it `../shared/engine` beside the checkout is taken if it is
there. The engine is installed once into `.engine/` of the checkout, unless `ENGINE_VENV` names a
virtual environment that has one.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.process import free_port

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".engine"
MODEL_NAME = "tiny"
BLOCK_TOKENS = 32
START_SECONDS = 240
END_SECONDS = 20.0


def kit() -> Path | None:
    """The engine kit, or `None` where there is none."""
    folder = Path(os.environ.get("ENGINE_KIT") or ROOT.parent / "shared" / "engine")
    parts = ("install.sh", "make_tiny_model.py", "start.sh")
    return folder if all((folder / part).is_file() for part in parts) else None


def absence() -> str:
    """Why there is no engine, in words for whoever reads the test's result."""
    where = os.environ.get("ENGINE_KIT") or str(ROOT.parent / "shared" / "engine")
    return f"no engine kit in {where}: set ENGINE_KIT to a folder with install.sh and start.sh"


def venv(kit_folder: Path) -> Path:
    """A virtual environment with the engine; makes it where there is none, which takes about two minutes."""
    given = os.environ.get("ENGINE_VENV")
    if given:
        return Path(given)
    folder, done = CACHE / "venv", CACHE / "venv.installed"
    if not done.exists():
        CACHE.mkdir(exist_ok=True)
        _run(["bash", str(kit_folder / "install.sh")], {"VENV": str(folder)})
        done.touch()
    return folder


def slow_model(kit_folder: Path, engine_venv: Path) -> Path:
    """A model without weights whose prefill of 4k tokens takes about 1.5 s on one core."""
    return made_model(kit_folder, engine_venv, "slow")


def made_model(kit_folder: Path, engine_venv: Path, size: str) -> Path:
    """A model without weights of one of the kit's sizes: `slow`, or `tiny`, whose prefill is almost free."""
    folder = CACHE / "models" / size
    if not (folder / "tokenizer_config.json").exists():
        make = [str(engine_venv / "bin/python"), str(kit_folder / "make_tiny_model.py"), str(folder)]
        _run([*make, "--size", size, "--tokenizer", "bpe"], {})
    return folder


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=900
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")


@dataclass
class Engine:
    """One vLLM worker: `start` begins, `wait` ends when it serves, `stop` ends its whole process group."""

    kit: Path
    venv: Path
    model: Path
    port: int
    blocks: int = 512
    flags: tuple[str, ...] = ()
    replay_port: int = field(default_factory=free_port)
    _starter: subprocess.Popen[str] | None = None

    @property
    def events_endpoint(self) -> str:
        """Where the worker publishes its KV events."""
        return f"ipc://{self._run_folder}/kv.sock"

    @property
    def replay_endpoint(self) -> str:
        """Where the worker replays them."""
        return f"tcp://127.0.0.1:{self.replay_port}"

    @property
    def url(self) -> str:
        """Where the worker listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def _run_folder(self) -> Path:
        return CACHE / "run" / str(self.port)

    def start(self) -> None:
        """Begins the start."""
        self._run_folder.mkdir(parents=True, exist_ok=True)
        self._pid_file.unlink(missing_ok=True)
        settings = {
            "VENV": self.venv,
            "NAME": MODEL_NAME,
            "BLOCK": BLOCK_TOKENS,
            "BLOCKS": self.blocks,
            "RUN": self._run_folder,
            "EVENTS": self.events_endpoint,
            "REPLAY": self.replay_endpoint,
            "WAIT": START_SECONDS,
        }
        self._starter = subprocess.Popen(
            ["bash", str(self.kit / "start.sh"), str(self.model), str(self.port), *self.flags],
            env=os.environ | {key: str(value) for key, value in settings.items()},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait(self) -> None:
        """Waits until the worker is healthy."""
        assert self._starter is not None
        said, _ = self._starter.communicate(timeout=START_SECONDS + 30)
        if self._starter.returncode != 0 or not re.search(r"^READY \d+ \d+$", said, re.MULTILINE):
            raise RuntimeError(f"the engine did not start: {said}\n{self.log_text()[-4000:]}")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """Ends the worker and all its processes, by the id of the group that `start.sh` made."""
        if self._starter is not None:
            self._starter.kill()
            self._starter.communicate()
        if not self._pid_file.exists():
            return
        group = int(self._pid_file.read_text())
        for chosen in (how, signal.SIGKILL):
            try:
                os.killpg(group, chosen)
            except ProcessLookupError:
                break
            if _ends(group):
                break
        self._pid_file.unlink()

    def kill(self) -> None:
        """Ends the worker at once, whatever it does."""
        self.stop(signal.SIGKILL)

    def log_text(self) -> str:
        """What the worker has written."""
        log = self._run_folder / f"vllm-{self.port}.log"
        return log.read_text(errors="replace") if log.exists() else ""

    @property
    def _pid_file(self) -> Path:
        return self._run_folder / f"vllm-{self.port}.pid"


def _ends(group: int) -> bool:
    """Waits until no process of the group lives; false when some still do."""
    deadline = time.monotonic() + END_SECONDS
    while time.monotonic() < deadline:
        if not _members(group):
            return True
        time.sleep(0.05)
    return False


def _members(group: int) -> list[int]:
    members = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, its_group = stat.read_text().rsplit(")", 1)[1].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(its_group) == group and state != "Z":
            members.append(int(stat.parent.name))
    return members
