"""Generated ids increase, even when the clock is set back."""

from random import Random

from windlass.engine.ids import Ids

T0 = 1_700_000_000_000_000


def test_ids_increase_within_a_millisecond_and_when_the_clock_is_set_back() -> None:
    ids = Ids(Random(1))
    instants = [T0 + step * 100 for step in range(5_000)] + [T0 + 10_000_000, T0, T0 - 1_000]

    made = [ids.new(now) for now in instants]

    assert made == sorted(set(made))
    assert {len(one) for one in made} == {24}
    assert set("".join(made)) <= set("0123456789abcdefghjkmnpqrstvwxyz")


def test_ids_of_the_same_time_share_a_prefix_and_end_randomly() -> None:
    first, second = Ids(Random(1)).new(T0), Ids(Random(2)).new(T0)

    assert first[:9] == second[:9]
    assert first[9:] != second[9:]
