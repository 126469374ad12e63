"""Every Redis name in one place."""

from shared.contracts import EngineInfo, JobId, WorkerId

WORKERS = "gepard:workers"
"""Sorted set of worker ids that beat lately; the heartbeat keys decide who is alive."""

PROFILES = "gepard:profiles"
"""Sorted set of the names of speaker profiles, by the time of their last use."""


def queue(model: str) -> str:
    """arq's queue (a sorted set) of one model."""
    return f"gepard:queue:{model}"


def signals(model: str) -> str:
    """Pub/sub channel that wakes and cancels on the workers of one model."""
    return f"gepard:signals:{model}"


def attempt(job: JobId, number: int) -> str:
    """Id of one attempt at a job; arq's job id."""
    return f"{job}.{number}"


def reply(job: JobId, number: int) -> str:
    """Reply stream of one attempt: a worker of an older attempt cannot write into a newer one's."""
    return f"gepard:reply:{attempt(job, number)}"


def cancelled(attempt_id: str) -> str:
    """Mark that an attempt must not start."""
    return f"gepard:cancelled:{attempt_id}"


def heartbeat(worker: WorkerId) -> str:
    """Heartbeat of one worker; it expires soon after the worker is gone."""
    return f"gepard:heartbeat:{worker}"


def clip(sha256: str) -> str:
    """A reference clip on its way to workers (shared.clip.Clip.to_bytes)."""
    return f"gepard:clip:{sha256}"


def profiles_of(sha256: str) -> str:
    """What the names of all profiles of a clip begin with."""
    return f"gepard:profile:{sha256}:"


def profile(sha256: str, info: EngineInfo) -> str:
    """What one revision of an engine made of a clip: another model, or another compressor, makes another."""
    return f"{profiles_of(sha256)}{info.model}:{info.revision}:{info.compressor_revision}"


def previews(voice: str) -> str:
    """Hash of the spoken samples of a voice, by the engine's revision. `voice`: a clip's hash, or `preset-` name."""
    return f"gepard:previews:{voice}"


def request_window(key_id: str) -> str:
    """Sorted set of the requests of an API key in the last minute, by their time in milliseconds."""
    return f"gepard:limits:requests:{key_id}"


def characters(key_id: str) -> str:
    """Characters that an API key used today; expires at midnight UTC."""
    return f"gepard:limits:characters:{key_id}"


def leases(key_id: str) -> str:
    """Sorted set of the running streams of an API key, by when their lease ends."""
    return f"gepard:limits:streams:{key_id}"
