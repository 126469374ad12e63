"""Files of one repository of the Hugging Face hub, resumable and checked.

The hub's library downloads a file of gigabytes anew when its process was ended on the way. Here what has
arrived stays beside the file until the rest has come. Digests decide what is there and what is whole.
"""

import contextlib
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from urllib.parse import urlsplit

from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_url
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError
from huggingface_hub.file_download import http_get
from huggingface_hub.utils._headers import build_hf_headers  # the package exports it, its types do not

from shared.errors import GepardError

_BLOCK_BYTES = 1 << 20


class DownloadFailed(GepardError):
    """A file could not be fetched, or arrived damaged; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _RemoteFile:
    """A file of a commit. `sha256` is known of large ones; `blob_id` is git's SHA-1."""

    repo: str
    commit: str
    name: str
    size: int
    sha256: str | None
    blob_id: str

    def is_in(self, path: Path) -> bool:
        """Whether `path` is this very file."""
        if not path.is_file() or path.stat().st_size != self.size:
            return False
        digest = (
            hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False) if self.sha256 is None else hashlib.sha256()
        )
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                digest.update(block)
        return digest.hexdigest() == (self.sha256 or self.blob_id)


def fetch(repo: str, patterns: Sequence[str], folder: Path) -> None:
    """Bring the matching files at the top of `repo` into `folder`, which exists; bars on stderr in a terminal.

    The token is the library's own: HF_TOKEN, or what `hf auth login` left. Raises DownloadFailed.
    """
    with _explained(repo):
        for file in _wanted(repo, patterns):
            if not file.is_in(folder / file.name):
                _fetch(file, folder)


def _wanted(repo: str, patterns: Sequence[str]) -> list[_RemoteFile]:
    info = HfApi().model_info(repo, files_metadata=True)
    return [
        _RemoteFile(
            repo=repo,
            commit=info.sha or "main",
            name=sibling.rfilename,
            size=sibling.size or 0,
            sha256=None if sibling.lfs is None else sibling.lfs.sha256,
            blob_id=sibling.blob_id or "",
        )
        for sibling in info.siblings or ()
        # Names with a slash never: they would also be paths here.
        if "/" not in sibling.rfilename and any(fnmatch(sibling.rfilename, pattern) for pattern in patterns)
    ]


def _fetch(file: _RemoteFile, folder: Path) -> None:
    partial = folder / f".{file.name}.{(file.sha256 or file.blob_id)[:16]}.part"
    url = hf_hub_url(file.repo, file.name, revision=file.commit)
    target = get_hf_file_metadata(url).location
    headers = build_hf_headers()
    if urlsplit(target).netloc != urlsplit(url).netloc:
        headers.pop("authorization", None)  # the hub's storage is another host: the token is none of its business
    if partial.exists() and partial.stat().st_size > file.size:
        partial.unlink()
    with partial.open("ab") as sink:
        http_get(
            target,
            sink,
            resume_size=sink.tell(),
            headers=headers,
            expected_size=file.size,
            displayed_filename=file.name,
        )
    if not file.is_in(partial):
        partial.unlink()
        raise DownloadFailed(f"{file.name} arrived damaged and was removed; run the command again")
    partial.replace(folder / file.name)


@contextlib.contextmanager
def _explained(repo: str) -> Iterator[None]:
    """Turn the library's errors into DownloadFailed."""
    try:
        yield
    except DownloadFailed:
        raise
    except (GatedRepoError, RepositoryNotFoundError) as error:
        raise DownloadFailed(
            f"the hub does not give out {repo} (status {error.response.status_code}): if its page asks to accept "
            "terms, do that; then name your token with `make login`, `hf auth login` or HF_TOKEN"
        ) from error
    except HfHubHTTPError as error:
        raise DownloadFailed(f"the hub answered {error.response.status_code} for {repo}; try again later") from error
    except Exception as error:  # the library's HTTP client and its errors differ from version to version
        raise DownloadFailed(
            f"{repo} was not fetched whole ({type(error).__name__}: {error}); run the command again, it goes on "
            "where it was"
        ) from error
