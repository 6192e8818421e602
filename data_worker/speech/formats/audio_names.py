"""From what a metadata row calls its audio to a file inside the data folder."""

from __future__ import annotations

import os
import posixpath
import unicodedata
from collections.abc import Iterator

AUDIO_SUFFIXES = (".wav", ".flac", ".mp3", ".ogg", ".opus", ".aiff", ".aif", ".au", ".oga", ".w64")
_FOLDERS = ("wavs/", "", "clips/", "wav/", "audio/")


class BadName(Exception):
    """A name that leads to no file of the data set; the message is the reason."""

    def __init__(self, reason: str, path: str):
        super().__init__(reason)
        self.path = path  # the file that was looked for


def without_suffix(name: str) -> str:
    """The name without an audio suffix, if it has one."""
    stem, suffix = posixpath.splitext(name)
    return stem if suffix.lower() in AUDIO_SUFFIXES else name


def id_of(name: str) -> str:
    """The utterance's id: the name as written, without suffix, "./" or the folder "wavs/"."""
    name = unicodedata.normalize("NFC", name).replace("\\", "/")
    name = without_suffix(posixpath.normpath(name)) if name else ""
    return name.removeprefix("wavs/")


class AudioNames:
    """Finds audio by name; lists each folder once instead of asking for each file."""

    def __init__(self, root: str, folders: tuple[str, ...] = _FOLDERS):
        self._root = os.path.abspath(root)
        self._folders = folders
        self._listings: dict[str, frozenset[str]] = {}

    def find(self, name: str) -> str:
        """The path, relative to the data folder, of the audio that a row calls `name`.

        Raises:
            BadName: it leads out of the folder or to nothing.
        """
        relative = self._inside(name)
        for form in dict.fromkeys(
            (
                relative,
                unicodedata.normalize("NFC", relative),
                unicodedata.normalize("NFD", relative),
                relative.replace("\\", "/"),
            )
        ):
            for candidate in self._candidates(form):
                folder, base = posixpath.split(candidate)
                stem, suffix = posixpath.splitext(base)
                for found in (base, stem + suffix.upper(), stem + suffix.lower()):
                    if found in self._listing(folder):  # recorders write clip.WAV
                        return posixpath.join(folder, found)
        sought = next(self._candidates(relative))
        raise BadName(f"there is no file {sought}", sought)

    def _inside(self, name: str) -> str:
        if not name:
            raise BadName("the row does not name its audio", name)
        if "\0" in name:
            raise BadName("the name of its audio holds a NUL character", name)
        if len(name) > 1024:
            raise BadName(f"the name of its audio has {len(name):,} characters", name[:200])
        if posixpath.isabs(name):
            inside = posixpath.relpath(name, self._root)
            if inside.startswith(".."):
                inside = posixpath.relpath(name, os.path.realpath(self._root))
        else:
            inside = posixpath.normpath(name)
        if inside == ".." or inside.startswith("../"):
            raise BadName(f"{name[:200]} is outside the data folder", name)
        return inside

    def _candidates(self, name: str) -> Iterator[str]:
        suffixes = ("",) if without_suffix(name) != name else (*AUDIO_SUFFIXES, "")
        folders = ("", *self._folders) if "/" in name or suffixes == ("",) else self._folders
        for suffix in suffixes:
            for folder in dict.fromkeys(folders):
                yield folder + name + suffix

    def _listing(self, folder: str) -> frozenset[str]:
        if folder not in self._listings:
            try:
                with os.scandir(os.path.join(self._root, folder)) as entries:
                    names = frozenset(entry.name for entry in entries)
            except (OSError, ValueError):
                names = frozenset()
            self._listings[folder] = names
        return self._listings[folder]
