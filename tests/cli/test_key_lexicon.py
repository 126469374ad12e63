"""gepard keys: the lexicon of a key, from a file."""

import json

import pytest
from click.testing import CliRunner

from cli.main import main
from shared.settings import LogSettings
from shared.telemetry import configure_logging


@pytest.fixture
def gepard(tmp_path):
    """Runs a command on an empty data folder."""

    def run(*arguments, **environment):
        env = {"GEPARD_DATA_DIR": str(tmp_path / "data"), "COLUMNS": "200", **environment}
        return CliRunner().invoke(main, [str(argument) for argument in arguments], env=env)

    yield run
    # The command has sent the log to a stream that is closed now.
    configure_logging(LogSettings(level="info", format="json"), process="test")


@pytest.fixture
def words(tmp_path):
    """Writes a file of words."""

    def write(content):
        file = tmp_path / "words.yaml"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    return write


def counts(gepard):
    return {key["name"]: key["lexicon_entries"] for key in json.loads(gepard("keys", "list", "--json").stdout)}


def test_a_key_is_made_with_a_lexicon_and_stays_alone_on_the_standard_output(gepard, words):
    result = gepard("keys", "create", "app", "--lexicon", words("Gepard: gay part\nnginx: engine X\n"))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("gp-")
    assert len(result.stdout.splitlines()) == 1
    assert "Lexicon: 2 entries." in result.stderr
    assert counts(gepard) == {"app": 2}


def test_the_list_shows_how_many_entries_a_key_has_and_none_of_them(gepard, words):
    gepard("keys", "create", "app", "--lexicon", words("Gepard: gay part\nnginx: engine X\n"))
    gepard("keys", "create", "bare")
    app, bare = gepard("keys", "list").stdout.splitlines()[1:]
    assert "2 entries" in app
    assert bare.split()[3:5] == ["none", "none"]
    assert "engine X" not in gepard("keys", "list").stdout + gepard("keys", "list", "--json").stdout


@pytest.mark.parametrize("remove", ["-", "--clear"])
def test_a_lexicon_is_given_replaced_and_removed(gepard, words, remove):
    gepard("keys", "create", "app")
    given = gepard("keys", "lexicon", "app", words("Gepard: gay part\nnginx: engine X\n"))
    assert given.exit_code == 0, given.output
    assert given.stderr.startswith("2 entries for 'app' (key_")
    assert gepard("keys", "lexicon", "app", words('{"a": "b"}')).stderr.startswith("1 entry for 'app'")
    assert counts(gepard) == {"app": 1}
    assert gepard("keys", "lexicon", "app", remove).stderr.startswith("No lexicon for 'app'")
    assert counts(gepard) == {"app": 0}


BAD = {
    "empty": ("", "expected lines such as"),
    "nothing in it": ("{}", "expected lines such as"),
    "list": ("- Gepard", "expected lines such as"),
    "not YAML": ("a: [", "cannot read the lexicon"),
    "not UTF-8": (b"\xff: a", "cannot read the lexicon"),
    "no such date": ("2024-13-45: a", "cannot read the lexicon"),
    "nested without end": ("[" * 5000, "cannot read the lexicon"),
    "number as word": ("7: seven", "'7' has a int where a text is expected; put it in quotes"),
    "truth as replacement": ("Norway: no", "'Norway' has a bool"),
    "nothing as replacement": ("Gepard:", "'Gepard' has a NoneType"),
    "sign": ('"!": bang', "'!' has no letter or digit"),
    "long word": (f"{'a' * 101}: b", "at most 100 match"),
    "long replacement": (f"a: {'b' * 201}", "at most 200 are said"),
    "many": ("".join(f"w{index}: a\n" for index in range(1001)), "there are 1001 entries; at most 1000"),
    "half a character": (r'{"a": "\ud83d"}', "half a character"),
}


@pytest.mark.parametrize(("content", "says"), BAD.values(), ids=BAD.keys())
def test_a_bad_file_is_refused_with_its_fault_and_changes_nothing(gepard, words, content, says):
    gepard("keys", "create", "app", "--lexicon", words("Gepard: gay part\n"))
    file = words(content)
    for arguments in (("create", "new", "--lexicon", file), ("lexicon", "app", file)):
        result = gepard("keys", *arguments)
        assert result.exit_code == 1
        assert result.stdout == ""
        assert result.stderr.startswith("Error: ")
        assert says in result.stderr
        assert str(file) in result.stderr
    assert counts(gepard) == {"app": 1}


def test_a_file_that_is_not_there_is_refused(gepard, tmp_path):
    result = gepard("keys", "create", "app", "--lexicon", tmp_path / "none.yaml")
    assert result.exit_code == 1
    assert "cannot read the lexicon" in result.stderr
    assert counts(gepard) == {}


def test_the_bound_of_the_configuration_counts(gepard, words):
    file = words("a: b\nc: d\n")
    assert (
        "at most 1 are"
        in gepard("keys", "create", "a", "--lexicon", file, GEPARD_LIMITS_MAX_LEXICON_ENTRIES="1").stderr
    )


def test_an_unknown_key_is_an_error(gepard, words):
    result = gepard("keys", "lexicon", "nobody", words("a: b"))
    assert result.exit_code == 1
    assert "gepard keys list" in result.stderr


def test_it_is_either_a_file_or_its_removal(gepard, words):
    gepard("keys", "create", "app", "--lexicon", words("a: b"))
    assert gepard("keys", "lexicon", "app").exit_code == 2
    assert gepard("keys", "lexicon", "app", words("c: d"), "--clear").exit_code == 2
    assert counts(gepard) == {"app": 1}
