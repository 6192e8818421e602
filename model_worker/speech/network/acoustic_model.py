"""Text to mel: a feed-forward model that learns its own alignment from (text, audio) pairs.

Symbols are encoded by convolutions; from the encoding follow a rough mel for every symbol (on which
the alignment search runs), its duration, pitch and energy. In training the found durations stretch
the symbols to frames, in speaking the predicted ones. The decoder works on pairs of frames, at half
the cost, and is told where in its symbol each frame is. A vector of a reference clip conditions
every block.
"""

import dataclasses

import keras
import tensorflow as tf

from model_worker.speech.network import alignment, harmonics
from model_worker.speech.network.channel_dropout import ChannelDropout
from model_worker.speech.network.layers import ConvBlock, Dense, Predictor, RootMeanSquareNorm
from model_worker.speech.network.reference_encoder import ReferenceEncoder
from shared.speech.corpus_statistics import Statistics
from shared.speech.mel import MEL_BINS, SILENCE

FOLDED_FRAMES = 2
FIRST_LOG_DURATION = 1.9  # the logarithm of a usual symbol's frames
MAX_LOG_DURATION = 6.0


@dataclasses.dataclass(frozen=True)
class ModelShape:
    """The dimensions behind a --model-size."""

    encoder_channels: int
    encoder_blocks: int
    decoder_channels: int
    decoder_blocks: int
    predictor_channels: int
    reference_channels: int
    reference_blocks: int
    vector_size: int
    dropout: float
    encoder_kernel: int = 5
    decoder_kernel: int = 3
    expansion: float = 0.0
    prosody_dropout: float = 0.3  # a small corpus' melodies are soon learned by heart


SHAPES = {
    "tiny": ModelShape(128, 4, 160, 5, 96, 64, 1, 32, 0.0),
    "small": ModelShape(256, 5, 320, 7, 192, 128, 2, 64, 0.1, expansion=1.0),
    "normal": ModelShape(320, 7, 448, 9, 256, 192, 3, 128, 0.1, expansion=2.0),
    "big": ModelShape(512, 9, 640, 13, 384, 256, 3, 192, 0.1, expansion=2.0),
}


@dataclasses.dataclass(frozen=True)
class PlannedSpeech:
    """What is known of an utterance before its first frame is made."""

    encoding: tf.Tensor  # (batch, symbols, channels)
    mask: tf.Tensor  # float32 (batch, symbols, 1)
    vector: tf.Tensor  # (batch, vector size), the voice
    prosody: tf.Tensor  # float32 (batch, symbols, 2): pitch and energy
    ends: tf.Tensor  # float32 (batch, symbols), whole: the frame behind each symbol's last

    @property
    def longest(self) -> tf.Tensor:
        """Frames of the longest row, float32."""
        return tf.reduce_max(self.ends)


class AcousticModel(keras.Model):
    """A voice: `training_outputs` and `speak` are its two uses; both are pure graph code."""

    def __init__(
        self,
        shape: ModelShape,
        num_symbols: int,
        statistics: Statistics,
        diagonal_steps: int = 150,
        steps_per_pass: float = 0.0,
    ):
        """`steps_per_pass` over the training data; 0 if the model is not trained."""
        super().__init__()
        self.shape = shape
        self.statistics = statistics
        self._diagonal_steps = diagonal_steps
        self._channel_dropout = ChannelDropout(
            (shape.encoder_channels,) * shape.encoder_blocks
            + (shape.decoder_channels,) * shape.decoder_blocks,
            steps_per_pass,
        )
        wide, salt = shape.encoder_channels, iter(range(1, 1000))
        self._embedding = keras.layers.Embedding(
            num_symbols, wide, embeddings_initializer=keras.initializers.RandomNormal(stddev=1.0)
        )
        self._reference = ReferenceEncoder(
            shape.reference_channels, shape.vector_size, shape.reference_blocks
        )
        self._encoder = [
            ConvBlock(wide, shape.encoder_kernel, shape.dropout, next(salt), shape.expansion)
            for _ in range(shape.encoder_blocks)
        ]
        self._encoder_norm = RootMeanSquareNorm()
        self._prior = Dense(MEL_BINS, dtype="float32")
        narrow = shape.predictor_channels
        self._durations = Predictor(
            narrow, 1, shape.dropout, next(salt), first_guess=FIRST_LOG_DURATION
        )
        self._prosody = Predictor(narrow, 2, shape.prosody_dropout, next(salt))
        self._prosody_in = Dense(wide, use_bias=False)
        self._decoder_in = Dense(shape.decoder_channels)
        self._decoder = [
            ConvBlock(
                shape.decoder_channels,
                shape.decoder_kernel,
                shape.dropout,
                next(salt),
                shape.expansion,
            )
            for _ in range(shape.decoder_blocks)
        ]
        self._decoder_norm = RootMeanSquareNorm()
        self._decoder_out = Dense(
            FOLDED_FRAMES * (MEL_BINS + harmonics.RIPPLE_BINS), dtype="float32"
        )

    def inner_matrices(self) -> list[keras.Variable]:
        """The kernels between the model's inputs and outputs: those Muon is made for."""
        ends = (
            self._embedding,
            self._prior,
            self._prosody_in,
            self._decoder_out,
            self._durations.head,
            self._prosody.head,
        )
        at_ends = {id(variable) for layer in ends for variable in layer.trainable_variables}
        return [v for v in self.trainable_variables if len(v.shape) > 1 and id(v) not in at_ends]

    def _factors(
        self, x: tf.Tensor, step: tf.Tensor | int, training: bool
    ) -> list[tf.Tensor | None]:
        """Of all blocks, those of the encoder first."""
        if not training:
            return [None] * len(self._channel_dropout.channels)
        return self._channel_dropout.factors(tf.shape(x)[0], tf.cast(step, tf.int32), x.dtype)

    def _normalised(self, mel: tf.Tensor) -> tf.Tensor:
        return (mel - self.statistics.mel_mean) / self.statistics.mel_std

    def voice_of(self, reference_mel: tf.Tensor) -> tf.Tensor:
        """How a clip sounds: float32 (batch, frames, bins), natural log -> (batch, vector size)"""
        return self._reference(self._normalised(reference_mel))

    def _encode(
        self,
        symbols: tf.Tensor,
        symbol_lengths: tf.Tensor,
        vector: tf.Tensor,
        step: tf.Tensor | int,
        training: bool,
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """-> encoding (batch, symbols, channels), mask (batch, symbols, 1)"""
        # Of int32, GPUs know not even the shape, and the gradient of the embedding reshapes it.
        x = self._embedding(tf.cast(symbols, tf.int64))
        mask = alignment.length_mask(symbol_lengths, tf.shape(x)[1])[:, :, tf.newaxis]
        x = x * tf.cast(mask, x.dtype)
        for block, factor in zip(self._encoder, self._factors(x, step, training), strict=False):
            x = block(x, mask, vector, step, training=training, factor=factor)
        return self._encoder_norm(x) * tf.cast(mask, x.dtype), mask

    def _decode(
        self,
        encoding: tf.Tensor,
        prosody: tf.Tensor,
        durations: tf.Tensor,
        path: tf.Tensor,
        log_pitch: tf.Tensor,
        mel_lengths: tf.Tensor,
        vector: tf.Tensor,
        step: tf.Tensor | int,
        training: bool,
    ) -> tf.Tensor:
        """-> normalised mel float32 (batch, frames, bins)

        path (batch, frames, symbols) and log_pitch (batch, frames) have an even number of frames.
        """
        states = encoding + self._prosody_in(prosody)
        path_like = tf.cast(path, states.dtype)
        place = tf.cast(alignment.place_in_symbol(durations, path), states.dtype)
        x = tf.concat([tf.matmul(path_like, states), place], axis=2)
        shape = tf.shape(path)
        x = tf.reshape(x, [shape[0], shape[1] // FOLDED_FRAMES, FOLDED_FRAMES * x.shape[2]])
        folded_lengths = tf.cast(mel_lengths, tf.float32) / FOLDED_FRAMES
        mask = alignment.length_mask(folded_lengths, shape[1] // FOLDED_FRAMES)[:, :, tf.newaxis]
        x = self._decoder_in(x)
        x = x * tf.cast(mask, x.dtype)
        factors = self._factors(x, step, training)[len(self._encoder) :]
        for block, factor in zip(self._decoder, factors, strict=True):
            x = block(x, mask, vector, step, training=training, factor=factor)
        out = self._decoder_out(tf.cast(self._decoder_norm(x), tf.float32))
        out = tf.reshape(out, [shape[0], shape[1], MEL_BINS + harmonics.RIPPLE_BINS])
        rippled = harmonics.ripples(log_pitch) * out[..., MEL_BINS:]
        return out[..., :MEL_BINS] + tf.pad(
            rippled, [[0, 0], [0, 0], [0, MEL_BINS - harmonics.RIPPLE_BINS]]
        )

    def _prosody_targets(
        self, batch: dict[str, tf.Tensor], path: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """What the prosody predictor learns.

        Returns: normalised pitch and energy of every symbol (batch, symbols, 2); whether it has a
            pitch (batch, symbols); log F0 of every frame (batch, frames), the utterance's mean
            where it is unvoiced
        """
        known = self.statistics
        pitch = tf.cast(batch["pitch"], tf.float32)
        voiced = tf.cast(pitch > 0, tf.float32)
        log_pitch = tf.math.log(tf.maximum(pitch, 1.0)) * voiced
        num_voiced = tf.reduce_sum(voiced, axis=1, keepdims=True)
        mean = (tf.reduce_sum(log_pitch, axis=1, keepdims=True) + known.pitch_mean) / (
            num_voiced + 1.0
        )
        log_pitch += (1.0 - voiced) * mean
        symbol_pitch = alignment.mean_over_symbols(
            (log_pitch - known.pitch_mean) / known.pitch_std, path, voiced
        )
        has_pitch = tf.reduce_max(path * voiced[:, :, tf.newaxis], axis=1)
        log_energy = (tf.math.log(batch["energy"] + 1e-5) - known.energy_mean) / known.energy_std
        energy = alignment.mean_over_symbols(log_energy, path, tf.reduce_max(path, axis=2))
        return tf.stack([symbol_pitch, energy], axis=2), has_pitch, log_pitch

    def training_outputs(
        self, batch: dict[str, tf.Tensor], training: bool = True, step: tf.Tensor | int = 0
    ) -> dict[str, tf.Tensor]:
        """Everything the losses need.

        Args:
            batch: arrays of one bucket: symbols, symbol_lengths, mel, mel_lengths, pitch, energy,
                reference_mel.
            step: seeds the dropout and fades the alignment's diagonal prior.

        Returns: mel, prior_mel, target_mel float32 (batch, frames, bins), normalised;
            log_durations and (whole) durations float32 (batch, symbols);
            prosody, target_prosody float32 (batch, symbols, 2): pitch and energy;
            has_pitch float32 (batch, symbols); path float32 (batch, frames, symbols)
        """
        step = tf.cast(step, tf.int32)
        num_frames = tf.shape(batch["mel"])[1]
        odd = num_frames % FOLDED_FRAMES
        target = self._normalised(batch["mel"])
        vector = self.voice_of(batch["reference_mel"])
        encoding, mask = self._encode(
            batch["symbols"], batch["symbol_lengths"], vector, step, training
        )
        prior = self._prior(tf.cast(encoding, tf.float32)) * mask
        fade = (
            tf.maximum(0.0, 1.0 - tf.cast(step, tf.float32) / self._diagonal_steps)
            if training
            else 0.0
        )
        durations = alignment.align(
            prior, target, batch["symbol_lengths"], batch["mel_lengths"], MEL_BINS * fade
        )
        path = alignment.path_of_durations(durations, num_frames)
        target_prosody, has_pitch, log_pitch = self._prosody_targets(batch, path)
        log_durations = self._durations(encoding, mask, vector, step, training=training)[..., 0]
        prosody = self._prosody(encoding, mask, vector, step, training=training)
        # A symbol without a pitch is heard as in speaking: with the predicted one.
        is_given = tf.stack([has_pitch, tf.ones_like(has_pitch)], axis=2)
        heard = tf.where(is_given > 0, target_prosody, tf.stop_gradient(prosody))
        even_path = tf.pad(path, [[0, 0], [0, odd], [0, 0]])
        log_pitch = tf.pad(log_pitch, [[0, 0], [0, odd]])
        mel = self._decode(
            encoding,
            heard,
            durations,
            even_path,
            log_pitch,
            batch["mel_lengths"],
            vector,
            step,
            training,
        )
        return {
            "mel": mel[:, :num_frames],
            "prior_mel": tf.matmul(path, prior),
            "target_mel": target,
            "log_durations": log_durations,
            "durations": durations,
            "prosody": prosody,
            "target_prosody": target_prosody,
            "has_pitch": has_pitch,
            "path": path,
        }

    def speak(
        self,
        symbols: tf.Tensor,
        symbol_lengths: tf.Tensor,
        reference_mel: tf.Tensor,
        speed: tf.Tensor | float = 1.0,
        pitch_shift: tf.Tensor | float = 0.0,
        max_frames: int = 1024,
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """Speak in the voice of the reference.

        Args:
            symbols: int32 (batch, symbols)
            symbol_lengths: int32 (batch,)
            reference_mel: float32 (batch, frames, bins), natural log
            speed: 2.0 is twice as fast; one for all, or float32 (batch, symbols, 1)
            pitch_shift: in semitones; one for all, or float32 (batch, symbols, 1)
            max_frames: even; longer speech is cut

        Returns: mel float32 (batch, max_frames, bins) natural log, silent after its end;
            mel_lengths int32 (batch,);
            durations int32 (batch, symbols); alignment float32 (batch, max_frames, symbols)
        """
        vector = self.voice_of(reference_mel)
        plan = self.plan_speech(symbols, symbol_lengths, vector, speed, pitch_shift)
        return self.say(plan, max_frames)

    def plan_speech(
        self,
        symbols: tf.Tensor,
        symbol_lengths: tf.Tensor,
        vector: tf.Tensor,
        speed: tf.Tensor | float = 1.0,
        pitch_shift: tf.Tensor | float = 0.0,
    ) -> PlannedSpeech:
        """How long and how high everything is said; arguments as of `speak`, the voice as a vector."""
        start = tf.constant(0)
        encoding, mask = self._encode(symbols, symbol_lengths, vector, start, training=False)
        log_durations = self._durations(encoding, mask, vector, start)
        prosody = self._prosody(encoding, mask, vector, start)
        semitone = tf.math.log(2.0) / 12.0 / self.statistics.pitch_std
        prosody += pitch_shift * semitone * tf.constant([1.0, 0.0]) * mask
        exact = tf.exp(tf.minimum(log_durations, MAX_LOG_DURATION)) * mask / speed
        # Rounding the ends rather than the durations keeps the utterance at its predicted length.
        ends = tf.round(tf.cumsum(exact[..., 0], axis=1))
        return PlannedSpeech(encoding, mask, vector, prosody, ends)

    def say(
        self, plan: PlannedSpeech, max_frames: tf.Tensor | int
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        """The frames of what is planned; returns what `speak` does."""
        known = self.statistics
        ends = tf.minimum(plan.ends, tf.cast(max_frames, tf.float32))
        durations = ends - tf.pad(ends, [[0, 0], [1, 0]])[:, :-1]
        mel_lengths = tf.reduce_sum(durations, axis=1)
        path = alignment.path_of_durations(durations, max_frames)
        log_pitch = (
            alignment.contour(plan.prosody[..., 0], durations, path) * known.pitch_std
            + known.pitch_mean
        )
        mel = self._decode(
            plan.encoding,
            plan.prosody,
            durations,
            path,
            log_pitch,
            mel_lengths,
            plan.vector,
            tf.constant(0),
            training=False,
        )
        mel = tf.maximum(mel * known.mel_std + known.mel_mean, SILENCE)
        is_real = alignment.length_mask(mel_lengths, max_frames)[:, :, tf.newaxis]
        return (
            tf.where(is_real > 0, mel, SILENCE),
            tf.cast(mel_lengths, tf.int32),
            tf.cast(durations, tf.int32),
            path,
        )


def build_model(
    model_size: str, num_symbols: int, statistics: Statistics, steps_per_pass: float = 0.0
) -> AcousticModel:
    """A model with its weights made, by the global Keras seed and dtype policy.

    `steps_per_pass` over the training data; 0 if the model is not trained.
    """
    shape = SHAPES[model_size]
    model = AcousticModel(shape, num_symbols, statistics, steps_per_pass=steps_per_pass)
    batch = {
        "symbols": tf.zeros([1, 2], tf.int32),
        "symbol_lengths": tf.constant([2]),
        "mel": tf.zeros([1, 4, MEL_BINS]),
        "mel_lengths": tf.constant([4]),
        "pitch": tf.zeros([1, 4]),
        "energy": tf.zeros([1, 4]),
        "reference_mel": tf.zeros([1, 8, MEL_BINS]),
    }
    model.training_outputs(batch, training=False)
    model.built = True
    return model
