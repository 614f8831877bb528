"""How a federation is trained: the settings that all methods of a study share."""

from fedgrid.components import Component, hp


class Training(Component):
    """Rounds, participation and the local solver."""

    rounds: int = hp(20, low=1)
    "Rounds of communication, T."
    local_epochs: int = hp(1, low=0)
    "Epochs that a participant trains in a round, E."
    batch_size: int = hp(16, low=1)
    "Images in a batch, B; the last, smaller batch of an epoch is used too."
    optimizer: str = hp("sgd", choices=("sgd", "adam"))
    "Local optimiser; its state is new for every client and round."
    lr: float = hp(0.05, above=0)
    "Local learning rate, η."
    momentum: float = hp(0.0, low=0, high=1)
    "Momentum of sgd."
    weight_decay: float = hp(0.0, low=0)
    "Weight decay (L2) of the optimiser."
    participation: float = hp(1.0, above=0, high=1)
    "Share of the clients with data that take part in a round, drawn anew each round; at least one does."
    eval_every: int = hp(1, low=1)
    "Rounds between evaluations; the initial and the last model are always evaluated."
