"""From token ids to input embeddings: text, voice and frames, chosen row by row on the device.

Two launches around the frame MLP: the first gathers what the MLP reads, the second normalises what it gives
and puts the right vector into each row.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from workers.gepard.frames import LAYER_NORM_EPS, FrameEmbedding
from workers.gepard.vllm_backend.slots import SlotTable

_WARPS = 4


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

    tokens: [N] int32 or int64; frame0 and above are frames. positions: [N] int32 or int64. slots: [>= R] int32 or
    int64, slots.NONE for padding. query_start: [R + 1] int32, the first row of each request and the end; requests
    that are padding begin at the end, too. out: [>= N, D] in the model's dtype. A row at a position below K of a
    request that has a voice is that voice's vector, whatever its token. Ids outside text and store, which padding
    may have, are read as the nearest. Two launches and those of the MLP; fits a CUDA graph.
    """
    module = source.frame_embedding
    num_rows, num_requests = tokens.shape[0], query_start.shape[0] - 1
    heads, dim = source.frames.shape[1], module.table.embedding_dim
    gathered = torch.empty((num_rows, heads * dim), dtype=source.text.dtype, device=tokens.device)
    _gather_codes[(num_rows,)](
        tokens,
        source.frames,
        source.frames.shape[0],
        module.offsets,
        module.table.weight,
        gathered,
        FRAME0=source.frame0,
        HEADS=heads,
        HEADS_BLOCK=triton.next_power_of_2(heads),
        DIM=dim,
        DIM_BLOCK=triton.next_power_of_2(dim),
        num_warps=_WARPS,
    )
    projected = module.proj(gathered)
    hidden = projected.shape[1]
    _finish[(num_rows,)](
        tokens,
        positions,
        projected,
        module.scale,
        source.text,
        source.text.shape[0],
        source.voices,
        slots,
        query_start,
        num_requests,
        source.slots.rows,
        out,
        FRAME0=source.frame0,
        PREFIX=source.voices.shape[1],
        COLUMNS=source.slots.rows.shape[1],
        HIDDEN=hidden,
        BLOCK=triton.next_power_of_2(hidden),
        EPS=LAYER_NORM_EPS,
        num_warps=_WARPS,
    )
    return out[:num_rows]


@triton.jit(do_not_specialize=["num_frames"])
def _gather_codes(
    tokens: tl.tensor,
    frames: tl.tensor,
    num_frames: int,
    head_offsets: tl.tensor,
    table: tl.tensor,
    out: tl.tensor,
    FRAME0: tl.constexpr,
    HEADS: tl.constexpr,
    HEADS_BLOCK: tl.constexpr,
    DIM: tl.constexpr,
    DIM_BLOCK: tl.constexpr,
) -> None:
    """Table rows of a frame's codes, one program a row; zeros where the row is no frame."""
    row = tl.program_id(0)
    store_row = tl.load(tokens + row).to(tl.int64) - FRAME0
    heads = tl.arange(0, HEADS_BLOCK)
    dims = tl.arange(0, DIM_BLOCK)
    is_frame_head = (heads < HEADS) & (store_row >= 0)
    store_row = tl.minimum(store_row, num_frames - 1)
    codes = tl.load(frames + store_row * HEADS + heads, mask=is_frame_head, other=0)
    table_rows = tl.load(head_offsets + heads, mask=is_frame_head, other=0) + codes
    is_value = is_frame_head[:, None] & (dims < DIM)[None, :]
    values = tl.load(table + table_rows[:, None] * DIM + dims[None, :], mask=is_value, other=0.0)
    is_place = (heads < HEADS)[:, None] & (dims < DIM)[None, :]
    tl.store(out + row * HEADS * DIM + heads[:, None] * DIM + dims[None, :], values, mask=is_place)


@triton.jit(do_not_specialize=["vocab", "num_requests"])
def _finish(
    tokens: tl.tensor,
    positions: tl.tensor,
    projected: tl.tensor,
    scale: tl.tensor,
    text: tl.tensor,
    vocab: int,
    voices: tl.tensor,
    slots: tl.tensor,
    query_start: tl.tensor,
    num_requests: int,
    table: tl.tensor,
    out: tl.tensor,
    FRAME0: tl.constexpr,
    PREFIX: tl.constexpr,
    COLUMNS: tl.constexpr,
    HIDDEN: tl.constexpr,
    BLOCK: tl.constexpr,
    EPS: tl.constexpr,
) -> None:
    """The vector of each row, one program a row."""
    row = tl.program_id(0)
    token = tl.load(tokens + row).to(tl.int64)
    columns = tl.arange(0, BLOCK)
    is_column = columns < HIDDEN
    place = out + row.to(tl.int64) * HIDDEN + columns
    if token >= FRAME0:
        values = tl.load(projected + row.to(tl.int64) * HIDDEN + columns, mask=is_column, other=0.0).to(tl.float32)
        centred = tl.where(is_column, values - tl.sum(values) / HIDDEN, 0.0)
        normed = centred * tl.rsqrt(tl.sum(centred * centred) / HIDDEN + EPS)
        # Rounded to the model's dtype before the scale, as two operations of torch round.
        normed = normed.to(out.dtype.element_ty).to(tl.float32)
        tl.store(place, normed * tl.load(scale).to(tl.float32), mask=is_column)
    else:
        position = tl.load(positions + row)
        source = text + tl.minimum(tl.maximum(token, 0), vocab - 1) * HIDDEN
        if position < PREFIX:
            request = _request_of(row, query_start, num_requests)
            slot = tl.load(slots + request, mask=request < num_requests, other=-1)
            voice = tl.load(table + slot * COLUMNS + 12, mask=slot >= 0, other=-1)
            if voice >= 0:
                source = voices + (voice.to(tl.int64) * PREFIX + position) * HIDDEN
        tl.store(place, tl.load(source + columns, mask=is_column), mask=is_column)


@triton.jit
def _request_of(row: tl.tensor, query_start: tl.tensor, num_requests: int) -> tl.tensor:
    """The request a row belongs to: how many end at or before it; num_requests for rows of none."""
    ended = 0
    for start in range(0, num_requests, 256):
        requests = start + tl.arange(0, 256)
        ends = tl.load(query_start + 1 + requests, mask=requests < num_requests, other=2147483647)
        ended += tl.sum((ends <= row).to(tl.int32))
    return ended
