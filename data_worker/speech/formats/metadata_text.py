"""Metadata files as lines of text, whatever editor wrote them."""

from __future__ import annotations

import unicodedata
from pathlib import Path

from shared.errors import DataError

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def read_bytes(path: Path) -> bytes:
    """The file's bytes; a FIFO or device is never opened.

    Raises:
        DataError: it can't be read.
    """
    try:
        if not path.is_file():
            raise DataError(f"{path}: is not a file. Give the folder or file of the metadata.")
        return path.read_bytes()
    except OSError as error:
        raise DataError(
            f"{path}: can't be read ({error.strerror}). Check its permissions."
        ) from None


def lines_of(path: Path, raw: bytes) -> list[str]:
    """The file's lines without their ends, composed (NFC), as text.

    Raises:
        DataError: it is not UTF-8; names the line and the remedy.
    """
    if raw.startswith(_UTF16_MARKS):
        raise DataError(
            f"{path}: is UTF-16, expected UTF-8. Convert it with "
            f"'iconv -f UTF-16 -t UTF-8 {path.name} > fixed.csv' and use the result."
        )
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}: line {line} is not UTF-8 (byte 0x{raw[error.start]:02x}); the file may be "
            f"Latin-1. Convert it with 'iconv -f LATIN1 -t UTF-8 {path.name} > fixed.csv' and use "
            f"the result."
        ) from None
    text = unicodedata.normalize("NFC", text)
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    # Not splitlines(): U+2028, form feeds and the like belong to the text of a row.
    return text.split("\n")
