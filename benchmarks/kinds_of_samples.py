"""Which methods train on texts, on signals and on low-rank updates of a pre-trained network: all of them, in one table.

``python -m benchmarks.kinds_of_samples FOLDER`` makes small data and three studies there, runs them with Snakemake on
one core, and writes the table of ``docs/any-data.md`` to standard output. Accuracy is after three rounds, with one
seed: it shows that a method learns there, and not how it compares with others.
"""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import yaml

import fedgrid
from benchmarks.markdown import table

TOPICS = {"sport": "goal match team", "world": "treaty vote border", "tech": "chip code robot"}
FILLERS = ("the", "a", "on", "in", "with", "today", "again", "new", "old", "many")
READINGS, BACKBONE = 64, "test_resnet"
PARTITION = {"partition": "dirichlet", "beta": 0.5, "clients": 4, "validation": 0.2}
METHODS = ["local", "fedavg", "all"]
STUDIES: dict[str, dict[str, object]] = {
    "texts": {
        "data": {"name": "huggingface", "path": "texts", "text": "text", "target": "topic", "length": 12},
        "model": {"name": "fasttext"},
        "training": {"rounds": 3, "lr": 0.5},  # averages of many small vectors have small gradients
    },
    "signals": {
        "data": {"name": "huggingface", "path": "signals", "signal": "x,y", "target": "activity"},
        "model": {"name": "har_cnn"},
    },
    "lora": {
        "data": "digits",
        "heterogeneity": [PARTITION | {"fraction": 0.3}],
        "model": {"name": "timm", "backbone": BACKBONE, "weights": "backbone.safetensors", "train": "lora", "rank": 4},
    },
}


def make_texts(folder: Path) -> None:
    """Sentences whose topic shows in some of their words."""
    from datasets import Dataset

    draw, names = np.random.default_rng(0), list(TOPICS)
    labels = draw.integers(0, len(TOPICS), 400)
    sentences = [
        " ".join([*draw.choice(TOPICS[names[label]].split(), 2), *draw.choice(FILLERS, draw.integers(2, 9))])
        for label in labels
    ]
    folder.mkdir(exist_ok=True)
    rows = {"text": sentences, "topic": [names[label] for label in labels]}
    Dataset.from_dict(rows).to_parquet(folder / "train.parquet")


def make_signals(folder: Path) -> None:
    """Two channels of noisy waves whose frequency is that of their class."""
    from datasets import Dataset

    draw, time = np.random.default_rng(1), np.linspace(0, 2 * np.pi, READINGS)
    labels = draw.integers(0, 4, 400)
    waves = np.sin((1 + labels[:, None]) * time + draw.uniform(0, 2 * np.pi, (400, 1)))
    channels = [wave + 0.3 * draw.normal(size=waves.shape) for wave in (waves, -waves)]
    folder.mkdir(exist_ok=True)
    rows = {name: channel.tolist() for name, channel in zip("xy", channels, strict=True)}
    Dataset.from_dict(rows | {"activity": labels.tolist()}).to_json(folder / "train.jsonl")


def make_backbone(file: Path) -> None:
    """A small network of timm with random weights, in the form in which weights are published."""
    import torch
    from safetensors.torch import save_file

    from fedgrid.data.sources import torchvision_shim

    torchvision_shim.load("torchvision")
    import timm

    torch.manual_seed(0)
    save_file(timm.create_model(BACKBONE, num_classes=0).state_dict(), file)


def scores(folder: Path, name: str) -> Mapping[str, float]:
    """Accuracy in % of every method in a study, which is run where it has not been."""
    usual = {"heterogeneity": [PARTITION], "seeds": [0], "training": {"rounds": 3}, "methods": METHODS}
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump({"name": name} | usual | STUDIES[name], sort_keys=False), encoding="utf-8")
    workflow = Path(__file__).resolve().parent.parent / "workflow" / "Snakefile"
    command = ["snakemake", "--snakefile", str(workflow), "--cores", "1", "--keep-going", "--configfile", file.name]
    subprocess.run(command, cwd=folder, check=True, stdout=sys.stderr)
    found = fedgrid.results(folder / "results" / name).scores
    return dict(zip(found["method"], 100 * found["accuracy"], strict=True))


def main() -> None:
    """Writes the table."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    make_texts(folder / "texts")
    make_signals(folder / "signals")
    make_backbone(folder / "backbone.safetensors")
    columns = [scores(folder, name) for name in STUDIES]
    methods = sorted({method for column in columns for method in column})
    lines = [
        (method, *(f"{column[method]:.1f}" if method in column else "–" for column in columns)) for method in methods
    ]
    print(table(("method", "texts, fastText", "signals, HAR-CNN", "digits, LoRA of a ResNet"), lines))


if __name__ == "__main__":
    main()
