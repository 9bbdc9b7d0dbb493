"""The judge of clients sees what differs, and lets pass what is listed alone."""

import collections
import subprocess
import types

import judge
import pytest
import runs
from table import CLIENTS, MODES, Client

CLIENT = Client("client", (), (), "", allocations=2)


def ran(code=0, out="a: PASSED\n", outcomes=None, calls=None, **counters):
    """A run as runs.Run tells it."""
    return types.SimpleNamespace(code=code, out=out, outcomes={"a": "PASSED"} if outcomes is None else outcomes,
                                 calls=collections.Counter({"cuInit": 1, "cuMemAlloc_v2": 5, **(calls or {})}),
                                 counters=collections.Counter({"malloc_calls": 5, "malloc_hits": 3, **counters}))


def faults(pooled, natives=None, mode="default", client=CLIENT):
    """What the judge says of it."""
    return judge.faults_of(client, natives or [ran(), ran()], pooled, mode)


def test_a_run_like_the_native_ones_has_no_fault():
    assert not faults(ran(calls={"cuMemAlloc_v2": 2, "cuCtxGetDevice": 9}))


@pytest.mark.parametrize("pooled, told", [
    (ran(code=1), "exit code: natively 0, pooled 1"),
    (ran(outcomes={"a": "FAILED"}), "a: natively 'PASSED', pooled 'FAILED'"),
    (ran(outcomes={}), "a: natively 'PASSED', pooled 'None'"),
    (ran(outcomes={"a": "PASSED", "b": "PASSED"}), "b: natively 'None', pooled 'PASSED'"),
    (ran(out="a: PASSED\nmore\n"), "what it prints besides its outcomes differs"),
    (ran(calls={"cuInit": 2}), "cuInit: natively called 1 times, pooled 2 times"),
    (ran(calls={"cuMemAlloc_v2": 6}), "cuMemAlloc_v2: natively called 5 times, pooled 6 times"),
    (ran(calls={"hazards": 1}), "hazards: natively called 0 times, pooled 1 times"),
    (ran(malloc_calls=1), "the pool saw 1 allocations, expected at least 2"),
    (ran(malloc_hits=0), "the pool did nothing"),
    (ran(check_errors=1), "1 memory errors are reported, the client makes 0"),
])
def test_a_difference_is_told(pooled, told):
    assert faults(pooled) == [f"client, default: {told}"]


def test_what_the_native_runs_differ_in_is_no_fault():
    assert not faults(ran(out="third", calls={"cuInit": 7}), [ran(out="first"), ran(out="second", calls={"cuInit": 3})])


def test_a_call_that_may_be_added_may_not_be_without_bound():
    most = judge.ONCE + judge.EACH * 5  # of the five allocations
    assert not faults(ran(calls={"cuCtxGetDevice": most}))
    assert faults(ran(calls={"cuCtxGetDevice": most + 1})) == [
        f"client, default: cuCtxGetDevice: natively called 0 times, pooled {most + 1} times, at most {most}"]


def test_a_call_for_each_page_is_bound_by_the_bytes_that_are_allocated():
    most = judge.ONCE + judge.EACH * 5 + 3
    assert not faults(ran(calls={"cuMemMap": most}, allocated_bytes=3 * judge.PAGE), mode="vmm")
    assert faults(ran(calls={"cuMemMap": most}, allocated_bytes=3 * judge.PAGE - 1), mode="vmm")


def test_a_call_at_each_call_is_bound_by_all_that_the_client_makes():
    most = judge.ONCE + judge.EACH * 5 + 2 * 6  # of five allocations, and of these and cuInit
    assert not faults(ran(calls={"cuEventQuery": most}), mode="CHECK")
    assert faults(ran(calls={"cuEventQuery": most + 1}), mode="CHECK")


def test_a_call_is_allowed_in_its_modes_alone():
    assert not faults(ran(calls={"cuMemMap": 1}), mode="vmm")
    assert faults(ran(calls={"cuMemMap": 1}), mode="bfc")


def test_a_call_that_varies_by_itself_may_differ():
    varying = Client("client", (), (), "", allocations=2, varying=("cuInit",))
    assert not faults(ran(calls={"cuInit": 2}), client=varying) and not faults(ran(calls={"cuInit": 0}), client=varying)


def test_check_may_keep_all_from_reuse_but_has_to_have_checked():
    assert not faults(ran(malloc_hits=0, check_filled_bytes=9), mode="CHECK")
    assert faults(ran(malloc_hits=0), mode="CHECK") == ["client, CHECK: the pool did nothing"]


def test_a_mode_that_is_declared_idle_must_be():
    idle = Client("client", (), (), "", allocations=2, idle={"default": "because"})
    assert not faults(ran(malloc_hits=0), client=idle)
    assert faults(ran(), client=idle) == ["client, default: the pool is at work: take the mode out of idle"]


def test_native_failures_are_those_of_the_list(monkeypatch):
    monkeypatch.setattr(judge, "expected_failures", lambda client: {"b"})
    natives = [ran(outcomes={"a": "FAILED Error", "b": "PASSED"})]
    assert judge.native_faults(CLIENT, natives) == [
        "client, native: a fails: FAILED Error", "client, native: b passes by now: take it out of failures.toml"]


def test_a_test_that_fails_with_all_its_parameters_is_listed_once():
    outcomes = {"a[1]": "FAILED", "a[2-[x]]": "FAILED", "a[3]": "SKIPPED", "b[1]": "FAILED", "b[2]": "PASSED", "c": "FAILED", "d": "PASSED"}
    assert list(judge.failures(outcomes)) == ["a[*]", "b[1]", "c"]


def test_a_package_that_cannot_be_had_is_told_in_one_line(monkeypatch, tmp_path):
    monkeypatch.setattr(runs, "FOLDER", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(runs.CannotRun) as told:
        runs.prepared(Client("client", ("no-such-package==1",), (), ""))
    assert str(told.value).startswith("client: {python} -m pip install -q --no-deps no-such-package==1 failed: ")
    assert "\n" not in str(told.value)


def test_a_missing_package_of_debian_is_told_with_the_command_that_brings_it():
    with pytest.raises(runs.CannotRun) as told:
        runs.prepared(Client("client", (), (), "", debs=("bash", "no-such-package")))
    assert str(told.value) == "client: needs packages of Debian: apt-get install no-such-package"


def test_a_client_is_made_again_when_what_it_is_made_of_changes(monkeypatch, tmp_path):
    monkeypatch.setattr(runs, "FOLDER", tmp_path / "made")
    monkeypatch.setattr(runs, "HERE", tmp_path / "here")
    source = tmp_path / "here/source"
    source.parent.mkdir()
    source.write_text("1")
    client = Client("client", (), (), "", make=(("cp", "{here}/source", "{own}/copy"),))
    assert (runs.prepared(client) / "copy").read_text() == "1"
    source.write_text("2")
    assert (runs.prepared(client) / "copy").read_text() == "2"


def test_a_client_that_is_made_on_the_driver_is_made_again_when_that_changes(monkeypatch, tmp_path):
    monkeypatch.setattr(runs, "FOLDER", tmp_path / "made")
    monkeypatch.setattr(runs, "DRIVER", tmp_path)
    of_driver = Client("client", (), (), "", make=(("env", "LD_LIBRARY_PATH={driver}:more", "cp", str(tmp_path / "libcuda.so.1"), "copy"),))
    for content in ("1", "2"):
        (tmp_path / "libcuda.so.1").write_text(content)
        assert (runs.prepared(of_driver) / "copy").read_text() == content


def test_a_mode_that_is_declared_not_to_serve_a_client_does_not_run(monkeypatch, tmp_path):
    monkeypatch.setattr(runs, "FOLDER", tmp_path)
    client = Client("client", (), ("echo", "a: 1"), r"^(\w): (.*)$", unserved=dict.fromkeys(list(MODES)[1:], "because"))
    _, ran_in = judge.examined(client)
    assert list(ran_in) == ["native", "default"]


def test_only_the_modes_that_are_asked_for_run(monkeypatch, tmp_path):
    monkeypatch.setattr(runs, "FOLDER", tmp_path)
    _, ran_in = judge.examined(Client("client", (), ("echo", "a: 1"), r"^(\w): (.*)$"), ["sync"])
    assert list(ran_in) == ["native", "sync"]


def test_a_mode_that_does_not_exist_is_told_with_those_that_do():
    done = subprocess.run([runs.HERE / "run", "--modes=sync,no-such"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == f"run: error: argument --modes: 'no-such': expected modes of {', '.join(MODES)}, with commas between them"


def test_scripts_test_installs_the_packages_that_the_table_names():
    listed = subprocess.run([runs.HERE / "table.py", "--packages"], capture_output=True, text=True, check=True).stdout.split()
    assert listed == sorted({package for client in CLIENTS if client.always for package in client.debs})
    assert "tests/clients/table.py --packages" in (runs.ROOT / "scripts/test").read_text()
