"""Two places with one key are computed once and shown twice; one setting has one key, however it is written."""

import re
import shutil
from pathlib import Path

import pytest
import yaml
from studies import FOUR_CELLS, plan_of, prepared, study_of

from fedgrid.analysis.scores.collect import collect
from fedgrid.errors import UserError
from fedgrid.files import read_table, slug, write_table
from fedgrid.grid.plan import manifest, plan_file
from fedgrid.grid.plan.manifest_model import read_manifest
from fedgrid.grid.study.yaml_file import read
from fedgrid.jobs import cell as cell_job

pytestmark = pytest.mark.usefixtures("working_folder")

DIRICHLET = "[{partition: dirichlet, beta: 0.5, clients: 4}]"


@pytest.fixture
def published():
    """A partition, twice, under two names."""
    study = prepared(study_of(seeds=[0]))
    (planned,) = study.partitions.values()
    Path("out").mkdir()
    for name in ("one", "two"):
        shutil.copy(planned.file, f"out/{name}.parquet")
    return FOUR_CELLS.replace(DIRICHLET, '[{partition: "file:out/one.parquet"}, {partition: "file:out/two.parquet"}]')


def rows_by(study, name):
    """The rows of all cells once they are trained, by what `name` says of the cell."""
    file = plan_of(study)
    for key in plan_file.read(file).study.by_key:
        assert cell_job.main([str(file), key]) == 0
    listed = manifest.file(study, study.experiments[0])
    manifest.write(study, listed)
    rows = collect(read_manifest(listed), study.folder / "results.parquet").rows
    values = [column for column in rows.columns if column != name]
    return {value: some[values].to_numpy().tolist() for value, some in rows.groupby(name, observed=True)}


def test_two_published_files_with_equal_rows(published):
    study = prepared(study_of(published, seeds=[0], methods=["local"]))
    assert len(study.cells) == 2 and len(study.by_key) == 1
    assert len({cell.file for cell in study.cells}) == len({cell.partition.file for cell in study.cells}) == 1
    assert plan_file.read(plan_of(study)).study == study
    actual = rows_by(study, "heterogeneity")
    assert set(actual) == {"file-one", "file-two"} and actual["file-one"] == actual["file-two"]
    assert set(manifest.content(study, study.experiments[0]).study.heterogeneity) == set(actual)


def test_one_data_set_under_two_labels():
    study = study_of(data=["digits", {"name": "digits", "label": "again"}], seeds=[0], methods=["local"])
    prepared(study)
    assert len(study.cells) == 2 and len(study.by_key) == 1
    assert plan_file.read(plan_of(study)).study == study
    actual = rows_by(study, "data")
    assert set(actual) == {"digits", "again"} and actual["digits"] == actual["again"]


@pytest.mark.parametrize("change", [{"test": "weighted"}, {"clients": 5}, {"classes": list("9876543210")}])
def test_a_published_partition_that_says_something_else_is_another(published, change):
    table, metadata = read_table(Path("out/two.parquet"))
    write_table(Path("out/two.parquet"), table, metadata | change)
    study = study_of(published, seeds=[0])
    assert len({cell.partition.key for cell in study.cells}) == 2
    assert len(study.by_key) == len(study.cells) == 4


@pytest.mark.parametrize("name", ["partition_seed", "train_seed"])
def test_a_whole_float_is_a_whole_number(name):
    whole, float_ = study_of(**{name: 2}), study_of(**{name: 2.0})
    assert list(whole.by_key) == list(float_.by_key)
    assert study_of(seeds=[1.0]).by_key.keys() == study_of(seeds=[1]).by_key.keys()


def test_a_float_for_a_whole_setting_is_refused():
    with pytest.raises(UserError, match=r"compute\.threads: expected int"):
        study_of(compute={"threads": 2.0})


def test_merge_keys():
    text = "base: &base {partition: dirichlet, beta: 0.5}\nstudy: [{<<: *base, clients: 4}]\n"
    Path("study.yaml").write_text(text)
    assert read(Path("study.yaml"))["study"] == yaml.safe_load(text)["study"]
    Path("study.yaml").write_text(text.replace("clients: 4", "clients: 4, clients: 5"))
    with pytest.raises(UserError, match=r"study\.yaml:2: the key 'clients' is there twice, first in line 2"):
        read(Path("study.yaml"))


def test_aliases_that_explode_are_refused():
    tenfold = [f"{b}: &{b} [{', '.join(['*' + a] * 10)}]\n" for a, b in zip("abcdef", "bcdefg", strict=True)]
    Path("study.yaml").write_text("".join(["a: &a [x, x, x, x, x, x, x, x, x, x]\n", *tenfold]))
    with pytest.raises(UserError, match="aliases"):
        read(Path("study.yaml"))


def test_results_with_braces_are_refused():
    with pytest.raises(UserError, match=r"results: .* without braces"):
        study_of(results="a{b}")


def labelled(label):
    return {
        "data": {"data": [{"name": "digits", "label": label}]},
        "heterogeneity": {"heterogeneity": [{"partition": "dirichlet", "clients": 4, "label": label}]},
        "methods": {"methods": {"own": {"method": "local", "title": label}}},
    }


@pytest.mark.parametrize("label", ["", " ", "two\nlines", "x" * 101])
@pytest.mark.parametrize("place", labelled(""))
def test_a_label_is_one_short_line(label, place):
    with pytest.raises(UserError, match=r"label|title"):
        study_of(**labelled(label)[place])


@pytest.mark.parametrize("label", ["../../x", "a/b", ".hidden", "K = 2", "β 0.1", "⅓"])
@pytest.mark.parametrize("place", labelled(""))
def test_labels_are_free_and_lead_nowhere(label, place):
    study, plain = study_of(**labelled(label)[place]), study_of(**labelled("plain")[place])
    assert [cell.files for cell in study.cells] == [cell.files for cell in plain.cells]
    assert re.fullmatch(r"[\w-][\w.-]*", slug(label))


@pytest.mark.parametrize("place", ["data", "heterogeneity"])
def test_labels_that_a_file_name_cannot_tell_apart_are_refused(place):
    ((key, (one,)),), ((_, (other,)),) = (labelled(label)[place].items() for label in ("K 2", "K=2"))
    with pytest.raises(UserError, match="'K 2' and 'K=2' are too alike"):
        study_of(**{key: [one, other | {"clients": 5} if place == "heterogeneity" else other]})


@pytest.mark.parametrize("kind", ["dirichlet", "quantity"])
@pytest.mark.parametrize("beta", [1e7, 1e300])
def test_a_concentration_near_overflow_is_refused(kind, beta):
    with pytest.raises(UserError, match=r"beta: must be at most 1000000"):
        study_of(heterogeneity=[{"partition": kind, "beta": beta}])
