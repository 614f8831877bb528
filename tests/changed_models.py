"""Files of models with other headers, as other cells or other versions would have written them."""

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import save_file

from fedgrid.files import replacing
from fedgrid.jobs import models_file


def write_changed(file: Path, to: Path, changes: Mapping[str, Any]) -> None:
    """Writes a copy of a file of models whose header has other values for some entries."""
    text = json.dumps(models_file.read(file).header | changes)
    metadata = {models_file.METADATA: text, models_file.SEAL: sha256(text.encode()).hexdigest()}
    with replacing(to) as temporary, safe_open(file, "pt") as models:
        save_file({name: models.get_tensor(name) for name in models.keys()}, temporary, metadata)  # noqa: SIM118
