"""The seeds of a study, each with the seeds of partition and training that follow from it."""

from collections.abc import Sequence

from fedgrid.grid.study.forms import Protocol
from fedgrid.grid.study.model import Seeds
from fedgrid.grid.study.sections import StudyError


def table_seeds(study: Protocol) -> list[Seeds]:
    """The seeds of the study's tables; StudyError where all of them would give the same run."""
    if len(study.seeds) > 1 and study.partition_seed is not None and study.train_seed is not None:
        problem = "with both partition_seed and train_seed fixed, all seeds would give the same run"
        raise StudyError(study.section.origin_of("seeds"), problem)
    return with_fixed(study, study.seeds)


def with_fixed(study: Protocol, seeds: Sequence[int]) -> list[Seeds]:
    """Seed, seed of the partition and seed of training of each seed; the study may hold the last two fixed."""
    partition_seed, train_seed = study.partition_seed, study.train_seed
    return [
        (seed, seed if partition_seed is None else partition_seed, seed if train_seed is None else train_seed)
        for seed in seeds
    ]
