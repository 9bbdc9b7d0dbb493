"""Runs the tests of modules that are written for unittest, the arguments, and prints each with what came out of it: PASSED, SKIPPED, or FAILED
with the kind of error and CUDA's name for it, if it has one. A minus before a
name is for one of NVIDIA's libraries that they do not find, wherever the machine has it."""

import re
import sys
import unittest

from cuda import pathfinder


class Outcomes(unittest.TestResult):
    """Prints an outcome as soon as it is known. A test with parts fails with the first of them that does."""

    def __init__(self):
        super().__init__()
        self.failed = set()

    def tell(self, test, outcome):
        """One line."""
        print(f"{test.id()}: {outcome}", flush=True)

    def tell_error(self, test, error):
        """Of an error's text only what does not change from run to run."""
        if error[0].__name__ == "Skipped":  # pytest's
            self.tell(test, "SKIPPED")
        elif test.id() not in self.failed:
            self.failed.add(test.id())
            name = re.search(r"CUDA_ERROR_\w+", str(error[1]))
            self.tell(test, " ".join(["FAILED", error[0].__name__, *([name[0]] if name else [])]))

    def addSuccess(self, test):
        if test.id() not in self.failed:
            self.tell(test, "PASSED")

    def addError(self, test, err):
        self.tell_error(test, err)

    def addFailure(self, test, err):
        self.tell_error(test, err)

    def addSubTest(self, test, subtest, err):
        if err is not None:
            self.tell_error(test, err)

    def addSkip(self, test, reason):
        self.tell(test, "SKIPPED")

    def addExpectedFailure(self, test, err):
        self.tell(test, "PASSED, failing as expected")

    def addUnexpectedSuccess(self, test):
        self.tell(test, "FAILED by passing")


def hide(names):
    """Libraries that are not found from now on."""
    find = pathfinder.load_nvidia_dynamic_lib

    def found(name):
        if name in names:
            raise pathfinder.DynamicLibNotFoundError(f"{name} is hidden")
        return find(name)
    pathfinder.load_nvidia_dynamic_lib = found


if __name__ == "__main__":
    hide([name[1:] for name in sys.argv[1:] if name.startswith("-")])
    unittest.defaultTestLoader.loadTestsFromNames([name for name in sys.argv[1:] if not name.startswith("-")]).run(Outcomes())
