"""The embedded engine alone in a process: how long one request's first chunk takes, without any service.

Reads a seed a line from stdin; answers each with milliseconds to the first chunk. Arguments: text, voice.
"""

import sys
import time

import uvloop

from gateway.text import Reading
from shared.contracts import PresetVoice, Sampling
from workers.engines.base import SynthesisRequest
from workers.engines.hibari import HibariEngine
from workers.synthesis import segment_seed


async def main(text: str, voice: str) -> None:
    """Answer until stdin ends."""
    engine = HibariEngine()
    await engine.start()
    segment = Reading(budget=engine.info.text_budget, language=None).segments(text)[0]
    print("ready", flush=True)
    for line in sys.stdin:
        # What the gateway and the worker make of a request with this seed.
        request = SynthesisRequest(
            segment=segment,
            voice=PresetVoice(name=voice),
            language=None,
            seed=segment_seed(int(line), 0),
            sampling=Sampling(),
        )
        began = time.perf_counter()
        chunks = engine.synthesize(request)
        await anext(chunks)
        print(1000 * (time.perf_counter() - began), flush=True)
        await chunks.aclose()
    await engine.stop()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:3]))
