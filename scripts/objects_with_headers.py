"""objects_with_headers.py BUILD OTHER HEADERS: objects of the folder OTHER in which other versions of CUDA's headers may show.

BUILD is a whole build with the headers below HEADERS. Prints one object of OTHER for each source and each set of macros, of
those that include a header there; and all that BUILD does not have.
"""

import functools
import json
import pathlib
import subprocess
import sys


def commands(folder):
    return json.loads((pathlib.Path(folder) / "compile_commands.json").read_text(encoding="utf-8"))


def included(build):
    """{object: [the files that it was made of]}, as the compiler told ninja."""
    told = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    found, paths = {}, []
    for line in told.splitlines():
        if line.startswith("    "):
            paths.append(line.strip())
        elif ": #deps" in line:
            paths = found.setdefault(line.split(": #deps")[0], [])
    return found


def main():
    build, other, headers = sys.argv[1:]
    known, chosen = included(build), {}
    folder = pathlib.Path(headers).resolve()

    @functools.cache
    def is_header(path):
        return (pathlib.Path(build) / path).resolve().is_relative_to(folder)

    for command in commands(other):
        paths = known.get(command["output"])
        if paths is None or any(map(is_header, paths)):
            macros = sorted(word for word in command["command"].split() if word.startswith("-D"))
            chosen.setdefault((command["file"], *macros), command["output"])
    print(*sorted(chosen.values()), sep="\n")


if __name__ == "__main__":
    main()
