"""Prints what the build has to make for these tests, for scripts/test --cluster."""

import conftest

FILES = (conftest.PLUGIN, conftest.LIBRARY, conftest.COMMAND, conftest.DRIVER / "libcuda.so.1", conftest.RUNTIME / "libcudart.so.13",
         *(conftest.SAMPLES / name for name in ("varying", "three_sites")), *(conftest.PROGRAMS / name for name in ("ranks", "last_words")),
         conftest.UNHURRIED)

if __name__ == "__main__":
    print(*(file.relative_to(conftest.BUILD) for file in FILES))
