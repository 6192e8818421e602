"""One checkpoint's folder on disk: written file by file, read back only where every byte is right.

Each group of arrays is a safetensors file, beside a `state.json`; `manifest.json` has the size and
SHA-256 of each of them and of itself. Nothing here needs TensorFlow.
"""

import contextlib
import errno
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np
import safetensors
import safetensors.numpy

from shared.errors import CheckpointError

FORMAT_VERSION = 1
MANIFEST, STATE, BEST = "manifest.json", "state.json", "best.json"
MAX_MANIFEST_BYTES = 1 << 20
WRITE_BYTES = 16 << 20

_DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bool": "BOOL",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8",
    "uint64": "U64", "uint32": "U32", "uint16": "U16", "uint8": "U8",
}  # fmt: skip
_LINKS_NOT_POSSIBLE = {errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOSYS, errno.EOPNOTSUPP}

Groups = dict[str, dict[str, np.ndarray]]


class FileEntry(TypedDict):
    """What a manifest says of one file."""

    bytes: int
    sha256: str


class Manifest(TypedDict):
    """What a checkpoint's manifest says; its own SHA-256 is left out."""

    format_version: int
    step: int
    serial: int  # larger than that of every checkpoint before
    serial_of_saved: NotRequired[int]  # of a best one: that of the checkpoint it was made from
    files: dict[str, FileEntry]


class OsLayer:
    """The calls that change the disk; a test puts its own in their place to interrupt them."""

    mkdir = staticmethod(os.mkdir)
    open = staticmethod(os.open)
    write = staticmethod(os.write)
    fsync = staticmethod(os.fsync)
    close = staticmethod(os.close)
    link = staticmethod(os.link)
    rename = staticmethod(os.rename)
    unlink = staticmethod(os.unlink)
    rmdir = staticmethod(os.rmdir)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """A verified checkpoint.

    step: optimizer steps done when it was taken. groups: {group: {name: array}}, as saved.
    """

    path: Path
    step: int
    groups: Groups
    state: dict


class NotFiniteError(CheckpointError):
    """What was to be saved holds NaN or infinity: it is the training that broke, not the disk."""


class NotWhole(Exception):
    """Why a folder can't be used as a checkpoint, in words that follow its path and a colon."""


class FolderWriter:
    """Writes and removes whole folders, so that what it says is on disk is on disk."""

    def __init__(self, os_layer: OsLayer | None = None):
        self._os = os_layer or OsLayer()

    def make_directory(self, directory: Path) -> None:
        """Make a folder and those above it, each of them durable."""
        missing = [path for path in (directory, *directory.parents) if not path.exists()]
        for path in reversed(missing):
            self._os.mkdir(path)
            self.fsync_directory(path.parent)

    def new_folder(self, folder: Path) -> None:
        """An empty folder, whatever was left there."""
        self.remove_files(folder)
        self._os.mkdir(folder)

    def write_manifest(self, folder: Path, manifest: Manifest) -> None:
        """Write what makes the folder a checkpoint; then all of it is on disk."""
        self.write(folder / MANIFEST, [_sealed(manifest)])
        self.fsync_directory(folder)

    def rename(self, path: Path, new_path: Path) -> None:
        self._os.rename(path, new_path)

    def write(self, path: Path, chunks: Iterable[bytes | memoryview]) -> FileEntry:
        """Writes and fsyncs a new file; returns its entry in the manifest."""
        digest, size = hashlib.sha256(), 0
        with self._opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666) as descriptor:
            for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                left = memoryview(chunk)
                while left:
                    left = left[self._os.write(descriptor, left[:WRITE_BYTES]) :]
            self._os.fsync(descriptor)
        return {"bytes": size, "sha256": digest.hexdigest()}

    def link(self, path: Path, source: Path, entry: FileEntry) -> FileEntry:
        """A file that is there already under a second name, or a copy of it; returns its entry."""
        try:
            self._os.link(source, path)
        except OSError as error:
            if error.errno not in _LINKS_NOT_POSSIBLE:
                raise
            return self.write(path, [source.read_bytes()])
        return entry

    def fsync_directory(self, path: Path) -> None:
        with self._opened(path, os.O_RDONLY | os.O_DIRECTORY, 0) as descriptor:
            self._os.fsync(descriptor)

    @contextlib.contextmanager
    def _opened(self, path: Path, flags: int, mode: int) -> Iterator[int]:
        """A descriptor; what goes wrong while it is open names the path."""
        descriptor = self._os.open(path, flags, mode)
        try:
            yield descriptor
        except OSError as error:
            error.filename = error.filename or str(path)
            raise
        finally:
            self._os.close(descriptor)

    def remove_files(self, folder: Path) -> None:
        if not folder.is_dir():
            return
        for path in folder.iterdir():
            self._os.unlink(path)
        self._os.rmdir(folder)


def in_words(error: OSError) -> str:
    if error.errno is None:
        return str(error)
    return f"{os.strerror(error.errno)}, {errno.errorcode.get(error.errno, error.errno)}"


def refused(path: Path | str, intention: str, error: OSError) -> CheckpointError:
    remedy = {
        errno.ENOSPC: "Free some space on that disk, or keep fewer checkpoints.",
        errno.EDQUOT: "Your quota on that disk is used up: free some space.",
        errno.EACCES: "Give this user the right to write there.",
        errno.EROFS: "The disk is mounted read-only: choose another --run-dir.",
    }.get(error.errno or 0, "Look at the disk and its mount.")
    return CheckpointError(
        f"{path}: could not {intention}: {in_words(error)}. "
        f"The checkpoints before it are untouched. {remedy}"
    )


def canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, indent=1, allow_nan=False).encode() + b"\n"


def _sealed(manifest: Mapping[str, object]) -> bytes:
    """The manifest's bytes, with its own SHA-256 inside."""
    return canonical({**manifest, "sha256": hashlib.sha256(canonical(manifest)).hexdigest()})


def is_finite(array: np.ndarray) -> bool:
    return array.dtype.kind in "biu" or bool(np.isfinite(array).all())


def check_can_be_saved(step: int, group: str, arrays: dict[str, np.ndarray]) -> None:
    if not re.fullmatch(r"[A-Za-z0-9_]+", group):
        raise CheckpointError(f"{group!r} can't name a group; use letters, digits and '_'.")
    for name, array in arrays.items():
        where = f"Step {step} was not saved: {group}/{name}"
        if name == "__metadata__" or np.asarray(array).dtype.name not in _DTYPES:
            raise CheckpointError(
                f"{where} is of type {np.asarray(array).dtype}; expected one of "
                f"{', '.join(_DTYPES)} (and any name but __metadata__)."
            )
        if not is_finite(np.asarray(array)):
            raise NotFiniteError(
                f"{where} holds NaN or infinity. The checkpoints before it are untouched."
            )


def safetensors_chunks(arrays: dict[str, np.ndarray]) -> Iterator[bytes | memoryview]:
    """Yields a safetensors file without ever holding a copy of all arrays."""
    header, offset = {}, 0
    # Wide types first: every array is then aligned to its own size.
    order = sorted(arrays, key=lambda name: (-np.asarray(arrays[name]).dtype.itemsize, name))
    for name in order:
        array = np.asarray(arrays[name])
        header[name] = {
            "dtype": _DTYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        array = np.asarray(arrays[name])
        array = array.astype(array.dtype.newbyteorder("<"), order="C", copy=False)
        yield array.reshape(-1).view(np.uint8).data


def read_manifest(path: Path) -> Manifest:
    try:
        with open(path / MANIFEST, "rb") as file:
            raw = file.read(MAX_MANIFEST_BYTES)
    except FileNotFoundError:
        raise NotWhole(f"it has no {MANIFEST}, so it was never finished") from None
    except OSError as error:
        raise NotWhole(f"{MANIFEST} can't be read ({in_words(error)})") from error
    try:
        manifest = json.loads(raw)
        version = manifest["format_version"]
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise NotWhole(
                f"it has checkpoint format {version} and this version of Tandem reads up to "
                f"{FORMAT_VERSION}; a newer Tandem wrote it"
            )
        # The exact bytes, not only the values: no bit of the manifest is without meaning.
        if raw == _sealed({key: value for key, value in manifest.items() if key != "sha256"}):
            names = manifest["files"].keys()
            numbers = [manifest["step"], manifest["serial"], manifest.get("serial_of_saved", 0)]
            numbers += [entry["bytes"] for entry in manifest["files"].values()]
            if (
                STATE in names
                and all(re.fullmatch(r"\w+\.(safetensors|json)", name) for name in names)
                and all(isinstance(number, int) for number in numbers)
            ):
                return manifest
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise NotWhole(f"{MANIFEST} is damaged")


def missing_or_cut(path: Path, manifest: Manifest) -> bool:
    try:
        return any(
            (path / name).stat().st_size != entry["bytes"]
            for name, entry in manifest["files"].items()
        )
    except OSError:
        return True


def read_checkpoint(path: Path, only_groups: Iterable[str] | None) -> Checkpoint:
    manifest = read_manifest(path)
    suffix = ".safetensors"
    groups, documents = {}, {}
    names = sorted(manifest["files"])
    if only_groups is not None:
        wanted = {f"{group}{suffix}" for group in only_groups}
        if missing := wanted - set(names):
            raise NotWhole(f"it has no {', '.join(sorted(missing))}")
        names = [name for name in names if name in wanted or not name.endswith(suffix)]
    for name in names:
        raw = _read_verified(path / name, manifest["files"][name])
        try:
            if name.endswith(suffix):
                arrays = groups[name.removesuffix(suffix)] = safetensors.numpy.load(raw)
                for array_name, array in arrays.items():
                    if not is_finite(array):
                        raise NotWhole(f"{name} holds NaN or infinity in {array_name}")
            else:
                documents[name] = json.loads(raw)
        except (ValueError, KeyError, RecursionError, safetensors.SafetensorError) as error:
            raise NotWhole(f"{name} can't be read ({error})") from error
    if not all(isinstance(document, dict) for document in documents.values()):
        raise NotWhole("its state is not a JSON object")
    return Checkpoint(path, manifest["step"], groups, documents[STATE])


def _read_verified(path: Path, entry: FileEntry) -> bytes:
    """The bytes of a file that are known to be those that were written."""
    try:
        size = path.stat().st_size
        if size != entry["bytes"]:
            raise NotWhole(f"{path.name} has {size:,} bytes instead of {entry['bytes']:,}")
        raw = path.read_bytes()
    except FileNotFoundError:
        raise NotWhole(f"{path.name} is missing") from None
    except OSError as error:
        raise NotWhole(f"{path.name} can't be read ({in_words(error)})") from error
    if hashlib.sha256(raw).hexdigest() != entry.get("sha256"):
        raise NotWhole(f"{path.name} is not what was written (its SHA-256 differs)")
    return raw
