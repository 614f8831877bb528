"""A paper on handwritten digits, as small as one can be: parts, a sweep, printed numbers, data that are not at hand."""

from pathlib import Path

PAPER = """
name: toy
title: A paper on digits
published: paper.csv
download: false
data: digits
heterogeneity: [&dirichlet {partition: dirichlet, beta: 0.5, clients: 4, label: "Dirichlet {beta}"}]
seeds: [0, 1]
model: {name: mlp, hidden: 16, features: 8}
training: {rounds: 4}
methods:
  local:
  fedavg:
  fedprox: {mu: [0.01, 1], title: "mu {mu}"}
  fedcosr:
assumed: {training.rounds: "Not stated. Taken: 4."}
scales:
  small: {seeds: [0], training: {rounds: 2}, experiments: {sweep: {heterogeneity: {keep_fraction: 0.5}}}}
experiments:
  table1:
    title: Accuracy in two settings.
    source: Table 1
    claims: [{says: FedCoSR leads., leads: FedCoSR}]
    show: [{table: accuracy, std: true, ranks: true, averaged: true, arrows: true}, {figure: curves}]
    methods: [local, fedavg, fedcosr]
    cells:
      - {}
      - heterogeneity: [{partition: pathological, classes: 3, clients: 4, label: "{classes} classes"}]
        methods: {fedcosr: {gamma: 3}}
  sweep:
    title: The weight of the proximal term.
    show: [{table: accuracy}, {figure: sweep}]
    methods: [fedprox]
    heterogeneity: [{<<: *dirichlet, keep_fraction: [0.5, 0.8], label: "Dirichlet {beta}, {keep_fraction} kept"}]
    artifacts: [clusters]
  letters:
    title: Another data set.
    show: [{table: accuracy}]
    data: [digits, emnist]
    methods: [local, fedavg]
  settings:
    title: Hyperparameters.
    show: [{table: settings}]
    methods: [fedcosr]
    cells: []
  later:
    title: Something new.
    lacks: adversarial training is not there yet
    cells: []
"""
PRINTED = """experiment,row,data,heterogeneity,domain,metric,value,std,corrected,rank,note
table1,Local,Digits,Dirichlet 0.5,,accuracy,80.10,,,2,
table1,FedAvg,Digits,Dirichlet 0.5,,accuracy,10.10,,70.10,3,misprint
table1,FedCoSR,Digits,Dirichlet 0.5,,accuracy,90.10,,,1,
table1,FedCoSR,Digits,3 classes,,accuracy,95.50,,,1,
"""


def write_paper(folder: Path) -> Path:
    """Writes the paper's two files into a folder; returns that of its study."""
    (folder / "paper.csv").write_text(PRINTED)
    file = folder / "paper.yaml"
    file.write_text(PAPER)
    return file
