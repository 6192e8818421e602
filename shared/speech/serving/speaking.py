"""From a request to pieces of sound: who speaks next, and how many may wait.

Every piece of a text is one job of a pool with a thread for each core, so that a long text does not
keep a short one waiting. espeak-ng is for one thread alone: that has a pool of its own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus

import numpy as np

from shared.errors import InputError
from shared.speech.serving.metrics import ServingMetrics
from shared.speech.serving.request import RequestRefused, SpeechRequest
from shared.speech.serving.served_voice import ServedVoice
from shared.speech.text.encoder import EncodedPiece

_RETRY_AFTER_S = 1


class Speaking:
    """Speaks requests, at most `most_at_once` of them under way or waiting."""

    def __init__(
        self, voice: ServedVoice, metrics: ServingMetrics, num_threads: int, most_at_once: int
    ):
        self.voice, self._metrics = voice, metrics
        self._most, self._num = most_at_once, 0
        self._reader = ThreadPoolExecutor(1, "reader")
        self._speakers = ThreadPoolExecutor(num_threads, "speaker")
        self._encoder = self._reader.submit(voice.encoder).result()

    def warm_up(self) -> None:
        """Speak a word, so that the first request is as fast as the others."""
        self.voice.speak(EncodedPiece(np.array([1, 4, 2], np.int32), 0), 0)

    def close(self) -> None:
        """End the threads; what they are at is finished."""
        for pool in (self._reader, self._speakers):
            pool.shutdown(cancel_futures=True)

    def enter(self) -> None:
        """Take a place; `leave` gives it back.

        Raises:
            RequestRefused: there is none.
        """
        if self._num >= self._most:
            raise RequestRefused(
                f"{self._num} requests are under way or waiting, which is as many as are taken. "
                "Ask again in a moment.",
                HTTPStatus.TOO_MANY_REQUESTS,
                {"Retry-After": str(_RETRY_AFTER_S)},
            )
        self._num += 1
        self._metrics.under_way.set(self._num)

    def leave(self) -> None:
        """Give a place back."""
        self._num -= 1
        self._metrics.under_way.set(self._num)

    async def pieces(self, request: SpeechRequest) -> AsyncGenerator[np.ndarray, None]:
        """The sound of a text piece by piece, float32 (samples,) each; one is made ahead.

        Raises:
            RequestRefused: nothing of the text can be spoken, or a tag in it can't be understood.
        """
        loop = asyncio.get_running_loop()
        texts = self._encoder.one_by_one(request.text)

        async def following() -> np.ndarray | None:
            piece = await loop.run_in_executor(self._reader, _next, texts)
            if piece is None:
                return None
            return await loop.run_in_executor(self._speakers, self._speak, piece, request)

        ahead = asyncio.create_task(following())
        num_made = 0
        try:
            while (samples := await ahead) is not None:
                ahead = asyncio.create_task(following())
                num_made += 1
                yield samples
        finally:
            ahead.cancel()
        if not num_made:
            raise RequestRefused("input: there is nothing in it that can be spoken.")

    def _speak(self, piece: EncodedPiece, request: SpeechRequest) -> np.ndarray:
        begun_s = time.perf_counter()
        samples = self.voice.speak(piece, request.speaker, request.speed, request.pitch_semitones)
        took_s = time.perf_counter() - begun_s
        self._metrics.spoken(len(samples) / self.voice.sample_rate, took_s)
        return samples


def _next(texts: Iterator[EncodedPiece]) -> EncodedPiece | None:
    """Raises RequestRefused where a tag can't be understood."""
    try:
        return next(texts, None)
    except InputError as error:
        raise RequestRefused(f"input: {error}") from None
