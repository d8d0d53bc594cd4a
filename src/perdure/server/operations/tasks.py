"""The plan of a session: its tasks."""

from __future__ import annotations

from perdure.domain.caller import Verb
from perdure.domain.literals import TaskStateWord
from perdure.domain.task import Task
from perdure.server.operation import Body, Context, Ids, Operation, Touch
from perdure.server.page import Page, PageQuery, page_of
from perdure.store.moves import task


class AddTask(Body, frozen=True):
    """A task. Without an id, the same title is the same task."""

    title: str
    id: str | None = None
    parent: str | None = None
    priority: int = 0


class ChangeTask(Body, frozen=True):
    """The new state, and why."""

    state: TaskStateWord
    because: str | None = None


async def listing(context: Context) -> Page[Task]:
    found = [one async for one in context.runtime.tasks(session=context.uid)]
    return page_of(found, context.query, lambda one: (one.created_at, one.id))


async def add(context: Context) -> Task:
    body: AddTask = context.body
    return await context.runtime.add_task(
        context.uid, body.title, id=body.id, parent=body.parent, priority=body.priority, by=context.by
    )


async def added(context: Context, ids: Ids) -> Task:
    return await context.store.read(task.get, context.uid, ids["task"])


async def change(context: Context) -> Task:
    body: ChangeTask = context.body
    return await context.runtime.change_task(
        context.uid, context.params["task"], body.state, because=body.because, by=context.by
    )


async def changed(context: Context, _: Ids) -> Task:
    return await context.store.read(task.get, context.uid, context.params["task"])


OPERATIONS = (
    Operation(
        name="tasks.list", method="GET", path="/v1/sessions/{id}/tasks", verb=Verb.READ_RECORD, touches=Touch.SESSION,
        handler=listing, answer=Page[Task], query=PageQuery, summary="The tasks of a session's plan.",
    ),
    Operation(
        name="tasks.add", method="POST", path="/v1/sessions/{id}/tasks", verb=Verb.WRITE_RECORD,
        touches=Touch.SESSION, handler=add, answer=Task, body=AddTask, status=201, again=added,
        made=lambda result: {"task": result.id}, example={"title": "update the docs"},
        summary="Add a task to the plan of a session.",
    ),
    Operation(
        name="tasks.change", method="POST", path="/v1/sessions/{id}/tasks/{task}", verb=Verb.WRITE_RECORD,
        touches=Touch.SESSION, handler=change, answer=Task, body=ChangeTask, again=changed,
        example={"state": "done", "because": "merged"}, summary="Change the state of a task of an agent.",
    ),
)  # fmt: skip
