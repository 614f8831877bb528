"""Data of two modalities need a model for them, images alone a model for these; what cannot be had is said."""

import pytest
from studies import study_of

from fedgrid.errors import UserError

STUDY = """
name: s
data: {name: attributes, train_images: 40, test_images: 10, class_count: 4}
heterogeneity: [{partition: dirichlet, clients: 4, min_samples: 2}]
methods: [local]
"""
CUB = {"name": "cub200", "captions": True}


def test_a_model_of_images_alone_is_refused():
    words = r"^model: 'mlp' is for data of images alone, 'attributes' is data of the modalities visual and textual$"
    with pytest.raises(UserError, match=words):
        study_of(STUDY)


def test_a_model_of_two_modalities_is_refused_for_images_alone(two_modalities):
    words = r"^model: 'mlp' is for data of the modalities visual and textual, 'digits' is data of images alone$"
    with pytest.raises(UserError, match=words):
        study_of(STUDY, data="digits")


def test_features_are_made_of_images(two_modalities):
    words = (
        r"^data.features: 'attributes' is data of the modalities visual and textual, and features are made of images$"
    )
    with pytest.raises(UserError, match=words):
        study_of(STUDY, data={"name": "attributes", "features": {"backbone": "random"}})


def test_clients_that_modalities_cannot_share_are_refused(two_modalities):
    with pytest.raises(UserError, match=r"partition.clients: 5 is not a multiple of the data set's 2 modalities"):
        study_of(STUDY, heterogeneity=[{"partition": "homogeneous", "clients": 5}])


def test_a_study_of_two_modalities_is_planned(two_modalities):
    (cell,) = study_of(STUDY).cells
    assert cell.partition.data.component.name == "attributes" and not cell.unavailable


@pytest.mark.parametrize("download", [True, False])
def test_missing_captions_are_requested_before_anything_is_built(two_modalities, download, tmp_path):
    words = r"^data: 'cub200' is not at hand: put the unpacked CUB_200_2011 and text_c10 .* into <data_root>$"
    with pytest.raises(UserError, match=words):
        study_of(STUDY, data=CUB, download=download, data_root=str(tmp_path))


def test_an_experiment_without_captions_says_so(two_modalities):
    (cell,) = study_of(STUDY, data=CUB, experiments={"table": {"title": "T.", "show": [{"table": "accuracy"}]}}).cells
    assert "put the unpacked CUB_200_2011 and text_c10" in cell.unavailable
