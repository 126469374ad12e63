"""NVIDIA NanoCodec (22.05 kHz, 1.89 kbit/s, 21.5 frames a second) for inference.

archive.py reads the released `.nemo` file and needs no PyTorch; encoder.py, decoder.py and streaming.py do.
Import from the modules: this file stays empty so that config.py and archive.py work where torch is absent.
"""
