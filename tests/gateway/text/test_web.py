"""Addresses."""

import pytest

from gateway.text import normalize

CASES = [
    ("https://example.com", "example dot com"),
    ("http://www.example.com/", "example dot com"),
    ("https://example.com/a/b.", "example dot com slash a slash b."),
    ("www.example.org", "example dot org"),
    ("example.com", "example dot com"),
    ("See example.com.", "See example dot com."),
    ("https://example.com/search?q=1&x=2#top", "example dot com slash search"),
    ("https://my-site.co.uk/foo_bar", "my dash site dot co dot UK slash foo underscore bar"),
    ("john@example.com", "john at example dot com"),
    ("john.doe+x@mail.example.co.uk", "john dot doe plus x at mail dot example dot co dot UK"),
    ("mailto:bob@x.com", "bob at x dot com"),
    ("bob99@gmail.com", "bob ninety-nine at gmail dot com"),
    ("node.js", "node dot JS"),
    ("README.md", "README dot MD"),
    ("config.yaml", "config dot yaml"),
    ("/usr/local/bin", "slash usr slash local slash bin"),
    ("~/notes/todo.txt", "tilde slash notes slash todo dot TXT"),
    ("@anna", "at anna"),
    ("#OpenSource", "hashtag OpenSource"),
    ("user@host", "user at host"),
    ("github.io", "github dot IO"),
    ("open.ai", "open dot AI"),
    ("https://user:pw@example.com/", "example dot com"),
    ("(https://example.com)", "(example dot com)"),
    ("<https://example.com>", "example dot com"),
    ("[site](https://example.com/x)", "site"),
    ("ftp://files.example.net", "files dot example dot net"),
    ("example.com/path", "example dot com slash path"),
    ("end.It was", "end.It was"),
]


@pytest.mark.parametrize(("written", "spoken"), CASES, ids=[written for written, _ in CASES])
def test_web_are_read_as_a_person_would(written, spoken):
    assert normalize(written, language="en") == spoken
