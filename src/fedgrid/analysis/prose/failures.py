"""Sentences on participants that fail and clients that join late."""

from fedgrid.analysis.scores.results import Results

FATES = {
    "upload": "the upload of a participant that has trained is lost",
    "start": "a participant does not start",
}
"""`dropout_at` → what dropping out is."""


def failures(results: Results) -> list[str]:
    """What a study's protocol does to its participants; nothing where all of them are reliable."""
    training = results.study.protocol
    dropout, stragglers, new = (training.get(name, 0.0) for name in ("dropout", "stragglers", "new_clients"))
    sentences = []
    if dropout:
        sentences.append(f"In each round {FATES[training['dropout_at']]} with a chance of {100 * dropout:g} %.")
    if stragglers:
        share = f"{100 * training['straggler_work']:g} % of its local steps"
        sentences.append(f"With a chance of {100 * stragglers:g} % a participant takes only {share} in a round.")
    if new:
        sentences.append(f"{100 * new:g} % of the clients take no part in training, and no part in these numbers.")
    return sentences
