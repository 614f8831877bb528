"""MLflow: one experiment per study in a local SQLite file, and one run per cell."""

import logging
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from fedgrid.api.exporting.runs import Ending, Point, Run
from fedgrid.api.libraries import import_optional

FILE = "mlflow.db"
KEY = "fedgrid.key"
MOST_METRICS, MOST_PARAMETERS = 1000, 100
"In one request."
LONGEST_PARAMETER = 6000
"Letters of a parameter's value."


class MLflow:
    """Writes runs to ``mlflow.db`` in a folder; runs that are complete there are left alone."""

    def __init__(self, folder: Path):
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        logging.getLogger("mlflow").setLevel(logging.WARNING)
        import_optional("alembic", "mlflow", "--to mlflow")  # makes the tables of the file
        self.library = import_optional("mlflow", "mlflow", "--to mlflow")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder.resolve()
        uri = f"sqlite:///{self.folder / FILE}"
        self.client = self.library.MlflowClient(uri)
        self.hint = f"mlflow ui --backend-store-uri {uri}"
        self.experiments: dict[str, str] = {}

    def begin(self, run: Run) -> "MLflowRun | None":
        """What writes the run; None where a complete one of its cell is there, and one that is not is replaced."""
        experiment = self._experiment(run.study)
        for earlier in self.client.search_runs([experiment], f"tags.`{KEY}` = '{run.key}'"):
            if earlier.info.run_name != run.name:
                continue
            if earlier.info.status == "FINISHED":
                return None
            self.client.delete_run(earlier.info.run_id)
        made = self.client.create_run(experiment, run_name=run.name, tags={KEY: run.key})
        return MLflowRun(self.client, self.library.entities, made.info.run_id, run.parameters)

    def _experiment(self, title: str) -> str:
        if title not in self.experiments:
            known = self.client.get_experiment_by_name(title)
            artifacts = (self.folder / "artifacts").as_uri()
            self.experiments[title] = known.experiment_id if known else self.client.create_experiment(title, artifacts)
        return self.experiments[title]


class MLflowRun:
    """One run."""

    def __init__(self, client: Any, entities: Any, run_id: str, parameters: Mapping[str, Any]):
        self.client, self.entities, self.run_id = client, entities, run_id
        texts = [entities.Param(name, str(value)[:LONGEST_PARAMETER]) for name, value in parameters.items()]
        for start in range(0, len(texts), MOST_PARAMETERS):
            client.log_batch(run_id, params=texts[start : start + MOST_PARAMETERS])

    def write(self, points: Iterable[Point]) -> None:
        """Adds points."""
        now = int(time.time() * 1000)
        metrics = [self.entities.Metric(point.tag, point.value, now, point.step) for point in points]
        for start in range(0, len(metrics), MOST_METRICS):
            self.client.log_batch(self.run_id, metrics=metrics[start : start + MOST_METRICS])

    def end(self, ending: Ending) -> None:
        """Adds the final numbers and tags."""
        self.write(Point(name, 0, value) for name, value in ending.metrics.items())
        tags = {"fedgrid.status": ending.status, **{f"fedgrid.{name}": value for name, value in ending.tags.items()}}
        self.client.log_batch(self.run_id, tags=[self.entities.RunTag(*pair) for pair in tags.items()])
        self.client.set_terminated(self.run_id, "FINISHED")

    def leave(self) -> None:
        """Closes the run, which a later export replaces."""
        self.client.set_terminated(self.run_id, "KILLED")
