"""A SLURM cluster of one node for tests: real daemons in a network, a mount and a PID namespace of their own.

Nothing listens outside the namespaces, and /etc/slurm is another folder only inside them, so several clusters may run
at once, beside the machine's own. Their first process ends with the tests, and the kernel ends the others with it. The
file is also the program that this first process runs.
"""

import json
import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ETC = Path("/etc/slurm")  # where all of SLURM looks without SLURM_CONF, which the executor takes away
DAEMONS = ("munged", "slurmctld", "slurmd", "slurmstepd")
CLIENTS = ("sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun")
TOOLS = ("ip", "mount", "nsenter", "setpriv", "unshare")
NULL_DEVICE = os.makedev(1, 3)
SLURM_CONF = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={short}/munge.sock
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
MpiDefault=none
SwitchType=switch/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
ReturnToService=2
MinJobAge=300
MaxJobCount=5000
MaxArraySize=5001
KillWait=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={short}/spool
SlurmctldPidFile={short}/slurmctld.pid
SlurmdPidFile={short}/slurmd.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.log
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} Gres=gpu:{gpus} State=UNKNOWN
PartitionName=cpu Nodes={host} Default=YES MaxTime=600 State=UP
PartitionName=gpu Nodes={host} MaxTime=600 State=UP
"""


def tool(name: str) -> str | None:
    """The path of a program; the folders of the system's daemons are not in everyone's PATH."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"]))


def obstacle() -> str:
    """Why no cluster can run here; empty where it can."""
    missing = [name for name in (*DAEMONS, *CLIENTS, *TOOLS) if tool(name) is None]
    if missing:
        return f"not installed: {', '.join(missing)}"
    if os.geteuid() != 0:
        return "not root, so no namespaces and no devices can be made"
    with tempfile.TemporaryDirectory() as folder:  # tried for real: containers often forbid it even to root
        try:
            os.mknod(f"{folder}/nvidia0", stat.S_IFCHR | 0o666, NULL_DEVICE)
            ETC.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return f"cannot make a device or {ETC}: {error}"
        trial = subprocess.run([*_unshare(), tool("mount"), "--bind", folder, ETC], capture_output=True, text=True)
    return f"namespaces or mounts are forbidden: {trial.stderr.strip()}" if trial.returncode else ""


def eventually(condition: Callable[[], Any], seconds: float) -> bool:
    """Whether a condition became true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _unshare() -> list[str]:
    """Ends with the thread that starts it; its child, the first process in the namespaces, and all others follow."""
    spaces = ["--net", "--mount", "--pid", "--fork", "--mount-proc", "--propagation", "private", "--kill-child=KILL"]
    return [tool("setpriv"), "--pdeathsig", "KILL", tool("unshare"), *spaces]


class Cluster:
    """One node with `cpus` CPUs, `gpus` fake GPUs and `memory` MB, whatever the machine really has."""

    def __init__(self, folder: Path, gpus: int = 2, cpus: int = 4, memory: int = 16000):
        self.folder, self.gpus, self.cpus, self.memory = folder.resolve(), gpus, cpus, memory
        self.keeper: subprocess.Popen | None = None
        self.first = 0
        self.short = Path()

    def __enter__(self) -> "Cluster":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts the daemons and returns when the node takes jobs."""
        # the path of a Unix socket has at most 107 characters, munge's as well as those that slurmd keeps in its spool
        self.short = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
        try:
            self._write()
            self._launch()
            if not eventually(self._idle, 30):
                raise RuntimeError(f"the node did not become idle\n{self.logs()}")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends every process in the cluster, jobs included, and removes its folder for temporary files."""
        if self.keeper:
            self.keeper.kill()
            self.keeper.wait()
            self.keeper.stdout.close()
            self.keeper = None
        shutil.rmtree(self.short, ignore_errors=True)

    def run(self, *command: str | Path, **options: Any) -> subprocess.CompletedProcess:
        """subprocess.run inside the cluster; what is said is text and comes back."""
        given = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True} | options
        return subprocess.run(self.entered(command, options), **given)

    def popen(self, *command: str | Path, **options: Any) -> subprocess.Popen:
        """subprocess.Popen inside the cluster; its pid is that of a process outside, which waits for the command."""
        return subprocess.Popen(self.entered(command, options), **options)

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Sends a signal to a process inside, by its number there."""
        self.run("kill", f"-{int(number)}", str(pid), check=True)

    def queue(self, *options: str) -> list[str]:
        """Lines of squeue, without its head."""
        return self.run("squeue", "--noheader", *options, check=True).stdout.splitlines()

    def logs(self, characters: int = 2000) -> str:
        """The ends of all logs."""
        files = sorted((self.folder / "log").glob("*"))
        return "\n".join(f"== {file.name}\n{file.read_text(errors='replace')[-characters:]}" for file in files)

    def entered(self, command: tuple[str | Path, ...], options: dict[str, Any]) -> list[str]:
        """The command that runs `command` inside."""
        folder = Path(options.get("cwd") or Path.cwd()).resolve()  # by name, or it would stay outside
        enter = [tool("nsenter"), "-n", "-m", "-p", f"--wdns={folder}", "-t", str(self.first), "--"]
        return [*enter, *map(str, command)]

    def _write(self) -> None:
        for name in ("etc", "dev", "log", "state"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        self.short.chmod(0o755)  # munge insists that everyone may reach its socket
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(1024))
        for number in range(self.gpus):
            # slurmd refuses plain files; the name tells it the number that goes into CUDA_VISIBLE_DEVICES
            os.mknod(self.folder / f"dev/nvidia{number}", stat.S_IFCHR | 0o666, NULL_DEVICE)
        host = socket.gethostname().split(".")[0]
        facts = {"host": host, "cpus": self.cpus, "gpus": self.gpus, "memory": self.memory}
        text = SLURM_CONF.format(short=self.short, folder=self.folder, **facts)
        (self.folder / "etc/slurm.conf").write_text(text)
        cards = f"NodeName={host} Name=gpu File={self.folder}/dev/nvidia[0-{self.gpus - 1}]\n"
        (self.folder / "etc/gres.conf").write_text(cards)

    def _launch(self) -> None:
        ETC.mkdir(parents=True, exist_ok=True)
        task = json.dumps({"folder": str(self.folder), "short": str(self.short)})
        with open(self.folder / "log/first.log", "w") as log:
            self.keeper = subprocess.Popen(
                [*_unshare(), sys.executable, "-I", __file__, task],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,  # Ctrl-C at the tests must not end the daemons before the jobs
            )
        if self.keeper.stdout.readline() != "up\n":
            raise RuntimeError(f"the namespaces could not be set up\n{self.logs()}")
        self.first = int(Path(f"/proc/{self.keeper.pid}/task/{self.keeper.pid}/children").read_text().split()[0])

    def _idle(self) -> bool:
        return self.run("sinfo", "--noheader", "--format=%T").stdout.split()[:1] == ["idle"]


def inside(folder: str, short: str) -> None:
    """What the first process of the namespaces does: sets them up, starts the daemons, and takes in orphans."""
    subprocess.run([tool("ip"), "link", "set", "lo", "up"], check=True)
    # glibc does not count loopback: without a further address not even 127.0.0.1 resolves
    subprocess.run([tool("ip"), "addr", "add", "192.0.2.1/32", "dev", "lo"], check=True)
    subprocess.run([tool("mount"), "--bind", f"{folder}/etc", ETC], check=True)
    print("up", flush=True)
    socket_ = Path(short, "munge.sock")
    files = {"socket": socket_, "key-file": f"{folder}/munge.key", "pid-file": f"{short}/munged.pid"}
    files |= {"log-file": f"{folder}/log/munged.log", "seed-file": f"{short}/munge.seed"}
    # --force: the folders above may be writable by others, which munged refuses otherwise
    _daemon(folder, "munged", "--foreground", "--force", *(f"--{name}={path}" for name, path in files.items()))
    eventually(socket_.exists, 10)  # a first try that fails would cost the others seconds
    _daemon(folder, "slurmctld", "-D")
    eventually(lambda: subprocess.run([tool("scontrol"), "ping"], capture_output=True).returncode == 0, 10)
    _daemon(folder, "slurmd", "-D")
    while True:
        try:
            os.wait()
        except ChildProcessError:
            time.sleep(1)


def _daemon(folder: str, name: str, *options: str) -> None:
    with open(f"{folder}/log/{name}.out", "w") as out:
        subprocess.Popen([tool(name), *options], stdin=subprocess.DEVNULL, stdout=out, stderr=out)


if __name__ == "__main__":
    inside(**json.loads(sys.argv[1]))
