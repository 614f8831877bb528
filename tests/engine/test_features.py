"""Frozen features: what the network gives by hand, in the form of a data set."""

import sys
from importlib.util import find_spec

import numpy as np
import pytest
import torch

from fedgrid.data.base import convert
from fedgrid.data.common import store
from fedgrid.data.common.images import PARTS, Images
from fedgrid.data.common.store import checksum_of, read_labels
from fedgrid.data.digits import Digits
from fedgrid.data.synthetic import Synthetic
from fedgrid.engine.features import build
from fedgrid.errors import UserError
from fedgrid.models.common.pretrained import library

VIT = "vit_tiny_patch16_224"


def files(folder):
    return {part: folder / f"{part}.parquet" for part in PARTS}


def converted(data, folder):
    convert(data, None, None, files(folder))
    return files(folder)


def built(source, folder, **settings):
    build(source, files(folder), settings, "cpu", 1)
    return files(folder)


@pytest.fixture
def few(tmp_path):
    """A small data set in two domains, as files."""
    data = Synthetic(train_images=5, test_images=3, size=12, channels=3, class_count=2, domain_count=2)
    return converted(data, tmp_path / "few")


@pytest.fixture
def timm():
    if find_spec("timm") is None:
        pytest.skip("timm is not installed: pip install 'fedgrid[features]'")
    return library()


@pytest.fixture
def vit(timm):
    """An untrained ViT with its classifier."""
    torch.manual_seed(0)
    return timm.create_model(VIT, pretrained=False).eval()


def by_hand(vit, images):
    """The features of pictures [n, 3, h, w] from 0 to 1."""
    images = torch.nn.functional.interpolate(images, (224, 224), mode="bilinear", antialias=True)
    with torch.inference_mode():
        return vit.forward_head(vit.forward_features((images - 0.5) / 0.5), pre_logits=True).numpy()


def saved(state, file):
    from safetensors.torch import save_file

    save_file(state, file) if file.suffix == ".safetensors" else torch.save(state, file)
    return str(file)


def test_random_features_separate_digits(tmp_path):
    from sklearn.linear_model import LogisticRegression

    source = converted(Digits(), tmp_path)
    pool = store.read(built(source, tmp_path / "out", backbone="random"))
    inputs, labels = pool.images.pixels[:, 0, 0], pool.images.labels
    assert inputs.dtype == np.float32 and list(inputs.shape[1:]) == pool.facts["shape"][2:]
    assert (labels == store.read(source).images.labels).all()
    fitted = LogisticRegression(max_iter=500).fit(inputs[:1000], labels[:1000])
    assert fitted.score(inputs[1000:], labels[1000:]) > 0.85


def test_the_facts_are_those_of_the_features(tmp_path, few):
    out = built(few, tmp_path / "out", backbone="random")
    pool, before = store.read(out), store.read(few).facts
    facts, width = pool.facts, pool.images.pixels.shape[3]
    assert (facts["scale"], facts["mean"], facts["std"], facts["dtype"]) == (1.0, [0.0], [1.0], "float32")
    assert facts["shape"] == [1, 1, width]
    assert facts["note"] == "features of random, weights random"
    assert all(facts[name] == before[name] for name in ("name", "classes", "domains", "images", "source"))
    domains = read_labels(out)[0].domains
    parts = {
        part: Images(pool.images.pixels[rows], pool.images.labels[rows], domains[rows])
        for part, rows in (("train", slice(0, 5)), ("test", slice(5, None)))
    }
    assert facts["checksum"] == checksum_of(parts) != before["checksum"]


def test_domains_stay(tmp_path, few):
    out = built(few, tmp_path / "out", backbone="random")
    (before, _), (after, _) = read_labels(few), read_labels(out)
    assert (before.domains == after.domains).all() and before.domain_names == after.domain_names


def test_a_note_is_extended(tmp_path, few):
    again = {part: Images(np.zeros((1, 4, 4, 1), np.uint8), np.zeros(1, np.int64)) for part in PARTS}
    facts = store.read(few).facts | {"note": "lossy", "domains": [], "shape": [4, 4, 1]}
    facts["images"] = dict.fromkeys(PARTS, 1)
    store.write(files(tmp_path / "lossy"), again, facts)
    out = built(files(tmp_path / "lossy"), tmp_path / "out", backbone="random")
    assert store.read(out).facts["note"] == "lossy; features of random, weights random"


def test_two_runs_give_equal_files(tmp_path, few):
    one, two = (built(few, tmp_path / name, backbone="random") for name in ("one", "two"))
    assert all(one[part].read_bytes() == two[part].read_bytes() for part in PARTS)


def test_the_batch_changes_nothing_but_rounding(tmp_path, few):
    one, two = (store.read(built(few, tmp_path / str(n), backbone="random", batch=n)).images.pixels for n in (1, 8))
    np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_a_vit_gives_what_it_gives_by_hand(tmp_path, few, vit, suffix):
    weights = saved(vit.state_dict(), tmp_path / f"vit{suffix}")
    pool = store.read(built(few, tmp_path / "out", backbone=VIT, weights=weights, batch=3))
    expected = by_hand(vit, torch.from_numpy(store.read(few).images.pixels).permute(0, 3, 1, 2) / 255)
    assert expected.shape == (8, 192)
    np.testing.assert_allclose(pool.images.pixels[:, 0, 0], expected, rtol=1e-4, atol=1e-5)
    assert len(pool.facts["note"].removeprefix(f"features of {VIT}, weights ")) == 16


def test_the_weights_decide_the_features_and_the_note_and_not_their_file(tmp_path, few, vit):
    def note(name):
        weights = saved(vit.state_dict(), tmp_path / name)
        return store.read(built(few, tmp_path / name.replace(".", ""), backbone=VIT, weights=weights)).facts["note"]

    one, same = note("a.safetensors"), note("b.pth")
    assert files(tmp_path / "asafetensors")["train"].read_bytes() == files(tmp_path / "bpth")["train"].read_bytes()
    with torch.no_grad():
        vit.cls_token += 1
    assert one == same != note("c.pth")


def test_grey_digits_of_their_own_scale_reach_the_network_as_grey_pictures(tmp_path, vit):
    source = converted(Digits(), tmp_path / "digits")
    pool = store.read(source)
    few = {part: Images(pool.images.pixels[:2], pool.images.labels[:2]) for part in PARTS}
    facts = pool.facts | {"images": dict.fromkeys(PARTS, 2)}
    store.write(files(tmp_path / "few"), few, facts)
    weights = saved(vit.state_dict(), tmp_path / "vit.pth")
    actual = store.read(built(files(tmp_path / "few"), tmp_path / "out", backbone=VIT, weights=weights)).images.pixels
    images = torch.from_numpy(pool.images.pixels[:2]).permute(0, 3, 1, 2).expand(-1, 3, -1, -1) / 16
    np.testing.assert_allclose(actual[:2, 0, 0], by_hand(vit, images), rtol=1e-4, atol=1e-5)


def refused(few, tmp_path, words, **settings):
    with pytest.raises(UserError, match=words) as caught:
        built(few, tmp_path / "refused", **settings)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "refused").exists()


def test_weights_that_do_not_fit_are_refused(tmp_path, few, vit):
    state = vit.state_dict()
    less = {name: value for name, value in state.items() if name != "norm.weight"}
    refused(few, tmp_path, "lacks norm.weight", backbone=VIT, weights=saved(less, tmp_path / "less.pth"))
    more = state | {"other": torch.zeros(1)}
    refused(few, tmp_path, "has other", backbone=VIT, weights=saved(more, tmp_path / "more.pth"))
    narrow = state | {"cls_token": torch.zeros(1, 1, 3)}
    refused(few, tmp_path, "does not hold weights", backbone=VIT, weights=saved(narrow, tmp_path / "narrow.pth"))


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_damaged_weights_are_refused(tmp_path, few, timm, suffix):
    (tmp_path / f"bad{suffix}").write_bytes(b"not weights")
    refused(few, tmp_path, "does not hold weights", backbone=VIT, weights=str(tmp_path / f"bad{suffix}"))


def test_code_in_a_file_of_weights_is_not_run(tmp_path, few, timm):
    class Trap:
        def __reduce__(self):
            return (tmp_path / "sprung").touch, ()

    torch.save({"head.weight": Trap()}, tmp_path / "trap.pth")
    refused(few, tmp_path, "does not hold weights", backbone=VIT, weights=str(tmp_path / "trap.pth"))
    assert not (tmp_path / "sprung").exists()


def test_missing_weights_and_unknown_networks_are_refused(tmp_path, few, timm):
    refused(few, tmp_path, "there is no file", backbone=VIT, weights=str(tmp_path / "none.pth"))
    refused(few, tmp_path, f"did you mean '{VIT}'", backbone="vit_tiny_patch16_225")


def test_without_a_network_the_sentence_says_what_to_put_where(tmp_path, few, timm, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "empty"))
    refused(few, tmp_path, r"copy model.safetensors from 'timm/vit_tiny.* or take backbone: random", backbone=VIT)


def test_without_timm_the_sentence_says_what_to_install(tmp_path, few, monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    refused(few, tmp_path, r"pip install 'fedgrid\[features\]', or take backbone: random", backbone=VIT)
