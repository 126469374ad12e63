"""Pages of lists: `limit` items behind the id `after`."""

from typing import Annotated, TypeVar

from litestar.params import QueryParameter

from gateway.errors import ApiError

MAX_LIMIT = 100
DEFAULT_LIMIT = 20

After = Annotated[str | None, QueryParameter(name="after", description="The id of the last item of the page before.")]
Limit = Annotated[
    str | None, QueryParameter(name="limit", description=f"Items a page, 1 to {MAX_LIMIT}, {DEFAULT_LIMIT} by default.")
]

T = TypeVar("T")


def checked_limit(limit: str | None) -> int:
    """The number of items. Raises ApiError."""
    if limit is None:
        return DEFAULT_LIMIT
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:9]) <= MAX_LIMIT):
        raise ApiError("invalid_value", f"'limit' must be a number from 1 to {MAX_LIMIT}.", param="limit")
    return int(limit)


def cut(items: list[T], limit: int) -> tuple[list[T], bool]:
    """The page, and whether there is more, of `limit + 1` items that were asked for."""
    return items[:limit], len(items) > limit
