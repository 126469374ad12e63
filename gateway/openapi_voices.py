"""The forms that make voices and consents, and the sounds that come in parts, for the OpenAPI document."""

from litestar.openapi.spec import OpenAPIHeader, OpenAPIMediaType, OpenAPIResponse, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIFormat, OpenAPIType

AUDIO_TYPES = {"retrieveVoiceClip": "audio/flac", "previewVoice": "audio/mpeg"}
"""Operations that answer with a file, whole or in parts, and its content type."""


def binary() -> Schema:
    """Any bytes."""
    return Schema(type=OpenAPIType.STRING, content_media_type="application/octet-stream")


def ranged_responses(content_type: str) -> dict[str, OpenAPIResponse]:
    """The whole file, or the part that a Range header names."""
    content = {content_type: OpenAPIMediaType(schema=binary())}
    text = Schema(type=OpenAPIType.STRING)
    accept = OpenAPIHeader(description="Always bytes.", schema=text, required=True)
    part = OpenAPIHeader(description="Which bytes, of how many.", schema=text, required=True)
    return {
        "200": OpenAPIResponse(description="The file.", content=content, headers={"accept-ranges": accept}),
        "206": OpenAPIResponse(
            description="The asked part of the file.",
            content=content,
            headers={"accept-ranges": accept, "content-range": part},
        ),
    }


def _text(description: str) -> Schema:
    return Schema(type=OpenAPIType.STRING, description=description)


def _file(description: str) -> Schema:
    return Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.BINARY, description=description)


def _form(required: list[str], properties: dict[str, Schema]) -> RequestBody:
    schema = Schema(type=OpenAPIType.OBJECT, required=required, properties=dict(properties))
    return RequestBody(content={"multipart/form-data": OpenAPIMediaType(schema=schema)}, required=True)


FORMS = {
    "createVoice": _form(
        ["name", "consent"],
        {
            "name": _text("At most 100 characters, unique among your voices."),
            "audio_sample": _file("The clip: wav, mp3, m4a, aac, ogg, opus, flac or webm."),
            "file": _file("The same under another name; send one of the two."),
            "consent": _text("The id of a recorded consent, or a statement."),
            "description": _text("At most 1000 characters."),
            "language": _text("Tag of the clip's language, e.g. en-US."),
        },
    ),
    "createVoiceConsent": _form(
        ["name", "language", "recording"],
        {
            "name": _text("At most 100 characters."),
            "language": _text("Tag of the recording's language, e.g. en-US."),
            "recording": _file("The recording, in any format a clip may have."),
        },
    ),
}
