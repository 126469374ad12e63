"""The voices there are."""

from litestar import get
from litestar.di import NamedDependency

from gateway.schemas import VoiceItem, VoiceList
from shared.broker.heartbeat import Fleet
from shared.contracts import EngineInfo
from shared.settings import Settings
from voices.aliases import aliases_of


def available_voices(info: EngineInfo, settings: Settings) -> list[VoiceItem]:
    """An engine's presets under their own names, then the aliases."""
    described = {preset.name: preset.description for preset in info.presets}
    items = [
        VoiceItem(id=name, name=name, model=info.model, kind="preset", description=description)
        for name, description in described.items()
    ]
    for alias, target in sorted(aliases_of(info, settings.voice_aliases).items()):
        if alias not in described:
            items.append(
                VoiceItem(
                    id=alias,
                    name=alias,
                    model=info.model,
                    kind="alias",
                    description=f"{target}: {described[target]}",
                )
            )
    return items


@get(["/v1/voices", "/v1/audio/voices"], tags=["Voices"])
async def list_voices(fleet: NamedDependency[Fleet], settings: NamedDependency[Settings]) -> VoiceList:
    """List the voices of every live model."""
    items = [item for info in fleet.models().values() for item in available_voices(info, settings)]
    return VoiceList(data=items, voices=items)
