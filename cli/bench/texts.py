"""What is spoken in a benchmark: texts drawn by a seed, so that two runs say the same in the same order."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from shared.errors import GepardError

SHORTEST_WORDS = 5
LONGEST_WORDS = 60

SENTENCES = (
    "The train leaves in ten minutes.",
    "Please put the keys back on the hook by the door.",
    "Nobody expected the harbour to freeze over in the first week of November.",
    "She asked twice, and both times he pretended not to hear the question.",
    "Your order of three blue notebooks will arrive on Tuesday afternoon.",
    "Turn left at the old mill, then follow the river until you see the bridge.",
    "What a strange and beautiful sound that was!",
    "I am sorry, but the doctor has no free appointments before the fourteenth of May.",
    "Could you repeat the last four digits of the number?",
    "The museum is closed on Mondays, except during the summer holidays.",
    "He measured the shelf, wrote down the numbers, and then lost the piece of paper on the way home.",
    "Rain is expected in the north, while the south stays dry and unusually warm for the season.",
    "We tested the new brakes on wet gravel, on ice, and on a steep road with fresh snow.",
    "Nothing in the letter explained why the garden gate had been painted green overnight.",
    "Thank you for calling; all of our agents are busy at the moment.",
    "The recipe needs two eggs, a pinch of salt, half a litre of milk, and a good deal of patience.",
    "Her grandfather repaired clocks in a small shop between the bakery and the post office.",
    "If the light turns red, wait for a minute and press the button again.",
    "Seven ships were anchored in the bay, their lanterns swinging gently in the dark.",
    "The committee agreed on the budget, but not on the colour of the new curtains.",
    "Open the window a little, the air in here is terribly dry.",
    "By the time the orchestra had tuned its instruments, half of the audience was already asleep.",
    "Every morning at six the baker carries warm bread across the empty market square.",
    "This paragraph was written only to be read aloud, so do not look for a deeper meaning in it.",
    "A cold wind came down from the mountains and rattled the shutters all night long.",
    "You have two new messages and one missed call.",
    "The price went up by eleven percent, which surprised everyone except the people who sell it.",
    "Keep the receipt in case the lamp does not fit under the ceiling.",
    "Far away a dog barked three times, and then the village was silent again.",
    "Several researchers have tried to repeat the experiment, so far without any clear result.",
    "My sister plays the cello, my brother plays football, and I play for time.",
    "The second chapter is longer than the first, although much less happens in it.",
    "Please stand behind the yellow line until the doors have opened completely.",
    "It took them a whole summer to build the boat and one careless afternoon to sink it.",
    "Do not worry, the software saves your work every few seconds.",
    "Beyond the last house the road becomes a path, and beyond the last field the path becomes a guess.",
)


def composed_texts(seed: int) -> Iterator[str]:
    """Endless texts of 5 to 60 words, of whole sentences; the longer ones hardly ever come twice."""
    rng = random.Random(seed)  # noqa: S311  # a seed is the point
    while True:
        wanted = rng.randint(SHORTEST_WORDS, LONGEST_WORDS)
        text, words = "", 0
        for sentence in rng.sample(SENTENCES, len(SENTENCES)):
            length = len(sentence.split())
            if words == 0 or words + length <= wanted:
                text, words = f"{text} {sentence}".lstrip(), words + length
        yield text


def texts_of(lines: Sequence[str], seed: int) -> Iterator[str]:
    """Endless texts drawn from these, each equally likely."""
    rng = random.Random(seed)  # noqa: S311  # a seed is the point
    while True:
        yield rng.choice(lines)


def read_texts(path: Path) -> list[str]:
    """The texts of a file, one a line. Raises GepardError when there is none."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise GepardError(f"cannot read the texts in {path}: {error}") from error
    texts = [line for line in lines if line]
    if not texts:
        raise GepardError(f"{path} has no texts; write one a line")
    return texts
