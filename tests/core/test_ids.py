"""How ids are written."""

import pytest

from windlass.core.ids import TaskId, derived_job_id, job_run_id, retry_run_id, slot_run_id

T0 = 1_700_000_040_000_000


@pytest.mark.parametrize(
    ("task_id", "text"),
    [
        (TaskId("j1", "fetch", None, 1), "j1_fetch_1"),
        (TaskId("j1", "fetch_all_2", None, 12), "j1_fetch_all_2_12"),
        (TaskId("j1", "each", 17, 3), "j1_each[17]_3"),
        (TaskId("j1", "a-b_1", 0, 1), "j1_a-b_1[0]_1"),
    ],
)
def test_a_task_id_is_parsed_from_its_own_text(task_id: TaskId, text: str) -> None:
    assert str(task_id) == text
    assert TaskId.parse(text) == task_id


@pytest.mark.parametrize(
    "text",
    [
        "",
        "j1",
        "j1_fetch",
        "j1_fetch_",
        "_fetch_1",
        "j1__1x",
        "j1_each[x]_1",
        "j1_each[1]_",
        "j1_each[1]x_1",
    ],
)
def test_a_text_that_is_not_a_task_id_is_rejected(text: str) -> None:
    with pytest.raises(ValueError, match="not a task id"):
        TaskId.parse(text)


def test_a_derived_job_id_depends_on_its_arguments_and_sorts_by_time() -> None:
    first, again = derived_job_id(T0, "flow:1/0"), derived_job_id(T0, "flow:1/0")
    other, later = derived_job_id(T0, "flow:2/0"), derived_job_id(T0 + 1_000, "flow:1/0")

    assert first == again
    assert first != other
    assert max(first, other) < later
    assert (len(first), set(first) <= set("0123456789abcdefghjkmnpqrstvwxyz")) == (24, True)


def test_the_id_of_a_run_names_its_workflow_and_its_slot_job_or_request() -> None:
    assert slot_run_id("nightly", T0) == "nightly:2023-11-14T22:14:00Z"
    assert job_run_id("nightly", "j1") == "nightly:j1"
    assert retry_run_id("nightly", "r1") == "nightly:r1"
