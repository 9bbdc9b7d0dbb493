"""Clients of the driver notice nothing of the pool but its speed, in any of its modes."""

from judge import examined


def test_a_client_has_the_outcomes_and_makes_the_calls_that_it_has_natively(client):
    found, _ = examined(client)
    assert not found
