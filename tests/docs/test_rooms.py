"""The rooms of src use each other as src/rooms.txt says, and the table of docs/architecture.md is made from it."""

import copy

import pytest
import rooms


@pytest.fixture(name="looked", scope="module")
def looked_at():
    listed, uses, library = rooms.look()
    assert len(library[0]) > 50, f"{rooms.BUILD}: holds no objects of the preloaded library"
    return listed, uses, library


def told(looked, added=frozenset(), removed=frozenset(), linked=frozenset()):
    listed, uses, (files, library) = looked
    return rooms.wrong(listed, (uses | added | linked) - removed, (files, (library | linked) - removed))


def test_every_use_of_another_room_has_an_arrow_with_its_reason_and_breaches_and_cycles_only_shrink(looked):
    assert not told(looked), "\n".join(told(looked))


def test_the_table_of_rooms_in_the_document_is_made_from_the_list(looked):
    page = rooms.PAGE.read_text(encoding="utf-8")
    made = rooms.page_with(page, rooms.table(looked[0], len(looked[2][0])))
    assert page == made, "run tests/docs/rooms.py --write"


@pytest.mark.parametrize("use", [("counters/stats.c", "pool/malloc.c"), ("pool/free.c", "interpose/state.h"),
                                 ("keep/site.c", "pool/internal.h")])
def test_a_use_without_an_arrow_is_reported_with_both_files(looked, use):
    message, = told(looked, added={use})
    assert message.startswith(f"src/{use[0]} uses src/{use[1]}: ")


def test_a_breach_that_is_gone_must_leave_the_list(looked):
    gone = ("keep/site.c", "pool/internal.h")
    listed = copy.deepcopy(looked[0])
    listed.rooms["keep"].breaches.append(gone)
    assert not told((listed, *looked[1:]), added={gone})
    assert told((listed, *looked[1:]))[0] == f"src/rooms.txt: breach {gone[0]} -> {gone[1]}: no longer exists, take the line out"


def test_an_arrow_that_nothing_uses_must_leave_the_list(looked):
    all_of_it = {(one, other) for one, other in looked[1] if one.startswith("trace/") and other.startswith("site_tag.")}
    assert told(looked, removed=all_of_it) == ["src/rooms.txt: trace uses site_tag: nothing does so, take the line out"]


def test_more_files_in_cycles_fail_and_so_do_fewer_until_the_number_is_lowered(looked):
    count = looked[0].in_cycles
    assert told(looked, linked={("blocks/pointer_map.c", "pool/ledger_gone.c")})[-1].startswith(f"{count + 2} files ")
    higher = copy.copy(looked[0])
    higher.in_cycles = count + 1
    assert told((higher, *looked[1:])) == [f"{count} files of the preloaded object are in cycles, no longer {count + 1}: lower the "
                                           "number in src/rooms.txt"]


def test_a_file_in_no_room_is_reported(looked):
    assert told(looked, added={("news.c", "base/lock.h")}) == ["news.c: in no room of src/rooms.txt"]


@pytest.mark.parametrize("line", ["  uses pool", "  uses pool:", "  breach counters/stats.c", "files in cycles: few"])
def test_a_line_without_its_reason_or_its_number_is_refused(line):
    with pytest.raises(ValueError, match="expected room, uses with a reason"):
        rooms.Rooms(f"room counters = counters/: what is counted\n{line}\n")


def test_cycles_are_found_through_other_files_and_not_where_there_are_none():
    files = set("abcd")
    assert rooms.cycles(files, {("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")}) == [["a", "b", "c"]]
    assert not rooms.cycles(files, {("a", "b"), ("b", "c"), ("a", "c")})
