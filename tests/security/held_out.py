"""300 secrets in the places where they turn up, none of them real: a set that no rule is fitted to.

It was written before the first rule and is never changed to make a rule look better, nor a rule to
make it look better. Every token is put together from parts by a seeded generator, so that the text
of this file has nothing in it that a scanner of repositories could take for a key.
"""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable, Iterator
from typing import NamedTuple

__all__ = ["HeldOut", "held_out"]

_ALNUM = string.ascii_letters + string.digits
_LOWER = string.ascii_lowercase + string.digits
_UPPER = string.ascii_uppercase + string.digits
_HEX = "0123456789abcdef"
_URLSAFE = _ALNUM + "-_"
_BASE64 = _ALNUM + "+/"


class HeldOut(NamedTuple):
    """One case: what was recorded, and what of it must not be found afterwards."""

    kind: str
    text: str
    secret: str


Make = Callable[[random.Random], str]


def _some(rng: random.Random, alphabet: str, count: int) -> str:
    return "".join(rng.choice(alphabet) for _ in range(count))


def _token(*parts: str | tuple[str, int]) -> Make:
    """A token of fixed texts and of random pieces, each an alphabet and a length."""

    def make(rng: random.Random) -> str:
        return "".join(part if isinstance(part, str) else _some(rng, part[0], part[1]) for part in parts)

    return make


def _segment(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _jwt(rng: random.Random) -> str:
    head = _segment({"alg": "HS256", "typ": "JWT"})
    body = _segment({"sub": _some(rng, _LOWER, 12), "iat": 1_700_000_000 + rng.randrange(10**6)})
    return f"{head}.{body}.{_some(rng, _URLSAFE, 43)}"


def _private_key(kind: str) -> Make:
    def make(rng: random.Random) -> str:
        lines = [_some(rng, _BASE64, 64) for _ in range(12)]
        return "\n".join([f"-----BEGIN {kind}-----", *lines, f"-----END {kind}-----"])

    return make


def _uuid(rng: random.Random) -> str:
    return "-".join(_some(rng, _HEX, count) for count in (8, 4, 4, 4, 12))


def _password(rng: random.Random) -> str:
    words = ["Violet", "harbor", "Quartz", "lantern", "Maple", "orbit", "Cinder", "thistle"]
    return f"{rng.choice(words)}{rng.randrange(10, 99)}{rng.choice('#!%*')}{_some(rng, _ALNUM, 6)}"


# Tokens that say themselves what they are: provider, the name people give them, how to make one.
_TELLING: list[tuple[str, str, Make]] = [
    ("github-classic", "GITHUB_TOKEN", _token("gh", "p_", (_ALNUM, 36))),
    ("github-fine", "GH_TOKEN", _token("github", "_pat_", (_ALNUM, 22), "_", (_ALNUM, 59))),
    ("github-app", "GITHUB_APP_TOKEN", _token("gh", "s_", (_ALNUM, 36))),
    ("gitlab", "GITLAB_TOKEN", _token("gl", "pat-", (_URLSAFE, 20))),
    ("aws-id", "AWS_ACCESS_KEY_ID", _token("AK", "IA", (string.ascii_uppercase + "234567", 16))),
    ("anthropic", "ANTHROPIC_API_KEY", _token("sk-", "ant-", "api03-", (_URLSAFE, 93), "AA")),
    ("openai-old", "OPENAI_API_KEY", _token("sk", "-", (_ALNUM, 20), "T3Blbk", "FJ", (_ALNUM, 20))),
    ("openai-project", "OPENAI_API_KEY", _token("sk-", "proj-", (_URLSAFE, 74), "T3Blbk", "FJ", (_URLSAFE, 74))),
    ("google", "GOOGLE_API_KEY", _token("AI", "za", (_URLSAFE, 35))),
    (
        "slack-bot",
        "SLACK_BOT_TOKEN",
        _token("xox", "b-", ("0123456789", 12), "-", ("0123456789", 12), "-", (_ALNUM, 24)),
    ),
    ("stripe", "STRIPE_SECRET_KEY", _token("sk_", "live_", (_ALNUM, 24))),
    ("sendgrid", "SENDGRID_API_KEY", _token("SG", ".", (_URLSAFE, 22), ".", (_URLSAFE, 43))),
    ("npm", "NPM_TOKEN", _token("npm", "_", (_ALNUM, 36))),
    ("pypi", "PYPI_TOKEN", _token("pypi-", "AgEIcHlwaS5vcmc", (_URLSAFE, 140))),
    ("hugging-face", "HF_TOKEN", _token("hf", "_", (string.ascii_letters, 34))),
    ("digitalocean", "DO_TOKEN", _token("dop", "_v1_", (_HEX, 64))),
    ("shopify", "SHOPIFY_TOKEN", _token("shp", "at_", (_HEX, 32))),
    ("twilio", "TWILIO_API_KEY", _token("S", "K", (_HEX, 32))),
    ("mailgun", "MAILGUN_API_KEY", _token("key", "-", (_HEX, 32))),
    ("telegram", "TELEGRAM_BOT_TOKEN", _token(("123456789", 10), ":", "AA", (_URLSAFE, 33))),
    ("databricks", "DATABRICKS_TOKEN", _token("da", "pi", (_HEX, 32))),
    ("doppler", "DOPPLER_TOKEN", _token("dp.", "pt.", (_ALNUM, 43))),
    ("linear", "LINEAR_API_KEY", _token("lin", "_api_", (_ALNUM, 40))),
    ("notion", "NOTION_TOKEN", _token("nt", "n_", ("0123456789", 11), (_ALNUM, 35))),
    ("postman", "POSTMAN_API_KEY", _token("PM", "AK-", (_HEX, 24), "-", (_HEX, 34))),
    ("grafana", "GRAFANA_TOKEN", _token("gl", "sa_", (_ALNUM, 32), "_", (_HEX, 8))),
    ("vault", "VAULT_TOKEN", _token("hv", "s.", (_URLSAFE, 95))),
    ("jwt", "SESSION_JWT", _jwt),
    ("age", "AGE_KEY", _token("AGE-", "SECRET-KEY-1", ("QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L", 58))),
    ("perplexity", "PPLX_API_KEY", _token("pp", "lx-", (_ALNUM, 48))),
    ("groq", "GROQ_API_KEY", _token("gs", "k_", (_ALNUM, 52))),
    ("xai", "XAI_API_KEY", _token("xa", "i-", (_ALNUM, 80))),
    ("openrouter", "OPENROUTER_API_KEY", _token("sk-", "or-", "v1-", (_HEX, 64))),
    ("replicate", "REPLICATE_API_TOKEN", _token("r", "8_", (_ALNUM, 37))),
    ("fly", "FLY_API_TOKEN", _token("Fly", "V1 fm2_", (_BASE64, 120))),
    ("supabase", "SUPABASE_ACCESS_TOKEN", _token("sb", "p_", (_HEX, 40))),
    ("planetscale", "PLANETSCALE_TOKEN", _token("pscale", "_tkn_", (_URLSAFE, 43))),
    ("dockerhub", "DOCKER_TOKEN", _token("dc", "kr_pat_", (_URLSAFE, 27))),
    ("square", "SQUARE_TOKEN", _token("EA", "AA", (_ALNUM, 60))),
    ("figma", "FIGMA_TOKEN", _token("fig", "d_", (_URLSAFE, 40))),
]

# Secrets that only their name gives away.
_NAMED: list[tuple[str, str, Make]] = [
    ("aws-secret", "AWS_SECRET_ACCESS_KEY", _token((_BASE64, 40))),
    ("datadog", "DATADOG_API_KEY", _token((_HEX, 32))),
    ("azure", "AZURE_CLIENT_SECRET", _token((_ALNUM, 3), "8Q~", (_URLSAFE, 34))),
    ("cohere", "COHERE_API_KEY", _token((_ALNUM, 40))),
    ("mistral", "MISTRAL_API_KEY", _token((_ALNUM, 32))),
    ("cloudflare", "CLOUDFLARE_API_TOKEN", _token((_URLSAFE, 40))),
    ("heroku", "HEROKU_API_KEY", _uuid),
    ("django", "SECRET_KEY", _token((_LOWER + "!@#$%^&*(-_=+)", 50))),
    ("flask", "FLASK_SECRET_KEY", _token((_HEX, 48))),
    ("client-secret", "OAUTH_CLIENT_SECRET", _token((_URLSAFE, 32))),
    ("webhook", "WEBHOOK_SIGNING_SECRET", _token("wh", "sec_", (_ALNUM, 32))),
    ("db-password", "DB_PASSWORD", _password),
    ("encryption", "ENCRYPTION_KEY", _token((_BASE64, 43), "=")),
    ("algolia", "ALGOLIA_ADMIN_KEY", _token((_HEX, 32))),
    ("refresh", "REFRESH_TOKEN", _token("1//0", (_URLSAFE, 60))),
]

Place = Callable[[str, str], str]


def _nested(name: str, secret: str) -> str:
    inner = json.dumps({"env": {name: secret}})
    return json.dumps({"type": "tool_result", "content": inner})


# Where both kinds turn up.
_NAMED_PLACES: list[Place] = [
    lambda name, secret: f"# production\nDEBUG=false\n{name}={secret}\nPORT=8080\n",
    lambda name, secret: f'$ export {name}="{secret}"\n$ make deploy\n',
    lambda name, secret: json.dumps({"region": "eu-west-1", name.lower(): secret, "retries": 3}),
    lambda name, secret: f"services:\n  web:\n    environment:\n      {name}: {secret}\n",
    lambda name, secret: f"import os\n\n{name} = '{secret}'  # TODO move\n\ndef main():\n    pass\n",
    _nested,
    lambda name, secret: f'[default]\nuser = "ci"\n{name.lower()} = "{secret}"\n',
    lambda name, secret: f'resource "x" "y" {{\n  {name.lower()} = "{secret}"\n}}\n',
    lambda name, secret: f"docker run --rm -e {name}={secret} -p 80:80 registry.example/app:1.2\n",
]

# Where a token that tells what it is may stand without a name.
_BARE_PLACES: list[Place] = [
    lambda _, secret: f"Here you go, use {secret} for the tests and tell me when it works.",
    lambda _, secret: f"curl -sS -H 'Authorization: Bearer {secret}' https://api.example.com/v1/me",
    lambda _, secret: f"GET https://api.example.com/items?page=2&access_token={secret}&sort=up 200",
    lambda _, secret: f"2026-03-04T05:06:07Z ERROR auth: token {secret} was rejected (attempt 2)",
    lambda _, secret: f"git clone https://oauth2:{secret}@git.example.com/team/app.git",
    lambda _, secret: f"| key | value |\n|---|---|\n| prod | `{secret}` |\n",
    lambda _, secret: json.dumps(["stdout", f"token: {secret}\nok", {"exit": 0}]),
]


def _telling() -> Iterator[HeldOut]:
    rng = random.Random("held out: tokens that tell")
    places = [*_NAMED_PLACES, *_BARE_PLACES]
    for index, (kind, name, make) in enumerate(_TELLING):
        for step in range(4):
            secret = make(rng)
            place = places[(index * 5 + step * 4) % len(places)]
            yield HeldOut(kind, place(name, secret), _stored(secret))


def _named() -> Iterator[HeldOut]:
    rng = random.Random("held out: secrets with a name")
    for index, (kind, name, make) in enumerate(_NAMED):
        for step in range(4):
            secret = make(rng)
            place = _NAMED_PLACES[(index * 2 + step * 2 + step // 2) % len(_NAMED_PLACES)]
            yield HeldOut(kind, place(name, secret), _stored(secret))


def _stored(secret: str) -> str:
    """The longest piece that stands in JSON as it stands in text."""
    return max(json.dumps(secret)[1:-1].split("\\"), key=len)


_URLS = [
    "postgres", "postgresql+asyncpg", "mysql", "mongodb+srv", "redis", "amqp", "mysql+pymysql",
    "rediss", "mongodb", "ftp",
]  # fmt: skip


def _connections() -> Iterator[HeldOut]:
    rng = random.Random("held out: connections")
    for index, scheme in enumerate(_URLS):
        for place in range(2):
            word = _some(rng, _ALNUM, 10 + index)
            url = f"{scheme}://svc_app:{word}@db{index}.internal.example:5432/main"
            text = f"DATABASE_URL={url}\n" if place else f"connecting to {url} failed: timeout"
            yield HeldOut("connection", text, word)
    for index in range(8):
        word = _some(rng, _ALNUM, 16)
        yield HeldOut("connection", _other_connection(index, word), word)


def _other_connection(index: int, word: str) -> str:
    account = f"{word}{word[::-1]}{word}{word[::-1]}{word}abcdef=="
    return [
        f"Server=tcp:sql.example.net,1433;Database=app;User ID=sa;Password={word};Encrypt=True;",
        f"host=db.example user=app password={word} dbname=main sslmode=require",
        f"jdbc:postgresql://db.example:5432/app?user=app&password={word}&ssl=true",
        f"DefaultEndpointsProtocol=https;AccountName=app;AccountKey={account};Suffix=core",
        f"mysql -h db.example -u root -p{word} app < dump.sql",
        f"machine api.example.com\n  login deploy\n  password {word}\n",
        f"curl -u admin:{word} https://jenkins.example.com/job/app/build",
        f"PGPASSWORD={word} psql -h db.example -U app main",
    ][index]


def _headers() -> Iterator[HeldOut]:
    rng = random.Random("held out: headers and cookies")
    for index in range(22):
        long, short = _some(rng, _URLSAFE, 43), _some(rng, _ALNUM, 26)
        basic = base64.b64encode(f"admin:{short}".encode()).decode()
        secret, text = [
            (basic, f"> GET /admin HTTP/1.1\n> Authorization: Basic {basic}\n> Accept: */*"),
            (long, f"Authorization: Bearer {long}"),
            (long, json.dumps({"headers": {"authorization": f"Bearer {long}"}})),
            (short, f"Cookie: theme=dark; sessionid={short}; lang=en"),
            (long, f"< Set-Cookie: connect.sid=s%3A{long}; Path=/; HttpOnly; Secure"),
            (short, f"X-API-Key: {short}"),
            (long, f"curl -H 'X-Auth-Token: {long}' https://api.example.com"),
            (short, json.dumps({"x-api-key": short, "accept": "json"})),
            (short, f"PHPSESSID={short}; path=/; HttpOnly"),
            (long, f"requests.get(url, headers={{'Authorization': 'Token {long}'}})"),
            (long, f"set-cookie: auth_token={long}; Max-Age=3600; SameSite=Lax"),
        ][index % 11]
        yield HeldOut("header", text, secret)


_KEY_KINDS = [
    "RSA PRIVATE" + " KEY", "OPENSSH PRIVATE" + " KEY", "EC PRIVATE" + " KEY", "PRIVATE" + " KEY",
    "ENCRYPTED PRIVATE" + " KEY", "PGP PRIVATE" + " KEY BLOCK",
]  # fmt: skip


def _keys() -> Iterator[HeldOut]:
    rng = random.Random("held out: private keys")
    for kind in _KEY_KINDS:
        for place in range(2):
            pem = _private_key(kind)(rng)
            middle = pem.split("\n")[5]
            text = json.dumps({"tls.key": pem}) if place else f"$ cat id\n{pem}\n$ ls\n"
            yield HeldOut("private-key", text, middle)


def _wrapped() -> Iterator[HeldOut]:
    """In base64, as Kubernetes and basic authentication have them."""
    rng = random.Random("held out: base64")
    for kind, name, make in _TELLING[::4]:
        secret = make(rng)
        coded = base64.b64encode(f"{name}={secret}\n".encode()).decode()
        text = f"apiVersion: v1\nkind: Secret\ndata:\n  app.env: {coded}\n"
        yield HeldOut(f"base64-{kind}", text, coded[16:48])


def _hard() -> Iterator[HeldOut]:
    """What people say to each other, in words."""
    rng = random.Random("held out: hard")
    says = [
        "The admin password is {0} but change it after the first login, please.",
        "login with user: root / password: {0}",
        'await page.fill("#password", "{0}")',
        '<add key="SmtpPassword" value="{0}" />',
        "sshpass -p '{0}' ssh deploy@web1.example",
        "openssl enc -aes-256-cbc -k {0} -in a -out b",
        "client = Client(user='app', passwd='{0}', timeout=3)",
        "spring.datasource.password={0}",
    ]
    for say in says:
        secret = _password(rng)
        yield HeldOut("words", say.format(secret), secret)


def held_out() -> list[HeldOut]:
    """All of them, always the same."""
    return [
        *_telling(), *_named(), *_connections(), *_headers(), *_keys(), *_wrapped(), *_hard(),
    ]  # fmt: skip
