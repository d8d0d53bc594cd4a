"""Absurd doing the same work, in its own environment: `absurd_peer.py DATABASE COUNT`."""

import random
import string
import sys
import threading
import time

import psycopg
from absurd_sdk import Absurd
from absurdctl import BUNDLED_SCHEMA_SQL

database, count = sys.argv[1], int(sys.argv[2])
TEXT = "".join(random.Random(1).choices(string.ascii_letters + string.digits, k=200))
spans = []
ended = threading.Event()

with psycopg.connect(database, autocommit=True) as server:
    server.execute(BUNDLED_SCHEMA_SQL)
app = Absurd(database, queue_name="bench")
app.create_queue("bench")


@app.register_task("one_step")
def one_step(params, context):
    began = time.perf_counter()
    done = len(context.step("echo", lambda: params["content"]))
    spans.append((began, time.perf_counter()))
    if len(spans) >= count:
        ended.set()
        app.stop_worker()
    return done


for _ in range(count):
    app.spawn("one_step", {"content": TEXT})
app.start_worker(concurrency=8)
first, last = min(one for one, _ in spans), max(one for _, one in spans)
print(count / (last - first))
