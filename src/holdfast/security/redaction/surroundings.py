"""Secrets that only their surroundings give away: names, headers, addresses, commands.

Each is linear: what may repeat is bounded, and no two repeats that can match the same text meet.
"""

from __future__ import annotations

from holdfast.security.redaction.rules import Rule
from holdfast.security.redaction.table import ANY_SIGN, SIGN

_QUOTED = r"(?:\\?[\"'`])"
_NAMES = (
    r"(?:secret|token|credential|(?:api|access|private|signing|encryption|auth|admin|master|account"
    r"|license|service|session|hmac|shared[_-]?access)[_-]?key)"
)
_VALUE = r"[^\s\"'`\\,;<>(){}\[\]]"

SURROUNDINGS = (
    Rule(
        "private_key",
        r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?!-----)[^\0]){32,65536}"
        r"-----END (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----",
        ("-----begin",),
    ),
    Rule(
        "private_key_begun",
        r"-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----"
        r"[A-Za-z0-9+/=\s:,\\-]{32,}",
        ("-----begin",),
    ),
    Rule(
        "connection_password",
        r"\b[A-Za-z][A-Za-z0-9+.-]{1,30}://[^\s:/@'\"<>\\]{0,128}:([^\s@/'\"<>\\]{3,256})@[\w\[]",
        ("://",),
        careful=True,
    ),
    Rule(
        "connection_password",
        r"(?i)\b(?:AccountKey|SharedAccessKey|SharedSecret)=([A-Za-z0-9+/]{20,}={0,2})",
        ("accountkey", "sharedaccesskey", "sharedsecret"),
        entropy=3.0,
    ),
    Rule(
        "password",
        r"(?i)\b[\w.-]{0,40}(?:passw(?:or)?d|passphrase|passcode|pwd)[\w.-]{0,20}"
        + SIGN
        + r"([^\s\"'`\\,;&<>(){}\[\]]{5,128})",
        ("passw", "passphrase", "passcode", "pwd"),
        entropy=2.3,
        careful=True,
        guess=True,
    ),
    Rule(
        "password",
        r"(?i)(?:passw(?:or)?d|passphrase|passcode|pwd|secret|token|api_?key)\w{0,20}"
        + _QUOTED
        + r"(?:\s{0,4},\s{0,8}|\s{1,32}value=|\s{0,4}(?:=>|:=|=|:)\s{0,8})"
        + _QUOTED
        + r"([^\s\"'`\\]{6,128})\\?[\"'`]",
        ("passw", "passphrase", "passcode", "pwd", "secret", "token", "apikey", "api_key"),
        entropy=2.3,
        careful=True,
        guess=True,
    ),
    Rule(
        "password",
        r"(?i)\bpass(?:word|phrase|code)\b(?:[ \t]+[\w@.-]{1,30}){0,3}?[ \t]+(?:is|was|to|=)"
        r"[ \t]*:?[ \t]*[\"'`]?([^\s\"'`,]{6,64}?)(?=[.,;!?]?(?:[\s\"'`]|$))",
        ("passw", "passphrase", "passcode"),
        entropy=2.6,
        careful=True,
        guess=True,
    ),
    Rule(
        "password",
        r"(?i)\blogin[ \t]+\S{1,64}\s+password[ \t]+(\S{4,128})",
        ("login",),
        careful=True,
    ),
    Rule(
        "command_password",
        r"(?i)\b(?:curl|wget)\b[^\n]{0,300}?[ \t](?:-u|--user|--proxy-user)[= \t]{1,4}[\"']?"
        r"[^\s:\"']{1,64}:([^\s\"'@]{3,128})",
        ("curl", "wget"),
        careful=True,
    ),
    Rule(
        "command_password",
        r"\b(?:mysql|mysqldump|mysqladmin|mariadb)\b[^\n]{0,200}?[ \t]-p([^\s\"'-][^\s\"']{3,127})",
        ("mysql", "mariadb"),
        careful=True,
    ),
    Rule(
        "command_password",
        r"\b(?:sshpass[ \t]+-p|docker[ \t]+login\b[^\n]{0,120}?[ \t]-p"
        r"|openssl\b[^\n]{0,120}?[ \t]-(?:k|pass(?:in|out)?))[ \t]*(?:pass:)?"
        r"[\"']?([^\s\"']{4,128})",
        ("sshpass", "docker", "openssl"),
        careful=True,
    ),
    Rule(
        "command_password",
        r"(?i)[ \t\"']--?(?:password|passwd|passphrase|pass|token|api-?key|secret|access-key"
        r"|client-secret)(?:=|[\"']?,?[ \t]+)[\"']?([^\s\"'`,;<>(){}\[\]]{6,200})",
        ("pass", "token", "key", "secret"),
        entropy=2.6,
        careful=True,
        guess=True,
    ),
    Rule(
        "authorization",
        r"(?i)\b(?:proxy-)?authorization" + SIGN + r"(?:(?:basic|bearer|token|apikey|api-key|bot)"
        r"[ \t]+)?([\w=~@.+/:-]{14,4096})",
        ("authorization",),
        entropy=2.8,
        careful=True,
        guess=True,
    ),
    Rule(
        "authorization",
        r"(?i)\b(?:bearer|basic)[ \t]+([\w=~.+/-]{16,4096})",
        ("bearer", "basic"),
        entropy=3.3,
        careful=True,
        guess=True,
    ),
    Rule(
        "header",
        r"(?i)\bx-[a-z-]{0,40}(?:key|token|secret|auth|signature)[a-z-]{0,20}"
        + SIGN
        + r"([\w=~@.+/:-]{14,4096})",
        ("x-",),
        entropy=2.8,
        careful=True,
        guess=True,
    ),
    Rule(
        "cookie",
        r"(?i)\b(?:php|j|asp\.net_|aspx)?(?:[\w.-]{0,30}sess(?:ion)?[_-]?(?:id|token|key)?|"
        r"connect\.sid|[\w.-]{0,30}auth[\w.-]{0,20}|sid|(?:csrf|xsrf)[_-]?token|remember_\w{2,12}|"
        r"[\w.-]{0,30}(?:token|jwt|key))=(?:s%3A|\"|')?([\w%.~+/:-]{12,4096})",
        ("sess", "sid", "auth", "token", "jwt", "remember", "key"),
        entropy=3.0,
        careful=True,
        guess=True,
    ),
    Rule(
        "cookie",
        r"(?i)\b(?:set-)?cookie[\"'\\]{0,3}[ \t]*[:=][ \t]*[\"'\\]{0,3}"
        r"(?:[\w.-]{1,60}=[^;\s\"'\\]{0,11};[ \t]*){0,20}[\w.-]{1,60}=([\w%.~+/:|-]{12,4096})",
        ("cookie",),
        entropy=3.0,
        careful=True,
        guess=True,
    ),
    Rule(
        "url_parameter",
        r"(?i)[?&](?:[\w.-]{0,30}(?:password|passwd|pwd|token|secret|signature|credential)|sig|key|auth"
        r"|api[_-]?key|code|jwt|session)=([^\s&\"'<>#`\\]{6,2048})",
        ("?", "&"),
        entropy=2.6,
        careful=True,
        guess=True,
    ),
    Rule(
        "named_secret",
        r"(?i)" + _NAMES + r"[\w.-]{0,24}" + SIGN + r"(" + _VALUE + r"{12,512})",
        ("secret", "token", "credential", "key"),
        entropy=3.3,
        careful=True,
        guess=True,
    ),
    Rule(
        "named_secret",
        r"(?i)" + _NAMES + r"[\w.-]{0,24}[\"'\\]{0,3}[ \t]{0,8}(?:=>|:=|=|:)[ \t]{0,8}\\?"
        r"([\"'`])([^\s\"'`\\]{16,512})\\?\1",
        ("secret", "token", "credential", "key"),
        entropy=3.5,
        group=2,
        careful=True,
        guess=True,
    ),
    # A name that says less, in more kinds of text: the value itself must look made by chance.
    Rule(
        "random_value",
        r"(?:(?<![A-Za-z])(?<!ublic[_-])(?<!UBLIC[_-])(?<!rimary[_-])(?<!oreign[_-])"
        r"(?i:key|api|auth|access|cred|secret|token|passw)"
        r"|(?<=[a-z0-9])(?:Key|A[Pp][Ii]|Auth|Access|Cred|Secret|Token|Passw))"
        r"(?![\w.-]{0,20}(?i:id|name|file|path|url|uri|type|alias|size|length|version|hash|digest"
        r"|word|board)\b)"
        r"[\w.-]{0,20}" + ANY_SIGN + r"([\w.+/=~-]{14,150})(?![\w+/-])",
        ("key", "api", "auth", "access", "cred", "secret", "token", "passw"),
        entropy=3.5,
        careful=True,
        guess=True,
        random=True,
    ),
    Rule(
        "kubernetes_secret",
        r"(?i)\bkind:[ \t]*[\"']?secret[\"']?\s[^\0]{0,400}?\bdata:(?:\s+[\w.-]{1,80}:[ \t]*[\"']?"
        r"[A-Za-z0-9+/]{0,4096}={0,2}[\"']?){0,20}?\s+[\w.-]{1,80}:[ \t]*[\"']?"
        r"([A-Za-z0-9+/]{12,}={0,2})",
        ("secret",),
    ),
    # Most providers give their tokens a short name in front and many random characters after it.
    Rule(
        "prefixed_token",
        r"(?<![\w./+-])(?!(?:sha\d{1,3}|md5|msg|toolu|call|req|resp|run|thread|asst|file|evt|chatcmpl"
        r"|sess?|org|user|cus|sub|price|prod|acct|rs|fc|srvtoolu|uuid|urn|blob|commit|img|id)[_-])"
        r"([A-Za-z][A-Za-z0-9]{1,9}(?:[_-][A-Za-z0-9]{1,6}){0,2}[_-][A-Za-z0-9]{32,200})(?![\w./+-])",
        (),
        entropy=3.6,
        careful=True,
        guess=True,
    ),
)
