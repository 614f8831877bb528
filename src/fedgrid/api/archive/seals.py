"""Files of a store that came from elsewhere are checked by the seals within them before they are put into place."""

import re
from pathlib import Path

from fedgrid.errors import Damaged, UserError
from fedgrid.files import check_identity, read_json, read_table
from fedgrid.grid.plan.cell_origin import SUFFIX

CELL = re.compile(r"(?:^|/)cells/.*/s\d+-([0-9a-f]{16})\.parquet$")
"The results of a cell; the name has its key."
SEALED_FOLDERS = {"originals", "choices"}
"Folders of the store whose JSON files are sealed."


def check_seal(name: str, file: Path) -> None:
    """Raises UserError where a file is not what its name says, in an archive or below a store, or not as written."""
    try:
        if name.endswith(".parquet"):
            read_table(file)
        elif name.endswith(SUFFIX) or (name.endswith(".json") and SEALED_FOLDERS & {*name.split("/")}):
            read_json(file)
        if cell := CELL.search(name):
            check_identity(file, key=cell[1])
    except Damaged as error:
        raise UserError(f"'{name}' is damaged ({error.why})") from error
