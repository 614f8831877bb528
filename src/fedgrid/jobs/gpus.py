"""Which GPUs there are, how many cells compute on one at a time, and a slot for each of these cells.

A slot is a lock file, which the operating system frees when its holder ends, however it ends. A card keeps the name
that CUDA reads, but its lock bears the UUID where nvidia-smi tells it, so that runs given ``0`` and ``GPU-8f…`` see
each other. Numbers with MIG, or among several models that CUDA may order in its own way, are not translated.
"""

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from fedgrid.command import output_of
from fedgrid.errors import UserError
from fedgrid.files import lock
from fedgrid.jobs.machine import cores
from fedgrid.settings import Compute

VARIABLE, POLL, PATIENCE = "CUDA_VISIBLE_DEVICES", 0.1, 10.0
"Seconds between looks for a free slot, and at most for nvidia-smi, which may have to wake the cards one by one."
SHARED = ("auto", "cuda")
"Settings of a device that leave the choice of a card to fedgrid."
GPU, MIG = re.compile(r"GPU \d+: (.*) \(UUID: (GPU-[^)]+)\)"), re.compile(r"\s+MIG .*\(UUID: (MIG-[^)]+)\)")
NAME, UNSAFE = re.compile(r"[0-9]+|(GPU|MIG)-.+"), re.compile(r"[^\w.-]")

MIB_OF_A_CELL = 8192
"""Memory for a cell with `auto`: with the two-block CNN and 20 to 200 clients a cell held 1.0 to 4.2 GiB on an H200
(benchmarks/results/nvidia-h200-bench-gpu.md). A cell that has less room trains fewer clients at a time."""
MOST_CELLS = 8
"Cells on a GPU with `auto`; four had 3.2 times the rounds of one there."
MPS, MPS_PIPES = "nvidia-cuda-mps-control", "CUDA_MPS_PIPE_DIRECTORY"


class Gpu(NamedTuple):
    """A GPU as nvidia-smi lists it."""

    model: str
    name: str
    instances: list[str]
    "Names of its MIG instances."


def cards(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Names of the cards that this process may use, each card once; none without a GPU.

    ``CUDA_VISIBLE_DEVICES``, where it is set, counts as for CUDA: names as they are, up to the first that is no card
    (``-1``, nothing, a number too high). Else all that nvidia-smi lists, MIG instances in place of their GPU.
    """
    return list(_by_lock(environment).values())


def gpu_slots(share: int) -> int:
    """How many cells may compute on this machine's cards at once, `share` of them on each."""
    return len(cards()) * share


def cells_on_a_gpu(compute: Compute) -> int:
    """The setting `gpu_share`; `auto` is what the memory of this machine's GPUs and its cores carry, at least 1."""
    if compute.gpu_share != "auto":
        return int(compute.gpu_share)
    beside = cores() // (compute.threads * max(1, len(cards())))
    return max(1, min(MOST_CELLS, beside, memory() // MIB_OF_A_CELL))


def memory() -> int:
    """MiB of the smallest GPU; 0 where nvidia-smi does not tell, as without a GPU."""
    lines = nvidia_smi("--query-gpu=memory.total", "--format=csv,noheader,nounits").split()
    return min(map(int, lines), default=0) if all(map(str.isdigit, lines)) else 0


def side_by_side() -> bool:
    """Whether NVIDIA's MPS runs, which lets kernels of several processes compute at a time; else they take turns."""
    control = Path(os.environ.get(MPS_PIPES, "/tmp/nvidia-mps"), "control")
    try:
        os.close(os.open(control, os.O_WRONLY | os.O_NONBLOCK))  # fails unless a daemon reads
    except OSError:
        return False
    return True


def could_be_side_by_side() -> bool:
    """Whether kernels of several processes take turns here, though NVIDIA's MPS could be started."""
    return shutil.which(MPS) is not None and not side_by_side()


def shortage(device: str, visible: int | None = None) -> str:
    """What the setting `device` needs beyond the `visible` cards (by default those of `cards`); empty: nothing."""
    if not device.startswith("cuda"):
        return ""
    needed = int(device.partition(":")[2] or 0) + 1
    visible = len(cards()) if visible is None else visible
    if needed <= visible:
        return ""
    gpus = f"{needed:,} GPUs" if needed > 1 else "a GPU"
    return f"compute.device: '{device}' needs {gpus}, and {visible or 'none'} can be seen here"


def check_device(device: str) -> None:
    """Raises UserError where this machine lacks the GPU that `device` asks for.

    Where nvidia-smi lists no card at all, torch decides, in a process of its own: it may know cards of other makers.
    """
    if shortage(device) and (problem := shortage(device, len(cards()) or seen_by_torch())):
        raise UserError(f"{problem}; set it to auto or cpu, or run on a machine with enough of them")


@contextmanager
def acquire_gpu(device: str, share: int = 1) -> Iterator[str | None]:
    """Waits for a slot on the least used card, makes it the only one that CUDA sees, and yields its name.

    To be entered before torch starts CUDA. Does nothing, and yields None, without a card and for any `device` but
    `SHARED`: ``cuda:1`` is the user's own choice. A card is given to at most `share` cells, as long as all
    ask with the same `share`. UserError where the locks cannot be kept.
    """
    if share < 1:
        raise UserError(f"a GPU can be shared by 1 cell or more, not by {share}")
    known = _by_lock(os.environ) if device in SHARED else {}
    if not known:
        yield None
        return
    while (taken := _take(list(known), share)) is None:
        time.sleep(POLL)
    name, slot = taken
    before, os.environ[VARIABLE] = os.environ.get(VARIABLE), known[name]
    try:
        yield known[name]
    finally:
        slot.close()
        os.environ.pop(VARIABLE, None)
        os.environ.update({} if before is None else {VARIABLE: before})


def seen_by_torch() -> int:
    """Number of cards that torch can use, asked in a process of its own."""
    command = [sys.executable, "-P", "-c", "import torch; print(torch.cuda.device_count())"]
    run = subprocess.run(command, capture_output=True, text=True)
    return int(run.stdout) if run.returncode == 0 else 0


def _by_lock(environment: Mapping[str, str]) -> dict[str, str]:
    """What `cards` returns, by the names under which the cards are locked."""
    visible = [name.strip() for name in environment[VARIABLE].split(",")] if VARIABLE in environment else None
    if visible and not NAME.fullmatch(visible[0]):
        return {}
    gpus = _listed(environment)
    if visible is None:
        return {name: name for gpu in gpus for name in gpu.instances or [gpu.name]}
    counted = gpus and not any(gpu.instances for gpu in gpus)
    ordered = len({gpu.model for gpu in gpus}) == 1 or environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
    cards_by_name: dict[str, str] = {}
    for name in visible:
        if not NAME.fullmatch(name) or (counted and name.isdigit() and int(name) >= len(gpus)):
            break
        start = gpus[int(name)].name if counted and ordered and name.isdigit() else name
        same = [uuid for gpu in gpus for uuid in (gpu.name, *gpu.instances) if uuid.startswith(start)]
        cards_by_name.setdefault(same[0] if len(same) == 1 else name, name)
    return cards_by_name


def nvidia_smi(*arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """What nvidia-smi prints; empty if it is missing, fails or does not answer."""
    return output_of(["nvidia-smi", *arguments], PATIENCE, environment) or ""


def _listed(environment: Mapping[str, str]) -> list[Gpu]:
    """The GPUs of this machine; none where nvidia-smi does not answer."""
    gpus: list[Gpu] = []
    for line in nvidia_smi("-L", environment=environment).splitlines():
        if gpu := GPU.match(line):
            gpus.append(Gpu(gpu[1], gpu[2], []))
        elif gpus and (instance := MIG.match(line)):
            gpus[-1].instances.append(instance[1])
    return gpus


def _take(names: list[str], share: int) -> tuple[str, IO[bytes]] | None:
    """The card with most free slots, and the locked file of one of them; None if all slots are taken."""
    try:
        folder = _folder()
        with open(folder / "turn", "ab") as turn, ExitStack() as others:
            lock(turn, wait=True)  # trying a slot takes it
            free = {name: _free_slots(folder / UNSAFE.sub("_", name), share) for name in names}
            best = max(free, key=lambda name: len(free[name]))
            for name, slots in free.items():
                for slot in slots[1:] if name == best else slots:
                    others.callback(slot.close)
            return (best, free[best][0]) if free[best] else None
    except OSError as error:
        where = error.filename or "the folder for temporary files"
        raise UserError(f"GPUs cannot be locked in {where} ({error.strerror}): set TMPDIR to another folder") from error


def _free_slots(card: Path, share: int) -> list[IO[bytes]]:
    """Locks a card's free slots, and returns their files: to close one is to free its slot."""
    free: list[IO[bytes]] = []
    for number in range(share):
        slot = open(card.with_name(f"{card.name}.{number}"), "ab")  # noqa: SIM115  held open while a cell has it
        if lock(slot):
            free.append(slot)
        else:
            slot.close()
    return free


def _folder() -> Path:
    """The user's folder of locks, one for each SLURM allocation: allocations may each call another card 0."""
    whose = filter(None, ["fedgrid-gpus", str(os.getuid()), os.environ.get("SLURM_JOB_ID")])
    folder = Path(tempfile.gettempdir(), UNSAFE.sub("_", "-".join(whose)))
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()  # a folder that all can write in may hold somebody else's folder, or a link, of this name
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise PermissionError(None, "it belongs to another user", str(folder))
    return folder
