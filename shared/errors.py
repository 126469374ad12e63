"""Errors that cross rooms. The gateway maps them to answers in one table (gateway/errors.py).

GepardError
├── SettingsError      the operator's configuration cannot be used
├── DatabaseError      the registry's database cannot be used
├── CheckpointError    a checkpoint file cannot be used
├── ClipRefused        an uploaded reference clip cannot be used; says why
├── IntakeBusy         too many clips are being taken in; try again
├── VoiceRefused       the registry cannot do that with a voice or consent; says why
├── ClipStoreError     clips cannot be read or written at the moment
├── EngineError        a model failed on this request; others go on
│   ├── EngineLost     the process that holds the model is gone: whoever has a model can go on with the request
│   └── EngineBroken   the model's process is unusable: the worker ends and is started anew
└── ReplyError         a reply ended before its end
    ├── WorkerLost     the worker that served it is gone
    ├── ReplyGap       an event of the reply is missing
    └── ReplyFailed    the worker said why (`code` as in contracts.Failed)
"""


class GepardError(Exception):
    """Base of all errors of this project."""


class SettingsError(GepardError):
    """The configuration cannot be used; the message names the key and what is valid."""


class DatabaseError(GepardError):
    """The registry's database cannot be reached or used; the message names it, without its password."""


class CheckpointError(GepardError):
    """A checkpoint file cannot be used; the message names the file and what is wrong."""


class ClipRefused(GepardError):
    """An uploaded reference clip cannot be used; `message` is safe to show to the client."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class IntakeBusy(GepardError):
    """As many clips as may wait are waiting to be taken in."""


class VoiceRefused(GepardError):
    """What was asked of a voice or consent cannot be done; `message` is safe to show to the client.

    `param`: the parameter at fault, if it is always the same one.
    """

    def __init__(self, code: str, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param


class ClipStoreError(GepardError):
    """The place where clips are kept cannot be used."""


class EngineError(GepardError):
    """A model failed on one request."""


class EngineLost(EngineError):
    """The process that holds the model ended, or does not answer; it is started anew, the worker waits for it."""


class EngineBroken(EngineError):
    """The model's process cannot serve any more; the worker must end."""


class ReplyError(GepardError):
    """A reply ended before its end."""


class WorkerLost(ReplyError):
    """The heartbeat of the worker that served the reply is gone."""


class ReplyGap(ReplyError):
    """An event of the reply is missing."""


class ReplyFailed(ReplyError):
    """The worker ended the reply with `failed`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
