"""One of the states in which power loss can leave a disk, by chance: for long random runs."""

from __future__ import annotations

from random import Random

from holdfast.testing._crash_states import CrashState, _Medium, _names, _replaced, _tree
from holdfast.testing._effects import Effect, Image, Write

__all__ = ["sampled_power_loss"]

_WHOLE_PART = 0.3
_ZEROS_PART = 0.15


def sampled_power_loss(image: Image, effects: list[Effect], chance: Random) -> CrashState:
    """What is left when the power goes after all these effects.

    The names that were not synced are there up to any one of them; of each file some of the writes
    that were not synced, the last of them cut at any byte, or zeros up to the new size.
    """
    medium = _Medium(image)
    for effect in effects:
        medium.take(effect)
    choices = list(medium.entry_choices(subsets=False))
    paths = _tree(chance.choice(choices), medium.contents)
    names = _names(paths)
    for inode in sorted(medium.unsafe):
        paths = _replaced(paths, names, inode, _sampled_content(medium, inode, chance))
    return CrashState(paths, (), len(effects))


def _sampled_content(medium: _Medium, inode: int, chance: Random) -> bytes:
    whole = medium.volatile(inode)
    content = medium.contents.get(inode, b"")
    luck = chance.random()
    if luck < _WHOLE_PART:
        return whole
    changes = medium.unsafe[inode]
    last = chance.randrange(len(changes))
    for change in changes[:last]:
        content = change.on(content)
    cut = changes[last]
    if isinstance(cut, Write):
        content = cut.on(content, chance.randint(0, len(cut.data)))
    return content.ljust(len(whole), b"\0") if luck > 1 - _ZEROS_PART else content
