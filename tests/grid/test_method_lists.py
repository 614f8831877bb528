"""Families of methods, included files, and rows by name: what a study's `methods` stands for."""

import re
from pathlib import Path

import pytest
import yaml
from studies import FOUR_CELLS, parsed

from fedgrid.errors import UserError
from fedgrid.grid.plan.product import planned_study
from fedgrid.grid.study.catalog import description
from fedgrid.grid.study.yaml_file import read
from fedgrid.loading import names

pytestmark = pytest.mark.usefixtures("working_folder")

ROOT = Path(__file__).parents[2]
FACTS = {name: description("methods", name)["facts"] for name in names("methods")}
PLAIN = sorted(name for name, facts in FACTS.items() if facts["plain_rates"])
GLOBAL = sorted(name for name, facts in FACTS.items() if facts["score"] == "global")
PERSONALISED = sorted(set(FACTS) - set(GLOBAL))


HELD_OUT = {"partition": "dirichlet", "clients": 4, "validation": 0.2}


def study_of(methods, **changes):
    text = parsed(FOUR_CELLS) | {"seeds": [0], "heterogeneity": [HELD_OUT], "methods": methods} | changes
    Path("study.yaml").write_text(yaml.safe_dump(text, sort_keys=False))
    return planned_study(read(Path("study.yaml")))


def rows(methods, **changes):
    """Labels of the rows, in their order."""
    return list(study_of(methods, **changes).rows)


def mu(methods):
    """FedProx's μ."""
    return study_of(methods).rows["fedprox"].component.settings["mu"]


@pytest.mark.parametrize(
    ("methods", "expected"),
    [
        ("all", sorted(FACTS)),
        ("fedavg", ["fedavg"]),
        (["all"], sorted(FACTS)),
        (["all global"], GLOBAL),
        ("all personalised", PERSONALISED),
        ({"all global": None, "local": None}, [*GLOBAL, "local"]),
        (["scaffold", "local", "all global"], ["scaffold", "local", *(n for n in GLOBAL if n != "scaffold")]),
        (["all global", "all personalised"], GLOBAL + PERSONALISED),
        ("all split model: shared extractor, own heads", ["fedas", "fedper", "fedrep"]),
        (["all no federation", "all personal model"], ["local", "apfl", "ditto", "fedphp", "fml", "pfedme"]),
    ],
)
def test_families_and_names(methods, expected):
    assert rows(methods) == expected


@pytest.mark.parametrize("family", sorted({facts["family"] for facts in FACTS.values()}))
def test_every_family_that_is_listed_is_a_word(family):
    assert rows(f"all {family}") == [
        name for name, facts in FACTS.items() if re.match(f"{re.escape(family)}(?![A-Za-z0-9])", facts["family"])
    ]


def test_a_named_method_keeps_its_settings_wherever_it_stands():
    assert mu("all") == mu(["all global", "fedprox"]) == 0.01
    for methods in (["all", {"fedprox": {"mu": 0.1}}], [{"fedprox": {"mu": 0.1}}, "all"]):
        assert mu(methods) == 0.1 and rows(methods).count("fedprox") == 1
    assert rows(["all global", {"strong pull": {"method": "fedprox", "mu": 1}}]) == [*GLOBAL, "strong pull"]


def test_methods_that_the_study_cannot_train_are_left_out_of_families_alone():
    adam = {"training": {"rounds": 2, "optimizer": "adam", "lr": 0.001}}
    study = study_of(["local", "all"], **adam)
    assert set(study.rows) == set(FACTS) - set(PLAIN)
    (notice,) = study.notices
    assert notice.startswith(
        f"study.yaml:19: methods.1: 'all' leaves out {', '.join(PLAIN)}, which would take plain SGD"
    )
    assert study_of("all").notices == ()
    rates = {"alpha": 0.01, "beta": 0.01}
    assert "perfedavg" in rows(["all", {"perfedavg": rates}], **adam)
    for methods in (["all", "scaffold"], "all global model, meta-learned"):
        with pytest.raises(UserError, match=r"^study\.yaml:\d+: .* set (lr|alpha)$"):
            study_of(methods, **adam)


@pytest.mark.parametrize("training", [{"malicious": 0.2, "attack": "sign"}, {"aggregation": "median"}], ids=str)
def test_methods_that_do_more_than_average_uploads_take_no_attack_on_them_and_no_other_rule(training):
    unable = sorted(name for name, facts in FACTS.items() if not facts["averages_uploads"])
    study = study_of(["fedavg", "all"], training=training)
    assert set(study.rows) == set(FACTS) - set(unable)
    (notice,) = study.notices
    assert f"'all' leaves out {', '.join(unable)}, since training.a" in notice
    neutral = {"attack": "labels", "aggregation": "mean"}
    assert "local" in study_of(["fedavg", {"local": {"training": neutral}}], training=training).rows
    with pytest.raises(UserError, match=r"^study\.yaml:\d+: .* alone; give local training: {a"):
        study_of(["fedavg", "local"], training=training)


def test_rules_that_cannot_bear_so_many_malicious_clients_are_refused():
    for training, problem in (
        ({"malicious": 0.5, "aggregation": "trimmed"}, "guards against fewer than half of the participants"),
        (
            {"malicious": 0.3, "aggregation": "krum"},
            r"at least 2·2 \+ 3 .* guard against 2, and a round has 4",
        ),
        ({"assumed_malicious": 0.2, "aggregation": "multi-krum", "participation": 0.5}, "and a round has 2"),
    ):
        with pytest.raises(UserError, match=problem):
            study_of("fedavg", training=training)
    assert study_of("fedavg", training={"malicious": 0.6, "aggregation": "median"}).rows


def test_the_documentation_names_the_methods_without_attacks_on_uploads():
    text = (ROOT / "docs/engine.md").read_text(encoding="utf-8")
    listed = re.search(r"FedCoSR, FedCRL\)\. (.*?)\s+refuse them when a study is planned", text, re.DOTALL)[1]
    unable = {description("methods", name)["title"] for name, facts in FACTS.items() if not facts["averages_uploads"]}
    assert set(re.split(r",\s+|\s+and\s+", listed)) == unable


def test_a_method_that_tries_models_on_held_out_images_says_so_where_there_are_none():
    without = {"heterogeneity": [{"partition": "homogeneous", "clients": 4, "label": "equal"}]}
    (notice,) = study_of({"mine": {"method": "fedfomo"}, "fedavg": None}, **without).notices
    assert notice.startswith("mine tries models on images held out for validation, and equal holds none out")
    assert study_of("fedavg", **without).notices == () == study_of("fedfomo").notices


def test_a_rate_that_a_method_refuses_leaves_it_out_of_families():
    study = study_of(["local", "all"], training={"rounds": 2, "lr": 0.2})
    assert set(study.rows) == set(FACTS) - {"pfedme"}
    (notice,) = study.notices
    assert "leaves out pfedme, which would take outer_lr = 0.2 with lam = 15, whose product has to be below 2" in notice


def test_an_experiment_chooses_families_of_the_studys_rows():
    experiments = {"a": {"methods": ["all global", "local"]}, "b": {"methods": "all personalised"}, "c": {}}
    study = study_of({"local": None, "mine": {"method": "fedprox"}, "ditto": None}, experiments=experiments)
    labels = {one.id: list(dict.fromkeys(cell.row.label for cell in one.cells)) for one in study.experiments}
    assert labels == {"a": ["mine", "local"], "b": ["local", "ditto"], "c": ["local", "mine", "ditto"]}
    with pytest.raises(UserError, match=r"experiments\.a\.methods: no row of the study is global$"):
        study_of("local", experiments={"a": {"methods": "all global"}})
    changed = study_of(["local", "fedprox"], experiments={"a": {"methods": [{"fedprox": {"mu": 3}}]}})
    assert [cell.row.component.settings for cell in changed.cells] == [{"mu": 3.0}]


def test_a_file_counts_from_the_one_that_includes_it(working_folder):
    (working_folder / "sub").mkdir()
    (working_folder / "sub/outer.yaml").write_text(
        "- {fedprox: {mu: 3, training: {lr: 0.5}}}\n- {include: inner.yaml}\n- moon\n"
    )
    (working_folder / "sub/inner.yaml").write_text("fedprox: {mu: 4}\nall global:\nditto: {lam: 2}\n")
    include = {"include": "sub/outer.yaml"}
    study = study_of(["local", include, {"fedprox": {"training": {"rounds": 1}}}])
    assert list(study.rows) == ["local", "fedprox", *(n for n in GLOBAL if n != "fedprox"), "ditto"]
    row = study.rows["fedprox"]
    assert (row.component.settings["mu"], row.training.lr, row.training.rounds) == (3, 0.5, 1)
    assert study.rows["ditto"].component.settings["lam"] == 2
    assert rows(include) == list(study.rows)[1:]


INCLUDED = {
    "other.yaml": "fedprox:\n  muu: 1\n",
    "itself.yaml": "- local\n- include: itself.yaml\n",
    "number.yaml": "3\n",
    "empty.yaml": "",
    "twice.yaml": "- local\n- {local: }\n",
    "form.yaml": "local:\nfedprox: 3\n",
}
MISTAKES = {
    "no such family": ("all personalized", r"study\.yaml:\d+: methods: no family 'personalized'.*'personalised'\?$"),
    "no such beginning": (["local", "all split modl"], r"study\.yaml:17: methods\.1: .* did you mean 'split model'\?$"),
    "a method": (["all", "fedprx"], r"study\.yaml:17: methods\.1: unknown method 'fedprx'; did you mean 'fedprox'\?$"),
    "a name twice": (["local", {"local": {}}], r"study\.yaml:17: methods\.1\.local: duplicate row 'local'$"),
    "settings of a family": ({"all": {"mu": 1}}, r"study\.yaml:16: methods\.all: unknown method 'all'"),
    "no file": (["local", {"include": "no.yaml"}], r"study\.yaml:17: methods\.1\.include: there is no file no\.yaml$"),
    "a mapping of a file": ({"include": {"mu": 1}}, r"study\.yaml:16: methods\.include: expected a text"),
    "a setting in a file": ({"include": "other.yaml"}, r"other\.yaml:2: fedprox: unknown setting 'muu'.*'mu'\?$"),
    "a circle": ({"include": "itself.yaml"}, r"itself\.yaml:2: 1\.include: itself\.yaml includes itself$"),
    "a number": ({"include": "number.yaml"}, r"number\.yaml:1: a file of methods is a list of names"),
    "nothing": ({"include": "empty.yaml"}, r"empty\.yaml:1: a file of methods is a list of names"),
    "twice in a file": ({"include": "twice.yaml"}, r"twice\.yaml:2: 1\.local: duplicate row 'local'$"),
    "form of a file": ({"include": "form.yaml"}, r"form\.yaml:2: fedprox: expected a mapping or nothing, got 3$"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_name_their_file_and_line(mistake):
    methods, message = MISTAKES[mistake]
    for name, text in INCLUDED.items():
        Path(name).write_text(text)
    with pytest.raises(UserError, match=f"^{message}"):
        study_of(methods)


def test_the_example_of_the_documentation():
    text = (ROOT / "docs/studies.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    first = next(number for number, block in enumerate(blocks) if "include: baselines.yaml" in block)
    study, baselines = blocks[first : first + 2]
    Path("study.yaml").write_text(study)
    Path("baselines.yaml").write_text(baselines)
    planned = planned_study(read(Path("study.yaml")))
    personalised = [name for name in PERSONALISED if name not in ("local", *PLAIN)]
    assert list(planned.rows) == ["local", *personalised, "fedprox", "strong pull", "fedavg"]
    prox = planned.rows["fedprox"]
    assert (prox.component.settings["mu"], prox.training.lr) == (0.1, 0.002)
