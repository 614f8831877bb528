"""Moves a file that was checked to where it belongs."""

import errno
import os
import shutil
from pathlib import Path

from fedgrid.files import replacing


def place(temporary: Path, target: Path) -> None:
    """Moves a file in one step, also to another file system, and makes the folders that it needs."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.replace(temporary, target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        with replacing(target) as beside:
            shutil.copy2(temporary, beside)
