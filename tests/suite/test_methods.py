"""What the methods' suite says of methods that are wrong: one sentence that their author understands."""

import pytest

from fedgrid.cli.template import TEMPLATE
from fedgrid.errors import UserError
from fedgrid.suite import method, method_costs, method_executors, method_key, method_source, simulations
from fedgrid.suite.expectations import Unmet
from fedgrid.suite.reporting import cause_of
from fedgrid.suite.subjects import subject

ROUND = "        average = fed.average(fed.upload(local.theta))\n"
LOSS = "        pull = squared_distance(theta, at.server.theta)\n"
IDENTITY = 'identities = [Identity("fedavg", {"strength": 0.0})]'
FIRST = "from fedgrid.methods import"


@pytest.fixture
def mine(tmp_path):
    """Writes the method that `fedgrid new-method` writes with some of its text replaced; its file."""

    def written(*changes):
        text = TEMPLATE.format(name="mine", title="Mine")
        for before, after in changes:
            assert before in text
            text = text.replace(before, after)
        file = tmp_path / "mine.py"
        file.write_text(text)
        for cached in (method.undisturbed, method_executors.one_by_one):
            cached.cache_clear()
        return file

    return written


def edge(file):
    method.test_edge(file, "a client with one image")


FLAWED = {
    "a score that is not finite": (
        [(ROUND, ROUND + '        average = average * float("inf")\n')],
        edge,
        "training ended early as 'diverged'",
    ),
    "no model at all": ([("def global_model", "def model")], edge, "neither global_model nor received gives a model"),
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
    states = simulations.of_state(tree), simulations.of_state(other)
    where = simulations.difference(*states, simulations.by_more_than(0, 0))
    assert where == "s.server.theta.head.bias differs by up to 0.5"
    assert not simulations.difference(states[0], states[0], simulations.by_more_than(0, 0))
