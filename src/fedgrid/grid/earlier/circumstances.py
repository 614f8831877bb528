"""The circumstances under which results were computed: processor, threads, executor, device and libraries."""

from dataclasses import dataclass

from fedgrid.grid.plan.cell_metadata import Platform

NOT_RECORDED = "not recorded"
"The instruction set of results from before it was recorded."


@dataclass(frozen=True)
class Circumstances:
    """Everything besides code and settings on which the bits of results may depend."""

    processor: str
    instructions: str
    "SIMD instruction set of the processor."
    threads: int
    executor: str
    device: str
    torch: str
    numpy: str
    before: str = ""
    "The circumstances of earlier attempts, in words, if they differ; see `fedgrid.jobs.attempts`."

    @classmethod
    def of(cls, machine: Platform) -> "Circumstances":
        """The circumstances of a machine with its libraries, such as that of results."""
        hardware, versions = machine.hardware, machine.versions
        instructions = hardware.get("instructions", NOT_RECORDED)
        computed = hardware["cpu"], instructions, hardware["threads"], hardware["executor"], hardware["device"]
        return cls(*computed, versions["torch"], versions["numpy"], hardware.get("before", ""))

    def __str__(self) -> str:
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        parts = self.processor, self.device, threads, self.executor, f"torch {self.torch}", f"numpy {self.numpy}"
        return ", ".join(dict.fromkeys(parts)) + (f" ({self.before})" if self.before else "")

    def differences(self, here: "Circumstances") -> list[str]:
        """Differences from `here`, in words; empty if bits can be compared.

        Results of several circumstances, one after the other, are not compared with any others. An instruction set that
        was not recorded is no difference.
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
