"""Finds the programs of a folder: one for each makefile with CUDA sources below it, and one for each source without."""

import dataclasses
import fnmatch
import pathlib

MAKEFILES = ("GNUmakefile", "makefile", "Makefile")


@dataclasses.dataclass
class Program:
    """One program; its paths are relative to the folder of programs."""
    name: str
    folder: pathlib.Path
    # The source where there is no makefile.
    source: str | None = None


def makefile(folder):
    """The makefile that make would take, or None."""
    return next((folder / name for name in MAKEFILES if (folder / name).is_file()), None)


def find(root, matches, every, first):
    """The programs of `root` in the order of their names; of those that match, every `every`th, from the `first`."""
    programs = {}
    for source in sorted(root.rglob("*.cu")):
        # The nearest makefile is the program's; one that only calls others has no sources of its own near.
        owner = next((folder for folder in source.parents
                      if folder.is_relative_to(root) and folder != root and makefile(folder)), None)
        if owner is None:
            relative = source.relative_to(root)
            programs[str(relative)] = Program(str(relative), relative.parent, relative.name)
        else:
            relative = owner.relative_to(root)
            programs[str(relative)] = Program(str(relative), relative)
    chosen = [programs[name] for name in sorted(programs)
              if not matches or any(fnmatch.fnmatch(name, pattern) for pattern in matches)]
    return chosen[first::every]
