"""Under which circumstances results were computed: processor, threads, executor, device and libraries."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

NOT_RECORDED = "not recorded"
"Instruction set of results that were written before it was recorded."


@dataclass(frozen=True)
class Circumstances:
    """What the bits of a result may depend on besides code and settings."""

    processor: str
    instructions: str
    "SIMD instruction set of the processor."
    threads: int
    executor: str
    device: str
    torch: str
    numpy: str
    before: str = ""
    "What earlier attempts ran on, in words, where that was something else; see `fedgrid.jobs.attempts`."

    @classmethod
    def of(cls, metadata: Mapping[str, Any]) -> "Circumstances":
        """Those of results with these metadata."""
        hardware, versions = metadata["hardware"], metadata["versions"]
        instructions = hardware.get("instructions", NOT_RECORDED)
        computed = hardware["cpu"], instructions, hardware["threads"], hardware["executor"], hardware["device"]
        return cls(*computed, versions["torch"], versions["numpy"], hardware.get("before", ""))

    def __str__(self) -> str:
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        parts = self.processor, self.device, threads, self.executor, f"torch {self.torch}", f"numpy {self.numpy}"
        return ", ".join(dict.fromkeys(parts)) + (f" ({self.before})" if self.before else "")

    def differences(self, here: "Circumstances") -> list[str]:
        """What is not as `here`, in words; empty where bits can be compared.

        What was computed under several circumstances, one after the other, is compared with nothing. An instruction set
        that was not recorded is no difference.
        """
        if self.before or here.before:
            return [f"other machines in earlier attempts ({self.before or here.before})"]
        mine, others = vars(self), vars(here)
        names = [name for name in mine if name != "instructions" and mine[name] != others[name]]
        return [f"{name} {mine[name]} (here {others[name]})" for name in names] + self._other_instructions(here)

    def _other_instructions(self, here: "Circumstances") -> list[str]:
        if self.instructions == here.instructions or NOT_RECORDED in (self.instructions, here.instructions):
            return []
        mine, others = set(self.instructions.split()), set(here.instructions.split())
        sets = {"{} (missing here)": mine - others, "no {} (present here)": others - mine}
        return [text.format(" ".join(sorted(names))) for text, names in sets.items() if names]
