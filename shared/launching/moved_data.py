"""Data that has another place by now: whether it is still what a run was begun with."""

from __future__ import annotations

import os

from shared.config.settings import Config
from shared.errors import DataError
from shared.run.directory import RunDirectory


def is_same_data(run: RunDirectory, config: Config) -> bool:
    """Whether every file of the run's index is where this configuration has it, in its size."""
    from shared.plan.index import Index, root_folders  # of no use to a run that is at its place

    try:
        index = Index.load(run.index)
    except DataError:
        return False
    roots = root_folders(config.data.train_data or "", config.data.val_data)
    for row in range(len(index)):
        path = os.path.join(roots[index.root[row]], index.paths[row])
        try:
            if os.stat(path).st_size != index.file_size[row]:
                return False
        except OSError:
            return False
    return True
