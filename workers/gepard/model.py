"""The network put together; weights come from checkpoint.load_checkpoint."""

import torch
from torch import Tensor, nn

from workers.gepard.backbone import Backbone, RopeFreqDtype
from workers.gepard.compressor import SpeakerCompressor
from workers.gepard.config import GepardConfig
from workers.gepard.frames import FrameEmbedding
from workers.gepard.heads import OutputHeads


class GepardModel(nn.Module):
    """Backbone, frame embedding, heads and, where the model clones voices, the speaker compressor."""

    null_prefix: Tensor | None

    def __init__(self, config: GepardConfig) -> None:
        super().__init__()
        self.config = config
        self.backbone = Backbone(config.backbone_config)
        self.frame_embedding = FrameEmbedding(config)
        self.heads = OutputHeads(config)
        self.compressor: SpeakerCompressor | None = None
        if config.compressor is None:
            self.null_prefix = None
        else:
            self.compressor = SpeakerCompressor(config.compressor, config.head_sizes)
            # Trained stand-in for a voice; with no reference the model expects no prefix at all.
            self.null_prefix = nn.Parameter(torch.empty(config.compressor.num_queries, config.compressor.d_model))

    def set_tables(self, rope_freq_dtype: RopeFreqDtype) -> None:
        """Compute what no checkpoint stores, on the weights' device. Call once, with the weights in place."""
        self.backbone.set_rope(rope_freq_dtype, self.device)
        self.frame_embedding.set_offsets(self.device)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.backbone.embed_tokens.weight.device

    def embed_prompt(self, ids: list[int], prefix: Tensor | None) -> Tensor:
        """Input embeddings of `[prefix?] ids`, [K + len(ids), hidden]; prefix: [K, hidden] or None."""
        text: Tensor = self.backbone.embed_tokens(torch.tensor(ids, device=self.device))
        return text if prefix is None else torch.cat((prefix.to(text), text))
