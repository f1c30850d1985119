#!/usr/bin/env python3
"""Installs a staged MGB, and removes exactly what it has installed.

    install.py install STAGED PREFIX PART...     parts: see tools/layout.sh
    install.py uninstall PREFIX
    with --destdir FOLDER in place of /

The files, and the folders that it makes, stand in PREFIX/lib/mgb/share/manifest, which is written before the first of
them: an installation that was interrupted can be removed, or done again. Files are replaced by renames, so that programs
that run go on with the old ones; those of an earlier version that are no more are removed.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
MANIFEST = "lib/mgb/share/manifest"


class Refused(Exception):
    """What cannot be done, for people."""


class Place:
    """A folder that stands for /, and PREFIX below it. Paths in manifests begin with PREFIX."""

    def __init__(self, destdir, prefix):
        if not prefix.startswith("/"):
            raise Refused(f"PREFIX={prefix} is no absolute path")
        self.root = os.path.abspath(destdir or "/")
        self.prefix = os.path.normpath(prefix).replace("//", "/")
        self.manifest = f"{self.prefix.rstrip('/')}/{MANIFEST}"

    def at(self, path):
        return os.path.join(self.root, path.lstrip("/"))

    def read(self):
        """The files and the folders of the installation that is there."""
        try:
            text = Path(self.at(self.manifest)).read_text()
        except FileNotFoundError:
            return set(), set()
        found = {"file": set(), "folder": set()}
        for line in text.splitlines():
            kind, _, path = line.partition(" ")
            if kind not in found or not path.startswith("/") or ".." in path.split("/"):
                raise Refused(f"{self.at(self.manifest)}: what is `{line}`?")
            found[kind].add(path)
        return found["file"], found["folder"]

    def write(self, files, folders):
        text = [f"folder {path}\n" for path in sorted(folders)] + [f"file {path}\n" for path in sorted(files)]
        new = self.at(self.manifest) + ".new"
        Path(new).write_text("".join(text))
        os.chmod(new, 0o644)
        os.replace(new, self.at(self.manifest))

    def remove(self, files):
        for path in sorted(files):
            for name in (path, new_name(path)):
                try:
                    os.unlink(self.at(name))
                except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                    # Somebody else's in its place is theirs.
                    pass


def new_name(path):
    """Where a file lies until it takes the place of the one before."""
    folder, name = os.path.split(path)
    return f"{folder}/.{name}.mgb-new"


def above(path):
    """The folders that a path lies in, without /."""
    while (path := os.path.dirname(path)) != "/":
        yield path


def walk(root):
    """All files and all folders below a folder, as paths that begin with /."""
    files, folders = set(), set()
    for folder, inner, names in os.walk(root):
        short = "/" + os.path.relpath(folder, root)
        short = "" if short == "/." else short
        for name in [*inner, *names]:
            path = os.path.join(folder, name)
            is_folder = os.path.isdir(path) and not os.path.islink(path)
            (folders if is_folder else files).add(f"{short}/{name}")
    return files, folders


def install(place, staged, parts):
    with tempfile.TemporaryDirectory(prefix="mgb-install-") as scratch:
        command = [HERE / "layout.sh", staged, scratch, place.prefix, *parts]
        if subprocess.run(command).returncode != 0:
            raise Refused("nothing has been installed")
        files, folders = walk(scratch)
        files.add(place.manifest)
        folders |= set(above(place.manifest))
        old, made = place.read()
        made |= {path for path in folders if not os.path.isdir(place.at(path))}
        os.makedirs(place.at(os.path.dirname(place.manifest)), exist_ok=True)
        place.write(files | old, made)
        for path in folders:
            os.makedirs(place.at(path), exist_ok=True)
        for path in sorted(files - {place.manifest}):
            shutil.copy2(scratch + path, place.at(new_name(path)), follow_symlinks=False)
            os.replace(place.at(new_name(path)), place.at(path))
        place.remove(old - files)
        place.write(files, made)
        remove_folders(place, made - folders)
        print(f"install: {len(files)} files in {place.at(place.prefix)}; `make uninstall` with the same PREFIX and DESTDIR "
              "removes them")


def remove_folders(place, folders):
    """Removes the empty ones; the others, which have files of somebody else's."""
    left = []
    for path in sorted(folders, reverse=True):
        try:
            os.rmdir(place.at(path))
        except FileNotFoundError:
            pass
        except OSError:
            left.append(place.at(path))
    return left


def uninstall(place):
    files, made = place.read()
    if not files:
        raise Refused(f"nothing to remove: there is no {place.at(place.manifest)}; name the PREFIX and DESTDIR of "
                      "`make install`")
    place.remove(files - {place.manifest})
    place.remove({place.manifest})
    for path in remove_folders(place, made):
        print(f"uninstall: {path} stays: it has files that are not MGB's")
    print(f"uninstall: {len(files)} files removed from {place.at(place.prefix)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--destdir", default="", help="the folder that stands for /")
    tasks = parser.add_subparsers(dest="task", required=True)
    one = tasks.add_parser("install")
    one.add_argument("staged")
    one.add_argument("prefix")
    one.add_argument("parts", nargs="+")
    tasks.add_parser("uninstall").add_argument("prefix")
    arguments = parser.parse_args()
    os.umask(0o022)
    try:
        place = Place(arguments.destdir, arguments.prefix)
        if arguments.task == "install":
            install(place, arguments.staged, arguments.parts)
        else:
            uninstall(place)
    except PermissionError as error:
        print(f"{arguments.task}: {error}: run it as root, or name a PREFIX of your own, as $HOME/.local", file=sys.stderr)
        return 1
    except (Refused, OSError) as error:
        print(f"{arguments.task}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
