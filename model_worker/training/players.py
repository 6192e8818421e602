"""Who learns what: the players of a task, each with its variables and what moves them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import keras

from model_worker.training.optimizer import Optimizer, StockOptimizer
from shared.errors import TaskError
from shared.task.model_side import ModelSide
from shared.task.users_file import line_of


@dataclasses.dataclass(frozen=True)
class Player:
    """One of those who learn, each from its own parts of the loss."""

    name: str
    places: list[int]  # of its variables among all that are trained
    optimizer: Optimizer | StockOptimizer

    def owns(self, part: str) -> bool:
        """Whether a part of the loss is one of this player's."""
        return part.rpartition("/")[0] == self.name


def players_of(
    task: ModelSide,
    model: keras.Model,
    variables: Mapping[str, keras.Variable],
    muon: bool,
    weight_decay: float,
) -> list[Player]:
    """The players of a task, with optimizers that are ready to be used in a graph.

    Raises:
        TaskError: what it says of them can't be.
    """
    names = list(variables)
    place_of_variable = {id(variable): place for place, variable in enumerate(variables.values())}
    matrices = task.matrices(model) if muon else []
    players: list[Player] = []
    stock: list[keras.optimizers.Optimizer] = []
    for name, owned in _given(task, model).items():
        whose = f"the player {name!r}" if name else "the only player"
        places = [_place(task, whose, place_of_variable, variable) for variable in owned]
        if not places:
            raise TaskError(f"{line_of(task.players)}: {whose} has no variables to train.")
        named = {names[place]: variables[names[place]] for place in places}
        own = task.optimizer(name)
        optimizer: Optimizer | StockOptimizer
        if own is None:
            optimizer = Optimizer(named, matrices, weight_decay)
        else:
            _check_is_fresh(task, whose, own, stock)
            stock.append(own)
            optimizer = StockOptimizer(name, own, named)
        players.append(Player(name, places, optimizer))
    return players


def _given(task: ModelSide, model: keras.Model) -> Mapping[str, list[keras.Variable]]:
    given = task.players(model)
    if not isinstance(given, Mapping) or not given:
        raise TaskError(
            f"{line_of(task.players)}: returned {type(given).__name__}; expected a dictionary with "
            "the variables of each player."
        )
    owned = [id(variable) for variables in given.values() for variable in variables]
    if len(owned) != len(set(owned)):
        raise TaskError(
            f"{line_of(task.players)}: a variable is there twice. Each belongs to one player, once."
        )
    return given


def _place(task: ModelSide, whose: str, places: Mapping[int, int], variable: object) -> int:
    try:
        return places[id(variable)]
    except KeyError:
        name = getattr(variable, "path", type(variable).__name__)
        raise TaskError(
            f"{line_of(task.players)}: {whose} has {name}, which is not one of the model's "
            "trainable_variables."
        ) from None


def _check_is_fresh(task: ModelSide, whose: str, own: Any, others: Iterable[Any]) -> None:
    where = line_of(task.optimizer)
    if not isinstance(own, keras.optimizers.Optimizer):
        raise TaskError(
            f"{where}: returned {type(own).__name__} for {whose}; expected a Keras optimizer or None."
        )
    if own.built or any(own is other for other in others):
        raise TaskError(
            f"{where}: the optimizer of {whose} is in use already. Make a new one at every call."
        )
