"""The names of all commands, with what each does in a line and the module that has its options and its function."""

from dataclasses import dataclass
from importlib import import_module

from fedgrid.cli.parsing import Command


@dataclass(frozen=True)
class Entry:
    """A command of which nothing is imported yet: modules take time, and the help needs none of them."""

    name: str
    module: str
    "In this package."
    text: str
    "As `Command.text`."

    def command(self) -> Command:
        """The command itself, from its module."""
        members = vars(import_module(f"fedgrid.cli.{self.module}")).values()
        return next(member for member in members if isinstance(member, Command) and member.name == self.name)


GROUPS = {
    "run": (
        Entry(
            "init",
            "project",
            "make a project: a short Snakefile, a study, profiles; files that exist are left as they are",
        ),
        Entry(
            "plan",
            "planning",
            "which cells of studies are cached and which are to run, and about how many hours these take",
        ),
        Entry("go", "project", "run a study: start Snakemake on it"),
        Entry("run", "cells", "train one cell without Snakemake"),
        Entry("compare", "comparing", "write a study that compares a method with others"),
    ),
    "look": (
        Entry(
            "status",
            "progress",
            "done, running, queued and failed cells as a grid, one sign for each seed, and the time left",
        ),
        Entry("logs", "progress", "print the tail of a cell's log"),
        Entry(
            "report",
            "progress",
            "tables, figures and report of the cells that are finished, also while a run is going or after it failed",
        ),
        Entry("explain", "progress", "the cells behind a number of a table: settings, state, scores and files"),
        Entry("inspect", "partitions", "what a partition looks like: clients, sizes, classes, distances"),
        Entry("predict", "cells", "score your own pictures with a final model of a cell that keeps its models"),
        Entry("methods", "components", "list methods with their settings and sources"),
        Entry("datasets", "components", "list datasets with their settings and sources"),
        Entry("partitions", "components", "list partitions with their settings and sources"),
        Entry("models", "components", "list models with their settings and sources"),
    ),
    "write": (
        Entry("new-method", "components", "write a commented one-file method to start from"),
        Entry("new-model", "components", "write a commented one-file model to start from"),
        Entry("new-partition", "components", "write a commented one-file partition to start from"),
        Entry("new-data", "components", "write a commented one-file data set to start from"),
        Entry("check", "components", "test a method, model, partition or data set: a file of your own, or a name"),
    ),
    "exchange": (
        Entry(
            "import-partition",
            "partitions",
            "convert a partition from another program (a table, JSON, PFLlib's folder) into one that studies can use",
        ),
        Entry(
            "export-partition",
            "partitions",
            "copy a partition, its statistics, checksums and Croissant description into a folder, for others to reuse",
        ),
        Entry("export", "exchange", "curves for TensorBoard, MLflow or Weights & Biases, tables for a spreadsheet"),
        Entry(
            "bundle",
            "exchange",
            "put a study's page, tables, figures, results, study and code digests into one archive, an RO-Crate",
        ),
        Entry(
            "open",
            "exchange",
            "unpack an archive into a store, so that a run has nothing left to train; existing files are kept",
        ),
        Entry(
            "merge",
            "merging",
            "put cells of other people's archives and stores into a store; exit code 1 while conflicts are left",
        ),
    ),
    "maintain": (
        Entry(
            "doctor",
            "doctor",
            "whether this machine is ready for a run: Snakemake, SLURM, data, disk, GPUs, threads, cache, clock",
        ),
        Entry("about", "doctor", "versions, processor, GPUs and the size of the store, for a bug report"),
        Entry(
            "verify",
            "store",
            "whether results fit the code: train some finished cells again, and compare every recorded bit",
        ),
        Entry(
            "prune", "store", "list, or delete, files of the store that neither studies here nor their latest runs need"
        ),
        Entry(
            "docs", "reference", "write the page on methods from the methods themselves, or check that it is up to date"
        ),
    ),
}
"Commands by need, in the order of the help and of docs/commands.md."
COMMANDS = {entry.name: entry for entries in GROUPS.values() for entry in entries}
