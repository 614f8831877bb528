"""``fedgrid explain``: what the key of a cell is made of."""

import re
import shutil

import pyarrow.parquet as pq
import pytest
from papers import write_paper
from studies import FOUR_CELLS, RUN, plan_of, prepared, study_of

import fedgrid
from fedgrid.cli.main import main
from fedgrid.files import read_metadata, write_table
from fedgrid.grid.study.sources import NOT_COUNTED

PROX = FOUR_CELLS.replace("[local, fedavg]", "{fedprox: {mu: 0.5}, local: }")
STUDY = ("--configfile", "study.yaml")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder in which the first cell of the study was trained."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["run", "fedprox", "--set", "mu=0.5", *RUN]) == 0
    return folder


@pytest.fixture
def study(folder):
    (folder / "study.yaml").write_text(PROX)
    return study_of(PROX)


@pytest.fixture
def cell(study, folder, trained):
    """The first cell, which is trained."""
    shutil.copytree(trained / "results", folder / "results")
    return study.cells[0]


def values(text):
    """What is said, by the word at the beginning of the line; of more lines, the first one's."""
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and line[0] != " "]
    return {words[0]: words[-1] for words in reversed(lines)}


def test_a_cell_of_which_nothing_is_made_yet(study, output, untouched):
    cell = study.cells[0]
    with untouched():
        text = output("explain", "fedprox", "s0", *STUDY)
    assert text.startswith("fedprox, digits, dirichlet-beta0.5-clients4, seed 0: to be trained\n")
    actual = values(text)
    assert actual["key"] == cell.key
    assert actual["method"] == "fedprox: mu=0.5"
    name, _, settings = actual["model"].partition(": ")
    assert name == "mlp" and {"hidden=16", "features=8"} <= set(settings.split(", "))
    assert {"rounds=2", "local_epochs=1", "lr=0.05"} <= set(actual["training"].split(", "))
    assert actual["seed"] == "0"
    assert actual["partition"] == f"{cell.partition.key}, {cell.partition.description}, seed 0, not built yet"
    assert actual["data"] == f"{cell.partition.data.key}, {cell.partition.data.title}, not built yet"
    assert actual["code"].startswith(f"{cell.code}, of ")


def test_the_digests_of_what_it_is_trained_on(study, output):
    prepared(study)
    for seed, cell in enumerate(study.cells[:2]):
        actual = values(output("explain", "fedprox", f"s{seed}", *STUDY))
        rows, images = (read_metadata(file) for file in (cell.partition.file, cell.partition.data.files["train"]))
        assert actual["partition"].endswith(f"seed {seed}, rows {rows['digest'][:16]}")
        assert actual["data"].endswith(f", images {images['checksum'][:16]}")


def test_the_modules_that_count_and_those_that_do_not(cell, output, untouched):
    with untouched():
        text = output("explain", cell.key[:8], *STUDY, "--code")
    assert text.startswith(f"{cell.description}: trained\n")
    short = output("explain", cell.key[:8], *STUDY)
    assert short.endswith(" modules; --code lists them\n") and text.startswith(short.rpartition(";")[0])
    _, _, code = text.partition("\ncode ")
    counted, _, others = code.partition("not counted, for it cannot change a number:\n")
    head, *lines = counted.splitlines()
    kept = read_metadata(cell.file)["modules"]
    assert head.split() == [f"{cell.code},", "of", str(len(kept)), "modules:"]
    assert dict(reversed(line.split()) for line in lines) == kept
    assert kept.keys() >= {"fedgrid.methods.fedprox", "fedgrid.models.mlp", "fedgrid.engine.rounds"}
    assert [line.strip() for line in others.splitlines()] == [f"{name}: {why}" for name, why in NOT_COUNTED.items()]
    assert not kept.keys() & NOT_COUNTED.keys()


@pytest.mark.parametrize("separator", [", ", " ", ","])
def test_a_cell_is_called_by_what_messages_call_it(cell, output, separator):
    assert cell.description.count(", ") == 3
    called = cell.description.replace(", ", separator)
    for words in ([called], called.split()):
        assert output("explain", *words, *STUDY).startswith(f"{cell.description}: trained\n")


def test_a_finished_cell_of_other_code_says_which_modules_differ(cell, output, untouched):
    facts, key = read_metadata(cell.file), "f" * 16
    modules = facts["modules"] | dict.fromkeys(["fedgrid.engine.local.loop", "fedgrid.methods.gone"], "0" * 16)
    facts |= {"key": key, "code": "e" * 16, "modules": modules}
    file = cell.file.with_name(f"s0-{key}.parquet")
    write_table(file, pq.read_table(cell.file), facts)
    with untouched():
        text = output("explain", key[:8], *STUDY)
    assert text.startswith(f"{file}: of another study, or of other code or data\nkey        {key}\n")
    assert values(text)["method"] == "fedprox: mu=0.5"
    differing = text.partition(f"code       {'e' * 16}, of {len(modules)} modules; other than now: ")[2]
    assert differing.strip() == "fedgrid.engine.local.loop, fedgrid.methods.gone"


@pytest.mark.parametrize(
    ("method", "words"), [("fedprox", "the same as now"), ("gone", "no study here has a cell of this method")]
)
def test_a_finished_cell_of_another_study_says_what_can_be_compared(cell, output, method, words):
    facts, key = read_metadata(cell.file), "d" * 16
    facts["spec"]["method"]["name"] = method
    write_table(cell.file.with_name(f"s0-{key}.parquet"), pq.read_table(cell.file), facts | {"key": key})
    assert words in output("explain", key, *STUDY).splitlines()[-1]


@pytest.mark.parametrize(
    "words, complains",
    [
        (["fedavg"], "explain: no cell of s fits 'fedavg'; fedgrid plan --cells lists them"),
        (["seed", "0"], "explain: 2 cells of study.yaml fit 'seed 0': say more, such as "),
        (["fedprox", "seed", "2"], "explain: no cell of s fits 'seed 2'; nearest: seed 1, seed 0"),
        (["FedPrx", "s0"], "explain: no cell of s fits 'FedPrx'; nearest: fedprox"),
        (
            ["fedprox", "local"],
            "explain: no cell of s fits 'fedprox local'; without 'local' there are fedprox, digits,",
        ),
        (["a", "b"], "explain: no cell of s fits 'a'; "),
        (["0123456789abcdef"], "explain: no cell of s fits '0123456789abcdef'"),
        (["****"], "explain: no cell of s fits '****'"),
    ],
)
def test_words_that_mean_no_cell_or_several(cell, complaint, words, complains):
    assert complains in complaint("explain", *words, *STUDY)


def test_of_several_entries_one_cell_each_is_named(cell, complaint):
    text = complaint("explain", "digits", *STUDY)
    assert text.count("(local, digits") == text.count("(fedprox, digits") == 1


def test_a_finished_cell_has_its_files_its_score_and_what_it_was_made_with(cell, output):
    actual = values(output("explain", "fedprox", "s0", *STUDY))
    assert actual["file"] == str(cell.file) and "log" not in actual
    score = re.fullmatch(
        r"([\d.]+) % \(by the one global model, round 2\), std over clients ([\d.]+) %", actual["score"]
    )
    assert all(0 <= float(number) <= 100 for number in score.groups())
    cell.log.parent.mkdir(parents=True)
    cell.log.write_text("")
    assert values(output("explain", "fedprox", "s0", *STUDY))["log"] == str(cell.log)
    assert f"fedgrid {fedgrid.__version__}" in actual["made"]


def test_cells_that_differ_in_their_seeds_alone_are_answered_together(cell, output, study):
    text = output("explain", "fedprox", *STUDY)
    first, second, *_ = study.cells
    assert text.startswith("fedprox, digits, dirichlet-beta0.5-clients4, seeds 0, 1: 1 of 2 trained\n")
    assert re.findall("^seed +(.*)$", text, re.M) == [
        f"0, trained, key {first.key}",
        f"1, to be trained, key {second.key}",
    ]
    assert text.count("\nmethod ") == text.count("\nscore ") == text.count("\ncode ") == text.count("\nmade ") == 1
    assert f"What the key {first.key} is made of:\npartition  {first.partition.key}" in text


@pytest.fixture
def paper(folder):
    write_paper(folder)
    return "--configfile", "paper.yaml"


@pytest.mark.parametrize(
    ("words", "shown", "cells"),
    [
        (["table1", "FedCoSR", "Digits", "Dirichlet 0.5"], "table1", 2),
        (["fedcosr", "3 CLASSES"], "table1", 2),
        (["Local", "digits", "Dirichlet 0.5", "s1"], "table1, letters", 1),
        (["LOCAL", "dig", "dirichlet", "0.5", "Seed", "1"], "table1, letters", 1),
        (["local", "Table 1", "dirich", "seed 0"], "table1, letters", 1),
        (["FedCoSR", "classes"], "table1", 2),
        (["fedcosr (own file)", "3"], "table1", 2),
        (["sweep", "mu 0.01", "Dirichlet 0.5, 0.8 kept"], "sweep", 2),
    ],
)
def test_a_number_of_a_paper_leads_to_its_cells(paper, output, words, shown, cells):
    text = output("explain", *words, *paper)
    assert re.findall("^shown in +(.*)$", text, re.M) == [shown]
    assert len(re.findall("^file ", text, re.M)) == cells


def test_a_scale_has_its_own_cells_and_unavailable_data_are_reported(paper, output, complaint):
    text = output("explain", "letters", "EMNIST", "Local", *paper, "--scale", "small")
    assert text.startswith("local, emnist, Dirichlet 0.5, seed 0: unavailable, 'emnist' is not at hand")
    assert "6 cells of paper.yaml fit 'table1 Dirichlet 0.5'" in complaint("explain", "table1", "Dirichlet 0.5", *paper)
    assert "no cell of toy fits 'later'" in complaint("explain", "later", *paper)


# -- where no study is named


@pytest.fixture
def studies(folder):
    """A folder with a default study, a paper, another study, and files that are none."""
    (folder / "config/papers").mkdir(parents=True)
    write_paper(folder)
    (folder / "config/study.yaml").write_text(PROX)
    write_paper(folder / "config/papers").rename(folder / "config/papers/toy.yaml")
    (folder / "config/moon.yaml").write_text(FOUR_CELLS.replace("[local, fedavg]", "[moon]"))
    (folder / "config/broken.yaml").write_text("a: [")
    (folder / "config/none.yaml").write_text("- a")
    return folder


def test_the_default_study_comes_first_and_is_not_named(studies, output):
    assert "study      " not in output("explain", "local", "s0")


@pytest.mark.parametrize(
    ("words", "place"), [(["moon"], "config/moon.yaml"), (["table1", "FedCoSR", "3 classes"], "config/papers/toy.yaml")]
)
def test_other_studies_of_the_folder_are_looked_through(studies, output, untouched, words, place):
    with untouched():
        assert values(output("explain", *words))["study"] == place
    key = re.findall("key ([0-9a-f]{16})", output("explain", *words))[0]
    assert values(output("explain", key))["study"] == place


def test_runs_come_before_files_and_the_latest_one_first(studies, output):
    plans = [
        FOUR_CELLS.replace("[local, fedavg]", f"[{name}]").replace("name: s", f"name: {name}")
        for name in ("moon", "ditto")
    ]
    for text in plans:
        plan_of(study_of(text), configfile="gone.yaml")
    assert values(output("explain", "moon"))["study"] == "the latest run of moon (gone.yaml)"
    (studies / "config/study.yaml").unlink()
    assert output("explain", "ditto").startswith("ditto, digits") and "study      " not in output("explain", "ditto")


def test_a_scale_is_looked_for_in_all_studies(studies, output, complaint):
    plan_of(study_of(FOUR_CELLS.replace("[local, fedavg]", "[fedcosr]")))
    actual = values(output("explain", "fedcosr", "3 classes", "s0", "--scale", "small"))
    assert actual["training"].startswith("rounds=2,")
    assert "no scale 'smal'" in complaint("explain", "fedcosr", "--scale", "smal", "--configfile", "paper.yaml")


def test_a_word_of_no_study_and_a_folder_without_any(studies, complaint):
    assert "explain: no cell of s, toy fits 'mooon'; nearest: moon" in complaint("explain", "mooon")
    shutil.rmtree("config")
    assert "explain: there is no study in config/; name one with --configfile" in complaint("explain", "moon")


def test_a_mistake_in_the_default_study_is_said(studies, complaint):
    (studies / "config/study.yaml").write_text(PROX.replace("dirichlet", "dirichlt"))
    assert "dirichlt" in complaint("explain", "moon")


def test_logs_are_looked_for_where_cells_are(studies, output, complaint):
    assert output("logs", "moon", "s0").startswith("moon, digits, ")
    assert "logs: no cell of s fits 'mooon'" in complaint("logs", "mooon", "s0")
    shutil.rmtree("config")
    assert "logs: there is no study in config/; name one with --configfile" in complaint("logs", "moon")
