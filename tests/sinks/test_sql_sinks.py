"""What every SQL sink does: rows and identities in one transaction, modes, and safe names."""

import asyncio

import pytest

from tests.sinks.targets import Target, Writer
from windlass.connections.failures import DatabaseRefused
from windlass.connections.named import ConnectionUnknown
from windlass.ports.sink import SinkReceipt
from windlass.sinks.rows import ROWS_MAX, OptionsInvalid, RowsRefused
from windlass.sinks.tables import BATCHES_MAX, ColumnUnknown, TableUnknown

USERS = (
    "create table users (id integer primary key, name text, age integer default 18, profile text)"
)


@pytest.fixture
async def users(target: Target) -> Writer:
    await target.execute(USERS)
    return Writer(target, table="users")


async def test_every_object_of_a_list_becomes_a_row(users: Writer) -> None:
    receipt = await users.write([{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bo"}])

    assert receipt == SinkReceipt(2)
    assert await users.table("id, name") == [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Bo"}]


async def test_one_object_becomes_one_row(users: Writer) -> None:
    await users.write({"id": 1, "name": "Ada"})

    assert await users.table("id, name") == [{"id": 1, "name": "Ada"}]


async def test_a_repeated_identity_writes_nothing(users: Writer) -> None:
    await users.write([{"id": 1}, {"id": 2}], identity="task-1")

    receipt = await users.write([{"id": 3}], identity="task-1")

    assert receipt == SinkReceipt(2, skipped=True)
    assert await users.table("id") == [{"id": 1}, {"id": 2}]


async def test_another_process_finds_the_identity_of_an_unreported_write(
    target: Target, users: Writer
) -> None:
    await users.write([{"id": 1}], identity="task-1")

    receipt = await Writer(target, table="users").write([{"id": 1}], identity="task-1")

    assert receipt.skipped
    assert await users.table("id") == [{"id": 1}]


async def test_identical_writes_at_the_same_time_take_effect_once(target: Target) -> None:
    await target.execute("create table marks (mark integer)")
    writers = [Writer(target, table="marks") for _ in range(8)]

    receipts = await asyncio.gather(
        *(writer.write([{"mark": 1}, {"mark": 2}]) for writer in writers)
    )

    assert sorted(receipt.skipped for receipt in receipts) == [False] + [True] * 7
    assert await writers[0].table() == [{"mark": 1}, {"mark": 2}]


async def test_different_writes_at_the_same_time_all_take_effect(target: Target) -> None:
    await target.execute("create table marks (mark integer)")
    writers = [Writer(target, table="marks") for _ in range(4)]

    await asyncio.gather(
        *(
            writers[number % 4].write({"mark": number}, identity=f"task-{number}")
            for number in range(40)
        )
    )

    assert [row["mark"] for row in await writers[0].table()] == list(range(40))


async def test_rows_that_are_rejected_leave_no_identity_behind(users: Writer) -> None:
    await users.write({"id": 1})
    with pytest.raises(DatabaseRefused):
        await users.write([{"id": 2}, {"id": 1}], identity="task-2")

    receipt = await users.write([{"id": 2}], identity="task-2")

    assert receipt == SinkReceipt(1)
    assert await users.table("id") == [{"id": 1}, {"id": 2}]


async def test_an_empty_list_writes_no_row_but_its_identity(users: Writer) -> None:
    first = await users.write([], identity="task-1")

    second = await users.write([{"id": 1}], identity="task-1")

    assert (first, second) == (SinkReceipt(0), SinkReceipt(0, skipped=True))
    assert await users.table() == []


async def test_null_writes_no_row(users: Writer) -> None:
    assert await users.write(None) == SinkReceipt(0)


async def test_rows_with_other_columns_take_the_defaults_of_the_table(users: Writer) -> None:
    await users.write([{"id": 1, "age": 30}, {"name": "Bo", "id": 2}, {"id": 3, "age": None}])

    assert await users.table("id, name, age") == [
        {"id": 1, "name": None, "age": 30},
        {"id": 2, "name": "Bo", "age": 18},
        {"id": 3, "name": None, "age": None},
    ]


async def test_an_upsert_updates_the_given_columns_of_known_keys(users: Writer) -> None:
    await users.write([{"id": 1, "name": "Ada", "age": 36}])

    await users.write(
        [{"id": 1, "age": 37}, {"id": 2, "name": "Bo"}], identity="task-2", mode="upsert", key="id"
    )

    assert await users.table("id, name, age") == [
        {"id": 1, "name": "Ada", "age": 37},
        {"id": 2, "name": "Bo", "age": 18},
    ]


async def test_the_last_of_rows_with_the_same_key_wins(users: Writer) -> None:
    await users.write(
        [{"id": 1, "name": "Ada", "age": 1}, {"id": 1, "age": 2}], mode="upsert", key=["id"]
    )

    assert await users.table("id, name, age") == [{"id": 1, "name": "Ada", "age": 2}]


async def test_an_upsert_of_only_keys_does_not_change_known_rows(users: Writer) -> None:
    await users.write({"id": 1, "name": "Ada"})

    await users.write([{"id": 1}, {"id": 2}], identity="task-2", mode="upsert", key="id")

    assert await users.table("id, name") == [{"id": 1, "name": "Ada"}, {"id": 2, "name": None}]


@pytest.mark.parametrize("key", [None, [], ""])
async def test_an_upsert_without_a_key_is_rejected(users: Writer, key: object) -> None:
    with pytest.raises(OptionsInvalid, match="key"):
        await users.write({"id": 1}, mode="upsert", key=key)


@pytest.mark.parametrize("row", [{"name": "Ada"}, {"id": None}])
async def test_an_upsert_of_a_row_without_its_key_is_rejected(users: Writer, row: object) -> None:
    with pytest.raises(RowsRefused, match="row 1 has no value for 'id'"):
        await users.write([{"id": 1}, row], mode="upsert", key="id")


async def test_an_upsert_without_a_unique_index_names_the_index_to_create(users: Writer) -> None:
    with pytest.raises(DatabaseRefused, match="unique index on exactly the columns of 'key'"):
        await users.write({"id": 1, "name": "Ada"}, mode="upsert", key="name")


async def test_the_first_write_of_a_run_replaces_the_table_and_the_others_add_to_it(
    users: Writer,
) -> None:
    await users.write([{"id": 1}, {"id": 2}])

    for number in (3, 4):
        await users.write(
            {"id": number}, identity=f"page-{number}", run_key="run-2", mode="replace"
        )

    assert await users.table("id") == [{"id": 3}, {"id": 4}]


async def test_each_run_replaces_the_table(users: Writer) -> None:
    await users.write({"id": 1}, identity="a", run_key="run-1", mode="replace")

    await users.write({"id": 2}, identity="b", run_key="run-2", mode="replace")

    assert await users.table("id") == [{"id": 2}]


async def test_writes_of_one_run_that_replace_at_the_same_time_keep_each_others_rows(
    target: Target,
) -> None:
    await target.execute("create table marks (mark integer); insert into marks values (-1)")
    writers = [Writer(target, table="marks", mode="replace") for _ in range(6)]

    await asyncio.gather(
        *(w.write({"mark": n}, identity=f"page-{n}") for n, w in enumerate(writers))
    )

    assert [row["mark"] for row in await writers[0].table()] == list(range(6))


async def test_a_failed_replacement_does_not_change_the_table(users: Writer) -> None:
    await users.write([{"id": 1}, {"id": 2}])

    with pytest.raises(DatabaseRefused):
        await users.write(
            [{"id": 3}, {"id": 3}], identity="task-2", run_key="run-2", mode="replace"
        )

    assert await users.table("id") == [{"id": 1}, {"id": 2}]


async def test_an_empty_replacement_empties_the_table(users: Writer) -> None:
    await users.write([{"id": 1}])

    await users.write([], identity="task-2", run_key="run-2", mode="replace")

    assert await users.table() == []


async def test_rows_are_read_from_the_rows_path(users: Writer) -> None:
    await users.write({"data": {"items": [{"id": 7}]}, "more": True}, rows="data.items")

    assert await users.table("id") == [{"id": 7}]


async def test_rows_are_read_from_the_merge_path(users: Writer) -> None:
    await users.write({"data": [{"id": 7}], "paging": {"page": 1}}, merged_at=("data",))

    assert await users.table("id") == [{"id": 7}]


async def test_an_output_without_the_merged_path_is_a_row_itself(users: Writer) -> None:
    await users.write({"id": 7}, merged_at=("data",))

    assert await users.table("id") == [{"id": 7}]


async def test_a_rows_path_that_does_not_exist_is_rejected(users: Writer) -> None:
    with pytest.raises(RowsRefused, match="did you mean 'items'"):
        await users.write({"items": []}, rows="item")


async def test_scalars_become_rows_of_one_column(target: Target) -> None:
    await target.execute("create table marks (value integer, mark integer)")
    marks = Writer(target, table="marks")

    await marks.write([1, 2], identity="a")
    await marks.write(3, identity="b", column="mark")

    assert await target.rows("select value, mark from marks order by coalesce(value, mark)") == [
        {"value": 1, "mark": None},
        {"value": 2, "mark": None},
        {"value": None, "mark": 3},
    ]


async def test_a_json_column_stores_whole_rows(target: Target) -> None:
    kind = "jsonb" if target.tool == "postgres" else "text"
    await target.execute(f"create table documents (body {kind})")
    documents = Writer(target, table="documents", json_column="body")

    await documents.write([{"a": [1, {"b": None}]}])

    assert await target.rows("select body ->> 'a' as a from documents") in (
        [{"a": '[1, {"b": null}]'}],
        [{"a": '[1,{"b":null}]'}],
    )


async def test_nested_values_are_kept_as_json(users: Writer) -> None:
    await users.write({"id": 1, "profile": {"likes": ["tea"]}})

    assert await users.table("profile") == [{"profile": '{"likes":["tea"]}'}]


async def test_texts_are_never_interpreted_as_sql(users: Writer) -> None:
    hostile = ["'; drop table users; --", '"', "$1", "\\", "Zoë\n", ":id"]

    await users.write([{"id": number, "name": text} for number, text in enumerate(hostile)])

    assert [row["name"] for row in await users.table("id, name")] == hostile


@pytest.mark.parametrize(
    "name",
    [
        'users"; drop table users; --',
        "users where 1=1",
        "",
        "a.b.c",
        "1users",
        "users--",
        "ü" * 10,
        "u" * 64,
        ".users",
    ],
)
async def test_a_bad_name_of_a_table_is_rejected(users: Writer, name: str) -> None:
    with pytest.raises(OptionsInvalid, match="invalid table name"):
        await users.write({"id": 1}, table=name)


@pytest.mark.parametrize("name", ['id") values (1); --', 'na"me', "name ", "NAME;"])
async def test_a_column_missing_in_the_table_is_rejected(users: Writer, name: str) -> None:
    with pytest.raises(ColumnUnknown):
        await users.write({"id": 1, name: "x"})


async def test_an_unknown_column_is_rejected_with_the_nearest_one(users: Writer) -> None:
    with pytest.raises(ColumnUnknown, match=r"unknown column.*'nmae'.*did you mean 'name'"):
        await users.write({"id": 1, "nmae": "Ada"})


async def test_columns_with_strange_names_can_be_written(target: Target) -> None:
    await target.execute('create table strange ("first ""name""" text, "order" integer)')
    strange = Writer(target, table="strange")

    await strange.write({'first "name"': "Ada", "order": 1})

    assert await strange.table() == [{'first "name"': "Ada", "order": 1}]


async def test_an_unknown_table_is_rejected_with_the_nearest_one(users: Writer) -> None:
    with pytest.raises(TableUnknown, match="table not found: 'user'; did you mean 'users'"):
        await users.write({"id": 1}, table="user")


async def test_a_column_added_later_is_found(target: Target, users: Writer) -> None:
    await users.write({"id": 1})
    await target.execute("alter table users add column email text")

    await users.write({"id": 2, "email": "bo@example.com"}, identity="task-2")

    assert await users.table("id, email") == [
        {"id": 1, "email": None},
        {"id": 2, "email": "bo@example.com"},
    ]


async def test_a_table_with_its_schema_is_written(target: Target, users: Writer) -> None:
    schema = "public" if target.tool == "postgres" else "main"

    await users.write({"id": 1}, table=f"{schema}.users")

    assert await users.table("id") == [{"id": 1}]


async def test_the_effects_table_cannot_be_a_target(users: Writer) -> None:
    with pytest.raises(OptionsInvalid, match="use another"):
        await users.write({"identity": "x"}, table="windlass_effects")


async def test_too_many_rows_at_once_are_rejected(users: Writer) -> None:
    with pytest.raises(RowsRefused, match=f"at most {ROWS_MAX}"):
        await users.write(list(range(ROWS_MAX + 1)))


async def test_too_many_sets_of_columns_are_rejected(users: Writer) -> None:
    with pytest.raises(RowsRefused, match="different sets of columns"):
        await users.write([{f"c{number}": 1} for number in range(BATCHES_MAX + 1)])


async def test_a_row_without_columns_is_rejected(users: Writer) -> None:
    with pytest.raises(RowsRefused, match="row 0 has no columns"):
        await users.write([{}])


async def test_unknown_options_are_rejected(users: Writer) -> None:
    with pytest.raises(OptionsInvalid, match="tabel"):
        await users.write({"id": 1}, tabel="users")


async def test_an_unknown_connection_is_rejected_with_the_known_names(users: Writer) -> None:
    with pytest.raises(
        ConnectionUnknown, match=r"unknown .* connection: 'elsewhere'; known connections: main_db"
    ):
        await users.write({"id": 1}, connection="elsewhere")


async def test_ten_thousand_rows_arrive(target: Target) -> None:
    await target.execute("create table marks (mark integer)")
    marks = Writer(target, table="marks")

    receipt = await marks.write([{"mark": number} for number in range(10_000)])

    assert receipt == SinkReceipt(10_000)
    assert (await target.rows("select count(*) as n, sum(mark) as total from marks"))[0] == {
        "n": 10_000,
        "total": 49_995_000,
    }


async def test_a_large_output_arrives(target: Target) -> None:
    await target.execute("create table notes (note text)")
    notes = Writer(target, table="notes")

    await notes.write([{"note": "x" * 500_000} for _ in range(4)])

    assert await target.rows("select length(note) as n from notes limit 1") == [{"n": 500_000}]
