"""/docs: the interactive OpenAPI page. Its scripts come from an installed package, not from a CDN."""

from importlib.util import find_spec
from pathlib import Path

from litestar import Router
from litestar.openapi import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin, SwaggerRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.static_files import create_static_files_router

_ASSETS = "/docs/assets"
_KEY = "apiKey"


def openapi_config(version: str) -> OpenAPIConfig:
    """The document at /docs/openapi.json and the page at /docs."""
    return OpenAPIConfig(
        title="Gepard gateway",
        version=version,
        description="Text to speech on your own machines, in the shape of the OpenAI API.",
        path="/docs",
        components=Components(
            security_schemes={_KEY: SecurityScheme(type="http", scheme="bearer", description="gepard keys create NAME")}
        ),
        # Or none, while no key is configured.
        security=[{_KEY: []}, {}],
        render_plugins=[
            SwaggerRenderPlugin(
                path="/swagger",
                js_url=f"{_ASSETS}/swagger-ui-bundle.js",
                css_url=f"{_ASSETS}/swagger-ui.css",
                standalone_preset_js_url=f"{_ASSETS}/swagger-ui-standalone-preset.js",
                favicon=f'<link rel="icon" href="{_ASSETS}/favicon-32x32.png">',
            ),
            JsonRenderPlugin(),
        ],
    )


def docs_assets() -> Router:
    """The page's static files, from the package swagger-ui-py (not imported: it would pull in frameworks)."""
    spec = find_spec("swagger_ui")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("swagger-ui-py is not installed")
    return create_static_files_router(
        path=_ASSETS, directories=[Path(spec.origin).parent / "static"], include_in_schema=False
    )
