"""Clients of the driver notice nothing of the pool but its speed, in any of its modes."""

from guard import alarm_set
from judge import examined


def test_a_client_has_the_outcomes_and_makes_the_calls_that_it_has_natively(client):
    with alarm_set(None):  # each of its commands has a limit of its own
        found, _ = examined(client)
    assert not found
