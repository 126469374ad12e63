"""The Gepard model in plain PyTorch: text and a voice prefix in, frames of codec codes out.

    config, layout, tokenizer        the files of a checkpoint and the text side; no torch
    tensors, safetensors_file        what the weights must be, and reading them; no torch
    backbone, frames, heads, model   the network
    compressor                       reference codes -> voice prefix
    sampling, philox                 logits -> codes
    checkpoint                       a folder -> a model, nothing trusted
    decoding, generate               many requests, frame by frame

Import from the modules: this package stays empty, so that the torch-free ones load without torch.
"""
