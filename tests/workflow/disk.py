"""A small disk that can be filled and closed, in a mount namespace of its own: it goes when its process goes."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

MOUNT = 'mount -t tmpfs -o "size=$1m" none "$0" && echo mounted && exec sleep 3600'


class Disk:
    """A file system of so many megabytes in a folder; tests are skipped where none can be mounted."""

    def __init__(self, folder: Path, megabytes: int):
        if not (shutil.which("unshare") and shutil.which("nsenter")):
            pytest.skip("a disk of a test's own needs unshare and nsenter")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, user = folder, [] if os.geteuid() == 0 else ["--map-root-user"]
        self.as_user = ["--user", "--preserve-credentials"] if user else []
        command = ["unshare", "--mount", *user, "sh", "-c", MOUNT, str(folder), str(megabytes)]
        self.holder = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if (output := self.holder.stdout.readline().strip()) != "mounted":
            self.end()
            pytest.skip(f"no disk can be mounted here: {output}")

    @property
    def seen(self) -> Path:
        """The folder as every process finds it; `own` ones find the disk in the folder itself."""
        return Path(f"/proc/{self.holder.pid}/root") / self.folder.relative_to("/")

    def own(self, command: list[str], folder: Path) -> list[str]:
        """The command of a process that starts in `folder` and finds the disk where it is mounted."""
        inside = ["nsenter", "--target", str(self.holder.pid), *self.as_user, "--mount"]
        return [*inside, "sh", "-c", 'cd "$0" && exec "$@"', str(folder), *command]

    def remount(self, how: str) -> None:
        """Makes it read-only (``ro``) or writable again (``rw``)."""
        mount = ["mount", "-o", f"remount,{how}", str(self.folder)]
        subprocess.run(self.own(mount, self.folder.parent), check=True)

    def fill(self, left: int = 0) -> None:
        """Leaves so many bytes."""
        self.empty()
        actual = os.statvfs(self.seen)
        (self.seen / "filler").write_bytes(bytes(actual.f_bavail * actual.f_frsize - left))

    def empty(self) -> None:
        """Takes back what `fill` did."""
        (self.seen / "filler").unlink(missing_ok=True)

    def end(self) -> None:
        """Unmounts it, by ending the process that holds it."""
        self.holder.kill()
        self.holder.wait()
