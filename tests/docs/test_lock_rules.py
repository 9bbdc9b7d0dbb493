"""The guard of the rules about locks finds what breaks them: one scope of a lock in each function."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/unit"))

import lock_rules  # noqa: E402: beside the unit tests, which run it

FILE = ROOT / "src/pool/example.c"


def found(body, known=None):
    """What the guard says of a function with that body."""
    text = f"static bool example(struct pool *pool, struct order *order) {{\n{body}\n}}\n"
    return lock_rules.scope_breaches({FILE: text}, known or {})


@pytest.mark.parametrize("body", [
    "look(pool);\npool_lock(pool);\nif (a)\n    b(pool);\npool_unlock(pool);\nreturn c;",
    "pool_unlock_between(pool);\na(pool);\npool_lock(pool);\nif (b)\n    return false;\nreturn true;",  # the lock held on entry and return
    "if (a)\n    return b;\npool_unlock(pool);\nreturn c(pool);",  # on entry
    "if (a)\n    return b;\npool_lock(pool);",  # on return
    "while (a) {\n    pool_unlock(pool);\n    b();\n    pool_lock(pool);\n}",
    "pool_lock(pool);\nif (a)\n    return goes_on(pool);\npool_unlock(pool);\nreturn b;",
    "pool_lock(pool);\nlock_take(&order->lock, LOCK_ORDER);\nlock_drop(&order->lock, LOCK_ORDER);\npool_unlock(pool);",
    "struct context *context = context_lock_current(pool, kind);\npool_unlock(pool);\nreturn context;",
    "pool_lock(pool); /* not pool_unlock(pool); */\npool_unlock(pool);",
])
def test_one_scope_at_one_level_is_let_pass(body):
    assert not found(body)


@pytest.mark.parametrize("body, wrong", [
    ("pool_lock(pool);\npool_unlock(pool);\na();\npool_lock(pool);\npool_unlock(pool);", "takes the lock of pool in 2 places"),
    ("pool_lock(pool);\nif (a) {\n    pool_unlock(pool);\n    return b;\n}\npool_unlock(pool);", "gives back the lock of pool in 2 places"),
    ("pool_lock(pool);\nif (a)\n    pool_unlock(pool);", "takes the lock of pool and gives it back at different levels"),
    ("if (a) {\n    pool_lock(pool);\n}\nif (a) {\n    pool_unlock(pool);\n}", "takes the lock of pool and gives it back at different levels"),
    ("if (a)\n    pool_unlock(pool);\nelse\n    b(pool);", "gives back the lock of pool in a branch"),
    ("for (int i = 0; i < 2; i++)\n    pool_lock(pool);", "takes the lock of pool in a branch"),
    ("a ? pool_unlock(pool) : b(pool);", "gives back the lock of pool in a branch"),
    ("pool_lock(pool);\nif (a)\n    return b;\npool_unlock(pool);\nreturn c;", "returns in the midst of its scope of the lock of pool"),
    ("lock_take(&order->lock, LOCK_ORDER);\nwhile (a) {\n    lock_drop(&order->lock, LOCK_ORDER);\n    b();\n"
     "    lock_take(&order->lock, LOCK_ORDER);\n}\nlock_drop(&order->lock, LOCK_ORDER);", "takes the lock of &order->lock in 2 places"),
])
def test_another_scope_is_reported_with_its_function(body, wrong):
    assert found(body) == [f"src/pool/example.c:1: example: {wrong}, expected one scope at one level"]


def test_a_function_that_is_known_for_it_is_let_pass_and_must_leave_the_list_once_it_has_one_scope():
    known = {"src/pool/example.c": {"example": "a reason"}}
    assert not found("pool_lock(pool);\nif (a)\n    pool_unlock(pool);", known)
    assert found("pool_lock(pool);\npool_unlock(pool);", known) == [
        "src/pool/example.c: example: has one scope now, take it out of MORE_SCOPES"]


def test_every_known_function_has_its_reason():
    assert all(reason for names in lock_rules.MORE_SCOPES.values() for reason in names.values())
