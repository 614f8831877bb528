"""External results in a study: a wrong file, label or seed is one sentence while planning."""

import pytest

from fedgrid.errors import UserError
from fedgrid.grid.plan import manifest
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.external import read_scores
from fedgrid.grid.study.yaml_file import read

STUDY = """
name: toy
data: digits
heterogeneity: [{partition: dirichlet, beta: 0.1, clients: 4, label: skewed}]
methods: {local: , theirs: {results: theirs.csv, title: Theirs}, fedavg: }
seeds: [0, 1]
training: {rounds: 5}
"""
HEADER = "data,heterogeneity,seed,mean\n"
ROWS = "digits,skewed,0,0.5\ndigits,skewed,1,0.6\n"
PER_CLIENT = "data,heterogeneity,seed,client,value\n"


def study(tmp_path, text=STUDY, table=HEADER + ROWS):
    (tmp_path / "theirs.csv").write_bytes(table if isinstance(table, bytes) else table.encode())
    (tmp_path / "study.yaml").write_text(text)
    return planned_study(read(tmp_path / "study.yaml"))


def test_a_row_of_others_is_planned_without_cells(tmp_path):
    planned = study(tmp_path)
    (experiment,) = planned.experiments
    assert {cell.row.label for cell in experiment.cells} == {"local", "fedavg"}
    (row,) = experiment.external
    assert row.title == "Theirs (external)" and row.origin.startswith("theirs.csv, SHA-256 ") and row.position == 1
    content = manifest.content(planned, experiment)
    assert [*content.study.methods] == ["local", "theirs", "fedavg"]
    assert content.study.methods["theirs"].external == row.origin


def test_the_manifest_covers_the_files_content(tmp_path):
    first, second = (study(tmp_path, table=HEADER + ROWS.replace("0.6", value)) for value in ("0.6", "0.7"))
    files = [manifest.file(planned, planned.experiments[0]) for planned in (first, second)]
    assert files[0] != files[1]
    assert [cell.key for cell in first.cells] == [cell.key for cell in second.cells]


def test_the_forms_of_a_file(tmp_path):
    file = tmp_path / "theirs.csv"
    file.write_text("\ufeff" + PER_CLIENT.strip() + ",round,partition\n\ndigits, skewed ,0,2,1,30," + "ab" * 8 + "\n")
    (score,) = read_scores(file)
    assert (score.column, score.seed, score.client, score.value, score.round) == (("digits", "skewed"), 0, 2, 1.0, 30)
    assert score.partition == "ab" * 8


MALFORMED = {
    "empty": ("", "the column 'data' is missing"),
    "no rows": (HEADER, "has no rows"),
    "binary": (b"\xff\xfe\x00", "cannot be read as CSV"),
    "unknown column": ("data,heterogeneity,sed,mean\n", "unknown column 'sed'; did you mean 'seed'"),
    "duplicate column": ("data,heterogeneity,seed,mean,mean\n", "duplicate column 'mean'"),
    "no accuracy": ("data,heterogeneity,seed\n", "as client and value, or as mean"),
    "both": ("data,heterogeneity,seed,client,value,mean\n", "and not both"),
    "value alone": ("data,heterogeneity,seed,value\n", "client and value together"),
    "ragged": (HEADER + "digits,skewed,0\n", "line 2: has 3 values for 4 columns"),
    "percent": (HEADER + "digits,skewed,0,87.5\n", "divide percentages by 100"),
    "no number": (HEADER + "digits,skewed,0,high\n", "'high' is not an accuracy"),
    "nan": (HEADER + "digits,skewed,0,nan\n", "'nan' is not an accuracy"),
    "seed": (HEADER + "digits,skewed,-1,0.5\n", "seed '-1' is not a whole number"),
    "twice": (HEADER + ROWS + "digits,skewed,1,0.7\n", "line 4: duplicates line 3"),
    "blank label": (HEADER + ",skewed,0,0.5\n", "line 2: has no data"),
    "unknown data": (
        HEADER + "digts,skewed,0,0.5\n",
        "no data set 'digts'; did you mean 'digits'",
    ),
    "unknown kind": (HEADER + "digits,skewd,0,0.5\n", "no heterogeneity 'skewd' on 'digits'; did you mean 'skewed'"),
    "missing seed": (HEADER + "digits,skewed,0,0.5\n", "has no seed 1 of digits, skewed"),
    "unknown client": (
        PER_CLIENT + "digits,skewed,0,4,0.5\ndigits,skewed,1,0,0.5\n",
        "line 2: names client 4 of digits, skewed, which has the clients 0 to 3",
    ),
    "partition": ("data,heterogeneity,seed,mean,partition\ndigits,skewed,0,0.5,first\n", "is not the digest"),
}


@pytest.mark.parametrize(("table", "expected"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_file_is_one_sentence(tmp_path, table, expected):
    with pytest.raises(UserError) as error:
        study(tmp_path, table=table)
    sentence = str(error.value)
    assert expected in sentence and "\n" not in sentence
    assert sentence.startswith(f"{tmp_path}/study.yaml:5: methods.theirs.results: ")


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("{results: absent.csv}", "there is no file"),
        ("{results: theirs.csv, mu: 1}", "methods.theirs.mu: a row with 'results' is not trained here"),
        ("{results: theirs.csv, method: fedavg}", "methods.theirs.method: a row with 'results' is not trained here"),
        ("{results: 7}", "methods.theirs.results: "),
        ("{results: .}", "is not a regular file"),
    ],
)
def test_a_wrong_row_is_one_sentence(tmp_path, row, expected):
    with pytest.raises(UserError) as error:
        study(tmp_path, STUDY.replace("{results: theirs.csv, title: Theirs}", row))
    assert expected in str(error.value) and "\n" not in str(error.value)


def test_rows_of_others_alone_are_no_study(tmp_path):
    with pytest.raises(UserError, match="need a row beside them that is trained here"):
        study(tmp_path, STUDY.replace("local: , ", "").replace(", fedavg: ", ""))


def test_more_seeds_than_the_studys_are_a_notice(tmp_path):
    planned = study(tmp_path, table=HEADER + ROWS + "digits,skewed,7,0.5\n")
    assert any("seeds that are not the study's" in notice and notice.endswith(" 7") for notice in planned.notices)


def test_families_are_of_methods(tmp_path):
    text = STUDY + "experiments: {global: {methods: all global}, every: {methods: all}}\n"
    planned = study(tmp_path, text)
    assert [len(experiment.external) for experiment in planned.experiments] == [0, 1]
