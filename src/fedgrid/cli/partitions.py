"""``fedgrid inspect | export-partition | import-partition``: what it looks like, a copy for others, others'."""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fedgrid.cli.cells import data_setting
from fedgrid.cli.parsing import STORE, assignments, command, flag, option, path, utf8
from fedgrid.cli.phrases import path_in_study
from fedgrid.components import describe
from fedgrid.errors import UserError
from fedgrid.files import slug
from fedgrid.partition.imported import Imported
from fedgrid.partition.importing.forms import refuse_foreign
from fedgrid.partition.importing.report import lines_of

MOST_CLIENTS = 50
"Clients that are listed one by one; of more, only the `ENDS`."
ENDS = 10
"Clients listed at the beginning and at the end where they are many."
FOLDER = Path("partitions")
"Where imported partitions go."
LARGEST = 3
"Classes of a client that are named, the largest first."


PARTITION = option("partition PARTITION", "Parquet file of a partition", type=path)


@command(flag("--json", "print the statistics as JSON"), PARTITION)
def inspect(arguments: argparse.Namespace) -> None:
    """What a partition looks like: clients, sizes, classes, distances.

    fedgrid inspect partition.parquet
    fedgrid inspect partition.parquet --json
    """
    from fedgrid.api.partitions import read_partition  # pandas takes time to import

    refuse_foreign(arguments.partition)
    partition = read_partition(arguments.partition)
    metadata, statistics = partition.metadata, partition.statistics
    if arguments.json:
        named = {"names": metadata["names"]} if "names" in metadata else {}
        print(json.dumps({**statistics, **named}, indent=1, ensure_ascii=False))
    else:
        lines = [metadata["words"], *_summary(metadata, statistics), "", *_clients(metadata, statistics)]
        print("\n".join(lines))


@command(
    PARTITION,
    option("folder FOLDER", "made where it does not exist", type=path),
    option("--license TEXT", "the license of the folder's partitions, for croissant.json", type=utf8, default=""),
)
def export_partition(arguments: argparse.Namespace) -> None:
    """Copy a partition, its statistics, checksums and Croissant description into a folder, for others to reuse.

    fedgrid export-partition partition.parquet published
    fedgrid export-partition partition.parquet published --license CC-BY-4.0
    """
    from fedgrid.api import published_partitions

    refuse_foreign(arguments.partition)
    print(published_partitions.export_partition(arguments.partition, arguments.folder, arguments.license))


def _matching(parser: argparse.ArgumentParser) -> None:
    """Adds the settings of an imported partition that decide how it is matched with images."""
    kind = {parameter["name"]: parameter for parameter in describe(Imported)["parameters"]}
    for name in ("test", "unmatched"):
        choices, default = kind[name]["choices"], kind[name]["default"]
        parser.add_argument(f"--{name}", choices=choices, default=default, help=kind[name]["doc"])


@command(
    option("file FILE", "CSV, Parquet or JSON file, or PFLlib's folder (docs/exchange.md)"),
    option("--data", "the data set that it is of, or the path to your own", required=True),
    assignments("data-set", "a setting of the data"),
    option("--name", "of the partition (default: that of the file)"),
    option("--to FOLDER", f"where it goes (default: {FOLDER})", type=path, default=FOLDER),
    _matching,
    *STORE,
)
def import_partition(arguments: argparse.Namespace) -> None:
    """Convert a partition from another program (a table, JSON, PFLlib's folder) into one that studies can use.

    fedgrid import-partition clients.csv --data digits
    fedgrid import-partition PFLlib/dataset/MNIST --data mnist --name pfllib-mnist
    """
    from fedgrid.api import partitions  # pandas takes time to import

    name = arguments.name or slug(Path(arguments.file).stem)
    if slug(name) != name:
        raise UserError(f"--name: '{name}' must be letters, digits, '_', '.' and '-'")
    data = {"name": arguments.data} | dict(map(data_setting, arguments.data_set))
    settings = {"test": arguments.test, "unmatched": arguments.unmatched}
    out = arguments.to / f"{name}.parquet"
    made = partitions.import_partition(arguments.file, data, out, settings, arguments.results, arguments.data_root)
    origin = made.metadata["origin"]
    print(f"{arguments.file}: {origin['form']}, SHA-256 {origin['digest']}")
    print("\n".join(_summary(made.metadata, made.statistics)))
    notes = [f"note: {line}" for line in lines_of(origin["report"])]
    print("", *(notes or ["all images match, none comes twice"]), sep="\n")
    named, study = path_in_study(out)
    print(f'\n{out}\n  heterogeneity: [{{partition: "file:{named}"}}]   # in {study}')


def _summary(metadata: Mapping[str, Any], summary: Mapping[str, Any]) -> Iterator[str]:
    images, size = summary["images"], summary["size"]
    empty = sum(not any(row) for row in summary["counts"])
    test = f"{metadata['test']}, one test set for all clients" if summary["shared_test"] else "each client its own"
    yield f"data       {metadata['data']}, checksum {metadata['data_checksum'][:16]}"
    yield f"rows       digest {metadata['digest'][:16]}"
    yield f"clients    {metadata['clients']:,}" + (f", {empty:,} without training images" if empty else "")
    yield f"images     {images['train']:,} train, {images['validation']:,} validation, {images['test']:,} test ({test})"
    spread = f"median {size['median']:,g}, coefficient of variation {size['variation']:.2f}"
    yield f"sizes      {size['min']:,} to {size['max']:,} training and validation images, {spread}"
    held = summary["classes_held"]
    yield f"classes    {min(held)} to {max(held)} of {len(metadata['classes'])} with a client"
    if summary["domains"]:
        totals = (f"{name} {sum(summary['domains'].get(name, [])):,}" for name in metadata["domains"])
        yield f"domains    {', '.join(totals)}"
    between, pooled = summary["jensen_shannon"], summary["earth_mover"]
    if between["mean"] is not None:
        spread = f"mean {between['mean']:.3f}, {between['min']:.3f} to {between['max']:.3f}"
        yield f"distances  Jensen–Shannon between clients (0 to 1): {spread}"
        together = f"to all clients together mean {pooled['mean']:.3f}, max {pooled['max']:.3f}"
        yield f"           earth mover's (0 to 2): {together}; between clients mean {pooled['pairwise_mean']:.3f}"


def _clients(metadata: Mapping[str, Any], summary: Mapping[str, Any]) -> Iterator[str]:
    names = metadata.get("names")
    header = f"{'client':>6}  {'train':>7}  {'valid.':>7}  {'test':>7}  {'classes':>7}  most images of"
    yield header + " · name" * bool(names)
    clients = range(metadata["clients"])
    many = len(clients) > MOST_CLIENTS
    for client in [*clients[:ENDS], *clients[-ENDS:]] if many else clients:
        if many and client == clients[-ENDS]:
            yield f"{'…':>6}  {len(clients) - 2 * ENDS:,} more; --json prints them all"
        numbers = [sizes[client] for sizes in summary["sizes"].values()]
        columns = [f"{number:7,}" for number in (*numbers, summary["classes_held"][client])]
        counts = zip(metadata["classes"], summary["counts"][client], strict=True)
        held = sorted(((name, count) for name, count in counts if count), key=lambda pair: -pair[1])
        largest = [f"{name}: {count:,}" for name, count in held[:LARGEST]] + ["…"] * (len(held) > LARGEST)
        named = f" · {' + '.join(names[client])}" if names else ""
        yield "  ".join([f"{client:6}", *columns, ", ".join(largest) + named]).rstrip()
