"""The body of a reply, with a client and a reply under control."""

import asyncio

from gateway.errors import ApiError
from gateway.relay import SpeechResponse, SseFraming
from shared.contracts import Audio


class FailingReply:
    """Fails after its first events."""

    def __init__(self) -> None:
        self.record = self
        self.delivered = self.closed = False

    def sent(self, *_: object, **__: object) -> None:
        pass

    def end(self, outcome: str) -> None:
        self.outcome = outcome

    async def touch(self) -> None:
        pass

    async def read(self):
        raise ApiError("engine_error", "the speech engine failed on this request")

    async def close(self) -> None:
        self.closed = True


async def test_a_client_that_does_not_take_the_error_is_let_go():
    bodies = []

    async def send(message):
        if message["type"] == "http.response.body":
            bodies.append(message["body"])
            if len(bodies) > 1:
                await asyncio.sleep(3600)

    async def receive():
        await asyncio.sleep(3600)

    reply = FailingReply()
    first = [Audio(seq=0, packets=1, data=b"a", resume=b"", audio_s=0.1)]
    response = SpeechResponse(reply, first, SseFraming(), {}, stall_timeout_s=0.1, touch_every_s=60)
    async with asyncio.timeout(2):
        await response({"state": {}}, receive, send)
    assert reply.closed
    assert reply.outcome == "engine_error"
