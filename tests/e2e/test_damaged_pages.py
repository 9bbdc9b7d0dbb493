"""What lies in the folder of pages and is none: it is cleared away once no process has the number, and disturbs nobody."""

import os

import pytest
from steered import FOLDER, NEEDS_MOUNT, Program, command, processes

NOBODYS = 4194299  # a number beyond every process

pytestmark = NEEDS_MOUNT  # a /dev/shm of its own


def cut_off(path, whole):
    path.write_bytes(whole[:5000])


KINDS = {
    "empty": lambda path, _: path.touch(),
    "cut off": cut_off,
    "cut off behind the banner": lambda path, whole: path.write_bytes(whole[:100]),
    "noise": lambda path, _: path.write_bytes(os.urandom(100000)),
    "pipe": lambda path, _: os.mkfifo(path),
    "folder": lambda path, _: path.mkdir(),
    "link to nothing": lambda path, _: path.symlink_to("/nowhere/at/all"),
    "link to a file of the user's": lambda path, _: path.symlink_to("/etc/passwd"),
    "link to itself": lambda path, _: path.symlink_to(path),
}
EACH = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())


@pytest.fixture(name="program")
def fixture_program():
    with Program() as program:
        program.do("alloc 0 4096")
        yield program
        assert program.end() == 0


@EACH
def test_it_is_removed_by_who_looks_and_by_who_starts(kind, program):
    path, passwd = FOLDER / str(NOBODYS), os.stat("/etc/passwd")
    whole = program.page.read_bytes()
    kind(path, whole)
    assert [process["name"] for process in processes()] == [str(program.pid)]
    assert not os.path.lexists(path)
    kind(path, whole)
    with Program() as other:
        other.do("alloc 0 4096")
        assert not os.path.lexists(path)
    assert os.stat("/etc/passwd").st_ino == passwd.st_ino


@pytest.mark.parametrize("kind", [KINDS["cut off"], KINDS["noise"], KINDS["pipe"], KINDS["folder"]])
def test_what_has_a_living_processes_number_stays_and_is_named_in_one_line(kind, program):
    path = FOLDER / str(os.getpid())
    kind(path, program.page.read_bytes())
    for arguments in (["top"], ["top", "--json"], ["top", "--prometheus=-"]):
        said = command(*arguments)
        assert said.returncode == 0
        assert said.stderr.splitlines() == [f"poolcuda {arguments[0]}: {path}: damaged, or of another version of poolcuda: not shown, "
                                            "and removed once its process has ended"]
        assert os.path.lexists(path)
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink()


@EACH
def test_it_makes_way_for_a_program_that_gets_its_number(kind, program):
    """By exec: the number stays, the program is another."""
    whole = program.page.read_bytes()
    program.page.unlink()
    kind(program.page, whole)
    program.say("again")
    assert program.hear() == "ready"
    assert program.counter("malloc_calls") == 1


def test_the_folder_of_another_user_or_a_link_is_not_used_nor_touched(program):
    del program
    aside = FOLDER.with_name("aside")
    FOLDER.rename(aside)
    try:
        for make in (lambda: FOLDER.symlink_to(aside), lambda: (FOLDER.mkdir(0o700), os.chown(FOLDER, 65534, 65534)), FOLDER.touch,
                     lambda: os.mkfifo(FOLDER)):
            make()
            before = os.lstat(FOLDER)
            with Program() as other:
                assert other.do("alloc 0 4096") == 0
                assert not list(FOLDER.iterdir()) if FOLDER.is_dir() and not FOLDER.is_symlink() else True
                assert not (aside / str(other.pid)).exists()
            said = command("top")
            assert said.returncode == 1 and len(said.stderr.splitlines()) == 1 and "not used" in said.stderr
            after = os.lstat(FOLDER)
            assert (before.st_ino, before.st_mode, before.st_uid) == (after.st_ino, after.st_mode, after.st_uid)
            if FOLDER.is_dir() and not FOLDER.is_symlink():
                FOLDER.rmdir()
            else:
                FOLDER.unlink()
    finally:
        aside.rename(FOLDER)
