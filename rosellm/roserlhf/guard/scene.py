"""What is known about the place where a call would run: working directory, home, variables, links and files made before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rosellm.roserlhf.guard.act import Act

DEEPEST = 6
"""Languages inside languages that are followed; deeper ones are an `opaque` act."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Surroundings of a piece of code that is read, never run.

    A reader of one language hands code of another one to `read`, which knows all readers: so that none imports another.
    """

    workdir: str
    """Absolute; what relative paths start from."""
    read: Callable[[str, str, Scene], list[Act]]
    """`read(language, code, scene)`: acts of code of a language: shell, python, git, patch, path, url, query, prose, or a file's
    extension such as `js`; a language that no reader knows gives its paths and words."""
    home: str = "/root"
    variables: Mapping[str, str] = field(default_factory=dict)
    """Shell and environment variables whose values are known."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Links made before: absolute path to absolute path."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Contents written before, by absolute path: what is run or imported from there is read, too."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Copies made before: absolute path to that of the original; to read one is to read the other, to write it is not."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Python variables of an interpreter that goes on, and the expressions that they were bound to."""
    depth: int = 0
    argument: str = ""
    """Argument of the call that the code is; a reader whose acts name it spares that they are made again to do so."""

    def inside(self, *, variables: Mapping[str, str] | None = None, files: Mapping[str, str] | None = None) -> Scene:
        """Return the scene of code inside this code, one deeper; with variables or files of its own if they are given."""
        return Scene(
            self.workdir,
            self.read,
            self.home,
            self.variables if variables is None else variables,
            self.links,
            self.files if files is None else files,
            self.copies,
            self.names,
            self.depth + 1,
        )

    def in_directory(self, workdir: str) -> Scene:
        """Return the same scene with another working directory."""
        return Scene(workdir, self.read, self.home, self.variables, self.links, self.files, self.copies, self.names, self.depth)

    def of_argument(self, argument: str) -> Scene:
        """Return the same scene for code that is an argument of a call."""
        return Scene(
            self.workdir,
            self.read,
            self.home,
            self.variables,
            self.links,
            self.files,
            self.copies,
            self.names,
            self.depth,
            argument,
        )

    def apart(self) -> Scene:
        """Return the same scene with links and variables of its own, for code that changes them."""
        return Scene(
            self.workdir,
            self.read,
            self.home,
            dict(self.variables),
            dict(self.links),
            self.files,
            self.copies,
            self.names,
            self.depth,
        )
