"""What the methods' suite says of methods that are wrong: one sentence that their author understands."""

import io
from types import SimpleNamespace

import pytest

from fedgrid.cli.components import component_text
from fedgrid.errors import UserError
from fedgrid.suite import method, method_costs, method_executors, method_key, method_source, simulations
from fedgrid.suite.expectations import NotFinite, Unmet
from fedgrid.suite.running import Reporter, cause_of
from fedgrid.suite.subjects import subject

ROUND = "        average = fed.average(fed.upload(local.theta))\n"
LOSS = "        pull = squared_distance(theta, at.server.theta)\n"
IDENTITY = 'identities = [Identity("fedavg", {"strength": 0.0})]'
FIRST = "from fedgrid.methods import"


@pytest.fixture
def mine(tmp_path):
    """Writes the method that `fedgrid new-method` writes with some of its text replaced; its file."""

    def written(*changes):
        text = component_text("methods", "mine")
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        file = tmp_path / "mine.py"
        file.write_text(text)
        for cached in (method.undisturbed, method_executors.reference_run):
            cached.cache_clear()
        return file

    return written


def edge(file):
    method.test_edge(file, "a client with one image")


FLAWED = {
    "no model at all": ([("def global_model", "def model")], edge, "neither `global_model` nor `received` returns one"),
    "no model to learn by heart": ([("def global_model", "def model")], method.test_it_learns, "no client is scored"),
    "no model to predict with": (
        [("def global_model", "def model")],
        lambda file: method_executors.test_clients_one_by_one_or_together(file, 0.5, method_executors.Stacked()),
        "no client is scored",
    ),
    "rows of clients on the server": (
        [
            (
                'State(server={"theta": fed.initial()})',
                'State({"theta": fed.initial(), "own": fed.replicate(fed.initial())})',
            ),
            ('server={"theta": average}', 'server={"theta": average, "own": local.theta}'),
        ],
        method.test_a_round_returns_a_state_of_the_same_form,
        r"s.server.own.extractor.1.weight has 5 rows after `setup` and 2 after a round; .* kept by clients={…}",
    ),
    "a number that is no setting": (
        [("    strength: float = hp(0.01, low=0)\n", "    strength = 0.01\n")],
        method_source.test_its_numbers_are_settings,
        r"mine.py: no study can set strength; write strength: float = hp\(0.01\)",
    ),
    "a state that grows": (
        [('server={"theta": average}', 'server={"theta": average, "more": average}')],
        method.test_a_round_returns_a_state_of_the_same_form,
        "`round` added s.server.more.extractor.1.bias, .*; `setup` gives every entry its first value",
    ),
    "a state of another type": (
        [('server={"theta": average}', 'server={"theta": average.map(lambda t: t.double())}')],
        method.test_a_round_returns_a_state_of_the_same_form,
        r"is torch.float32 after `setup` and torch.float64 after a round",
    ),
    "a row too few": (
        [("trained=local.theta", "trained=local.theta.map(lambda t: t[:1])")],
        method.test_a_round_returns_a_state_of_the_same_form,
        r"trained.extractor.1.weight has 1 rows for 2 participants",
    ),
    "a round without its return": (
        [("return s.update", "s.update")],
        method.test_a_round_returns_a_state_of_the_same_form,
        r"`round` returned None, not a State; end it with return s.update",
    ),
    "a client entry without rows": (
        [('State(server={"theta": fed.initial()})', 'State({"theta": fed.initial()}, {"own": fed.initial()})')],
        method.test_a_round_returns_a_state_of_the_same_form,
        r"`setup` gives s.clients.own.extractor.1.weight 16 rows for 5 clients; fed.replicate",
    ),
    "an average that is forgotten": (
        [("fed.average(fed.upload(local.theta))", "fed.upload(local.theta)")],
        method.test_a_round_returns_a_state_of_the_same_form,
        r"`round` puts a stack of 2 into s.server.theta.extractor.1.weight; fed.average",
    ),
    "a mean over all clients": (
        [(ROUND, "        average = fed.upload(local.theta).map(lambda t: t.sum(dim=0) / 5)\n")],
        method.test_models_keep_their_size_where_some_take_part,
        r"2 of 5 clients took part at a tiny rate, and extractor.1.weight has 0.4\d times its norm; fed.average",
    ),
    "a sum in place of a mean": (
        [(ROUND, "        average = fed.upload(local.theta).map(lambda t: t.sum(dim=0))\n")],
        method.test_models_keep_their_size_where_some_take_part,
        "has 2.00 times its norm",
    ),
    "a change in place": (
        [(ROUND, ROUND + '        s.server.theta["head.bias"].add_(1)\n')],
        method.test_a_round_returns_a_state_of_the_same_form,
        "`round` changed s.server.theta.head.bias in place",
    ),
    "draws of its own": (
        [(FIRST, "import random\n\n" + FIRST), (ROUND, ROUND + "        average = average * random.random()\n")],
        method.test_two_runs_are_equal,
        r"two runs with the same seed have to agree bit for bit .*fed\.random.*, but \w+ of round \d is",
    ),
    "no draws at all": (
        [
            (ROUND, "        average = s.server.theta\n"),
            ("fed.initial()", "fed.initial() * 0"),
            (", trained=local.theta", ""),
        ],
        method.test_a_seed_changes_the_result,
        "start from fed.initial",
    ),
    "a setting that does not exist": (
        [(IDENTITY, 'identities = [Identity("fedavg", {"strong": 0.0})]')],
        method.test_identities,
        r"Identity\('fedavg', {'strong': 0.0}\) sets strong, which Mine does not have",
    ),
    "an identity that does not hold": (
        [(IDENTITY, 'identities = [Identity("fedavg", {"strength": 1.0})]')],
        method.test_identities,
        r"Identity\('fedavg', {'strength': 1.0}\) says that the models that clients use are equal bit for bit, but "
        r"extractor.1.weight differs by up to",
    ),
    "no global model to compare with": (
        [(IDENTITY, 'identities = [Identity("local", models="global")]')],
        method.test_identities,
        r"Identity\('local', models='global'\): Local has no global model; .* such as models='used'",
    ),
    "no trained models": (
        [(IDENTITY, 'identities = [Identity("fedavg", models="trained")]'), (", trained=local.theta", "")],
        method.test_identities,
        "Mine returns a state without trained=; compare other models, such as models='used'",
    ),
    "nothing learnt": ([(ROUND, "        average = s.server.theta\n")], method.test_it_learns, "went from .* to "),
    "other bytes": (
        [('down = up = "|θ|"', 'down = "|θ|"\n    up = "2·|θ|"')],
        method_costs.test_traffic_is_what_the_method_says,
        r"up = '2·\|θ\|' states 2,532 numbers in a round, but client 0 sent 1,266, which would be '\|θ\|'",
    ),
    "other passes": (
        [('work = "E"', 'work = "2E"')],
        method_costs.test_work_is_what_the_method_says,
        "work = '2E' states 4 passes in a round of E = 2 epochs, but client 0 made 2, which would be 'E'",
    ),
    "a branch on values": (
        [(LOSS, LOSS + "        if pull > 0:\n            pull = 2 * pull\n")],
        lambda file: method_executors.test_clients_one_by_one_or_together(file, 0.5, method_executors.Stacked()),
        "branches on the values of tensors",
    ),
    "a device": (
        [(LOSS, LOSS + '        pull = pull.to("cpu")\n')],
        method_source.test_it_leaves_to_the_engine_what_is_the_engines,
        r"mine.py, line \d+ has '\.to\(', which belongs to the engine; all tensors are where they have to be",
    ),
    "draws of NumPy": (
        [(FIRST, "import numpy as np\n\n" + FIRST), (LOSS, LOSS + "        pull = pull * np.random.rand()\n")],
        method_source.test_it_leaves_to_the_engine_what_is_the_engines,
        r"'np\.random\.', which belongs to the engine; use fed\.random\(purpose\)",
    ),
    "facts that are missing": (
        [('family = "one global model"', 'family = ""')],
        method_source.test_it_says_what_it_is,
        "the class Mine lacks family = 'one global model', what kind of method it is",
    ),
    "a helper that hides a function": (
        [("    def global_model", "    def adapted(self, own, shared):\n        return own\n\n    def global_model")],
        method_source.test_its_names_hide_nothing,
        r"mine.py, line \d+: 'adapted\(self, own, shared\)' overrides Method.adapted\(self, fed, s\)",
    ),
    "a value that is read": (
        [(LOSS, LOSS + "        pull = pull * float(pull)\n")],
        method_source.test_its_losses_are_pure,
        r"mine.py, line \d+: `float\(pull\)` in 'loss' reads the value of a tensor",
    ),
    "a module that no key covers": (
        [(FIRST, "import importlib\n\n" + FIRST)],
        method_key.test_its_key_covers_what_it_does,
        r"mine.py, line \d+: importlib; no key covers",
    ),
}


@pytest.mark.parametrize("flaw", FLAWED)
def test_a_flaw_is_told_in_a_sentence(mine, monkeypatch, flaw):
    changes, test, words = FLAWED[flaw]
    extra = {"monkeypatch": monkeypatch} if test is method_costs.test_work_is_what_the_method_says else {}
    with pytest.raises((Unmet, UserError), match=words):
        test(str(mine(*changes)), **extra)


def test_a_comment_or_a_string_belongs_to_nobody(mine):
    changes = [(LOSS, '        """Not pull.to("cpu"), nor open(file)."""\n' + LOSS + "        # torch.rand(3)\n")]
    method_source.test_it_leaves_to_the_engine_what_is_the_engines(str(mine(*changes)))


def test_an_error_of_the_method_names_its_line(mine):
    file = mine((ROUND, ROUND.replace("fed.average", "fed.avrage")))
    with pytest.raises(AttributeError) as caught:
        edge(str(file))
    cause = cause_of(caught.value, file)
    assert cause.startswith("AttributeError: 'Federation' object has no attribute 'avrage'; raised in ")
    assert "mine.py, line 39 (round): `average = fed.avrage(" in cause and "flaw of the check" not in cause


def test_causes_that_differ_in_numbers_are_told_once(mine):
    file, stream = mine((ROUND, ROUND.replace("theta))", "theta), fed.counts.sum(dim=1))"))), io.StringIO()
    reporter = Reporter("method_name", str(file), file, False, stream)
    for case in ("a client with one image", "batch norm"):
        with pytest.raises(ValueError, match=r"fed\.average: the weights sum to") as caught:
            method.test_edge(str(file), case)
        item = SimpleNamespace(function=method.test_edge, callspec=SimpleNamespace(id=f"it-{case}"))
        reporter._tell(item, caught.value)
    reporter.tell_repeated()
    text = stream.getvalue()
    assert text.count("the weights sum to") == 1
    assert "FAILED  1 further check, for the same reason as" in text


def test_an_error_about_types_says_that_theta_is_in_float64(mine):
    mixed = "        pull = torch.ones(3) @ theta['head.bias'][:3]\n"
    file = mine((FIRST, "import torch\n\n" + FIRST), (LOSS, LOSS + mixed))
    with pytest.raises(RuntimeError) as caught:
        method_executors.computed(str(file), method_executors.Loop())
    assert "θ is in float64 here: make tensors of its type" in cause_of(caught.value, file)


def test_a_name_of_the_engines_own_is_named_with_its_line(mine):
    file = mine(("    def global_model", "    def used(self, alpha):\n        return alpha\n\n    def global_model"))
    with pytest.raises(UserError, match=r"mine.py, line \d+: 'used' overrides Method.used, which says which models"):
        subject(str(file))


def test_differences_are_named():
    tree = simulations.method("fedavg").setup(simulations.everyone(simulations.ragged(2), 0))
    other = tree.update(server={"theta": tree.server.theta | {"head.bias": tree.server.theta["head.bias"] + 0.5}})
    states = simulations.state_tree(tree), simulations.state_tree(other)
    where = simulations.difference(*states)
    assert where == "s.server.theta.head.bias differs by up to 0.5"
    assert not simulations.difference(states[0], states[0])


RETURN = "        return super().loss(theta, batch, at)"
COUNTED = [
    (
        'State(server={"theta": fed.initial()})',
        'State({"theta": fed.initial(), "n": fed.initial()["head.bias"].sum() * 0})',
    ),
    ('server={"theta": average}', 'server={"theta": average, "n": s.server.n + 1}'),
]
"Changes with which the server counts rounds."
SCORES = "    def predict(self, theta, x, at):\n        return super().predict(theta, x, at).log()\n\n"
LOSS_OF_CLIENT = r"the training loss of client 0, trained with `loss`, is not finite in round"
NOT_FINITE = {
    "a loss that is NaN": ([(RETURN, f'{RETURN} * float("nan")')], f"{LOSS_OF_CLIENT} 1; guard divisions by 0"),
    "a loss that is infinite": ([(RETURN, f'{RETURN} + float("inf")')], f"{LOSS_OF_CLIENT} 1; guard divisions by 0"),
    "a loss that is NaN from the third round on": (
        [*COUNTED, (RETURN, f"{RETURN} + (1.5 - at.server.n).sqrt()")],
        f"{LOSS_OF_CLIENT} 3; guard divisions by 0",
    ),
    "a server that is infinite": (
        [(ROUND, ROUND + '        average = average * float("inf")\n')],
        r"the server's state is not finite in round 1, so look at what `round` returns in s\.server; guard",
    ),
    "a first model that is NaN": (
        [('State(server={"theta": fed.initial()})', 'State(server={"theta": fed.initial() * float("nan")})')],
        "in round 0, before any training, so look at `setup` and `predict`; guard",
    ),
    "scores that are NaN": (
        [("    def global_model", f"{SCORES}    def global_model")],
        "in the evaluation, is not finite in round 2, so look at `predict`, and at the models that `round` returns",
    ),
}


@pytest.mark.parametrize("flaw", NOT_FINITE)
def test_numbers_that_are_not_finite_are_told_with_their_source(mine, flaw):
    changes, words = NOT_FINITE[flaw]
    with pytest.raises(NotFinite, match=f"^training ended early: .*{words}"):
        method.test_four_rounds_stay_finite(str(mine(*changes)))


def test_the_function_of_steps_is_named_too(mine):
    step = "        local = fed.iterate(start, self.leap)\n"
    leap = "    def leap(self, theta, batch, at):\n        return theta * float('inf'), batch.x.sum()\n\n"
    train = "        local = fed.train(start, self.loss)\n"
    with pytest.raises(NotFinite, match="the model of client 0, trained with `leap`, is not finite in round 1"):
        method.test_four_rounds_stay_finite(
            str(mine((train, step), ("    def global_model", f"{leap}    def global_model")))
        )


def report_lines(file, tests):
    """The lines of a report on these tests, which all have to fail."""
    lines = io.StringIO()
    reporter = Reporter("method_name", str(file), file, False, lines)
    for test, arguments in tests.items():
        with pytest.raises(Exception) as caught:  # whatever a check raises
            test(str(file), **arguments)
        reporter._tell(SimpleNamespace(function=test), caught.value)
    reporter.tell_repeated()
    return lines.getvalue().splitlines()


def test_numbers_that_are_not_finite_are_one_finding(mine, monkeypatch, tmp_path):
    """No check that trains has a reason of its own, and none counts as a flaw of the suite."""
    checks = {
        method.test_four_rounds_stay_finite: {},
        method.test_a_round_returns_a_state_of_the_same_form: {},
        method.test_edge: {"edge": "few participants"},
        method.test_two_runs_are_equal: {},
        method.test_a_seed_changes_the_result: {},
        method.test_a_run_that_is_killed_in_every_round_is_the_undisturbed_one: {
            "tmp_path": tmp_path,
            "participation": 0.5,
        },
        method.test_identities: {},
        method.test_it_learns: {},
        method_costs.test_traffic_is_what_the_method_says: {},
        method_costs.test_work_is_what_the_method_says: {"monkeypatch": monkeypatch},
        method_executors.test_clients_one_by_one_or_together: {
            "participation": 1.0,
            "executor": method_executors.Stacked(3),
        },
    }
    first, *sentence, last = report_lines(mine(*NOT_FINITE["a loss that is NaN"][0]), checks)
    assert first == "FAILED  four rounds run, and their numbers stay finite"
    assert "trained with `loss`, is not finite in round 1" in " ".join(map(str.strip, sentence))
    assert all(line.startswith("        ") for line in sentence)
    assert last == "FAILED  10 further checks, for the same reason as “four rounds run, and their numbers stay finite”"
