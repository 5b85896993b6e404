"""What the name of a file says about the work: its kind, its place, its language."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["marks_of"]

Mark = tuple[str, str, float]
"""A topic, the pattern of names that speaks for it, and how strongly."""

_PLACES: tuple[tuple[re.Pattern[str], Mark], ...] = tuple(
    (re.compile(expression, re.IGNORECASE), (topic, pattern, weight))
    for expression, topic, pattern, weight in (
        (r"(^|/)test_[^/]*\.py$|_test\.(py|go)$", "testing", "test_*", 4.0),
        (r"\.(spec|test)\.[jt]sx?$", "testing", "*.spec.*", 4.0),
        (r"(Test|Spec|Tests)\.(java|kt|cs|scala|swift)$", "testing", "*Test.*", 4.0),
        (r"(^|/)(tests?|e2e|__tests__|spec)/", "testing", "tests/*", 2.0),
        (r"(^|/)conftest\.py$", "testing", "conftest.py", 3.0),
        (r"(^|/)(readme|changelog|contributing)[^/]*$", "docs", "README and its kin", 4.0),
        (r"(^|/)docs?/", "docs", "docs/*", 3.0),
        (r"(^|/)(dockerfile|docker-compose|compose\.ya?ml|chart\.yaml)", "devops", "Docker", 4.0),
        (r"(^|/)(\.github/workflows|helm|k8s|ansible|terraform)/", "devops", "deployment/*", 4.0),
        (r"(^|/)\.gitlab-ci\.yml$|(^|/)jenkinsfile$", "devops", "CI", 4.0),
        (r"(^|/)migrat(e|ions?)/", "database", "migrations/*", 4.0),
        (r"(^|/)(components?|pages|templates)/", "frontend", "components/*", 2.0),
        (r"(^|/)openapi[^/]*$|(^|/)api/", "api", "api/*", 2.5),
        (r"(^|/)podfile$|(^|/)(ios|android)/", "mobile", "ios/*, android/*", 4.0),
    )
)
_KINDS: dict[str, tuple[tuple[str, float], ...]] = {
    "tsx": (("frontend", 3.0), ("typescript", 1.2)),
    "jsx": (("frontend", 3.0), ("javascript", 1.2)),
    "vue": (("frontend", 3.0),),
    "svelte": (("frontend", 3.0),),
    "css": (("frontend", 3.0),),
    "scss": (("frontend", 3.0),),
    "html": (("frontend", 2.0),),
    "sql": (("database", 3.0),),
    "md": (("docs", 1.5),),
    "rst": (("docs", 2.0),),
    "tf": (("devops", 4.0),),
    "csv": (("data-analysis", 3.0),),
    "parquet": (("data-analysis", 3.0),),
    "xlsx": (("data-analysis", 3.0),),
    "ipynb": (("data-analysis", 3.0), ("python", 1.2)),
    "gd": (("game-development", 4.0),),
    "tscn": (("game-development", 4.0),),
    "dart": (("mobile", 3.0),),
    "swift": (("mobile", 2.0), ("swift", 1.2)),
    "kt": (("mobile", 1.5), ("kotlin", 1.2)),
    "ino": (("embedded", 4.0),),
    "svg": (("design", 2.5),),
    "tex": (("writing", 2.5),),
    "sh": (("shell", 2.0),),
    "py": (("python", 1.2),),
    "rs": (("rust", 1.2),),
    "go": (("go", 1.2),),
    "java": (("java", 1.2),),
    "js": (("javascript", 1.2),),
    "ts": (("typescript", 1.2),),
    "c": (("c", 1.2),),
    "cpp": (("c++", 1.2),),
    "cs": (("c#", 1.2),),
    "rb": (("ruby", 1.2),),
    "php": (("php", 1.2),),
}


# Texts of which a path has one wherever the expression of that number finds something: looking for
# them is ten times as fast.
_HINTS: tuple[tuple[str, int], ...] = tuple(
    (hint, number)
    for number, hints in enumerate(
        (
            ("test_", "_test."),
            (".spec.", ".test."),
            ("test.", "spec.", "tests."),
            ("test/", "tests/", "e2e/", "__tests__/", "spec/"),
            ("conftest.py",),
            ("readme", "changelog", "contributing"),
            ("doc/", "docs/"),
            ("dockerfile", "docker-compose", "compose.y", "chart.yaml"),
            ("workflows/", "helm/", "k8s/", "ansible/", "terraform/"),
            (".gitlab-ci.yml", "jenkinsfile"),
            ("migrate/", "migration/", "migrations/"),
            ("component/", "components/", "pages/", "templates/"),
            ("openapi", "api/"),
            ("podfile", "ios/", "android/"),
        )
    )
    for hint in hints
)


@lru_cache(maxsize=1024)
def marks_of(path: str) -> tuple[Mark, ...]:
    """What the path of a file speaks for."""
    path = path.replace("\\", "/")
    low = path.lower()
    likely = sorted({number for hint, number in _HINTS if hint in low})
    found = [_PLACES[number][1] for number in likely if _PLACES[number][0].search(path)]
    kind = low.rpartition(".")[2]
    found += [(topic, f"*.{kind}", weight) for topic, weight in _KINDS.get(kind, ())]
    return tuple(found)
