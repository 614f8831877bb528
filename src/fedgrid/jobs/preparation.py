"""What a cell needs before it is trained without the workflow."""

from fedgrid.grid.plan.model import PlannedPartition
from fedgrid.grid.plan.planned_study import Study
from fedgrid.jobs import dataset, partition


def prepare(planned: PlannedPartition, study: Study) -> None:
    """Builds the data set, its features and the partition where the store lacks them."""
    for stage in planned.data.stages:
        if not stage.built:
            dataset.build(stage, study)
    if not planned.file.is_file():
        partition.build(planned)
