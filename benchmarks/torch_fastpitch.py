"""A FastPitch-like training step in plain PyTorch, as one would write it first.

Feed-forward transformer blocks around a length regulator, predictors of duration, pitch and energy,
and a learned aligner (convolutions, forward-sum loss, monotonic search on the CPU), trained with
AdamW. The batch is Tandem's, arrays and all.
"""

from __future__ import annotations

from bisect import bisect

import numba
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

MEL_BINS = 80


class Block(nn.Module):
    """Self-attention and a two-layer convolution, each with a residual and a layer norm."""

    def __init__(self, size: int, filter_size: int, dropout: float = 0.1):
        super().__init__()
        self.attention = nn.MultiheadAttention(size, 1, dropout, batch_first=True)
        self.norm_1, self.norm_2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.conv_1 = nn.Conv1d(size, filter_size, 3, padding=1)
        self.conv_2 = nn.Conv1d(filter_size, size, 3, padding=1)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor, is_padding: torch.Tensor) -> torch.Tensor:
        attended, _ = self.attention(x, x, x, key_padding_mask=is_padding, need_weights=False)
        x = self.norm_1(x + attended)
        hidden = self.conv_2(F.relu(self.conv_1(x.transpose(1, 2)))).transpose(1, 2)
        return self.norm_2(x + self.dropout(hidden)).masked_fill(is_padding[..., None], 0)


class Predictor(nn.Module):
    """Two convolutions and one number for each symbol."""

    def __init__(self, size: int, filter_size: int):
        super().__init__()
        self.conv_1 = nn.Conv1d(size, filter_size, 3, padding=1)
        self.conv_2 = nn.Conv1d(filter_size, filter_size, 3, padding=1)
        self.norm_1, self.norm_2 = nn.LayerNorm(filter_size), nn.LayerNorm(filter_size)
        self.out = nn.Linear(filter_size, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm_1(F.relu(self.conv_1(x.transpose(1, 2)).transpose(1, 2)))
        x = self.norm_2(F.relu(self.conv_2(x.transpose(1, 2)).transpose(1, 2)))
        return self.out(x)[..., 0]


@numba.njit(cache=True)
def monotonic_durations(scores, symbol_lengths, mel_lengths, durations):
    """The best monotonic path: scores (batch, frames, symbols) into durations (batch, symbols)."""
    for b in range(scores.shape[0]):
        frames, symbols = mel_lengths[b], symbol_lengths[b]
        best = np.full((frames, symbols), -1e9, np.float32)
        best[0, 0] = scores[b, 0, 0]
        for t in range(1, frames):
            for s in range(min(symbols, t + 1)):
                before = best[t - 1, s]
                if s and best[t - 1, s - 1] > before:
                    before = best[t - 1, s - 1]
                best[t, s] = before + scores[b, t, s]
        s = symbols - 1
        for t in range(frames - 1, -1, -1):
            durations[b, s] += 1
            if t and s and (s == t or best[t - 1, s - 1] > best[t - 1, s]):
                s -= 1


class FastPitch(nn.Module):
    """The model with all its losses; `size` sets its number of parameters."""

    def __init__(self, num_symbols: int, size: int, num_blocks: int = 6):
        super().__init__()
        self.embedding = nn.Embedding(num_symbols, size, padding_idx=0)
        self.encoder = nn.ModuleList(Block(size, 2 * size) for _ in range(num_blocks))
        self.decoder = nn.ModuleList(Block(size, 2 * size) for _ in range(num_blocks))
        self.predictors = nn.ModuleList(Predictor(size, size) for _ in range(3))
        self.of_pitch = nn.Conv1d(1, size, 3, padding=1)
        self.of_energy = nn.Conv1d(1, size, 3, padding=1)
        self.speaker = nn.Linear(MEL_BINS, size)
        self.key = nn.Conv1d(size, MEL_BINS, 3, padding=1)
        self.query = nn.Conv1d(MEL_BINS, MEL_BINS, 3, padding=1)
        self.to_mel = nn.Linear(size, MEL_BINS)

    def align(self, x, mel, batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Log probability (batch, frames, symbols), hard durations, forward-sum loss."""
        keys, queries = self.key(x.transpose(1, 2)), self.query(mel.transpose(1, 2))
        distance = torch.cdist(queries.transpose(1, 2), keys.transpose(1, 2)) ** 2
        padding = _padding(batch["symbol_lengths"], x.shape[1])
        log_p = (-0.0005 * distance).masked_fill(padding[:, None], -1e4).log_softmax(2)
        durations = np.zeros(x.shape[:2], np.int64)
        monotonic_durations(
            log_p.detach().numpy(), batch["symbol_lengths"].numpy(), batch["mel_lengths"].numpy(),
            durations,
        )  # fmt: skip
        with_blank = F.pad(log_p, (1, 0), value=-1.0).log_softmax(2).transpose(0, 1)
        targets = torch.arange(1, x.shape[1] + 1).expand(x.shape[0], -1)
        forward_sum = F.ctc_loss(
            with_blank, targets, batch["mel_lengths"], batch["symbol_lengths"], zero_infinity=True
        )
        return log_p, torch.from_numpy(durations), forward_sum

    def loss(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        symbols, mel = batch["symbols"].long(), (batch["mel"] + 5) / 2
        symbol_padding = _padding(batch["symbol_lengths"], symbols.shape[1])
        mel_padding = _padding(batch["mel_lengths"], mel.shape[1])
        x = self.embedding(symbols) + _places(symbols.shape[1], self.to_mel.in_features)
        x = x + self.speaker((batch["reference_mel"].mean(1) + 5) / 2)[:, None]
        for block in self.encoder:
            x = block(x, symbol_padding)
        log_p, durations, forward_sum = self.align(x, mel, batch)
        ends = durations.cumsum(1)
        frame = torch.arange(mel.shape[1])[None, :, None]
        path = ((frame < ends[:, None]) & (frame >= (ends - durations)[:, None])).float()
        counts = durations.clamp(min=1)
        targets = [
            durations.float().add(1).log(),
            (batch["pitch"][:, None] @ path)[:, 0] / counts / 200,
            (batch["energy"][:, None] @ path)[:, 0] / counts / 50,
        ]
        real = (~symbol_padding).float()
        prosody = sum(
            ((predict(x) - target) ** 2 * real).sum() / real.sum()
            for predict, target in zip(self.predictors, targets, strict=True)
        )
        x = x + self.of_pitch(targets[1][:, None]).transpose(1, 2)
        x = x + self.of_energy(targets[2][:, None]).transpose(1, 2)
        y = path @ x + _places(mel.shape[1], x.shape[2])
        for block in self.decoder:
            y = block(y, mel_padding)
        error = ((self.to_mel(y) - mel) ** 2).mean(2).masked_fill(mel_padding, 0)
        binarisation = -(log_p * path).sum() / path.sum()
        return error.sum() / (~mel_padding).sum() + prosody + forward_sum + 0.1 * binarisation


class Step:
    """One optimizer step: forward, backward, clipped, AdamW."""

    def __init__(self, num_symbols: int, num_parameters: int):
        torch.manual_seed(0)
        sizes = range(16, 1024, 2)
        place = bisect(sizes, num_parameters, key=lambda n: _count(FastPitch(num_symbols, n)))
        self.model = FastPitch(num_symbols, sizes[place - 1])
        self.num_parameters = _count(self.model)
        self._optimizer = torch.optim.AdamW(self.model.parameters(), 1e-4, (0.9, 0.98))

    def __call__(self, batch: dict[str, torch.Tensor]) -> None:
        self._optimizer.zero_grad()
        self.model.loss(batch).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._optimizer.step()


def _count(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())


def _padding(lengths: torch.Tensor, size: int) -> torch.Tensor:
    return torch.arange(size)[None] >= lengths[:, None]


def _places(length: int, size: int) -> torch.Tensor:
    """Sines and cosines, float32 (length, size)."""
    rates = torch.exp(torch.arange(0, size, 2) * (-np.log(10_000.0) / size))
    angles = torch.arange(length)[:, None] * rates
    return torch.cat([angles.sin(), angles.cos()], 1)
