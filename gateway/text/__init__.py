"""Written text -> speakable text -> segments that fit an engine."""

from gateway.text.clean import clean
from gateway.text.lexicon import Lexicon, LexiconError
from gateway.text.normalize import normalize
from gateway.text.pauses import PauseError
from gateway.text.reading import Reading
from gateway.text.sanitize import sanitize
from gateway.text.segment import segment
from gateway.text.speakable import foreign_script, has_speech

__all__ = [
    "Lexicon",
    "LexiconError",
    "PauseError",
    "Reading",
    "clean",
    "foreign_script",
    "has_speech",
    "normalize",
    "sanitize",
    "segment",
]
