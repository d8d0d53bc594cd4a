"""The worker of a service that takes a session which was started in the background, if there is one.

It must be alive, take the queue of the session, and have the same code as this process. If the session works on a
folder, the worker must have the same files. Otherwise the session gets a worker of its own.
"""

from __future__ import annotations

from perdure.clock import SECOND
from perdure.domain.worker import Liveness, WorkerRecord
from perdure.runtime.deploy.code_version import code_digests
from perdure.runtime.runtime import Runtime, SessionView
from perdure.runtime.workers.identity import HEARTBEAT, worker_locks, workspace_name
from perdure.store.moves import worker

SEEN = int(3 * HEARTBEAT) * SECOND  # within this time, a worker of another machine counts as alive


async def find_serving_worker(runtime: Runtime, view: SessionView) -> WorkerRecord | None:
    """A worker that takes this session by itself; None if it needs a worker of its own."""
    code, now = code_digests(), runtime.store.clock.now()
    locks = worker_locks(runtime.store)

    def is_alive(one: WorkerRecord) -> bool:
        life = Liveness.DEAD if locks is None else locks.life(one)
        return life is Liveness.ALIVE or (life is Liveness.CANNOT_TELL and one.seen_at > now - SEEN)

    def serves(one: WorkerRecord) -> bool:
        takes_queue = one.concurrency is not None and (one.queues is None or view.queue in one.queues)
        has_code = isinstance(one.code, dict) and code.items() <= one.code.items()
        is_pinned = view.pinned_at is not None and view.code_version not in (None, one.code_version)
        has_files = view.repository is None or workspace_name() in (one.workspaces or ())
        return takes_queue and has_code and has_files and not is_pinned

    found = await runtime.store.read(worker.listing)
    able = [one for one in found if one.role == "worker" and one.draining_at is None and serves(one)]
    return next(filter(is_alive, able), None)
