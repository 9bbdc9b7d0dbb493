"""Which file of src uses which, by what it includes and by the symbols that its object needs, and what src/rooms.txt says
of that.

tests/docs/rooms.py --write   makes the table of docs/architecture.md from the list
tests/docs/rooms.py           prints what is wrong, and each use of a file of another room
The objects are those of $BUILD_DIR or build/.
"""

import dataclasses
import fnmatch
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE, LIST, PAGE = ROOT / "src", ROOT / "src/rooms.txt", ROOT / "docs/architecture.md"
BUILD = pathlib.Path(os.environ.get("BUILD_DIR", ROOT / "build")).resolve()
# Folders of objects, by the folder that their names start from.
LIBRARY = {"interpose": ["libpoolcuda.so.p", "libnamed.a.p", "libloader.a.p"]}
COMMAND = {"cli": ["poolcuda.p"]}
# In place of a libc of their time or of a toolchain's start files: for whoever needs these, not a part of the room.
LIBC = {"interpose/small_libc.c", "interpose/toolchain_needs.c"}
BEGIN, END = "<!-- rooms: made from src/rooms.txt by tests/docs/rooms.py --write -->", "<!-- /rooms -->"


@dataclasses.dataclass
class Room:
    name: str
    files: list
    job: str
    uses: dict = dataclasses.field(default_factory=dict)
    breaches: list = dataclasses.field(default_factory=list)

    def has(self, file):
        return any(file.startswith(each) if each.endswith("/") else fnmatch.fnmatch(file, each) for each in self.files)


class Rooms:
    """What the list says."""

    def __init__(self, text):
        self.rooms, self.in_cycles = {}, None
        for number, line in enumerate(text.splitlines(), 1):
            words = line.strip()
            if not words or words.startswith("#"):
                continue
            room = next(reversed(self.rooms.values()), None)
            if match := re.fullmatch(r"room (\w+) = ([^:]+): (.+)", words):
                self.rooms[match[1]] = Room(match[1], match[2].split(", "), match[3])
            elif match := re.fullmatch(r"files in cycles: (\d+)", words):
                self.in_cycles = int(match[1])
            elif room and (match := re.fullmatch(r"uses (\w+): (.+)", words)):
                room.uses[match[1]] = match[2]
            elif room and (match := re.fullmatch(r"breach (\S+) -> (\S+)", words)):
                room.breaches.append((match[1], match[2]))
            else:
                raise ValueError(f"{LIST.name}:{number}: {words}: expected room, uses with a reason, breach, or files in cycles")

    def of(self, file):
        return next((room.name for room in self.rooms.values() if room.has(file)), None)

    def may(self, one, other):
        return one == other or other == "base" or other in self.rooms[one].uses


def sources():
    return sorted(str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.[chS]"))


def included():
    """{(file, file it includes)}"""
    found = set()
    for file in sources():
        for name in re.findall(r'^#include "([^"]+)"', (SOURCE / file).read_text(encoding="utf-8"), re.M):
            for place in ((SOURCE / file).parent / name, SOURCE / name):
                if place.exists():
                    found.add((file, str(place.resolve().relative_to(SOURCE))))
                    break
    return found


def objects(targets):
    """{file: its object}"""
    found = {}
    for folder, parts in targets.items():
        names = {os.path.relpath(file, folder).replace("/", "_") + ".o": file for file in sources()}
        for part in parts:
            for path in sorted((BUILD / "src" / folder).glob(f"{part}/*.o")):
                if names.get(path.name):
                    found[names[path.name]] = path
    return found


def linked(targets):
    """(the files that have an object, {(file, file whose symbol it needs)}): of what is linked to one thing."""
    defined, needed, by_file = {}, {}, objects(targets)
    by_path = {str(path): file for file, path in by_file.items()}
    listed = subprocess.run(["nm", "-A", "-P", *by_path], capture_output=True, text=True, check=True).stdout if by_path else ""
    for line in listed.splitlines():
        path, rest = line.split(": ", 1)
        symbol, kind = rest.split()[:2]
        if kind in "Uwv":
            needed.setdefault(by_path[path], set()).add(symbol)
        elif kind.isupper():
            defined[symbol] = by_path[path]
    files = set(by_file) - LIBC
    uses = {(file, defined[symbol]) for file, symbols in needed.items() for symbol in symbols if symbol in defined}
    return files, {(one, other) for one, other in uses if one != other and {one, other} <= files}


def cycles(files, uses):
    """The sets of two files or more each of which uses all others, if only through others."""
    after = {file: {other for one, other in uses if one == file} for file in files}

    def reached(file):
        found, left = set(), [file]
        while left:
            for other in after[left.pop()] - found:
                found.add(other)
                left.append(other)
        return found

    reach = {file: reached(file) for file in files}
    sets = {frozenset(other for other in reach[file] if file in reach[other]) for file in files if file in reach[file]}
    return sorted(map(sorted, sets))


def wrong(rooms, uses, library):
    """What of these uses the list does not say, or says in vain. library: what linked() found in the preloaded object."""
    told, used = [], {name: set() for name in rooms.rooms}
    listed = {pair for room in rooms.rooms.values() for pair in room.breaches}
    against = set()
    for one, other in sorted(uses):
        room, target = rooms.of(one), rooms.of(other)
        for file, its in ((one, room), (other, target)):
            if not its:
                told.append(f"{file}: in no room of src/rooms.txt")
        if not room or not target:
            continue
        used[room].add(target)
        if not rooms.may(room, target):
            against.add((one, other))
            if (one, other) not in listed:
                told.append(f"src/{one} uses src/{other}: {room} may not use {target}. Find another way; or give the arrow "
                            "a line, with its reason, in src/rooms.txt")
    told += [f"src/rooms.txt: breach {one} -> {other}: no longer exists, take the line out"
             for one, other in sorted(listed - against)]
    for name, room in rooms.rooms.items():
        told += [f"src/rooms.txt: {name} uses {each}: nothing does so, take the line out"
                 for each in room.uses if each not in used[name]]
    count = sum(map(len, cycles(*library)))
    if count > rooms.in_cycles:
        told.append(f"{count} files of the preloaded object are in cycles, expected {rooms.in_cycles}: a file is reached again "
                    "from what it uses")
    if count < rooms.in_cycles:
        told.append(f"{count} files of the preloaded object are in cycles, no longer {rooms.in_cycles}: lower the number "
                    "in src/rooms.txt")
    return list(dict.fromkeys(told))


def table(rooms, count):
    """The part of docs/architecture.md that is made from the list. count: the preloaded object's files."""
    lines = ["| room | its job | may call |", "|---|---|---|"]
    for name, room in rooms.rooms.items():
        places = ", ".join(f"`src/{each.rstrip('/')}`" for each in room.files)
        lines.append(f"| {places} | {room.job} | {', '.join(room.uses) or ('libc' if name == 'base' else '-')} |")
    against = {name: len(room.breaches) for name, room in rooms.rooms.items() if room.breaches}
    uses = ", ".join(f"{n} of `src/{name}`" for name, n in against.items())
    lines += ["", "Every room may also call what stands on libc alone. `src/rooms.txt` has the reason of each arrow. "
              + (f"Uses against them, which are to go: {uses}." if uses else "No file uses another against them."),
              f"Of the library's {count} files {rooms.in_cycles or 'none'} are in cycles. `tests/docs/test_rooms.py` compares this with "
              "the code: both numbers may only shrink."]
    return "\n".join(lines)


def page_with(text, made):
    """The page with that part replaced."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"{PAGE.name}: expected one {BEGIN} and one {END}")
    return text[:text.index(BEGIN)] + f"{BEGIN}\n{made}\n{text[text.index(END):]}"


def look():
    """(the list, all uses, what linked() found in the preloaded object)"""
    rooms = Rooms(LIST.read_text(encoding="utf-8"))
    library = linked(LIBRARY)
    uses = included() | library[1]
    if objects(COMMAND):
        uses |= linked(COMMAND)[1]
    return rooms, uses, library


def main():
    rooms, uses, library = look()
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), table(rooms, len(library[0]))), encoding="utf-8")
        return 0
    for one, other in sorted(uses):
        if rooms.of(one) != rooms.of(other) != "base":
            print(f"{one} -> {other}")
    print("\n".join(wrong(rooms, uses, library)) or "as src/rooms.txt says")
    return 0


if __name__ == "__main__":
    sys.exit(main())
