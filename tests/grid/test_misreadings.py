"""What YAML 1.1 reads as something other than what is written is refused, with its line, its key and what to write."""

from pathlib import Path

import pytest
import yaml
from studies import FOUR_CELLS

from fedgrid.cli.cells import data_setting
from fedgrid.errors import UserError
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.yaml_file import read

pytestmark = pytest.mark.usefixtures("working_folder")

OCTAL = {
    "010": "YAML reads 010 as the octal number 8; write 10 or 8, or '010' for a text",
    "-010": "YAML reads -010 as the octal number -8; write -10 or -8, or '-010' for a text",
    "+010": "YAML reads +010 as the octal number 8; write 10 or 8, or '+010' for a text",
    "0_10": "YAML reads 0_10 as the octal number 8; write 10 or 8, or '0_10' for a text",
    "010_": "YAML reads 010_ as the octal number 8; write 10 or 8, or '010_' for a text",
    "007": "YAML reads 007 as the octal number 7; write 7, or '007' for a text",
    "!!int 010": "YAML reads 010 as the octal number 8; write 10 or 8, or '010' for a text",
}
BASE_60 = {
    "1:30": "YAML reads 1:30 as the number 90 to the base 60; write '1:30' for a text, or 90",
    "-1:30": "YAML reads -1:30 as the number -90 to the base 60; write '-1:30' for a text, or -90",
    "1:30.5": "YAML reads 1:30.5 as the number 90.5 to the base 60; write '1:30.5' for a text, or 90.5",
    "1_0:30:15": "YAML reads 1_0:30:15 as the number 37815 to the base 60; write '1_0:30:15' for a text, or 37815",
}
OTHERS = {
    "2026-01-01": "YAML reads 2026-01-01 as a date; write '2026-01-01' for a text",
    "2026-13-45": "YAML reads 2026-13-45 as a date; write '2026-13-45' for a text",
    "=": "YAML reads = as the key of a default value; write '=' for a text",
    "!!binary aGk=": "the tag !!binary has no meaning here",
    "!mine [a]": "the tag !mine has no meaning here",
    "!!python/object/apply:os.system ['true']": "the tag !!python/object/apply:os.system has no meaning here",
    "!!bool maybe": "not YAML ('maybe' is not of the type bool)",
}
AS_WRITTEN = {
    "0": 0,
    "-0": 0,
    "10": 10,
    "1_000": 1000,
    "0x10": 16,
    "0b11": 3,
    "0o10": "0o10",
    "09": "09",
    "010.5": 10.5,
    "1:75": "1:75",
    "12:30 h": "12:30 h",
    "1e-3": "1e-3",
    "'010'": "010",
    '"1:30"': "1:30",
    "!!str 010": "010",
    "no": False,
    "y": "y",
}


def study(text):
    Path("study.yaml").write_text(text)
    return Path("study.yaml")


@pytest.mark.parametrize("value", [*OCTAL, *BASE_60, *OTHERS])
def test_a_value_is_refused_where_it_is_written(value):
    sentence = (OCTAL | BASE_60 | OTHERS)[value]
    with pytest.raises(UserError) as error:
        read(study(f"name: s\ntraining:\n  rounds: {value}\n"))
    key = "" if sentence.startswith("not YAML") else "training.rounds: "
    assert str(error.value) == f"study.yaml:3: {key}{sentence}"


@pytest.mark.parametrize("value", [*OCTAL, *BASE_60])
def test_the_number_is_the_one_that_yaml_reads(value):
    assert f" number {yaml.safe_load(value):g}" in (OCTAL | BASE_60)[value]


@pytest.mark.parametrize("value", AS_WRITTEN)
def test_other_values_are_read_as_they_are_written(value):
    assert read(study(f"a: {value}")) == {"a": AS_WRITTEN[value]}
    assert read(study(f"a: [{value}]")) == {"a": [AS_WRITTEN[value]]}


@pytest.mark.parametrize("label", ["010", "1:30", "2026-01-01", "2026-13-45"])
def test_a_label_needs_quotes(label):
    row = "{method: fedavg}"
    with pytest.raises(UserError, match=rf"^study\.yaml:2: methods\.{label}: YAML reads {label} as "):
        read(study(f"methods:\n  {label}: {row}\n"))
    with pytest.raises(UserError, match=rf"^study\.yaml:1: methods\.{label}: YAML reads {label} as "):
        read(study(f"methods: {{{label}: {row}}}"))
    assert read(study(f"methods:\n  '{label}': {row}\n")) == {"methods": {label: {"method": "fedavg"}}}


def test_a_label_that_is_merged_from_elsewhere_needs_them_too():
    with pytest.raises(UserError, match=r"^study\.yaml:1: b\.010: YAML reads 010"):
        read(study("b: {<<: {010: x}}"))
    with pytest.raises(UserError, match=r"^study\.yaml:2: 010: YAML reads 010"):
        read(study("8: a\n010: b"))


def test_included_rows_need_them_too():
    Path("rows.yaml").write_text("fedavg:\nfedprox:\n  training: {rounds: 010}\n")
    with pytest.raises(UserError, match=r"^rows\.yaml:3: fedprox\.training\.rounds: YAML reads 010"):
        planned_study(read(study(FOUR_CELLS.replace("[local, fedavg]", "[{include: rows.yaml}]"))))


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ("010", "--data-set: side: YAML reads 010 as the octal number 8"),
        ("1:30", "--data-set: side: YAML reads 1:30 as the number 90"),
        ("[", "--data-set: side: not YAML (expected the node content, but found '<stream end>')"),
        ("{a: 1, a: 2}", "--data-set: side: the key 'a' is there twice, first in line 1"),
        ("[" * 5000, "--data-set: side: cannot be read (it is nested more than 100 levels deep)"),
        ("\udcff", "--data-set: side: cannot be read ("),
    ],
)
def test_a_setting_of_the_data_is_read_as_in_a_study(value, sentence):
    with pytest.raises(UserError) as error:
        data_setting(f"side={value}")
    assert str(error.value).startswith(sentence)


def test_settings_of_the_data_have_values_of_studies():
    assert [data_setting(f"a={value}")[1] for value in ("16", "yes", "[x, 1]", "", "'010'")] == [
        *(16, True, ["x", 1], None, "010")
    ]


@pytest.mark.parametrize("value", ["no", "0x10", "1_000"])
def test_a_text_that_lacks_its_quotes(value):
    text = FOUR_CELLS.replace("data: digits", f"data: {{name: digits, label: {value}}}")
    with pytest.raises(UserError, match=r"data\.label: expected a text or nothing, got \w+; put a text in quotes$"):
        planned_study(read(study(text)))


def test_every_study_of_the_package_is_read(request):
    files = list((request.config.rootpath / "config").rglob("*.yaml"))
    assert len(files) > 5 and all(read(file)["name"] for file in files)


@pytest.mark.parametrize("written, meant", [("0,05", "0.05"), ("0,5", "0.5"), ("1,25, rounds: 2", "1.25")])
def test_a_decimal_comma_is_no_second_entry(written, meant):
    with pytest.raises(UserError) as error:
        read(study(f"name: s\ntraining: {{lr: {written}}}\n"))
    expected = f"YAML reads {written.partition(', ')[0]} as two entries; write {meant}"
    assert str(error.value) == f"study.yaml:2: training.lr: {expected}"
    assert read(study("training: {lr: 0, 5: 1}\n"))["training"] == {"lr": 0, 5: 1}


@pytest.mark.parametrize(
    "text, line, problem",
    [
        ("methods:\n  local:\n fedavg:\n", 3, "the line is indented less or more than those above that it belongs to"),
        ("methods:\n  local:\n  fedavg\n  fedper:\n", 4, "no ':' after a key, in this line or the one above"),
        ("methods:\n\tlocal:\n", 2, "a tab, where YAML has spaces"),
    ],
)
def test_what_is_no_yaml_is_said_in_plain_words(text, line, problem):
    with pytest.raises(UserError) as error:
        read(study(text))
    assert str(error.value) == f"study.yaml:{line}: not YAML ({problem})"


@pytest.mark.parametrize(
    "change, words",
    [
        (("fedavg", "fedvag"), "unknown method 'fedvag'; did you mean 'fedavg'?"),
        (("rounds", "global_rounds"), "unknown setting 'global_rounds'; it is called 'rounds' here"),
        (("beta", "alpha"), "unknown setting 'alpha'; it is called 'beta' here"),
    ],
)
def test_names_of_other_tools_and_swapped_letters_are_known(change, words):
    with pytest.raises(UserError) as error:
        planned_study(read(study(FOUR_CELLS.replace(*change, 1))))
    assert str(error.value).endswith(words)
