"""What venues ask for: metadata of data sets, a checklist and an appendix."""

import hashlib
import shutil
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from commands import output
from descriptions import valid_description

import fedgrid
from fedgrid.api.archive.layout import FORMS
from fedgrid.api.archive.study_facts import _assumed, _values
from fedgrid.api.study_file import read_study
from fedgrid.cli.main import main

pytest.importorskip("rocrate")


@pytest.fixture(scope="module")
def unpacked(run_once, tmp_path_factory):
    """The unpacked archive of the project's study, without a license."""
    folder = tmp_path_factory.mktemp("venues")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(run_once)
        assert main(["bundle", "--out", str(folder / "digits.zip")]) == 0
    shutil.unpack_archive(folder / "digits.zip", folder / "unpacked")
    return folder / "unpacked"


def check_files(described, folder):
    """Files are as the description says, and record sets name the columns of theirs."""
    for entry in described["distribution"]:
        content = (folder / entry["contentUrl"]).read_bytes()
        assert entry["contentSize"] == f"{len(content)} B"
        assert entry["sha256"] == hashlib.sha256(content).hexdigest()
    for records in described["recordSet"]:
        file = records["field"][0]["source"]["fileObject"]["@id"]
        assert [field["name"] for field in records["field"]] == pq.read_schema(folder / file).names


def test_an_archive_is_described_as_a_data_set(unpacked):
    described = valid_description(unpacked / "croissant.json")
    check_files(described, unpacked)
    assert described["name"] == "Handwritten digits, 8 clients" and "license" not in described
    names = [records["name"] for records in described["recordSet"]]
    assert names[0] == "digits/results" and len(names) == 1 + 2 * 2  # two divisions with two seeds
    assert f"computed by fedgrid {fedgrid.__version__}, which trained 16 cells" in described["rai:dataCollection"]
    assert '"beta": 0.1' in described["rai:dataCollection"]
    assert any("no images" in limit for limit in described["rai:dataLimitations"])


def test_the_checklist_says_what_the_study_says(unpacked, project):
    text = (unpacked / "reproducibility-checklist.md").read_text()
    seconds = fedgrid.results("results/digits").cells["seconds"].sum()
    assert f"{seconds / 3600:.2f} hours of computing in all" in text
    assert "**Number of runs**: 2 for each number of a table, with seeds 0, 1." in text
    assert "`rounds: 2`" in text and "`gamma: 0.8`" in text and "the study searches none" in text
    assert "| digits | Dirichlet β=0.1, 8 clients | 0 | 8 | 1,348 | 0 | 449 |" in text
    assert "**MLP**, 682 parameters" in text  # 64·8 + 8 + 8·8 + 8, and a head of 8·10 + 10
    questions = text.partition("## Open questions for the authors\n")[2]
    assert questions.count("- [ ] ") == 6 and "- [ ] " not in text.removesuffix(questions)


def test_the_appendix_has_the_commands_and_the_findings(unpacked, project):
    text = (unpacked / "artifact-appendix.md").read_text()
    assert "`fedgrid go config/study.yaml` finds every cell" in text
    assert f"pip install 'fedgrid[archive]=={fedgrid.__version__}'" in text
    assert "2 rounds a cell, seeds 0, 1" in text and "`results/digits/tables/accuracy.md`" in text
    assert "FedCoSR" in text.partition("## Evaluation and expected results")[2]
    assert "leaves open" not in text  # it reproduces no paper


def test_an_archive_of_an_earlier_release_has_no_forms(unpacked, here, capsys):
    with zipfile.ZipFile(unpacked.parent / "digits.zip") as new, zipfile.ZipFile("old.zip", "w") as old:
        for info in new.infolist():
            content = new.read(info)
            if info.filename == "checksums.sha256":
                lines = content.decode().splitlines(keepends=True)
                content = "".join(line for line in lines if line.rstrip().split("  ")[1] not in FORMS).encode()
            if info.filename not in FORMS:
                old.writestr(info, content)
    assert output(capsys, "open", "old.zip").endswith("Next: fedgrid go config/study.yaml\n")


def test_settings_that_a_paper_leaves_open_are_listed_once():
    study = read_study(Path(__file__).parents[2] / "config/papers/fedcosr.yaml", "small", "table2")
    assumed = list(_assumed(study))
    assert dict(assumed)["training.rounds"].endswith("Taken: 500.")
    assert len(assumed) == len({name for name, _ in assumed})


def test_values_that_differ_are_all_listed():
    assert _values([{"lr": 0.1, "mu": None}, {"lr": 0.01, "mu": None}]) == {"lr": ["0.01", "0.1"], "mu": ["null"]}


def test_a_folder_of_partitions_is_described(project, tmp_path, capsys):
    files = sorted(Path("results/store/partitions").rglob("*.parquet"))[:2]
    for file in files:
        output(capsys, "export-partition", file, tmp_path, "--license", "CC-BY-4.0")
    described = valid_description(tmp_path / "croissant.json")
    check_files(described, tmp_path)
    assert len(described["distribution"]) == 4 and len(described["recordSet"]) == 2
    assert described["license"] == "CC-BY-4.0" and described["name"] == "Partitions of digits"
    assert "Dirichlet β=0.1, 8 clients, seed 0: dealt by fedgrid's partition" in described["rai:dataCollection"]
