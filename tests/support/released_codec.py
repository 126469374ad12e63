"""The shape of the codec that Gepard speaks."""

from workers.nanocodec.config import CodecConfig, HifiGanConfig

RELEASED = CodecConfig(
    decoder=HifiGanConfig(
        base_channels=864,
        rates=(8, 8, 4, 2, 2),
        in_kernel=7,
        out_kernel=3,
        residual_kernels=(3, 7, 11),
        dilations=(1, 3, 5),
    ),
    encoder=HifiGanConfig(
        base_channels=24,
        rates=(2, 2, 4, 8, 8),
        in_kernel=7,
        out_kernel=7,
        residual_kernels=(3, 7, 11),
        dilations=(1, 3, 5),
    ),
)
