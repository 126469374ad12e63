"""The floor is measured on the step that the model really takes."""

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is absent; `make test-gepard` installs it")
pytest.importorskip("triton", reason="Triton is absent; `make setup-gepard` installs it")

from benchmarks.gpu.decode_step import FRAME0, DecodeStep
from benchmarks.gpu.floor import measure_floor
from tests.support.tiny_gepard import CHECKPOINT
from workers.gepard.checkpoint import load_checkpoint
from workers.gepard.decoding import Decoder

CONTEXT = 12


@pytest.fixture(scope="module")
def model() -> Any:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    return load_checkpoint(CHECKPOINT, device=device, dtype="float32").model


@pytest.mark.parametrize("attention", ["fused", "products"])
def test_the_step_gives_the_logits_of_the_plain_model(model: Any, attention: Any) -> None:
    step = DecodeStep(model, 3, context=CONTEXT, compiled=False, attention=attention)
    decoder = Decoder(model, rows=3)
    expected = []
    with torch.inference_mode():
        for stream in range(3):
            branch = decoder.prefill([(7 * stream + place) % 380 for place in range(CONTEXT - 1)], None, 1)
            for layer, (keys, values) in enumerate(branch.cache.entries[..., : CONTEXT - 1, :]):
                step.keys[layer][stream, :, :-1] = keys
                step.values[layer][stream, :, :-1] = values
            codes = torch.tensor([[(stream + head) % 6 for head in range(32)]], device=model.device)
            step.frames[step.tokens[stream] - FRAME0] = codes[0].to(torch.uint8)
            decoder.feed([(branch, codes)])
            logits, stop = decoder.heads([branch])
            expected.append(torch.cat((logits, stop[:, None]), dim=1))
        step.run()
    torch.testing.assert_close(step.logits, torch.cat(expected), rtol=1e-4, atol=1e-4)


def test_each_step_reads_the_frames_of_the_one_before(model: Any) -> None:
    step = DecodeStep(model, 2, context=CONTEXT, compiled=False)
    first = step.tokens.clone()
    step.run()
    drawn = step.tokens.clone()
    assert not torch.equal(drawn, first)
    before = step.logits.clone()
    step.run()
    assert not torch.equal(step.logits, before)


def test_a_measurement_tells_every_number_of_streams(model: Any) -> None:
    rows = measure_floor(model, [1, 2], context=CONTEXT, repeats=1, launches=1)
    assert [row["streams"] for row in rows] == [1, 2]
    assert all(row["frames_per_s"] > 0 for row in rows)
