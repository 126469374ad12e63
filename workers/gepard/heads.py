"""What the model says of the next frame: logits of every channel, and whether the last frame was the last."""

from torch import Tensor, nn

from workers.gepard.config import GepardConfig


class OutputHeads(nn.Module):
    """The channels' heads and the stop head as one linear layer: [sum of head sizes, then stop]."""

    def __init__(self, config: GepardConfig) -> None:
        super().__init__()
        self.proj = nn.Linear(config.backbone_config.hidden_size, sum(config.head_sizes) + 1)

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Normed states [N, hidden] to code logits [N, sum of head sizes] float32 and stop logits [N].

        The stop logits stay in the model's dtype: the sigmoid is taken there.
        """
        outputs = self.proj(states)
        return outputs[:, :-1].float(), outputs[:, -1]


def stop_probabilities(stop_logits: Tensor) -> list[float]:
    """How sure each state's frame was the last, [N] in the model's dtype to N numbers in 0..1."""
    probabilities: list[float] = stop_logits.sigmoid().tolist()
    return probabilities
