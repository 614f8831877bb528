"""A checkout whose cells wait in their first round for as long as a test holds them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

from forked import Forked
from processes import eventually

SLOW = '''
import json, os, time
from pathlib import Path
from fedgrid.methods.fedavg import FedAvg as Plain
from pace import PAUSE

class Slow(Plain):
    """FedAvg that waits as long as it is held, and notes on which card it was, and when."""

    title = "Slow"

    def round(self, fed, s):
        began, card = time.monotonic(), os.environ.get("CUDA_VISIBLE_DEVICES", "")
        Path(f"began-{os.getpid()}").write_text(card + ".")
        while Path("hold").exists():
            time.sleep(PAUSE)
        Path(f"seen-{os.getpid()}.json").write_text(json.dumps([card, began, time.monotonic()]))
        return super().round(fed, s)
'''


class Held(Forked):
    """A checkout with a method that is held, and a helper of it."""

    def __init__(self, path: Path, study: str, pause: float = 0.02):
        super().__init__(path, study)
        (path / "slow.py").write_text(SLOW)
        (path / "pace.py").write_text(f"PAUSE = {pause}\n")
        (path / "hold").touch()

    def began(self, count: int = 1) -> dict[int, str]:
        """The card of each process of a held cell, once so many have begun."""
        assert eventually(lambda: sum(bool(file.read_text()) for file in self.path.glob("began-*")) >= count, 300)
        files = [file for file in self.path.glob("began-*") if file.read_text()]
        return {int(file.name.removeprefix("began-")): file.read_text()[:-1] for file in files}

    def release(self) -> None:
        (self.path / "hold").unlink(missing_ok=True)

    @contextmanager
    def started(self, *arguments: str) -> Iterator[Popen[Any]]:
        """A run that goes on, released at the latest when a test has failed: nobody else would."""
        with super().started(*arguments) as run:
            try:
                yield run
            finally:
                self.release()
