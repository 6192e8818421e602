"""Log mels as other libraries make them, in the same convention, for one clip after the other.

Each peer is a function from audio float32 (samples,) at 22,050 Hz to a mel float32 (frames, 80);
NVIDIA DALI, which knows only pipelines, makes whole batches from files or from memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from results import absent

MODULES = {
    "librosa": "librosa",
    "scipy": "scipy",
    "torch": "torch",
    "torch, double": "torch",
    "DALI": "nvidia.dali",
}


def why_not(peer: str) -> str | None:
    """Why a peer can't take part, or None when it can."""
    module = MODULES[peer]
    return absent(module.split(".")[0]) or absent(module)


def of_librosa(basis: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    import librosa

    def mel(clip: np.ndarray) -> np.ndarray:
        padded = np.pad(clip, 384, mode="reflect")
        spectrum = librosa.stft(padded, n_fft=1024, hop_length=256, center=False)
        magnitude = np.sqrt(spectrum.real**2 + spectrum.imag**2 + 1e-9)
        return np.log(np.maximum(basis @ magnitude, 1e-5)).T

    return mel


def of_scipy(basis: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    import scipy.fft
    import scipy.signal

    window = scipy.signal.get_window("hann", 1024).astype(np.float32)
    filters = np.ascontiguousarray(basis.T)

    def mel(clip: np.ndarray) -> np.ndarray:
        padded = np.pad(clip, 384, mode="reflect")
        frames = np.lib.stride_tricks.sliding_window_view(padded, 1024)[::256]
        spectrum = scipy.fft.rfft(frames * window)
        magnitude = np.sqrt(spectrum.real**2 + spectrum.imag**2 + 1e-9)
        return np.log(np.maximum(magnitude @ filters, 1e-5))

    return mel


def of_torch(basis: np.ndarray, double: bool = False) -> Callable[[np.ndarray], np.ndarray]:
    """`double`: the spectrum in double precision, without which the mel is wrong near 8 kHz."""
    import torch
    from torch.nn import functional

    torch.set_num_threads(1)
    dtype = torch.float64 if double else torch.float32
    window = torch.hann_window(1024, dtype=dtype)
    filters = torch.from_numpy(np.ascontiguousarray(basis))

    def mel(clip: np.ndarray) -> np.ndarray:
        audio = torch.from_numpy(clip)[None].to(dtype)
        padded = functional.pad(audio, (384, 384), mode="reflect")
        spectrum = torch.stft(padded, 1024, 256, window=window, center=False, return_complex=True)
        spectrum = spectrum.to(torch.complex64)
        magnitude = torch.sqrt(spectrum.real**2 + spectrum.imag**2 + 1e-9)
        return torch.log(torch.clamp(filters @ magnitude[0], min=1e-5)).T.numpy()

    return mel


CLIP_PEERS: dict[str, Callable[..., Callable]] = {
    "librosa": of_librosa,
    "scipy": of_scipy,
    "torch": of_torch,
    "torch, double": partial(of_torch, double=True),
}


def dali_batches(
    batch_size: int, files: list[str] | None = None, clips: list[np.ndarray] | None = None
) -> Iterator[np.ndarray]:
    """Batches of padded mels without end, (batch, frames, 80), by DALI's CPU operators, one thread.

    From files, decoded and resampled by DALI, or from clips in memory.
    """
    from nvidia.dali import fn, pipeline_def, types

    turn, in_memory = 0, clips or []

    def next_clip(_info) -> np.ndarray:
        nonlocal turn
        turn += 1
        return in_memory[turn % len(in_memory)]

    @pipeline_def(batch_size=batch_size, num_threads=1, device_id=None, prefetch_queue_depth=2)
    def pipeline():
        if files:
            encoded, _ = fn.readers.file(files=files, name="files")
            audio, _ = fn.decoders.audio(
                encoded, dtype=types.FLOAT, downmix=True, sample_rate=22_050
            )
        else:
            audio = fn.external_source(next_clip, batch=False, dtype=types.FLOAT, ndim=1)
        spectrum = fn.spectrogram(
            audio, nfft=1024, window_length=1024, window_step=256, power=1, reflect_padding=True
        )
        mel = fn.mel_filter_bank(
            spectrum, nfilter=80, sample_rate=22_050, freq_high=8_000, normalize=True
        )
        log_mel = fn.to_decibels(mel, multiplier=np.log(10), reference=1.0, cutoff_db=-11.513)
        return fn.pad(fn.transpose(log_mel, perm=[1, 0]))

    built = pipeline()
    built.build()
    while True:
        (batch,) = built.run()
        yield batch.as_array()
