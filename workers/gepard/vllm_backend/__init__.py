"""The Gepard model inside a vLLM engine: continuous batching for the same codes as the plain PyTorch model.

    token_space, voices, planner     who runs when and where its frames are; plain Python
    slots, sampler_kernel            what a request's row draws, in one Triton launch; no vLLM
    derived, weights, model          the network on vLLM's paged attention
    state, sampler, scheduler        what vLLM's runner and core call
    engine                           VllmBackend, a workers.gepard.backend.Backend
    plugin, compat                   registration; the two vLLM releases

Import from the modules: this package stays empty, and most of it loads without vLLM.
"""
