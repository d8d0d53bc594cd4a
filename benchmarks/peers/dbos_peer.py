"""DBOS doing the same work, in its own environment: `dbos_peer.py rate|alone|prepare|resume|queue DATABASE COUNT`."""

import os
import random
import statistics
import string
import sys
import threading
import time

from dbos import DBOS, SetWorkflowID

what, database, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
taken = []
resumed = threading.Event()
TEXT = "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=4096))


def text(number):
    begin = (number * 37) % 3800
    return TEXT[begin : begin + 200] + str(number)


DBOS(
    config={
        "name": "bench",
        "system_database_url": database,
        "log_level": "ERROR",
        "run_admin_server": False,
    }
)


@DBOS.step()
def echo(content: str) -> str:
    return content


@DBOS.workflow()
def flow(steps: int) -> int:
    for number in range(steps):
        began = time.perf_counter()
        echo(text(number))
        taken.append(time.perf_counter() - began)
    return steps


@DBOS.workflow()
def long(steps: int) -> int:
    for number in range(steps):
        echo(text(number))
    if os.environ.get("DBOS_STOP"):
        os._exit(0)
    echo("the first new step")
    resumed.set()
    return steps


spans = []


@DBOS.workflow()
def one_step(content: str) -> int:
    began = time.perf_counter()
    done = len(echo(content))
    spans.append((began, time.perf_counter()))
    return done


began = time.perf_counter()
if what == "prepare":
    os.environ["DBOS_STOP"] = "yes"
DBOS.launch()
if what == "alone":
    flow(count)
    print(statistics.median(taken))
elif what == "rate":
    began = time.perf_counter()
    handles = [DBOS.start_workflow(flow, 20) for _ in range(count)]
    done = sum(handle.get_result() for handle in handles)
    print(done / (time.perf_counter() - began))
elif what == "queue":
    handles = [DBOS.enqueue_workflow("bench", one_step, text(1)) for _ in range(count)]
    DBOS.register_queue("bench")  # only now they are claimed
    for handle in handles:
        handle.get_result()
    first, last = min(one for one, _ in spans), max(one for _, one in spans)
    print(count / (last - first))
elif what == "prepare":
    print(0, flush=True)
    with SetWorkflowID("long"):
        long(count)
elif what == "resume":
    resumed.wait(300)
    print(time.perf_counter() - began, flush=True)
    os._exit(0)
DBOS.destroy()
