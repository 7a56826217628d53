"""Every reason has its text in every language, with every parameter."""

import ast
import gettext
import json
import shutil
import string
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import naproxy
import pytest
from babel.messages.pofile import read_po
from naproxy import drivers
from naproxy.core import words
from naproxy.core.reason import Reason, WrongError, own_words, reason_of, stored_reason, together
from naproxy.doctor import box, server
from naproxy.drivers.sleep import checks

SOURCES = Path(naproxy.__file__).parent
WEB = SOURCES.parents[3] / "webui/src"
RAISED = (
    *("Reason", "WrongError", "ChangeError", "ArchiveError", "ShapeError", "wrong", "_wrong"),
    *("NotSeen", "NotUsed", "fact", "FactsError"),
    *("CopyError", "RaucError", "UnhealthyError", "JobError", "BusyError"),
    *("RefusedError", "Fault", "NoAnswerError", "CertificateError"),
)
MAINTAINED = ("en", "de")
MADE = {"config.bytes", "config.value"}
"""Codes with an ending that says which bounds there are (`schema.py`)."""
CHECKS = (
    *(*box.CHECKS, *server.CHECKS),
    *(each for n in drivers.names("sleep") for w in ("box", "server") for each in checks(n, w)),
)
TITLES = {f"doctor.title_{check.__name__}" for check in CHECKS}


@cache
def rooms() -> set[str]:
    return {code.partition(".")[0] for code in texts("en")}


@cache
def in_sources() -> tuple[list[tuple[str, set[str], str]], set[str]]:
    """Return the codes that are raised, with names of parameters and place; and all strings."""
    raised, strings = [], set()
    for path in (*SOURCES.rglob("*.py"), *WEB.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                strings.add(node.value)
            if not isinstance(node, ast.Call):
                continue
            name = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
            codes = [a.value for a in node.args if isinstance(a, ast.Constant)]
            for code in codes if name in RAISED else ():
                if isinstance(code, str) and code.partition(".")[0] in rooms():
                    given = {str(keyword.arg) for keyword in node.keywords}
                    raised.append((code, given, f"{path.name}:{node.lineno}"))
    return raised, strings


@cache
def texts(language: str) -> dict[str, str]:
    with (words.FOLDER / language / "LC_MESSAGES/naproxy.po").open("rb") as file:
        return {each.id: each.string for each in read_po(file, abort_invalid=True) if each.id}


def places(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_every_code_has_an_english_text_with_its_parameters_and_no_others() -> None:
    known = texts("en")
    for code, given, where in in_sources()[0]:
        assert code in known, where
        assert places(known[code]) <= given, where


def test_every_text_is_used_and_has_the_same_places_in_each_language() -> None:
    english = texts("en")
    named = in_sources()[1]
    assert {code for code in english if code.rpartition("_")[0] not in MADE} <= named | TITLES
    assert english.keys() >= TITLES
    for language in words.LANGUAGES:
        translated = texts(language)
        # Those that nobody maintains fall back to English.
        assert translated.keys() <= english.keys(), language
        assert language not in MAINTAINED or translated.keys() == english.keys(), language
        for code, text in translated.items():
            assert places(text) <= places(english[code]), code


def test_a_reason_goes_over_the_wire_and_back() -> None:
    reason = Reason("config.value_between", low=1.0, high=65535)
    within = together(own_words("disk is busy"), Reason("core.own_words", text=own_words("no")))
    for each in (reason, within):
        assert reason_of(json.loads(json.dumps(each.plain()))) == each
    assert words.words(reason, "en") == "must be 1 to 65535"
    assert words.sentences(within) == ["Disk is busy.", "No."]
    raised = WrongError("config.time_zone", name="Mars/Base")
    assert str(raised) == "there is no time zone Mars/Base"


def test_reasons_together_are_one_after_the_other() -> None:
    one, two = own_words("first"), own_words("second!")
    assert str(together(one, together(two, one))) == "First. Second! First."
    assert together(one) is one


def test_reasons_that_differ_in_figures_only_have_the_same_codes() -> None:
    def inhibited(idle_s: float, *inhibitors: Reason) -> Reason:
        why = together(Reason("policy.idle", idle_s=idle_s), Reason("policy.first_day", used=1))
        return Reason("server.would_sleep", why=why, inhibitors=list(inhibitors))

    fetching, kept = Reason("server.fetching", number=2), Reason("server.kept_awake")
    first = inhibited(63, fetching)
    assert first.codes() == inhibited(64.5, Reason("server.fetching", number=3)).codes()
    assert first.codes() != inhibited(63, kept).codes()
    assert first.codes() != inhibited(63, fetching, kept).codes()
    assert kept.codes() == ("server.kept_awake",)


def test_a_reason_is_kept_as_text_and_read_again() -> None:
    reason = together(own_words("Größe „5“"), Reason("policy.idle", idle_s=63))
    assert stored_reason(reason.text()) == reason
    assert stored_reason(reason.plain()) == reason


def test_a_sentence_of_an_older_naproxy_stays_as_it_is() -> None:
    for kept in ("idle 63 s", "", "63", "1e3", "null", '{"code": 5}', "[" * 100_000):
        assert stored_reason(kept) == own_words(kept), kept


def test_a_length_of_time_is_told_in_the_units_that_people_use() -> None:
    for s, shown in (
        (0.44, "0.4 s"),
        (7, "7 s"),
        (89.6, "90 s"),
        (90, "2 min"),
        (3599, "1 h"),
        (3960, "1 h 6 min"),
    ):
        assert words.duration(s).replace("\N{NO-BREAK SPACE}", " ") == shown, s


def test_an_unknown_code_and_a_missing_parameter_are_told_as_they_are() -> None:
    assert words.words(Reason("config.of_tomorrow", high=5), "de") == "config.of_tomorrow high=5"
    assert str(Reason("config.value_between", low=5)) == "config.value_between low=5"


def test_a_code_cannot_lead_out_of_the_catalogues() -> None:
    for code in ("../../../etc/passwd.x", "core/../config.user", "\x1b[2J", ""):
        assert str(Reason(code)) == repr(code)[1:-1], code


def nested(around: Callable[[Any], Any], times: int) -> Any:
    made: Any = "x"
    for _ in range(times):
        made = around(made)
    return made


@pytest.mark.parametrize(
    "hostile",
    [
        None,
        [],
        "core.all",
        {"code": 5, "params": {}},
        {"code": "core.own_words"},
        {"code": "core.own_words", "params": [1]},
        {"code": "core.all", "params": {"reasons": ["x"]}},
        {"code": "core.all", "params": {"reasons": 5}},
        {"code": "core.all", "params": {}},
        {"code": "core.own_words", "params": {"text": {"code": None}}},
        nested(lambda inner: {"code": "core.own_words", "params": {"text": inner}}, 300),
        {"code": "core.own_words", "params": {"text": nested(lambda inner: [inner], 300)}},
    ],
)
def test_what_is_no_reason_is_refused(hostile: object) -> None:
    with pytest.raises(ValueError, match="no reason"):
        reason_of(hostile)


def test_what_would_move_a_terminals_cursor_is_written_out() -> None:
    reason = Reason("backup.strange_member", name="\x1b[2J\nall is well\udc80")
    assert words.words(reason).endswith(r"\x1b[2J\nall is well\udc80")
    told = words.words(Reason("config.of_tomorrow", **{"\x1b[2J": 5}))
    assert told == r"config.of_tomorrow \x1b[2J=5"


def test_the_log_has_plain_spaces() -> None:
    reason = Reason("policy.idle", idle_s=63)
    assert str(reason) == "Nobody had needed it for 63 s."
    assert words.words(reason) == "Nobody had needed it for 63\N{NO-BREAK SPACE}s."


def test_braces_in_a_parameter_are_text() -> None:
    reason = Reason("config.no_server", name="{name.__class__}")
    assert words.words(reason) == "there is no server {name.__class__}"


@pytest.mark.parametrize("package", [SOURCES.parents[1], WEB.parent], ids=["controller", "pages"])
def test_a_built_catalogue_does_not_say_when_it_was_built(package: Path, tmp_path: Path) -> None:
    """So that two builds of an image are the same."""
    shutil.copy(package / "setup.py", tmp_path)
    (tmp_path / "src").mkdir()
    shutil.copy(words.FOLDER / "de/LC_MESSAGES/naproxy.po", tmp_path / "src")
    subprocess.run([sys.executable, "setup.py", "-q", "build_py"], cwd=tmp_path, check=True)
    with (tmp_path / "src/naproxy.mo").open("rb") as file:
        said = gettext.GNUTranslations(file).info()
    assert said["pot-creation-date"] == "1970-01-01 00:00+0000"


def test_a_reason_without_a_code_is_not_the_catalogues_header() -> None:
    assert str(Reason("")) == ""


def test_a_text_that_a_language_lacks_is_english() -> None:
    lacking = sorted(texts("en").keys() - texts("nl").keys())
    reason = Reason(lacking[0])
    assert words.words(reason, "nl") == words.words(reason)


def test_the_languages_that_nobody_reviewed_say_so() -> None:
    marked = {each for each, name in words.own_names().items() if "(" in name}
    assert marked == set(words.LANGUAGES) - set(MAINTAINED)
