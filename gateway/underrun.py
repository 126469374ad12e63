"""A simulated player: would somebody who listens while the audio arrives hear a gap?"""

AUDIBLE_S = 0.1
"""A stream whose worst deficit is longer than this counts as an underrun."""


class Player:
    """Starts to play with the first audio and never stops.

    The deficit of a piece of audio is how much later it came than all audio before it lasted. The worst one
    is the silence a listener hears in all, and equally the head start a player would have needed to hear none.
    """

    def __init__(self) -> None:
        self._began_s: float | None = None
        self.audio_s = 0.0
        """Seconds of audio received so far."""
        self.worst_deficit_s = 0.0
        """Never negative; 0 when every piece came in time."""

    def receive(self, at_s: float, audio_s: float) -> None:
        """`audio_s` seconds of audio arrive at the time `at_s`, on any clock that does not go back."""
        if audio_s <= 0:
            return
        if self._began_s is None:
            self._began_s = at_s
        else:
            self.worst_deficit_s = max(self.worst_deficit_s, at_s - self._began_s - self.audio_s)
        self.audio_s += audio_s

    @property
    def underran(self) -> bool:
        """Whether the gap was audible."""
        return self.worst_deficit_s > AUDIBLE_S
