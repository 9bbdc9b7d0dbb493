"""The comments about locks are true: a function asserts first of all what its comment says of the lock. The wording is
fixed, in src/base/lock.h, and for the simulated GPU in its driver/lock.h; another one about a lock that is held fails here, since
no assertion would be asked for.

And a function of src takes a lock once and gives it back once, at one level: what is done with the lock is then one piece of
text, and what is done without it another. One that has the lock on entry may give it back and take it again in this way, or
give it back for good; one that returns with it takes it. MORE_SCOPES names the functions that still do otherwise."""

import dataclasses
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE, SIMULATED = ROOT / "src", ROOT / "subprojects/simcuda"
# The lock that is meant by "Lock held." in a folder, or in a file; elsewhere the comment names it: "LOCK_POOL held."
LOCKS = {"src/pool": "LOCK_POOL", "src/keep": "LOCK_POOL", "src/sources": "LOCK_POOL", "src/check": "LOCK_CHECK", "src/order": "LOCK_ORDER",
         "src/trace/recorder": "LOCK_RECORDER", "subprojects/simcuda/driver": "sim"}
# Without locks of such kinds, or where they are described.
LEFT_OUT = [SOURCE / "cli", SOURCE / "base/lock.h", SOURCE / "base/lock_check.c", SIMULATED / "tests"]
NAMED = r"(?P<lock>\b[Ll]ock|\bLOCK_[A-Z]+)"
SAYS = re.compile(rf"{NAMED} (?P<what>held|not held|not needed)\b|\b(?P<cache>[Cc]ache locked)\b")
GROUP = re.compile(rf"All below: (?:{SAYS.pattern}|as each says)")
SECTION = re.compile(r"\w+\.[ch]\b|---")
# Of a lock in such words, though none of the fixed ones.
LOOSE = re.compile(r"\block(?:s|ed)?\b[^.;:]*\b(?:held|hold|holding)\b|\b(?:held|holds?|holding|needs?) [^.;:]*\block(?:ed)?\b", re.I)
OTHER = re.compile(  # what is said of all locks at once, of the time between, of fork, of another's lock
    r"no lock is held|none is held across|[Ll]ocks? (?:is|are) held across fork|not in between|[Tt]he loader's (?:own )?lock|"
    r"the loader, whose lock|a lock on the byte", re.I)
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:\\\n|[^\n])*|[{};()]', re.S | re.M)
FUNCTION = re.compile(r"^(?:[\w\s*]|__attribute__\(\(.*?\)\)\s)*?\b(\w+)\s*\((?!\()(?:.*)\)\s*(?:__attribute__.*)?$", re.S)

# How a lock of src/base/lock.h is taken and given back; the first argument says which.
TAKES, DROPS = ["pool_lock", "context_lock_current", "check_lock", "lock_take"], ["pool_unlock", "pool_unlock_between", "check_unlock", "lock_drop"]
STEP = re.compile(rf"[{{}};]|\breturn\b(?P<calls> \w+\()?|\b(?P<take>{'|'.join(TAKES)})\((?P<taken>[^,()]*)|"
                  rf"\b(?P<drop>{'|'.join(DROPS)})\((?P<dropped>[^,()]*)")
# {file: {function: why it is as it is}}: the list may only shrink.
MORE_SCOPES = {
    "src/check/gpu.c": {
        "submit_in": "one of two endings, each with a scope of its own",
    },
    "src/check/report.c": {"log_file": "looks whether there is a file, opens one without the lock, and keeps it if no other thread has"},
    "src/check/results.c": {"read_result": "one of two endings, each with a scope of its own"},
    "src/pool/clear.c": {"clear_block": "needs the lock again only where it does not clear: to take it after each would cost 300 instructions"},
    "src/pool/malloc.c": {"open_request": "returns with the lock if the request is the pool's, which is then served in the same scope"},
}


@dataclasses.dataclass
class Function:
    """A declaration, or a definition: then `body` is what follows the brace, without comments."""
    name: str
    path: pathlib.Path
    line: int
    static: bool
    comment: str
    group: str
    body: str = None
    offset: int = 0  # of the body in the text

    def where(self):
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.name}"


def plain(comment):
    """A comment's words on one line."""
    return " ".join(re.sub(r"^\s*(?:/\*|\*/|\*|//)|\*/\s*$", " ", comment, flags=re.M).split())


def without_comments(text):
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", text, flags=re.S)


def functions_in(path, text):
    """All functions of a file, in order."""
    found, depth, start, comments, group = [], 0, 0, [], ""
    opened, last = 0, None  # the brace at depth 0, and the last declaration, for the comment on its line

    def ended(end, definition):
        nonlocal start, comments, last
        chunk = without_comments(text[start:end]).strip()
        begin = end - len(text[start:end].lstrip())
        above = [each for each in comments if each[1] <= begin]
        attached = plain(above[-1][0]) if above and text[above[-1][1]:begin].count("\n") == 1 else ""
        match = FUNCTION.match(chunk)
        last = None
        if match and not re.match(r"(?:typedef|return|extern struct|struct \w+ \{|enum(?: \w+)? \{)", chunk) and "=" not in chunk.split("(")[0]:
            last = Function(match[1], path, text.count("\n", 0, begin) + 1, chunk.startswith("static") or " static " in chunk,
                            attached, group)
            if definition:
                last.offset = end + 1
            found.append(last)
        comments = []

    for token in TOKEN.finditer(text):
        word = token[0]
        if word.startswith(("/*", "//")):
            if depth:
                continue
            words = plain(word)
            same_line = last is not None and "\n" not in text[start:token.start()]
            if same_line:
                last.comment += " " + words
            else:
                comments.append((word, token.end()))
                if GROUP.search(words):
                    group = words
                elif SECTION.match(words):
                    group = ""
            if not text[start:token.start()].strip():
                start = token.end()
        elif word.lstrip().startswith("#"):
            if not depth:
                start = token.end()
        elif word in "({":
            if word == "{" and depth == 0:
                ended(token.start(), True)
                opened = token.end()
            depth += 1
        elif word in ")}":
            depth -= 1
            if word == "}" and depth == 0:
                if last is not None:
                    last.body = without_comments(text[opened:token.start()])
                start = token.end()
            elif depth == 0 and re.match(r"\n\s*\n", text[token.end():]):  # a macro that makes functions
                start, comments = token.end(), []
        elif word == ";" and depth == 0:
            ended(token.start(), False)
            start = token.end()
    return found


def said(words):
    """What a comment says of a lock: "held" and so on with the lock's name, or None."""
    match = SAYS.search(words)
    return match and ((match["what"], match["lock"]) if match["what"] else ("locked", "cache"))


def group_says(function):
    match = GROUP.search(function.group)
    return said(match[0]) if match else None


def own_says(function):
    return said(GROUP.sub("", function.comment))


def assertion(path, what, lock):
    """The statement that a comment asks for; "" for none."""
    if what == "not needed":
        return ""
    if what == "locked":
        return "cache_check_locked(cache);"
    if not lock.startswith("LOCK_"):
        name = path.relative_to(ROOT).with_suffix("").as_posix()
        lock = next((each for place, each in LOCKS.items() if name == place or name.startswith(place + "/")), None)
        if not lock:
            raise ValueError("names no lock, expected LOCK_POOL held or the like")
    kind = "sim_check" if lock == "sim" else "lock_check"
    return f"{kind}_none();" if what == "not held" else f"{kind}_held({'' if lock == 'sim' else lock});"


def struct_members(text, name):
    """{member: comment} of a struct of functions: what it says holds for every function that is put there."""
    body = text[text.index(f"\nstruct {name} {{"):]
    body, group, comment, members = body[:body.index("\n};")], "", "", {}
    for token in re.finditer(r"/\*.*?\*/|\(\*(\w+)\)\(|\n\n", body, re.S):
        if token[1]:
            members[token[1]] = comment if said(comment) else group
        elif token[0] == "\n\n":
            comment = ""
        elif GROUP.search(plain(token[0])):
            group = plain(token[0]).replace("All below:", "")
        else:
            comment = plain(token[0])
    return members


def in_structs(path, text, members):
    """The functions that a file puts into such a struct, each as if it were declared with the member's comment."""
    return [Function(name, path, text.count("\n", 0, text.index(f".{member} = {name}")) + 1, False, members[member], "")
            for member, name in re.findall(r"\.(\w+) = (\w+)", text) if members.get(member)]


def sources(texts):
    """{key: [declarations and definitions]}: of one function. Static ones are their file's."""
    members = {name: struct_members(texts[SOURCE / path], name)
               for name, path in (("keeper", "keep/keeper.h"), ("source", "pool/policy.h"))}
    by_key = {}
    for path, text in texts.items():
        for function in functions_in(path, text):
            key = (function.name, path) if function.static else (function.name, SIMULATED in path.parents and path.parts[-2])
            by_key.setdefault(key, []).append(function)
    for path, text in texts.items():
        defined = re.search(r"^const struct (keeper|source) \w+ = \{", text, re.M) if path.suffix == ".c" else None
        if defined:
            for function in in_structs(path, text, members[defined[1]]):
                by_key.get((function.name, path), by_key.get((function.name, False), [])).append(function)
    return by_key


def expected(functions):
    """The assertion with which the function's definition has to begin, None if no comment says anything of a lock."""
    for says in (own_says, group_says):
        asked = {assertion(each.path, *says(each)) for each in functions if says(each)}
        if len(asked) > 1:
            raise ValueError(f"comments contradict each other: {', '.join(sorted(map(repr, asked)))}")
        if asked:
            return asked.pop()
    return None


BEGINS = re.compile(r"\s*((?:lock|sim|cache)_check_\w+\(\w*\);)")


def breaches(texts):
    """What is wrong with the sources {path: text}, a line each."""
    wrong, understood = [], set()
    for functions in sources(texts).values():
        defined = [each for each in functions if each.body is not None]
        try:
            asked = expected(functions)
        except ValueError as error:
            wrong.append(f"{functions[0].where()}: {error}")
            continue
        if asked is None and not defined:
            continue
        if asked is not None and not defined:
            wrong.append(f"{functions[0].where()}: a comment speaks of its lock, and it is defined nowhere")
        for each in defined:
            match = BEGINS.match(each.body)
            if match:
                understood.add((each.path, each.offset))
            if asked and (not match or match[1] != asked):
                wrong.append(f"{each.where()}: has to begin with {asked}, as a comment says")
            if not asked and match:
                wrong.append(f"{each.where()}: begins with {match[1]}, and no comment says so")
    for path, text in texts.items():
        for begun in re.finditer(rf"^[^\s#].*\{{\n{BEGINS.pattern}", text, re.M):
            if (path, text.index("{\n", begun.start()) + 1) not in understood:
                wrong.append(f"{path.relative_to(ROOT)}: {begun[0].splitlines()[0]}: not understood by this test")
        for comment in re.finditer(r"/\*.*?\*/|//[^\n]*", text, re.S):
            words = plain(comment[0])
            for sentence in re.split(r"(?<=[.;:])\s", words):
                if LOOSE.search(sentence) and not SAYS.search(sentence) and not OTHER.search(sentence):
                    wrong.append(f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, comment.start()) + 1}: "
                                 f"\"{sentence}\": not one of the wordings in src/base/lock.h")
    return wrong


def is_branch(statement):
    """Whether what follows this beginning of a statement is not always done."""
    return re.match(r"\s*(?:if|else|for|while|do|case)\b", statement) or re.search(r"[?:]|&&|\|\|", statement) or \
        statement.count(")") > statement.count("(")  # the end of a loop's head


def lock_steps(body):
    """{lock: [(what, block)]} of a function: "take", "drop", "return", each with the blocks around it, by their numbers."""
    steps, blocks, begun, count = {}, [], 0, 0
    for token in STEP.finditer(body):
        lock = token["taken"] or token["dropped"]
        if lock:
            count += 1
            place = [*blocks, count] if is_branch(body[begun:token.start()]) else list(blocks)
            steps.setdefault(lock, []).append(("take" if token["take"] else "drop", place))
        elif token[0].startswith("return") and not token["calls"]:  # a function that is called on the way out has the lock
            for each in steps.values():
                each.append(("return", []))
        if token[0] == "{":
            count += 1
            blocks.append(count)
        elif token[0] == "}":
            blocks.pop()
        if token[0] in "{};":
            begun = token.end()
    return steps


def scope_breach(body):
    """What is wrong with a function's scopes of its locks, "" if nothing is."""
    for lock, steps in lock_steps(body).items():
        takes, drops = ([place for each, place in steps if each == what] for what in ("take", "drop"))
        for what, places in (("takes", takes), ("gives back", drops)):
            if len(places) > 1:
                return f"{what} the lock of {lock} in {len(places)} places"
        if takes and drops and takes != drops:
            return f"takes the lock of {lock} and gives it back at different levels"
        if takes and drops and steps[1][0] == "return":
            return f"returns in the midst of its scope of the lock of {lock}"
        if not (takes and drops) and steps[0][1]:
            return f"{'takes' if takes else 'gives back'} the lock of {lock} in a branch"
    return ""


def scope_breaches(texts, known):
    """The functions with other scopes than one for a lock, a line each, and those that are known for it and have none."""
    wrong, found = [], set()
    for path, text in texts.items():
        for function in functions_in(path, text) if SOURCE in path.parents else []:
            breach = scope_breach(function.body) if function.body else ""
            if breach:
                found.add((path.relative_to(ROOT).as_posix(), function.name))
                if function.name not in known.get(path.relative_to(ROOT).as_posix(), {}):
                    wrong.append(f"{function.where()}: {breach}, expected one scope at one level")
    wrong += [f"{file}: {name}: has one scope now, take it out of MORE_SCOPES"
              for file, names in known.items() for name in names if (file, name) not in found]
    return wrong


def main():
    texts = {path: path.read_text(encoding="utf-8") for root in (SOURCE, SIMULATED) for path in sorted(root.rglob("*.[ch]"))
             if not {path, *path.parents} & set(LEFT_OUT)}
    wrong = breaches(texts) + scope_breaches(texts, MORE_SCOPES)
    print("\n".join(wrong) if wrong else "as the comments say")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
