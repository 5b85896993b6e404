"""Finding secrets: every rule in every form, a set that no rule is fitted to, no false alarms."""

from __future__ import annotations

import base64
import importlib.util
import json
import random
import re
import string
import sysconfig
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import UsageError
from holdfast.security import NOTHING_STREAMED, Redactor, Scanner, feed, finish, read_user_rules
from holdfast.security.redaction.rules import Rule, RuleSet, as_trie, has_checksum, standard_rules
from holdfast.security.redaction.scanner import entropy


def _beside(name):
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


specimen = _beside("specimens").specimen
held_out = _beside("held_out").held_out
RULES = standard_rules().rules
ROOT = Path(__file__).parents[2]
TOKEN = "gh" + "p_" + "aB3dE5gH" * 4 + "abcd"


@pytest.fixture(scope="module")
def redactor():
    return Redactor(b"k" * 32)


def _streamed(redactor, text, seed):
    rng, state, out, at = random.Random(seed), NOTHING_STREAMED, "", 0
    while at < len(text):
        size = rng.randint(1, 9)
        state, said, _ = feed(redactor, state, text[at : at + size])
        out += said
        at += size
    return out + finish(redactor, state)[0]


@pytest.mark.req("C18")
@pytest.mark.parametrize("number", range(len(RULES)), ids=lambda number: RULES[number].id)
def test_one_secret_for_each_rule(redactor, number):
    """A secret of every rule is found in text, in JSON, in base64 and when it comes in pieces."""
    text, secret = specimen(RULES[number])
    plain = f"before it\n{text}\nafter it"
    assert secret not in redactor.text(plain)
    assert json.dumps(secret)[1:-1] not in redactor.text(json.dumps({"out": f"x\n{text}\n"}))
    coded = base64.b64encode(f"# file\n{text}\n".encode()).decode()
    assert redactor.text(f"data: {coded} end").startswith("data: [secret:")
    streamed = _streamed(redactor, plain, number)
    size = max(13, len(secret) // 2)
    assert not any(secret[at : at + size] in streamed for at in range(len(secret) - size + 1))
    assert secret not in streamed


@pytest.mark.req("C18")
def test_held_out_secrets(redactor):
    """Of 300 secrets that no rule was fitted to, at least 95 in 100 are gone, each as a whole."""
    missed = 0
    for case in held_out():
        left = redactor.text(case.text)
        size = max(6, len(case.secret) // 3)
        starts = range(len(case.secret) - size + 1)
        missed += any(case.secret[at : at + size] in left for at in starts)
    assert len(held_out()) == 300
    assert missed <= 15


def _ordinary():
    library = Path(sysconfig.get_path("stdlib"))
    yield from sorted(library.glob("[a-d]*.py"))
    yield from sorted((ROOT / "src").rglob("*.py"))
    yield from sorted((ROOT / "docs").rglob("*.md"))


@pytest.mark.unmeasured
def test_false_marks(redactor):
    """Ordinary code and prose gets at most one mark in 100 KiB."""
    size = marks = 0
    for place in _ordinary():
        text = place.read_text()
        size += len(text)
        marks += len(redactor.spans(text))
    assert size > 4 << 20
    assert marks <= size / 102_400


def test_same_secret_same_mark(redactor):
    """A mark tells the kind, and the same secret has the same mark in one store only."""
    marks = re.findall(r"\[secret:github_pat:[0-9a-f]{4}\]", redactor.text(f"{TOKEN} and {TOKEN}"))
    assert len(marks) == 2
    assert len(set(marks)) == 1
    assert marks[0] not in Redactor(b"o" * 32).text(TOKEN)


def test_marks_stay(redactor):
    """What was redacted once does not change when it is redacted again."""
    for case in held_out()[::7]:
        once = redactor.text(case.text)
        assert redactor.text(once) == once


def test_texts_in_any_language(redactor):
    """Places are those of the text whatever letters it is made of."""
    assert redactor.text(f"令牌{TOKEN}。İstanbul ß 😀 {TOKEN}😀") == (
        f"令牌{redactor.text(TOKEN)}。İstanbul ß 😀 {redactor.text(TOKEN)}😀"
    )


@pytest.mark.parametrize("levels", range(1, 7))
def test_json_within_json(redactor, levels):
    """A password that only its name tells of is found at any depth, and the JSON stays JSON."""
    secret = "Tr0mp" + "ete-Nebel"
    text = {"to": "x", "password": secret, "also": f"login\nDB_PASSWORD={secret}\nend"}
    for _ in range(levels):
        text = json.dumps({"output": text})
    text = left = redactor.text(text)
    for _ in range(levels):
        left = json.loads(left)["output"]
    assert secret not in text
    assert re.fullmatch(r"\[secret:\w+:[0-9a-f]{4}\]", left["password"])
    assert re.fullmatch(r"login\nDB_PASSWORD=\[secret:\w+:[0-9a-f]{4}\]\nend", left["also"])


@pytest.mark.parametrize("sign", ["\\u003d", "\\u003D", "\\\\u003d", "="])
def test_signs_that_json_has_coded(redactor, sign):
    """Some writers of JSON give quotes and signs by their number; names are seen all the same."""
    text = f'{{"command": "login --user me DB_PASSWORD{sign}Tr0mpete9Nebel\\u0027 end"}}'
    left = redactor.text(text)
    assert "9Neb" not in left
    assert json.loads(left)["command"].startswith("login --user me DB_PASSWORD")


@pytest.mark.parametrize("place", [0, 1_000, 2_999])
def test_a_secret_in_much_output(redactor, place):
    """In output of which every line could hold a secret, the one that does is found alone."""
    lines = [f"2026-03-04T05:06:07Z id={n * 7919:08x} handler_{n}.py ok" for n in range(3_000)]
    lines[place] = f"export GH={TOKEN}"
    text = "\n".join(lines)
    assert len(text) > 1 << 17
    assert redactor.text(text) == text.replace(TOKEN, redactor.text(TOKEN))


def test_base64_in_lines(redactor):
    """A file in base64 that is broken into lines is seen as one."""
    coded = base64.encodebytes(f"# settings\nname=x\nTOKEN={TOKEN}\n".encode() * 4).decode()
    assert redactor.text(f"cat f\n{coded}\n").startswith("cat f\n[secret:github_pat:")


def test_pictures_are_left_alone(redactor):
    """A payload that is no text is not changed."""
    payload = base64.b64encode(random.Random(5).randbytes(90_000)).decode()
    assert redactor.text(payload) == payload


def test_known_values():
    """A value that is known to be secret is replaced wherever it stands."""
    scanner = Scanner(values={"plain words here": "environment"})
    text = Redactor(b"k" * 32, scanner=scanner).text("so plain words here, twice: plain words here!")
    assert "plain words" not in text
    assert text.count("[secret:environment:") == 2


@pytest.mark.parametrize("value", ['quo"ted wörd', "back\\slash it", "two\nlines of it", "it\\'s/so"])
def test_known_values_within_json(value):
    """A known value is found in JSON too, and in JSON within JSON, whatever it is made of."""
    redactor = Redactor(b"k" * 32, scanner=Scanner(values={value: "environment"}))
    text = f"so {value}."
    for ascii_only in (True, False, True):
        left = redactor.text(text)
        assert left.count("[secret:environment:") == 1
        assert all(len(part) < 8 for part in re.split(r"\[secret:[^]]*\]", left))
        text = json.dumps(text, ensure_ascii=ascii_only)


def test_rules_of_ones_own():
    """A rule from the settings counts, with and without words that must be near."""
    rules = read_user_rules(
        [
            {"id": "badge", "regex": r"BDG-(\d{6})", "group": 1},
            {"id": "ticket", "regex": r"T\d{4}", "keywords": ["Ticket"], "entropy": 1},
        ]
    )
    redactor = Redactor(b"k" * 32, scanner=Scanner(more=rules))
    assert "BDG-[secret:badge:" in redactor.text("BDG-123456")
    assert "[secret:ticket:" in redactor.text("ticket T1234")
    assert redactor.text("it T1234") == "it T1234"
    assert redactor.text("ticket T1111") == "ticket T1111"


@pytest.mark.parametrize(
    "table",
    [
        {"id": "a", "regex": "x", "colour": "red"},
        {"id": "A b", "regex": "x"},
        {"id": "a", "regex": ""},
        {"id": "a", "regex": "("},
        {"id": "a", "regex": "x", "keywords": "word"},
        {"id": "a", "regex": "x", "group": 2},
        {"id": "a", "regex": "x", "group": "first"},
    ],
)
def test_wrong_rules(table):
    """A rule that cannot be meant so is refused with what is wrong."""
    with pytest.raises(UsageError):
        read_user_rules([table])


def test_too_many_rules():
    """The number of rules is bounded."""
    with pytest.raises(UsageError):
        read_user_rules([{"id": f"r{n}", "regex": "x"} for n in range(201)])


def test_time_is_bounded():
    """Beyond its time a scan stops, and says how much it has not looked at."""
    ticks = iter(range(10**6))
    scanner = Scanner(seconds_per_mib=1.0, clock=lambda: float(next(ticks)))
    found = scanner.find(f"key={TOKEN} " * 3)
    assert found.unscanned > 0


def test_words_as_one_pattern():
    """Words become one pattern that finds the longest of them."""
    pattern = re.compile(as_trie(["api", "api-key", "app", "x.y"]))
    assert [pattern.match(word).group() for word in ("api-key", "apis", "app")] == [*("api-key", "api", "app")]
    assert pattern.match("xzy") is None
    assert re.compile(as_trie([])).search("anything") is None


def test_a_word_that_begins_with_another():
    """A rule is asked for whichever of its words is there, also if a longer word begins so."""
    rules = RuleSet([Rule("a", "x1", ("ab",)), Rule("b", "x2", ("abc",))])
    assert rules.by_word[b"abc"] == (0, 1)
    assert rules.by_word[b"ab"] == (0,)


def _with_checksum(body):
    number, end = zlib.crc32(body.encode()), ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        end = (string.digits + string.ascii_uppercase + string.ascii_lowercase)[digit] + end
    return f"{body}{end}"


@pytest.mark.parametrize("prefix", ["gh" + "p_", "gh" + "s_", "np" + "m_"])
def test_a_checksum_that_holds_is_proof(redactor, prefix):
    """A token whose checksum holds is a secret, also if it reads like a sample; others are not."""
    token = prefix + _with_checksum("EXAMPLE" + "x" * 23)
    assert has_checksum(token)
    assert token not in redactor.text(f"use {token} here")
    wrong = token[:-1] + ("1" if token[-1] != "1" else "2")
    assert not has_checksum(wrong)
    assert redactor.text(f"use {wrong} here") == f"use {wrong} here"


@pytest.mark.parametrize("more", ["A", "Q7"])
def test_a_longer_text_is_no_token(redactor, more):
    """A text that begins as a token of fixed length does and goes on is left alone."""
    text = "it is AK" + "IA2QWERTYUIOPASD4F" + more
    assert redactor.text(text) == text
    assert "[secret:aws_access_key:" in redactor.text(text[: -len(more)])


def _recorded(text):
    return json.dumps({"content": text}, ensure_ascii=False).encode()


@pytest.mark.unmeasured
def test_a_glance_passes_no_secret():
    """Whatever a rule is about, a glance at the recorded JSON does not pass it."""
    scanner = Scanner()
    texts = [specimen(rule)[0] for rule in RULES] + [case.text for case in held_out()]
    passed = [text for text in texts if scanner.is_clean(_recorded(text))]
    assert [text for text in passed if scanner.find(text).spans] == []


_PIECES = st.one_of(
    st.sampled_from(
        [
            "password is",
            " PASSWORD=",
            " token: ",
            "api_key=",
            " -p",
            "curl -u root:",
            "://u:",
            "@host",
            "Bearer ",
            " ",
            "\n",
            "\\",
            ".",
            ",",
            ":",
            "12",
            "7",
            "x",
            "Ab",
            "cDEf",
            "!",
            "~",
            "%",
            "'quoted'",
            "great!",
            "wörd",
            "-----BEGIN PRIVATE KEY-----",
        ]
    ),
    st.text(string.ascii_letters + string.digits + " .,:!-_/\"'`\\\n", max_size=12),
)


@given(st.lists(_PIECES, max_size=12).map("".join))
def test_what_a_glance_passes_holds_nothing(text):
    """If a glance passes a text, no rule finds anything in it."""
    scanner = Scanner(clock=lambda: 0.0)
    assert not scanner.is_clean(_recorded(text)) or scanner.find(text).spans == []


def test_a_glance_passes_plain_words():
    """Words, names and numbers that stand by themselves are passed without a closer look."""
    said = "On Tuesday, GitHub and OpenAI met at 10:30, 12 of 2,026 came.\n1. Read the JSON\n2. Go"
    assert Scanner().is_clean(_recorded(said))
    assert not Scanner().is_clean(_recorded(f"{said} with pa55word"))


@pytest.mark.parametrize("value", ["plain words here", 'quo"ted words', "wörter", "with 5 of them"])
def test_a_glance_knows_values(value):
    """A glance does not pass a text with a value that is known to be secret."""
    scanner = Scanner(values={value: "environment"})
    assert not scanner.is_clean(_recorded(f"so {value}."))
    assert not Scanner(more=read_user_rules([{"id": "a", "regex": "so"}])).is_clean(b'"so"')


def test_entropy():
    """Entropy is Shannon's."""
    assert entropy("") == 0
    assert entropy("aaaa") == 0
    assert entropy("abcd") == 2


@pytest.mark.parametrize(
    "text",
    [
        "a" * 300_000,
        "key=" * 80_000,
        "-----BEGIN " * 50_000,
        "-----BEGIN PRIVATE KEY-----" * 12_000,
        "password: " * 30_000,
        "://:" * 80_000,
        '\\"' * 150_000,
        "\\" * 300_000,
        "\\u00" * 60_000,
        "\\\\n" * 100_000,
        "cookie: a=b; " * 25_000,
        "curl -u " * 40_000,
        "[secret:" * 40_000,
        "QUJD" * 80_000,
        "eyJ" + "a." * 150_000,
    ],
    ids=lambda text: text[:12],
)
def test_hostile_texts_come_to_an_end(text):
    """A text made to be slow is looked at to its end, with no budget to stop it."""
    assert Scanner(clock=lambda: 0.0).find(text).unscanned == 0


def test_tokens_of_github_apps_that_are_signed(redactor):
    """The tokens that GitHub gives to apps now, an id and a signed text, leave nothing behind."""
    rng = random.Random(7)
    signs = string.ascii_letters + string.digits + "_-"
    parts = ["".join(rng.choices(signs, k=count)) for count in (30, 280, 180)]
    token = "gh" + f"s_1234567_eyJ{'.'.join(parts)}"
    shown = redactor.text(f"GITHUB_TOKEN is {token}.")
    assert re.fullmatch(r"GITHUB_TOKEN is \[secret:github_app_token:\w{4}\]\.", shown)


@pytest.mark.parametrize("prefix", ["ghp_", "gho_", "ghu_", "ghs_", "ghr_"])
def test_longer_tokens_of_github(redactor, prefix):
    """Tokens of up to 255 signs, as GitHub may give them, are known by their prefix."""
    rng = random.Random(8)
    secret = "".join(rng.choices(string.ascii_letters + string.digits, k=251))
    assert redactor.text(f"use {prefix}{secret} here").startswith("use [secret:github_")


def test_longer_keys_of_stripe(redactor):
    """Keys of up to 128 random signs, as Stripe gives them, are known by their prefix."""
    rng = random.Random(9)
    secret = "".join(rng.choices(string.ascii_letters + string.digits, k=128))
    assert redactor.text("use r" + f"k_live_{secret} here").startswith("use [secret:stripe_key:")


@pytest.mark.parametrize("prefix", ["cfk_", "cfut_", "cfat_"])
def test_prefixed_tokens_of_cloudflare(redactor, prefix):
    """A credential of Cloudflare with a prefix, 40 signs and a checksum is known by its prefix."""
    rng = random.Random(10)
    secret = "".join(rng.choices(string.ascii_letters + string.digits, k=48))
    assert redactor.text(f"use {prefix}{secret} here").startswith("use [secret:cloudflare_token:")
