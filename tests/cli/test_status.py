"""What ``fedgrid status`` says of tables, and commands of cells with results of other code."""

import pyarrow as pa
import pytest
from earlier import make_adopted, make_earlier, trained_study
from papers import write_paper
from studies import study_of

from fedgrid.api.study_file import read_study
from fedgrid.cli.phrases import module_names, other_code_lines
from fedgrid.files import read_table, write_table
from fedgrid.grid.plan import manifest


def drawn(study, experiment):
    """The manifest of an experiment, its results and its page, as far as a look at them needs them."""
    file = manifest.file(study, experiment)
    manifest.write(study, file)
    write_table(file.with_name("results.parquet"), pa.table({"value": [0.5]}), {"manifest": file.name})
    file.with_name("report.html").touch()
    return file


def counts(text):
    """The last line on cells."""
    return next(line for line in text.splitlines() if line.startswith("✓"))


@pytest.fixture
def tables(folder):
    return drawn(study_of(), study_of().experiments[0])


@pytest.fixture
def status(output, untouched):
    """What is said of the study, of which nothing may be changed by that."""

    def call(*options):
        with untouched():
            return output("status", *options)

    return call


STUDY = ("--configfile", "study.yaml")


def test_tables_that_were_never_made_or_are_up_to_date_are_not_mentioned(folder, status):
    assert "tables" not in status(*STUDY)
    drawn(study_of(), study_of().experiments[0])
    assert "tables" not in status(*STUDY)


def test_tables_of_the_study_as_it_was_are_out_of_date(tables, folder, status):
    text = (folder / "study.yaml").read_text()
    (folder / "study.yaml").write_text(f"{text}title: Another one\n")
    assert counts(status(*STUDY)).endswith(" 4 missing, tables out of date")
    (folder / "study.yaml").write_text(text)
    assert "tables" not in status(*STUDY)


@pytest.mark.parametrize("file", ["the manifest", "report.html"])
def test_tables_that_were_not_finished_are_out_of_date(tables, status, file):
    (tables if file == "the manifest" else tables.with_name(file)).unlink()
    assert counts(status(*STUDY)).endswith(", tables out of date")


def test_damaged_results_do_not_hide_the_cells(tables, status):
    tables.with_name("results.parquet").write_bytes(b"half a file")
    assert " 4 missing, results/s/results.parquet: damaged (" in counts(status(*STUDY))


def test_each_experiment_has_tables_of_its_own(folder, status):
    file = write_paper(folder)
    study = read_study(file)
    for experiment in study.experiments[:2]:
        drawn(study, experiment)
    file.write_text(file.read_text().replace("FedCoSR leads.", "FedCoSR is best."))
    lines = {line.split()[0]: line for line in status("--configfile", "paper.yaml").splitlines()}
    assert [name for name, line in lines.items() if "out of date" in line] == ["table1"]
    assert lines["table1"].endswith(", tables out of date")


# -- cells that wait because their results are of other code, and adopted ones


@pytest.fixture
def trained(working_folder):
    """Two finished cells."""
    return trained_study(working_folder)


@pytest.mark.parametrize("command", ["plan", "status"])
def test_why_cells_wait_is_said(trained, output, command):
    assert "other code" not in output(command)
    make_earlier(trained.cells[0])
    assert "1 cell has results under other code (tree edited)\n" in output(command)
    make_earlier(trained.cells[1])
    assert "2 cells have results under other code (tree edited)\n" in output(command)


def test_where_no_module_of_the_cell_is_edited_it_was_its_partition_or_data(trained):
    cell = trained.cells[0]
    modules = read_table(cell.file)[1]["modules"]
    file = make_earlier(cell)
    table, about = read_table(file)
    write_table(file, table, about | {"modules": modules})
    (line,) = other_code_lines([trained])
    assert line == "1 cell has results under other code (code of the partition or the data edited)"


def test_four_modules_are_named():
    names = [f"fedgrid.engine.{letter}" for letter in "abcdef"]
    assert module_names(names[:2]) == "engine/a, engine/b"
    assert module_names(names) == "engine/a, engine/b, engine/c, engine/d and 2 more"


def test_an_adopted_cell_is_used_as_any_other_and_says_where_it_comes_from(trained, output):
    make_adopted(trained.cells[0])
    assert "2 cells, 2 cached, 0 to run" in output("plan")
    assert "adopted    from of 0000000000000000 of code 0000000000000000, checked on 2 of 6 cells on 2027-07-01; " in (
        output("explain", trained.cells[0].key)
    )
    assert output("verify").endswith("2 cells trained again: every recorded bit is the same\n")


def test_a_study_may_be_named_without_its_option(folder, output):
    assert output("status", "study.yaml") == output("status", *STUDY)
    assert output("plan", "study.yaml").splitlines()[:3] == output("plan", *STUDY).splitlines()[:3]
