"""From token ids to input embeddings: text, voice and frames, chosen row by row on the device."""

from dataclasses import dataclass

from torch import Tensor

from workers.gepard.frames import FrameEmbedding
from workers.gepard.vllm_backend.slots import SlotTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeddings:
    """What input embeddings are made of, all at fixed addresses.

    text: [vocab, D]. frame_embedding: tables, MLP and scale; its offsets set. voices: [V, K, D], a voice's K prefix
    vectors in each row. frames: the store, [rows, H] uint8, row r being token frame0 + r. slots: tells each
    request's voice row. text, voices and the MLP share one dtype.
    """

    text: Tensor
    frame_embedding: FrameEmbedding
    voices: Tensor
    frames: Tensor
    slots: SlotTable
    frame0: int


def embed(
    source: Embeddings, tokens: Tensor, positions: Tensor, slots: Tensor, query_start: Tensor, out: Tensor
) -> Tensor:
    """Input embeddings of N rows of R requests, written to `out` and returned: out[:N].

    tokens: [N] int32 or int64; frame0 and above are frames. positions: [N] int64. slots: [R] int32, slots.NONE for
    padding. query_start: [R + 1] int32, the first row of each request and the end; requests that are padding
    begin at the end, too. out: [>= N, D] in the model's dtype. A row at a position below K of a request that has
    a voice is that voice's vector, whatever its token. Two launches and those of the MLP; fits a CUDA graph.
    """
    raise NotImplementedError
