"""Archives that bring code: only what the study names is unpacked, and nothing that runs because of its name."""

from importlib.machinery import EXTENSION_SUFFIXES

import pytest
from archives import STUDY, contents, is_untouched, packed

from fedgrid.cli.main import main

RUN = "from pathlib import Path\nPath({marker!r}).touch()\n"
"The content of every file of code: it leaves a mark where it is imported or run."
UNNAMED = "is not a file that the study names"
IMPORTED = "would be imported in place of the module"
STEERING = "would steer other programs"
COMPILED = "is compiled code"
NO_RESULT = "is not a file that an archive of fedgrid bundle has"
INSTALLED, METADATA = "would be taken for a part of an installed package", "evil-1.0.dist-info/entry_points.txt"
STORED = "out/Store/code/0/numexpr.py"
OWN_METHOD = STUDY.replace("[local]", "{mine: {method: methods/mine.py}}")
PFLLIB = STUDY.replace("partition: homogeneous, clients: 4", "partition: {import: pfl}")


def naming(file):
    """A study that has a file's name for its title, so that it is among those that the study names."""
    return f"{STUDY}title: '{file}'\n"


REFUSED = {
    "a module of Snakemake": ("project/snakemake.py", STUDY, IMPORTED),
    "a module that Snakemake imports": ("project/yaml.py", STUDY, IMPORTED),
    "a module that it imports late": ("project/pulp.py", STUDY, IMPORTED),
    "a module of Python": ("project/multiprocessing.py", STUDY, IMPORTED),
    "fedgrid itself": ("project/fedgrid.py", STUDY, IMPORTED),
    "a module with letters of another size": ("project/SnakeMake.PY", STUDY, IMPORTED),
    "a module in wide letters": ("project/\uff59aml.py", STUDY, IMPORTED),
    "a package of Snakemake's name": ("project/snakemake/__init__.py", STUDY, IMPORTED),
    "a module beside a method": ("project/methods/torch.py", OWN_METHOD, IMPORTED),
    "a module that a method imports": ("project/methods/numpy.py", OWN_METHOD, IMPORTED),
    "a module that the title names": ("project/yaml.py", naming("yaml.py"), IMPORTED),
    "what Python imports at its start": ("project/sitecustomize.py", naming("sitecustomize.py"), IMPORTED),
    "what pytest imports": ("project/methods/conftest.py", naming("methods/conftest.py"), IMPORTED),
    "a plugin of Snakemake": ("project/snakemake_executor_plugin_evil.py", STUDY, IMPORTED),
    "bytecode": ("project/snakemake.pyc", naming("snakemake.pyc"), COMPILED),
    "bytecode with letters of another size": ("project/snakemake.PyC", naming("snakemake.PyC"), COMPILED),
    "an extension module": (f"project/methods/yaml{EXTENSION_SUFFIXES[0]}", OWN_METHOD, COMPILED),
    "an extension module of any Python": ("project/yaml.abi3.so", STUDY, COMPILED),
    "paths to import from": ("project/evil.pth", naming("evil.pth"), COMPILED),
    "a packed package": ("project/evil.egg", STUDY, COMPILED),
    "an installed package": (f"project/{METADATA}", naming(METADATA), INSTALLED),
    "an installed package of one file": ("project/evil.egg-info", STUDY, INSTALLED),
    "a Makefile": ("project/Makefile", naming("Makefile"), STEERING),
    "a Makefile further down": ("project/config/makeFILE", STUDY, STEERING),
    "GNU's Makefile": ("project/GNUmakefile", STUDY, STEERING),
    "a part of a Makefile": ("project/config/rules.mk", STUDY, STEERING),
    "a Snakefile further down": ("project/config/Snakefile", naming("config/Snakefile"), STEERING),
    "rules": ("project/config/study.smk", STUDY, STEERING),
    "a profile further down": ("project/config/Profiles/default/config.yaml", STUDY, STEERING),
    "options of pytest": ("project/pytest.ini", naming("pytest.ini"), STEERING),
    "options of Matplotlib": ("project/matplotlibrc", naming("matplotlibrc"), STEERING),
    "code that nothing names": ("project/extra.py", STUDY, UNNAMED),
    "code beside a method": ("project/methods/other.py", OWN_METHOD, UNNAMED),
    "code in a folder of data": ("project/pfl/train/extra.py", PFLLIB, UNNAMED),
    "a folder that the title names": ("project/evil/extra.py", naming("evil"), UNNAMED),
    "the folder of the study": ("project/notes.txt", naming("."), UNNAMED),
    "a text that nothing names": ("project/notes.txt", STUDY, UNNAMED),
    "a name that is right from the working folder alone": ("project/config/a.py", naming("../config/a.py"), UNNAMED),
    "code in the store of another folder": (f"project/{STORED}", naming(STORED), "is code in a store of results"),
    "a module among results": ("results/snakemake.py", STUDY, NO_RESULT),
    "bytecode among results": ("results/digits/yaml.pyc", STUDY, NO_RESULT),
    "an extension among figures": ("results/digits/figures/yaml.abi3.so", STUDY, NO_RESULT),
    "a Makefile among results": ("results/Makefile", STUDY, NO_RESULT),
    "a package among results": ("results/yaml/__init__.py", STUDY, NO_RESULT),
    "a study among results": ("results/config/study.yaml", STUDY, NO_RESULT),
    "code in the store": ("results/store/cells/a/b/c/torch.py", STUDY, NO_RESULT),
}
"""The file that is added to an archive, its study, and why it is refused."""
METHOD = "from fedgrid.methods import Method\nimport {helper}\n\n\nclass Mine(Method):\n    files = ({files})\n"


@pytest.fixture
def opened(here, capsys):
    """Opens an archive with these files and a study; returns the exit code and the output, once nothing was run."""

    def call(files, text=STUDY, options=(), **provenance):
        marker = here.parent / "ran"
        code = RUN.format(marker=str(marker))
        added = {name: (code if content is None else content).encode() for name, content in files.items()}
        archive = contents({"project/study.yaml": text.encode(), **added}, **provenance)
        (here.parent / "a.zip").write_bytes(packed(archive))
        exit_code = main(["open", "../a.zip", *options])
        assert not marker.exists()
        output = capsys.readouterr()
        return exit_code, output.out + output.err

    return call


def assert_refused(outcome, sentence, folder):
    """A command that ended with one sentence, and wrote nothing."""
    code, output = outcome
    assert code == 2 and output.startswith("fedgrid: ../a.zip: refused, ") and output.count("\n") == 1, output
    assert sentence in output and ".open." not in output, output
    assert is_untouched(folder)


@pytest.mark.parametrize("kind", REFUSED)
def test_refused(kind, opened, here):
    name, study, sentence = REFUSED[kind]
    own = {"project/methods/mine.py": None} if study is OWN_METHOD else {}
    assert_refused(opened({**own, name: None}, study), f"{name.removeprefix('project/')}' {sentence}", here)


def test_results_in_the_working_folder_bring_no_module(opened, here):
    outcome = opened({"results/yaml.py": None}, options=["--results", "."])
    assert outcome == (2, f"fedgrid: ../a.zip: refused, 'results/yaml.py' {NO_RESULT}\n") and is_untouched(here)


WRONG = {
    "a study that is no YAML": ("a: [", "study.yaml:1: not YAML"),
    "a study that makes objects": ("a: !!python/object/apply:os.system [touch ran]\n", "has no meaning here"),
    "a study without end": ("a: &a [*a]\n", "one of its aliases (*name) contains itself"),
    "a study that is a list": ("[a]\n", "a study is a mapping of keys"),
    "an endless number of seeds": (naming("{seed}" * 400 + "x"), UNNAMED),
    "an absolute path of another file": (naming("/home/me/other/extra.py"), UNNAMED),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_study_that_does_not_name_the_code(kind, opened, here):
    study, sentence = WRONG[kind]
    assert_refused(opened({"project/mine/extra.py": None, f"project/{'1' * 200}": ""}, study), sentence, here)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("def", "methods/mine.py: cannot be read as Python"),
        ("(" * 10_000, "methods/mine.py: cannot be read as Python"),
        ("x = '\0'", "methods/mine.py: cannot be read as Python"),
        ("#" * 4_000_001, "methods/mine.py has 4.0 MB; at most 4 MB are allowed"),
        (METHOD.format(helper="os", files="'../notes.txt',"), f"'notes.txt' {UNNAMED}"),
        (METHOD.format(helper="yaml", files=""), f"'project/methods/yaml.py' {IMPORTED}"),
    ],
    ids=["no Python", "too deep", "zero byte", "too long", "a file outside of its folder", "a helper of Python's name"],
)
def test_a_method_that_cannot_be_unpacked(source, sentence, opened, here):
    helper = {"project/methods/yaml.py": None} if "import yaml" in source else {}
    notes = {"project/notes.txt": ""} if "notes" in source else {}
    assert_refused(opened({"project/methods/mine.py": source, **helper, **notes}, OWN_METHOD), sentence, here)


@pytest.mark.parametrize(
    ("provenance", "sentence"),
    [
        ({"study": ""}, f"'study.yaml' {UNNAMED}"),
        ({"study": "other.yaml"}, "its study is not among its files"),
        ({"study": "../here/study.yaml"}, "its study is not among its files"),
        ({"scale": "small\x1b[2J"}, "one of its names cannot be printed"),
    ],
    ids=["no study", "another study", "a study elsewhere", "letters for the terminal"],
)
def test_provenance_that_does_not_fit(provenance, sentence, opened, here):
    assert_refused(opened({}, **provenance), sentence, here)


def test_code_that_the_study_names_is_shown_and_not_run(opened, here):
    source = METHOD.format(helper="helper", files="'prior.txt',") + RUN.format(marker="../ran")
    files = {"mine.py": source, "helper.py": None, "prior.txt": ""}
    (here / "methods").mkdir()
    (here / "methods/helper.py").write_text("HALF = 0.5\n")
    code, output = opened({f"project/methods/{name}": content for name, content in files.items()}, OWN_METHOD)
    assert code == 0
    assert "written  methods/mine.py, which is code: read it before you run it\n" in output
    assert "kept     methods/helper.py, which differs from the archive's, and is code: a run uses yours\n" in output
    assert "written  methods/prior.txt\n" in output and (here / "methods/prior.txt").is_file()
    assert (here / "methods/helper.py").read_text() == "HALF = 0.5\n"


def test_a_script_that_the_study_names_is_shown_as_code(opened):
    code, output = opened({"project/job.SH": ""}, naming("job.SH"))
    assert code == 0 and "written  job.SH, which is code: read it before you run it\n" in output


def test_the_next_command_is_quoted(opened):
    _, output = opened({}, scale="small; rm -rf .")
    assert output.endswith("Next: fedgrid go study.yaml --scale 'small; rm -rf .'\n")


def test_paths_of_another_computer_name_files_of_the_project(opened, here):
    """Version 1.0 packed them so; the study has to be edited before a run finds them."""
    study = STUDY.replace("[local]", "[/home/me/toy/methods/mine.py, ~/toy/methods/other.py]")
    code, output = opened({"project/methods/mine.py": "", "project/methods/other.py": ""}, study)
    assert code == 0 and (here / "methods/mine.py").is_file() and (here / "methods/other.py").is_file(), output
