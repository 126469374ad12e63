"""The Gepard model inside a vLLM engine.

    slots               what the kernels know of each running request
    sampler_kernel      logits -> frames, one launch
    embedding_kernel    ids -> input embeddings

The kernels are Triton and import no vLLM. Import from the modules: this package stays empty.
"""
