"""Pictures and captions as samples of two modalities: words and tokens, the files, drawn and downloaded data sets."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from data_files import built, files

from benchmarks.numerics.originals import caption_file, put, small_noise, write_cub
from fedgrid.data.attributes import ATTRIBUTES, COMBINATIONS, PHRASES, WORDS, Attributes
from fedgrid.data.common import store
from fedgrid.data.common.captions import tokens, vocabulary, words
from fedgrid.data.common.images import MODALITIES, PARTS
from fedgrid.data.cub200 import Cub200
from fedgrid.data.digits import Digits
from fedgrid.errors import UserError
from fedgrid.files import read_metadata, read_table

SMALL = {"train_images": 12, "test_images": 5, "class_count": 4}


def test_words_are_runs_of_letters_and_digits_in_lower_case():
    assert words("It's a red-eyed Été bird, no. 2_b!") == ["it", "s", "a", "red", "eyed", "été", "bird", "no", "2", "b"]


def test_the_vocabulary_is_ordered_by_number_and_then_by_alphabet():
    captions = ["a red bird\na small red bird", "the bird is SMALL.\nonce", "a a"]
    assert vocabulary(captions) == ("a", "bird", "red", "small")


def test_tokens_of_a_known_vocabulary():
    known = ("a", "bird", "red")
    actual = tokens(["a red bird sings here\na", "bird"], known, 3, 4)
    assert actual.dtype == np.uint16
    first = [[2, 4, 3, 1], [2, 0, 0, 0], [2, 4, 3, 1]]  # the first sentence again, since there are two of three
    assert actual.tolist() == [first, [[3, 0, 0, 0]] * 3]


def test_the_vocabulary_is_that_of_the_training_captions():
    actual = Attributes(train_images=1, test_images=40, class_count=2).load(None, None)
    output = " ".join(Attributes(train_images=1, test_images=40, class_count=2)._part("train", 1).captions)
    assert set(actual.vocabulary) <= set(words(output))
    assert (actual.parts["test"].tokens == 1).any()


def test_samples_come_back_as_they_are(tmp_path):
    data = Attributes(**SMALL)
    actual, (pool, labels) = data.load(None, None), built(data, tmp_path)
    train, test = (actual.parts[part] for part in PARTS)
    assert pool.images.pixels.shape == (17, 32, 32, 3) and pool.images.tokens.shape == (17, 10, 20)
    assert (pool.images.pixels == np.concatenate([train.pixels, test.pixels])).all()
    assert (pool.images.tokens == np.concatenate([train.tokens, test.tokens])).all()
    assert pool.images.tokens.dtype == np.uint16
    assert pool.images.modality.tolist() == [0] * 12 + [1] * 12 + [0] * 5 + [1] * 5
    assert pool.images.labels.tolist() == [*train.labels, *test.labels]
    assert (train.labels[:12] == train.labels[12:]).all()
    assert pool.facts["modalities"] == list(MODALITIES) and pool.facts["vocabulary"] == list(actual.vocabulary)
    assert pool.facts["images"] == {"train": 24, "test": 10} == data.info(None).images
    assert labels.modalities == data.info(None).modalities == MODALITIES
    assert (labels.modality == pool.images.modality).all() and labels.train == 24 and labels.domains is None
    table, _ = read_table(files(tmp_path)["train"])
    for name, there in (("image", "visual"), ("tokens", "textual")):
        have = [value is not None for value in table[name].to_pylist()]
        assert have == [modality == there for modality in table["modality"].to_pylist()]


def test_a_test_part_may_be_empty(tmp_path):
    pool, _ = built(Attributes(train_images=4, test_images=0, class_count=2), tmp_path)
    assert pool.images.tokens.shape == (4, 10, 20)


def test_the_checksum_covers_tokens_and_modalities():
    parts = Attributes(**SMALL).load(None, None).parts
    before = store.checksum_of(parts)
    for name in ("tokens", "modality"):
        values = getattr(parts["test"], name)
        values.flat[0] += 1
        assert store.checksum_of(parts) != before
        values.flat[0] -= 1
    assert store.checksum_of(parts) == before


def test_files_of_data_without_modalities_do_not_speak_of_any(tmp_path):
    pool, labels = built(Digits(), tmp_path, key="k")
    facts = read_metadata(files(tmp_path)["train"])
    expected = "key name classes domains images shape dtype scale mean std source note checksum part"
    assert set(facts) == set(expected.split()) and facts["checksum"] == Digits.checksum
    assert pq.read_schema(files(tmp_path)["train"]).names == ["image", "label"]
    assert pool.images.modality is None and pool.images.tokens is None
    assert labels.modality is None and labels.modalities == () == Digits().info(None).modalities


def test_another_draw_gives_other_samples():
    one, other = (Attributes(**SMALL, draw=draw).load(None, None).parts for draw in (0, 1))
    assert store.checksum_of(one) != store.checksum_of(other)


def test_more_pictures_than_are_drawn_together():
    few, many = (Attributes(train_images=n, class_count=4, test_images=0).load(None, None) for n in (12, 600))
    assert few.classes == many.classes and len(set(many.classes)) == 4
    assert np.bincount(many.parts["train"].labels).tolist() == [300] * 4
    assert len(np.unique(many.parts["train"].pixels, axis=0)) == 600


def test_every_value_has_words_and_no_word_two_meanings():
    assert len(COMBINATIONS) == np.prod([len(values) for values in WORDS.values()])
    named = [word for values in WORDS.values() for synonyms in values.values() for word in synonyms]
    assert len(set(named)) == len(named) and tuple(PHRASES) == ATTRIBUTES


def test_without_noise_and_slips_a_sentence_that_names_all_attributes_tells_the_class():
    data = Attributes(**SMALL, named=5, slips=0.0)
    part = data._part("train", 12)
    meaning = {w: value for values in WORDS.values() for value, synonyms in values.items() for w in synonyms}
    for label, caption in zip(part.labels, part.captions, strict=True):
        for sentence in caption.splitlines():
            assert {meaning[w] for w in words(sentence) if w in meaning} == set(data.classes[label].split())


def test_neither_modality_is_trivial_and_more_images_help():
    from sklearn.linear_model import LogisticRegression

    actual = Attributes(train_images=600, test_images=200, class_count=10).load(None, None)
    train, test = (actual.parts[part] for part in PARTS)
    size = len(actual.vocabulary) + 2

    def bags(rows):
        return np.stack([np.bincount(row, minlength=size)[1:] for row in rows])

    def fitted(inputs, labels, tested):
        return LogisticRegression(C=0.1, max_iter=1000).fit(inputs, labels).score(tested, test.labels[:200])

    def of_pictures(count):
        pixels = (part.pixels[:, ::2, ::2].reshape(len(part.pixels), -1) / 255 for part in (train, test))
        return fitted(next(pixels)[:count], train.labels[:count], next(pixels))

    def of_captions(count):
        return fitted(bags(train.tokens[:count, 0]), train.labels[:count], bags(test.tokens[:, 0]))

    for score in (of_pictures, of_captions):
        assert 0.2 < score(50) + 0.05 < score(600) < 0.95


def sentences(number):
    return [f"This bird number{number} is red.", "a bird,  a bird"] + ["wings"] * 8


def test_captions_of_cub_are_textual_samples(tmp_path):
    write_cub(tmp_path, small_noise, sentences)
    data = Cub200(side=8, captions=True, caption_words=4)
    assert data.is_available(tmp_path)
    actual = data.original(tmp_path, download=False)
    assert actual.modalities == MODALITIES
    assert actual.vocabulary == ("wings", "bird", "a", "is", "red", "this")
    train, test = (actual.parts[part] for part in PARTS)
    assert train.labels.tolist() == [0, 199, 0, 199] and test.labels.tolist() == [1, 1]
    assert train.pixels.shape == (2, 8, 8, 3) and train.tokens.shape == (2, 10, 4)
    number = {word: i + 2 for i, word in enumerate(actual.vocabulary)} | {"number0": 1, "number1": 1}
    assert train.tokens[0, 0].tolist() == [number[w] for w in ("this", "bird", "number0", "is")]
    assert test.tokens[0, 1].tolist() == [number[w] for w in ("a", "bird", "a", "bird")]
    assert data.info(None).images == {"train": 2 * 5_994, "test": 2 * 5_794}
    assert Cub200().info(None).images == Cub200.image_counts and Cub200().info(None).modalities == ()


def test_a_picture_without_a_sentence_is_named(tmp_path):
    paths = write_cub(tmp_path, small_noise, sentences)
    put(caption_file(tmp_path, paths[2]), b"\n \n")
    with pytest.raises(UserError, match=r"c\.txt: contains no sentence"):
        Cub200(captions=True).original(tmp_path, download=False)


def test_missing_captions_are_requested(tmp_path):
    write_cub(tmp_path, small_noise, sentences)
    (tmp_path / "text_c10").rename(tmp_path / "elsewhere")
    put(tmp_path / "cub200" / "train.parquet", b"")
    put(tmp_path / "cub200" / "test.parquet", b"")
    data = Cub200(captions=True)
    assert Cub200().is_available(tmp_path) and not data.is_available(tmp_path)
    for download in (None, tmp_path / "downloads"):  # no download has captions
        with pytest.raises(
            UserError, match=r"not available: put the unpacked CUB_200_2011 and text_c10 .* into <data_root>"
        ):
            data.load(tmp_path, download)
    assert not (tmp_path / "downloads").exists()
