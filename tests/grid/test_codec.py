"""Dataclasses as JSON and back: what fits comes back as it was, what does not is named by its path."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrid.grid.study.codec import decode, encode


@dataclass(frozen=True)
class Leaf:
    name: str
    place: tuple[str, int] = ("here", 0)
    kind: Literal["a", "b", 3] = "a"


@dataclass(frozen=True)
class Tree:
    root: Path
    leaves: list[Leaf]
    by_name: dict[str, Leaf] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    sizes: tuple[float, ...] = ()
    steps: Sequence[int] = field(default_factory=list)
    below: Optional["Tree"] = None
    rounds: int | str = 0
    mean: float | None = None
    small: bool = False
    computed: int = field(default=7, init=False)


@dataclass(frozen=True, kw_only=True)
class Branch(Leaf):
    length: float


SMALL = Tree(Path("x"), [Leaf("one")])
FULL = Tree(
    Path("a/b"),
    [Leaf("one", ("there", 2), "b"), Leaf("two", kind=3)],
    {"three": Leaf("three")},
    {"beta": 0.1, "nested": {"on": True, "list": [1, None]}},
    (1.0, 2.5),
    [1, 2],
    SMALL,
    "last",
    0.5,
    True,
)


@pytest.mark.parametrize("value", [SMALL, FULL, Branch(name="b", length=1.5)])
def test_what_was_written_is_read(value):
    assert decode(type(value), json.loads(json.dumps(encode(value)))) == value


def test_plain_values_are_those_of_the_fields():
    assert encode(Branch(name="b", length=2.0)) == {"name": "b", "place": ["here", 0], "kind": "a", "length": 2.0}
    assert "computed" not in encode(SMALL)


texts = st.text(max_size=5)
leaves = st.builds(Leaf, texts, st.tuples(texts, st.integers()), st.sampled_from(["a", "b", 3]))
trees = st.recursive(
    st.builds(Tree, st.builds(Path, st.sampled_from(["a", "b/c"])), st.lists(leaves, max_size=2)),
    lambda below: st.builds(
        Tree,
        st.just(Path("r")),
        st.lists(leaves, max_size=2),
        st.dictionaries(texts, leaves, max_size=2),
        below=st.none() | below,
        rounds=st.integers() | texts,
        mean=st.none() | st.floats(allow_nan=False),
        small=st.booleans(),
    ),
    max_leaves=3,
)


@given(trees)
def test_any_tree_survives_json(tree):
    assert decode(Tree, json.loads(json.dumps(encode(tree)))) == tree


def test_absent_keys_take_their_defaults():
    assert decode(Tree, {"root": "x", "leaves": [{"name": "one"}]}) == SMALL


def test_integers_may_replace_floats():
    actual = decode(Tree, {"root": "x", "leaves": [], "mean": 2})
    assert actual.mean == 2.0 and isinstance(actual.mean, float)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"height": 1}, "tree: unknown key 'height'; known: below"),
        ({"leaves": [{"name": "one"}, {}]}, r"tree.leaves\[1\]: the key 'name' is missing"),
        ({"leaves": {}}, "tree.leaves: expected a list, got {}"),
        ({"leaves": [{"name": 1}]}, r"tree.leaves\[0\].name: expected a text, got 1; put a text in quotes"),
        ({"leaves": [{"name": "n", "place": ["here"]}]}, r"place: expected a list of 2, got \['here'\]"),
        ({"leaves": [{"name": "n", "place": ["here", "0"]}]}, r"place\[1\]: expected a whole number, got '0'"),
        ({"leaves": [{"name": "n", "kind": True}]}, "kind: expected a text or a whole number, got True"),
        ({"by_name": {"x": []}}, r"tree.by_name.x: expected a mapping, got \[\]"),
        ({"settings": [1]}, r"tree.settings: expected a mapping, got \[1\]"),
        ({"sizes": ["1"]}, r"tree.sizes\[0\]: expected a number, got '1'"),
        ({"steps": [1.5]}, r"tree.steps\[0\]: expected a whole number, got 1.5"),
        ({"below": {"root": 1, "leaves": []}}, "tree.below.root: expected a path, got 1"),
        ({"rounds": None}, "tree.rounds: expected a whole number or a text, got None"),
        ({"rounds": True}, "tree.rounds: expected a whole number or a text, got True"),
        ({"mean": "1"}, "tree.mean: expected a number or nothing, got '1'"),
        ({"small": 1}, "tree.small: expected true or false, got 1"),
        ({"computed": 7}, "tree: unknown key 'computed'"),
    ],
)
def test_what_does_not_fit_is_named_by_its_path(change, message):
    with pytest.raises(ValueError, match=message):
        decode(Tree, {"root": "x", "leaves": []} | change, "tree")


def test_no_dataclass_at_all():
    with pytest.raises(ValueError, match=r"value: expected a mapping, got \[\]"):
        decode(Tree, [])


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"a": {1, 2}}, "settings.a: JSON has no set"), ({1: 2}, "settings: 1 is not a text as key")],
)
def test_what_json_cannot_say_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        encode(Tree(Path("x"), [], settings=settings))


def test_a_hint_without_a_json_form_is_a_mistake_of_ours():
    @dataclass
    class Bag:
        values: set[int]

    with pytest.raises(TypeError, match="no plain form of set"):
        decode(Bag, {"values": [1]})
