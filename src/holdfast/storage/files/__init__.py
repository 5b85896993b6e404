"""The file store: a directory that is complete by itself and can be copied by hand."""

from __future__ import annotations

from holdfast._lazy import lazy

TYPE_CHECKING = False  # loading `typing` takes longer than the whole of a short command
if TYPE_CHECKING:
    from holdfast.storage.files.journal import Touched
    from holdfast.storage.files.tree import Tree, real_path

__getattr__ = lazy(__name__, {"journal": "Touched", "tree": "Tree real_path"})

__all__ = ["Touched", "Tree", "real_path"]
