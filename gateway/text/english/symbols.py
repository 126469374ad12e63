"""What is left at the end: signs with a name, and signs without one."""

import re

_NAMES = {
    "%": " percent", "‰": " per mille", "°": " degrees", "$": " dollars", "€": " euros", "£": " pounds",
    "¥": " yen",
    "@": " at ", "§": " section ", "/": " ", "₿": " bitcoin",
}  # fmt: skip
_GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "θ": "theta", "λ": "lambda",
    "μ": "mu",
    "µ": "micro", "π": "pi", "ρ": "rho", "σ": "sigma", "τ": "tau", "φ": "phi", "ω": "omega", "Ω": "omega",
    "Δ": "delta",
    "Σ": "sigma",
}  # fmt: skip
_SYMBOL = re.compile(
    rf"(?P<greek>(?<![^\W\d_a-zA-Z])[{''.join(_GREEK)}](?![^\W\d_a-zA-Z]))|(?P<named>(?<![$€£¥@%])[{re.escape(''.join(_NAMES))}](?![$€£¥@%]))|[=<>+@$€£¥%]"
)


def expand(text: str) -> str:
    """Signs by their names; operators without operands are dropped."""
    return _SYMBOL.sub(_speak, text)


def _speak(found: re.Match[str]) -> str:
    if found["greek"]:
        return f" {_GREEK[found['greek']]} "
    return _NAMES[found["named"]] if found["named"] else " "
