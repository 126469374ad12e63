"""What the gateway needs of the registry of voices, wired together."""

from dataclasses import dataclass

from arq.connections import ArqRedis

from gateway.speakers import Speakers
from shared.broker.heartbeat import Fleet
from shared.broker.queue import JobQueue
from shared.database import Database
from shared.settings import Settings
from voices.clip_store import open_store
from voices.clips import ClipIntake
from voices.consents import ConsentRegistry
from voices.profile_cache import ProfileCache
from voices.profiles import Profiles
from voices.service import VoiceRegistry
from voices.stored_clips import StoredClips


@dataclass(frozen=True, slots=True)
class Registry:
    """Close `voices` at the end."""

    voices: VoiceRegistry
    consents: ConsentRegistry
    speakers: Speakers
    cache: ProfileCache


def build_registry(settings: Settings, database: Database, redis: ArqRedis, queue: JobQueue, fleet: Fleet) -> Registry:
    """Raises SettingsError when the clip store needs what is not installed."""
    cache = ProfileCache(redis)
    clips = StoredClips(database, open_store(settings), cache)
    intake = ClipIntake(settings.clips)
    profiles = Profiles(settings, redis, queue, fleet, cache, clips)
    voices = VoiceRegistry(settings, database, clips, intake, profiles, lambda: fleet.models().values())
    return Registry(
        voices=voices,
        consents=ConsentRegistry(settings, database, clips, intake),
        speakers=Speakers(settings, voices, intake, cache, profiles),
        cache=cache,
    )
