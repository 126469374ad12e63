"""Input embeddings by the kernels against those of the modules."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is absent; `make test-gepard` installs it")
pytest.importorskip("triton", reason="Triton is absent; `make setup-gepard` installs it")

from workers.gepard.sampling import SamplingParams
from workers.gepard.vllm_backend.embedding_kernel import Embeddings, embed
from workers.gepard.vllm_backend.slots import NONE, SlotParams, SlotTable

FRAME0 = 448
PREFIX = 8
TOLERANCE = {torch.float32: 1e-5, torch.bfloat16: 2e-2}
"""Relative. The interpreter cuts bfloat16 off where torch rounds: two roundings are two last bits."""


class Inputs:
    """The tiny model's embeddings with random frames and voices."""

    def __init__(self, model: Any, device: Any) -> None:
        self.model, self.device = model, device
        sizes = model.config.head_sizes
        generator = torch.Generator().manual_seed(0)
        self.codes = torch.stack([torch.randint(size, (20,), generator=generator) for size in sizes], dim=1).to(device)
        width = model.backbone.embed_tokens.weight.shape[1]
        self.voices = torch.randn((3, PREFIX, width), generator=generator).to(model.backbone.embed_tokens.weight)
        self.slots = SlotTable(6, device)
        self.source = Embeddings(
            text=model.backbone.embed_tokens.weight,
            frame_embedding=model.frame_embedding,
            voices=self.voices,
            frames=self.codes.to(torch.uint8),
            slots=self.slots,
            frame0=FRAME0,
        )
        self.out = torch.full((512, width), -9.0, dtype=self.voices.dtype, device=device)

    def voice(self, slot: int, voice_row: int | None) -> None:
        self.slots.write(slot, SlotParams(sampling=SamplingParams(), seed=0, prompt_length=20, voice_row=voice_row))

    def embed(self, tokens: list[int], positions: list[int], slots: list[int], query_start: list[int]) -> Any:
        def on_device(values: list[int], dtype: Any) -> Any:
            return torch.tensor(values, dtype=dtype, device=self.device)

        return embed(
            self.source,
            on_device(tokens, torch.int32),
            on_device(positions, torch.int64),
            on_device(slots, torch.int32),
            on_device(query_start, torch.int32),
            self.out,
        )

    def text(self, ids: list[int]) -> Any:
        return self.source.text[torch.tensor(ids, device=self.device)]

    def frame(self, rows: list[int]) -> Any:
        return self.model.frame_embedding(self.codes[rows])


@pytest.fixture(autouse=True)
def _inference() -> Any:
    with torch.inference_mode():
        yield


@pytest.fixture(params=["float32", "bfloat16"])
def inputs(request: pytest.FixtureRequest, checkpoint: Any, checkpoint_bf16: Any, device: Any) -> Inputs:
    model = (checkpoint if request.param == "float32" else checkpoint_bf16).model
    return Inputs(model if device.type == "cpu" else _copy_to(model, device), device)


def _copy_to(model: Any, device: Any) -> Any:
    import copy  # noqa: PLC0415

    return copy.deepcopy(model).to(device)


def assert_close(actual: Any, expected: Any) -> None:
    tolerance = TOLERANCE[actual.dtype]
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance * expected.abs().max().item() / 8)


def test_decode_rows_are_the_frames_behind_their_tokens(inputs: Inputs) -> None:
    rows = [0, 19, 7, 7, 3]
    out = inputs.embed([FRAME0 + row for row in rows], [8, 9, 200, 7, 0], [0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5])
    assert_close(out, inputs.frame(rows))


def test_text_rows_are_table_rows_to_the_bit(inputs: Inputs) -> None:
    ids = [0, 447, 5, 5]
    for slot in (0, 1):
        inputs.voice(slot, None)
    assert torch.equal(inputs.embed(ids, [9, 0, 3, 30], [0, 1], [0, 2, 4]), inputs.text(ids))


def test_rows_of_one_batch_are_voice_text_and_frames_by_request(inputs: Inputs) -> None:
    """A prompt with a voice, a decode step, a chunk that begins inside another voice, a prompt without."""
    inputs.voice(4, 2)
    inputs.voice(1, 0)
    inputs.voice(3, None)
    out = inputs.embed(
        [0] * PREFIX + [11, 12] + [FRAME0 + 6] + [0, 0, 13] + [14, 15],
        [*range(10), 40, 6, 7, 8, 0, 1],
        [4, 2, 1, 3],
        [0, 10, 11, 14, 16],
    )
    assert torch.equal(out[:8], inputs.voices[2])
    assert torch.equal(out[8:10], inputs.text([11, 12]))
    assert_close(out[10:11], inputs.frame([6]))
    assert torch.equal(out[11:13], inputs.voices[0, 6:])
    assert torch.equal(out[13:], inputs.text([13, 14, 15]))


def test_a_frame_at_a_low_position_is_a_frame(inputs: Inputs) -> None:
    """Without a voice a prompt may be shorter than a prefix."""
    inputs.voice(0, None)
    assert_close(inputs.embed([7, FRAME0 + 2], [2, 3], [0], [0, 2])[1:], inputs.frame([2]))


def test_padding_is_harmless(inputs: Inputs) -> None:
    """A captured batch has rows of no request, with ids of an earlier step or none at all."""
    inputs.voice(5, 1)
    out = inputs.embed([0, 9, -1, 2**31 - 1, 0, 447], [0, 1, 0, 0, 0, 0], [5, NONE, NONE], [0, 2, 2, 2])
    assert torch.equal(out[:2], inputs.voices[1, :2])
    assert_close(out[3:4], inputs.frame([19]))
    assert torch.equal(out[4:], inputs.text([0, 447]))
    assert bool((inputs.out[6:] == -9.0).all())


def test_a_request_far_down_the_batch_is_found(inputs: Inputs) -> None:
    """Requests are searched 256 at a time."""
    inputs.voice(2, 1)
    inputs.voice(0, None)
    out = inputs.embed([3] * 302, [9] * 299 + [0, 1, 2], [0] * 299 + [2], [*range(300), 302])
    assert torch.equal(out[300:], inputs.voices[1, 1:3])
    assert torch.equal(out[:299], inputs.text([3]).expand(299, -1))


@pytest.mark.gpu
def test_on_the_gpu_a_captured_embedding_follows_its_inputs(inputs: Inputs) -> None:
    tokens = torch.full((4,), FRAME0, dtype=torch.int32, device=inputs.device)
    rest = (
        torch.arange(20, 24, device=inputs.device),
        torch.arange(4, dtype=torch.int32, device=inputs.device),
        torch.arange(5, dtype=torch.int32, device=inputs.device),
    )
    embed(inputs.source, tokens, *rest, inputs.out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        embed(inputs.source, tokens, *rest, inputs.out)
    tokens += torch.tensor([3, 1, 4, 15], dtype=torch.int32, device=inputs.device)
    graph.replay()
    assert_close(inputs.out[:4], inputs.frame([3, 1, 4, 15]))
