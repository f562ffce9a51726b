"""Every error that a user can cause at the command line: what it says, and the exit code."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Cli

from hermes_lab import Lab
from hermes_lab.errors import EventError
from hermes_lab.events import Action

# Root may read and write anything; without these capabilities the modes of files bind it as they bind everybody.
AS_ORDINARY_USER = (
    "setpriv",
    "--bounding-set=-dac_override,-dac_read_search",
    "--inh-caps=-dac_override,-dac_read_search",
)


HOLD_EXCLUSIVELY = """
import sqlite3, sys
sqlite3.connect(sys.argv[1]).execute("begin exclusive")
print("held", flush=True)
sys.stdin.read()
"""


def ordinary_user() -> tuple[str, ...]:
    """Return the command prefix under which the modes of files bind."""
    if os.geteuid() != 0:
        return ()
    if shutil.which("setpriv") is None:
        pytest.skip("root ignores the modes of files, and setpriv (util-linux) is not here to change that")
    return AS_ORDINARY_USER


def record_one(lab: Lab, **columns: object) -> None:
    with lab.log.writer() as writer:
        writer.record(Action.FEEDBACK, name="like", **columns)


def check(result: subprocess.CompletedProcess[str], code: int, *says: str) -> None:
    assert result.returncode == code, result.stderr
    for text in says:
        assert re.search(text, result.stderr), result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("nonsense",),
        ("sql",),
        ("sql", "select 1", "--nonsense"),
        ("import",),
        ("log", "purge", "--by", "a", "--reason", "b"),
        ("sql", "x", "--limit", "many"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: tuple[str, ...]) -> None:
    check(cli(*arguments), 64, "Usage:")


def test_help_shows_an_example_and_the_exit_codes(cli: Cli) -> None:
    text = cli("--help").stdout
    assert "Example:" in text
    assert "64 wrong usage" in text
    for command in (
        "import",
        "sql",
        "doctor",
        "log verify",
        "log seal",
        "log compact",
        "log purge",
        "log export",
        "log status",
    ):
        assert "Example: hermes-lab" in cli(*command.split(), "--help").stdout


def test_no_arguments_shows_help(cli: Cli) -> None:
    assert "Commands:" in cli().stdout


def test_missing_file(cli: Cli, tmp_path: Path) -> None:
    check(cli("import", tmp_path / "nowhere.jsonl"), 66, "there is no file .*nowhere.jsonl: check the name")


def test_wrong_format(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    check(cli("import", path), 65, "in none of the formats.*hermes-state.*by its name")
    check(cli("import", path, "--format", "nonsense"), 65, "no format 'nonsense'")
    for name in ("hermes-state", "hermes-sessions", "sharegpt", "openai-chat", "otlp"):
        check(cli("import", path, "--format", name), 65, "photo.png")


def test_empty_file(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(b"")
    check(cli("import", path), 65, "empty.jsonl")
    check(cli("import", path, "--format", "openai-chat"), 65, "nothing was found in .*empty.jsonl")


def test_unreadable_file(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "secret.jsonl"
    path.write_text('{"messages": [{"role": "user", "content": "hi"}]}\n')
    path.chmod(0)
    check(cli("import", path, prefix=ordinary_user()), 77, "reading .*secret.jsonl: not permitted")


def test_unreadable_database(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    path.write_bytes(b"SQLite format 3\x00" + b"\xff" * 5000)
    check(cli("import", path, "--format", "hermes-state"), 65, "state.db")


def test_locked_database(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    with sqlite3.connect(path) as database:
        database.executescript(
            "create table sessions (id text primary key, source text, started_at real);"
            "create table messages (id integer primary key, session_id text, role text, content text, timestamp real);"
            "insert into sessions values ('s1', 'cli', 1.0); insert into messages values (1, 's1', 'user', 'hi', 2.0);"
        )
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD_EXCLUSIVELY, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        check(cli("import", path), 75, "state.db.*(locked|busy|in use)")
    finally:
        holder.communicate("")
    assert cli("import", path).returncode == 0


def test_naive_time(lab: Lab) -> None:
    with lab.log.writer() as writer, pytest.raises(EventError, match=r"ts.*give ts a time zone"):
        writer.record(Action.FEEDBACK, ts=dt.datetime(2026, 1, 1))  # noqa: DTZ001
    assert EventError.exit_code == 65


def test_wrong_time_zone(cli: Cli, tmp_path: Path) -> None:
    check(cli("import", tmp_path, "--timezone", "Mars/Olympus"), 64, "Mars/Olympus.*no time zone")


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("selec 1", "syntax error"),
        ("select nothing from events", "nothing.*not found"),
        ("select * from nowhere", "nowhere does not exist[^$]*`events`"),
        ("drop view events", "DROP is not allowed"),
        ("copy events to 'x.csv'", "COPY is not allowed"),
        ("with x as (copy events to 'x.csv') from x", "COPY within WITH is not allowed"),
        ("select 1; select 2", "2 statements"),
        ("select * from read_csv('/etc/passwd')", "this lab's folder only"),
        ("select ('a' || task_id)::int from events", "Could not convert"),
        ("", "0 statements"),
    ],
)  # fmt: skip
def test_bad_sql(lab: Lab, cli: Cli, query: str, says: str) -> None:
    record_one(lab, task_id="t")
    check(cli("sql", query), 65, says)


def test_no_lab(cli: Cli, tmp_path: Path) -> None:
    check(cli("sql", "select 1", lab=tmp_path / "nowhere"), 66, "no lab in .*nowhere.*--lab")
    assert not (tmp_path / "nowhere").exists()
    check(cli("log", "verify", lab=tmp_path / "nowhere"), 66, "no lab")


def test_a_folder_that_is_something_else(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    check(cli("import", tmp_path / "thesis.tex", lab=tmp_path), 78, "holds other files")


def test_read_only_folder(lab: Lab, cli: Cli, tmp_path: Path) -> None:
    record_one(lab)
    log_file = tmp_path / "chat.jsonl"
    log_file.write_text(
        '{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]}\n'
    )
    folders = [lab.path, *(path for path in lab.path.rglob("*") if path.is_dir())]
    for path in lab.path.rglob("*"):
        if path.is_file():
            path.chmod(0o444)
    for path in folders:
        path.chmod(0o555)
    try:
        asked = cli("sql", "select count(*) as n from events", "--json", prefix=ordinary_user())
        assert asked.returncode == 0, asked.stderr
        assert json.loads(asked.stdout) == [{"n": 1}]
        assert cli("log", "verify", prefix=ordinary_user()).returncode == 0
        assert cli("log", "status", prefix=ordinary_user()).returncode == 0
        check(cli("import", log_file, prefix=ordinary_user()), 77, "not permitted.*check the folder's owner and mode")
        check(cli("log", "seal", prefix=ordinary_user()), 77, "not permitted")
        check(
            cli(
                "import",
                log_file,
                lab=tmp_path / "x" / "y",
                prefix=("sh", "-c", f'chmod 555 {tmp_path}; exec "$@"', "sh", *ordinary_user()),
            ),
            77,
            "not permitted",
        )
    finally:
        tmp_path.chmod(0o755)
        for path in folders:
            path.chmod(0o755)


def test_a_lab_of_a_newer_version(lab: Lab, cli: Cli) -> None:
    (lab.path / "lab.toml").write_text("format = 2\n[something.new]\n")
    check(cli("sql", "select 1"), 78, "newer hermes-lab.*upgrade")


def test_a_manifest_of_a_newer_version(lab: Lab, cli: Cli) -> None:
    record_one(lab)
    lab.log.seal()
    text = lab.log.layout.manifest.read_text()
    lab.log.layout.manifest.write_text(text.replace('"format":1', '"format":2'))
    check(cli("sql", "select 1"), 78, "newer hermes-lab.*upgrade")


def test_events_of_a_newer_schema(lab: Lab, cli: Cli) -> None:
    record_one(lab)
    [path] = lab.log.layout.live.glob("*.jsonl")
    path.write_text(path.read_text().replace('"schema_version":1', '"schema_version":2'))
    check(cli("sql", "select 1 from events"), 78, "upgrade hermes-lab")


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("format = ", "is not TOML"),
        ("", "format"),
        (f"format = {'9' * 5000}", "is not TOML"),
        ("format = 1\n[lgo]\n", "lgo"),
        ("format = 1\n[log]\nspil_over = 3\n", "spil_over"),
        ("format = 1\n[log]\ndurability_ms = 'x'\n", "durability_ms"),
        ("format = 1\n[log]\ndurability_ms = -1\n", "durability_ms"),
        ("format = 1\n[log]\nmemory_limit = 'lots'\n", "memory_limit"),
        ("format = 1\n[log]\nthin = {generation = 3}\n", "generation.*may not be thinned"),
    ],
)
def test_a_wrong_lab_toml(lab: Lab, cli: Cli, tmp_path: Path, toml: str, says: str) -> None:
    (lab.path / "lab.toml").write_text(toml)
    log_file = tmp_path / "chat.jsonl"
    log_file.write_text(
        '{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]}\n'
    )
    check(cli("import", log_file), 78, says)


def test_a_manifest_that_is_damaged(lab: Lab, cli: Cli) -> None:
    record_one(lab)
    lab.log.seal()
    with open(lab.log.layout.manifest, "r+b") as file:
        file.write(b"#")
    check(cli("sql", "select 1"), 65, "manifest.jsonl line 1 is not an entry.*restore")
    result = cli("log", "verify")
    assert result.returncode == 1
    assert "changed: " in result.stdout


def test_a_segment_that_is_lost(lab: Lab, cli: Cli) -> None:
    record_one(lab)
    lab.log.seal()
    [segment] = lab.log.layout.folder.glob("date=*/*.parquet")
    segment.unlink()
    check(cli("sql", "select * from events"), 65, "log verify")
    result = cli("log", "verify")
    assert result.returncode == 1
    assert f"lost: {segment}" in result.stdout


def test_purge_of_nobody(lab: Lab, cli: Cli) -> None:
    record_one(lab)
    check(
        cli("log", "purge", "--task", "nobody", "--by", "a", "--reason", "b", "--yes"),
        66,
        "no event has task_id 'nobody'",
    )


def test_purge_is_asked_for(lab: Lab, cli: Cli) -> None:
    record_one(lab, task_id="t")
    check(
        cli("log", "purge", "--task", "t", "--by", "a", "--reason", "b", stdin="n\n"),
        1,
        "Remove 1 events .*nothing was purged",
    )
    assert lab.log.sql("select count(*) from events").fetchall() == [(1,)]


def test_purge_while_somebody_writes(lab: Lab, cli: Cli) -> None:
    with lab.log.writer() as writer:
        writer.record(Action.FEEDBACK, task_id="t")
        check(
            cli("log", "purge", "--task", "t", "--by", "a", "--reason", "b", "--yes"), 75, "a writer has this log open"
        )


def test_export_into_a_full_folder(lab: Lab, cli: Cli, tmp_path: Path) -> None:
    record_one(lab)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("")
    check(cli("log", "export", tmp_path / "full"), 74, "not an empty folder")


def test_a_reader_that_has_had_enough(lab: Lab, cli: Cli) -> None:
    result = cli(prefix=("sh", "-c", "\"$0\" sql 'select * from range(1000000)' --format csv | head -1"))
    assert result.returncode == 0
    assert result.stderr == ""
