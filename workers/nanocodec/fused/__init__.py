"""The streaming decoder as fused Triton kernels, for NVIDIA GPUs.

The idea: tensors are [stream, time, channels], so a convolution is a matrix product over shifted rows, without
copies (conv_kernel.py). The three branches of a stage share a launch, and their last convolutions are one product.
Activations happen where values are stored, once and in float32. What a stream needs again lies in its slot; a
step reads it in place, puts the new ends aside, and a last kernel moves them in (state_kernel.py). 38 launches a step,
replayed as one CUDA graph.

plan.py says where everything lies, weights.py puts the weights there, launches.py lists a step's launches,
decoder.py keeps slots and graphs. decoder.py and launches.py need Triton: import from the modules.
"""
