#!/usr/bin/env python3
"""The Python package without a GPU or an mgbd: what it makes of arguments, and of what `mgb` prints."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(REPOSITORY / "python"))

import mgb  # noqa: E402
from mgb import _installed, _status  # noqa: E402


class Sizes(unittest.TestCase):
    def test_reads_what_mgb_run_reads(self):
        right = {"12GiB": 12 << 30, " 1.5 g ": 3 << 29, "2GB": 2_000_000_000, "4096": 4096, "512M": 512 << 20, "1.T": 1 << 40, 7: 7}
        for value, wanted in right.items():
            self.assertEqual(mgb.size(value), wanted, value)

    def test_says_what_is_no_size(self):
        for wrong in ("", "GiB", "12 apples", "-1G", "99999999999T", "1.2.3M", ".", "0", "١GiB", "1e9", 0, -1, 2**64):
            with self.assertRaises(ValueError, msg=wrong) as raised:
                mgb.size(wrong)
            self.assertIn(repr(wrong), str(raised.exception))
        for wrong in (None, 1.5, True, b"1G", [1]):
            with self.assertRaises(TypeError, msg=wrong):
                mgb.size(wrong)


class Statuses(unittest.TestCase):
    def setUp(self):
        self.document = json.loads((REPOSITORY / "cli/src/example_view.json").read_text())

    def test_has_what_mgb_status_prints(self):
        status = _status.parse(self.document)
        self.assertEqual([gpu.index for gpu in status.gpus], [0, 1])
        # As probe/src/view/gpu.rs reckons it: the second is what the driver says, the first what is not charged.
        self.assertEqual([gpu.free_bytes for gpu in status.gpus], [18253611008, 73551314944])
        self.assertEqual(status.gpus[1].fails, "row remapping is pending")
        self.assertEqual(status.tasks[0].job, "00000000000000aa")
        self.assertEqual([wait.growth for wait in status.waiting], [False, False, True])
        self.assertIs(status.document, self.document)

    def test_later_fields_are_passed_over_and_missing_ones_named(self):
        self.document["of_a_later_version"] = self.document["tasks"][0]["of_a_later_version"] = 1
        _status.parse(self.document)
        del self.document["tasks"][0]["state"]
        with self.assertRaisesRegex(mgb.Error, "no state: .* of one version"):
            _status.parse(self.document)


class Programs(unittest.TestCase):
    def setUp(self):
        _installed.program.cache_clear()
        self.addCleanup(_installed.program.cache_clear)

    def fake(self, text):
        """A prefix whose mgb is this script."""
        folder = tempfile.TemporaryDirectory(prefix="a place für tests ")
        self.addCleanup(folder.cleanup)
        program = pathlib.Path(folder.name, "bin/mgb")
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
        patched = mock.patch.dict(os.environ, {"MGB_PREFIX": folder.name})
        patched.start()
        self.addCleanup(patched.stop)

    def test_run_passes_arguments_on(self):
        self.fake('printf "%s|" "$@"')
        options = {"stdout": subprocess.PIPE, "text": True}
        said = mgb.run(["a b", "--need", b"c"], need="8MiB", gpus=2, latency=True, **options).stdout
        self.assertEqual(said, "run|--need|8388608|--gpus|2|--latency|--|a b|--need|c|")
        self.assertEqual(mgb.run(pathlib.Path("a b"), **options).stdout, "run|--|a b|")
        with self.assertRaises(ValueError):
            mgb.run("true", need=-1)

    def test_status_tells_failures_apart(self):
        self.fake("echo 'no mgbd runs' >&2; exit 3")
        with self.assertRaisesRegex(mgb.NotRunningError, "no mgbd runs"):
            mgb.status()
        self.fake("exit 2")
        with self.assertRaises(mgb.Error):
            mgb.status()

    def test_a_missing_program_is_named_with_the_way_out(self):
        with mock.patch.dict(os.environ, {"PATH": "", "MGB_PREFIX": "/none"}):
            with self.assertRaisesRegex(mgb.NotInstalledError, "found no program mgb: .*venv"):
                mgb.program()


if __name__ == "__main__":
    unittest.main()
