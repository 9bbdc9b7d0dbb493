"""Pitched memory of three dimensions is pooled as that of two."""

import pytest
from conftest import PROGRAMS

ROUNDS = 100


@pytest.mark.parametrize("form", ["", "-static"])
@pytest.mark.parametrize("mode", ["sync", "auto", "defer"])
def test_volumes_and_pitched_rows_are_served_from_idle_memory_with_the_drivers_pitch(both, form, mode):
    native, pooled = both([PROGRAMS / f"volumes{form}"], env={"POOLCUDA_FREE": mode})
    assert native.driver_allocations == 3 * ROUNDS
    assert pooled.driver_allocations <= 3  # of each width one whose pitch is learnt, and what does not fit
    assert len(set(native.out.splitlines()[:ROUNDS])) == 1


def test_a_volume_has_the_site_of_its_caller(run):
    sites = run([PROGRAMS / "volumes"]).sites()
    assert sorted(count for count, _ in sites) == [ROUNDS, 2 * ROUNDS]
    assert {frames[0][0] for _, frames in sites} == {"volumes"}
