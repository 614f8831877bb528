"""Snakemake's logger plugin ``fedgrid``: a run tells how it goes in the words of its study.

Snakemake finds the package by its name; profiles choose it by ``logger: fedgrid``. With ``--verbose``,
``--printshellcmds``, ``--debug-dag`` or ``--quiet progress``, and in a dry run, the output is Snakemake's own, which
otherwise stands in its log below ``.snakemake/log``.
"""

import logging
import sys
from typing import TextIO

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from fedgrid.run import run_log
from fedgrid.run.snakemake_adapter import TOLD

SILENT = {"progress", "all"}
"Values of ``--quiet`` with which a run does not tell how it goes."
OF_SNAKEMAKE = (
    *("Building DAG of jobs", "Using shell", "Assuming unrestricted shared filesystem"),
    *("Conda environments:", "Singularity containers:", "Group jobs:"),
)
"How messages begin that say nothing of a study, before its run begins."
IDLE = "Nothing to be done"
"How the message begins of a run in which all is up to date."
SAID_OTHERWISE = ("CalledProcessError", "Exiting because a job execution failed", "At least one job did not complete")
"Words of errors for which the run has its own."


class LogHandler(LogHandlerBase):
    """Hands the events of jobs to the run's log, and prints warnings and errors as Snakemake does."""

    def __post_init__(self) -> None:
        if not hasattr(self, "filters"):  # the interface of Snakemake 9.0 leaves it out
            logging.Handler.__init__(self)
        settings = self.common_settings
        quiet = {str(getattr(value, "name", value)).lower() for value in settings.quiet or ()}
        asked = settings.verbose or settings.dryrun or settings.printshellcmds or settings.debug_dag
        self.tells = run_log.heard = not asked and quiet.isdisjoint(SILENT)

    def emit(self, record: logging.LogRecord) -> None:
        """Tells what an event means for the study; another message of a run that has begun is for Snakemake's log."""
        try:
            if not self.tells or not self._is_told(record):
                self._print(self.format(record))
        except Exception:
            self.handleError(record)

    def _is_told(self, record: logging.LogRecord) -> bool:
        """Whether nothing of a record is left to print, since the run's log knows what to make of it."""
        event, log = getattr(record, "event", None), run_log.current
        if told := getattr(record, TOLD, None):
            told.set()
            return True
        if log is None:
            if str(record.msg).startswith(IDLE) and (page := run_log.page()):
                record.msg = f"{IDLE}. Look at {page}"
            return record.levelno < logging.WARNING and (bool(event) or str(record.msg).startswith(OF_SNAKEMAKE))
        if event == LogEvent.JOB_INFO:
            log.start(record.jobid, record.rule_name, record.wildcards)  # type: ignore[attr-defined]
        elif event == LogEvent.JOB_FINISHED:
            log.finish(record.job_id)  # type: ignore[attr-defined]
        elif event == LogEvent.JOB_ERROR:
            return log.fail(record.jobid)  # type: ignore[attr-defined]
        return record.levelno < logging.WARNING or any(words in str(record.msg) for words in SAID_OTHERWISE)

    def _print(self, text: str) -> None:
        if text and text != "None":
            print(text, file=self._stream, flush=True)

    @property
    def _stream(self) -> TextIO:
        return sys.stdout if self.common_settings.stdout else sys.stderr

    @property
    def writes_to_stream(self) -> bool:
        """It replaces Snakemake's own handler of standard error."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """Snakemake's log stays as it is."""
        return False

    @property
    def has_filter(self) -> bool:
        """Where it tells, it needs the events of jobs whatever the profile says; elsewhere Snakemake's filter holds."""
        return self.tells

    @property
    def has_formatter(self) -> bool:
        """Warnings and errors look as everywhere in Snakemake."""
        return False

    @property
    def needs_rulegraph(self) -> bool:
        """It knows the study."""
        return False
