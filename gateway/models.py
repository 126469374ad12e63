"""The models that can be used now."""

from litestar import get
from litestar.di import NamedDependency
from litestar.params import FromPath

from gateway.errors import ApiError
from gateway.schemas import AudioModelList, Model, ModelList
from shared.broker.heartbeat import Fleet
from shared.settings import DEFAULT_MODEL_ALIAS, Settings

_CREATED = 1_700_000_000
"""Clients want a time; models here have none, and a list should not change from call to call."""


def available_models(fleet: Fleet, settings: Settings) -> list[Model]:
    """Models with a live worker, then the aliases that lead to one."""
    live = fleet.models()
    names = sorted(live)
    for alias, target in sorted(settings.model_aliases.items()):
        if (settings.model if target == DEFAULT_MODEL_ALIAS else target) in live and alias not in live:
            names.append(alias)
    return [Model(id=name, created=_CREATED) for name in names]


@get("/v1/models", operation_id="listModels", tags=["Models"])
async def list_models(fleet: NamedDependency[Fleet], settings: NamedDependency[Settings]) -> ModelList:
    """List the models that have a live worker, and their aliases."""
    return ModelList(data=available_models(fleet, settings))


@get("/v1/audio/models", operation_id="listAudioModels", tags=["Models"])
async def list_audio_models(fleet: NamedDependency[Fleet], settings: NamedDependency[Settings]) -> AudioModelList:
    """List the same models in the shape that Open WebUI reads."""
    models = available_models(fleet, settings)
    return AudioModelList(models=models, data=models)


@get("/v1/models/{model_id:str}", operation_id="retrieveModel", tags=["Models"])
async def retrieve_model(
    fleet: NamedDependency[Fleet], settings: NamedDependency[Settings], model_id: FromPath[str]
) -> Model:
    """Get one model."""
    for model in available_models(fleet, settings):
        if model.id == model_id:
            return model
    raise ApiError("model_not_found", f"The model '{model_id}' does not exist.", param="model")
