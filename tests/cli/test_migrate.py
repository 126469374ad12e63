"""`gepard migrate`: the one-shot before everything else."""

from pathlib import Path

from click.testing import CliRunner

from cli.main import main

KEY = "gp-0123456789abcdefghij"


def migrate(folder: Path, **env: str) -> str:
    done = CliRunner().invoke(main, ["migrate", "--data-dir", str(folder)], env=env)
    assert done.exit_code == 0, done.output
    return done.output


def test_it_makes_the_tables_and_says_that_there_is_no_key(tmp_path: Path):
    assert "There are no API keys yet" in migrate(tmp_path)
    assert (tmp_path / "gepard.db").exists()


def test_it_stores_the_key_of_the_settings_and_never_prints_it(tmp_path: Path):
    (tmp_path / "key").write_text(KEY + "\n")
    for _ in range(2):
        output = migrate(tmp_path, GEPARD_AUTH_API_KEY_FILE=str(tmp_path / "key"))
        assert "There are API keys." in output
        assert KEY not in output
    assert KEY.encode() not in (tmp_path / "gepard.db").read_bytes()
