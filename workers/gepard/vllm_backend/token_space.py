"""What a token id stands for inside the engine: text, one vector of a voice, or one frame of a stream.

vLLM moves nothing but ids. So a prompt names the vectors of its voice, and what is sampled names the row of the
frame store where the frame's codes are; the model's embedding reads all three kinds.
"""

from dataclasses import dataclass

from workers.gepard.backend import KEPT_FRAMES

STOP = 0
"""The sampled id that ends a stream. It is a text id, hence never a frame's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSpace:
    """Ids of an engine: [0, vocab_size) text, then voices x voice_length, then the rows of the frame store.

    A lane is the place of one stream in the frame store: a ring of `lane_rows` rows.
    """

    vocab_size: int
    voices: int
    voice_length: int
    lanes: int
    max_frames: int

    @property
    def first_frame(self) -> int:
        """The id of row 0 of the frame store."""
        return self.vocab_size + self.voices * self.voice_length

    @property
    def lane_rows(self) -> int:
        """Rows of one lane."""
        return self.max_frames + KEPT_FRAMES

    @property
    def rows(self) -> int:
        """Rows of the frame store."""
        return self.lanes * self.lane_rows

    def voice_ids(self, voice: int, length: int) -> list[int]:
        """Ids of the first `length` vectors of a voice."""
        start = self.vocab_size + voice * self.voice_length
        return list(range(start, start + length))

    def row(self, lane: int, start: int, frame: int) -> int:
        """The store's row of a stream's frame; `start` is where in its lane the stream began."""
        return lane * self.lane_rows + (start + frame) % self.lane_rows
