"""The framework's own tests of session managers, on our repository."""

from __future__ import annotations

_ON_HOLDFAST = """
    import tests.fixtures.mock_session_repository as theirs

    import holdfast
    from holdfast.integrations.strands import HoldfastSessionRepository


    class OnHoldfast(HoldfastSessionRepository):
        def __init__(self):
            super().__init__(holdfast.open("memory:"))


    theirs.MockedSessionRepository = OnHoldfast
"""


def test_every_test_of_the_repository_session_manager_passes(own_tests):
    """All of them, with our repository in the place of their own."""
    path = "tests/strands/session/test_repository_session_manager.py"
    # Their conftest.py is for other tests, and needs packages for these.
    ends = own_tests("strands-agents", _ON_HOLDFAST, "--noconftest", path)
    assert ends == {"passed": 51}
