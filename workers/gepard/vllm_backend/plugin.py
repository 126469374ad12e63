"""What vLLM calls in each of its processes (entry point `vllm.general_plugins`): the model's name and place."""

ARCHITECTURE = "GepardForTTS"


def register() -> None:
    """Make the model known. vLLM imports its module when it is asked for, and calls this more than once."""
    from vllm import ModelRegistry  # noqa: PLC0415  # vLLM is optional, and this module is not

    if ARCHITECTURE not in ModelRegistry.get_supported_archs():
        ModelRegistry.register_model(ARCHITECTURE, "workers.gepard.vllm_backend.model:GepardForTTS")
