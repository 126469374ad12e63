"""structlog set up once per process: event name plus fields, readable or JSON, foreign loggers included."""

import logging
import sys

import structlog

from shared.settings import LogSettings

_QUIET = {
    # arq logs the arguments of a job, and with them the text that is spoken.
    "arq": logging.WARNING,
    # One summary line a request comes from the gateway itself.
    "uvicorn.access": logging.CRITICAL,
    "httpx": logging.WARNING,
    # Says at every start which database it has; voices/migrations.py logs a change.
    "alembic": logging.WARNING,
}

# Without the values of local variables: they hold texts, audio and keys.
_tracebacks = structlog.processors.ExceptionRenderer(structlog.tracebacks.ExceptionDictTransformer(show_locals=False))


def configure_logging(settings: LogSettings, *, process: str) -> None:
    """Send everything to stderr; `process` (gateway, worker, serve) is a field of each line."""
    console = settings.format == "console" or (settings.format == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S" if console else "iso", utc=not console),
    ]
    renderer: list[structlog.typing.Processor] = (
        [_say_message, structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if console
        else [_tracebacks, structlog.processors.JSONRenderer()]
    )
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.ExtraAdder()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.level.upper())
    for name, level in _QUIET.items():
        logging.getLogger(name).setLevel(level)
    structlog.contextvars.bind_contextvars(process=process)


def _say_message(
    _: structlog.typing.WrappedLogger, __: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """On a terminal an event that brings a sentence says that instead of its name."""
    if "message" in event:
        event["event"] = event.pop("message")
    return event


def get_logger() -> structlog.stdlib.BoundLogger:
    """The logger of every module; context (request_id, job_id) comes from structlog's context variables."""
    logger: structlog.stdlib.BoundLogger = structlog.get_logger()
    return logger
