"""``fedgrid inspect | export-partition``: what a partition looks like as text, and a copy that others can reuse."""

import argparse
import json
from collections.abc import Iterator, Mapping
from typing import Any

from fedgrid.cli.parsing import Commands, path, with_examples

MOST_CLIENTS = 50
"Clients that are listed one by one; of more, only the `ENDS`."
ENDS = 10
"Clients listed at the beginning and at the end where they are many."
LARGEST = 3
"Classes of a client that are named, the largest first."


def add_commands(commands: Commands) -> None:
    """Adds the commands on partitions to the command line."""
    text = "what a partition looks like: clients, sizes, classes, distances"
    inspect = with_examples(
        commands, "inspect", text, "fedgrid inspect partition.parquet\nfedgrid inspect partition.parquet --json"
    )
    inspect.add_argument("--json", action="store_true", help="print the statistics as JSON")
    inspect.set_defaults(call=_inspect)
    text = "copy a partition with its statistics and checksums into a folder, for others to reuse"
    export = with_examples(commands, "export-partition", text, "fedgrid export-partition partition.parquet published")
    export.set_defaults(call=_export)
    for parser in (inspect, export):
        parser.add_argument("partition", type=path, metavar="PARTITION", help="Parquet file of a partition")
    export.add_argument("folder", type=path, metavar="FOLDER", help="made where it does not exist")


def _inspect(arguments: argparse.Namespace) -> int:
    from fedgrid.partition.common.publish import checked
    from fedgrid.partition.common.statistics import statistics

    table, metadata = checked(arguments.partition)
    summary = statistics(table, metadata["clients"], len(metadata["classes"]))
    print(json.dumps(summary, indent=1, ensure_ascii=False) if arguments.json else _text(metadata, summary))
    return 0


def _export(arguments: argparse.Namespace) -> int:
    from fedgrid.partition.common.publish import publish

    print(publish(arguments.partition, arguments.folder))
    return 0


def _text(metadata: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    return "\n".join([metadata["words"], *_summary(metadata, summary), "", *_clients(metadata, summary)])


def _summary(metadata: Mapping[str, Any], summary: Mapping[str, Any]) -> Iterator[str]:
    images, size = summary["images"], summary["size"]
    empty = sum(not any(row) for row in summary["counts"])
    test = f"{metadata['test']}, one test set for all clients" if summary["shared_test"] else "each client its own"
    yield f"data       {metadata['data']}, checksum {metadata['data_checksum'][:16]}"
    yield f"rows       digest {metadata['digest'][:16]}"
    yield f"clients    {metadata['clients']:,}" + (f", {empty:,} without training images" if empty else "")
    yield f"images     {images['train']:,} train, {images['validation']:,} validation, {images['test']:,} test ({test})"
    yield (
        f"sizes      {size['min']:,} to {size['max']:,} training and validation images, median {size['median']:,g}, "
        f"coefficient of variation {size['variation']:.2f}"
    )
    held = summary["classes_held"]
    yield f"classes    {min(held)} to {max(held)} of {len(metadata['classes'])} with a client"
    if summary["domains"]:
        totals = (f"{name} {sum(summary['domains'].get(name, [])):,}" for name in metadata["domains"])
        yield f"domains    {', '.join(totals)}"
    yield from _distances(summary)


def _distances(summary: Mapping[str, Any]) -> Iterator[str]:
    between, pooled = summary["jensen_shannon"], summary["earth_mover"]
    if between["mean"] is not None:
        yield (
            f"distances  Jensen–Shannon between clients (0 to 1): mean {between['mean']:.3f}, "
            f"{between['min']:.3f} to {between['max']:.3f}"
        )
        yield (
            f"           earth mover's (0 to 2): to all clients together mean {pooled['mean']:.3f}, "
            f"max {pooled['max']:.3f}; between clients mean {pooled['pairwise_mean']:.3f}"
        )


def _clients(metadata: Mapping[str, Any], summary: Mapping[str, Any]) -> Iterator[str]:
    yield f"{'client':>6}  {'train':>7}  {'valid.':>7}  {'test':>7}  {'classes':>7}  most images of"
    clients = range(metadata["clients"])
    many = len(clients) > MOST_CLIENTS
    for client in [*clients[:ENDS], *clients[-ENDS:]] if many else clients:
        if many and client == clients[-ENDS]:
            yield f"{'…':>6}  {len(clients) - 2 * ENDS:,} more; --json prints them all"
        numbers = [sizes[client] for sizes in summary["sizes"].values()]
        columns = [f"{number:7,}" for number in (*numbers, summary["classes_held"][client])]
        yield "  ".join([f"{client:6}", *columns, _largest(metadata["classes"], summary["counts"][client])]).rstrip()


def _largest(names: list[str], counts: list[int]) -> str:
    held = sorted((number for number, count in enumerate(counts) if count), key=lambda number: -counts[number])
    named = ", ".join(f"{names[number]}: {counts[number]:,}" for number in held[:LARGEST])
    return f"{named}, …" if len(held) > LARGEST else named
