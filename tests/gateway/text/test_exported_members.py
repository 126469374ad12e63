"""The public names of the room."""

import gateway.text


def test_the_list_of_public_names_is_the_reality():
    assert gateway.text.__all__ == [
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
    assert all(callable(getattr(gateway.text, name)) for name in gateway.text.__all__)
