"""What every adapter shares: the effect at the sink, and one command line. Standard library only.

    NAME_peer.py describe                                   what it is, and what it cannot express, as JSON
    NAME_peer.py serve --state DIR                          the peer's server, until standard input is closed
    NAME_peer.py run --sink URL --state DIR --trial ID --configuration C [--database URL] [--effects N] [--pause middle]
    NAME_peer.py inspect  (the same options)                what its durable state says about each effect
    NAME_peer.py build | grow                               a long conversation; see `conversation.py`

`run` is one process that starts the work or continues it. The work is N effects in order: `POST URL/effects {"n": 1}`.
The sink kills the process from outside. With `--pause middle` it prints `paused` at the beginning of effect 2, before
anything is sent, with `--pause replied` after the reply of the sink, before the peer knows it; it continues when it can
read a line: there a tracer is attached. It exits with 0 when the work has
ended, and with 3 when it needs a person.

Configurations: `documented`: as the named page recommends. `key`: with an idempotency key, made by hand from the ids
of the peer. `lookup`: looks before it sends, by hand. `once`: a durable mark before the act, by hand; a second process
that finds the mark of another one without a result asks a person. `default`: where the default setting is weaker.
"""

import argparse
import json
import os
import sys
import urllib.error
import urllib.request
import uuid
from importlib.metadata import version
from urllib.parse import quote

PROCESS = uuid.uuid4().hex  # the mark of `once`: which process was about to act


class Asked(Exception):
    """The work needs a person: the outcome of effect `args[0]` is unknown."""


def act(options, n):
    """Do effect number n at the sink, as the configuration says. Returns the sink's id."""
    key = f"{options.trial}:{n}"
    pause(options, n, "middle")
    if options.configuration == "lookup":
        there = _ask("GET", f"{options.sink}/effects?key={quote(key)}")
        if there:
            return there[0]["id"]
    headers = {"documented": {}, "default": {}, "key": {"Idempotency-Key": key}}
    done = _ask("POST", f"{options.sink}/effects", {"n": n}, headers.get(options.configuration, {"X-Marker": key}))
    pause(options, n, "replied")
    return done["id"]


def pause(options, n, where):
    """Wait at effect 2, if the trial attaches a tracer here."""
    if options.pause == where and n == 2:
        print("paused", flush=True)
        sys.stdin.readline()


def act_once(options, n, mark):
    """Do effect n if `mark`, which the peer has stored, is of this process; else ask."""
    if mark != PROCESS:
        raise Asked(n)
    return act(options, n)


def _ask(method, url, body=None, headers=None):
    data = None if body is None else json.dumps(body).encode()
    given = {"Content-Type": "application/json", "X-Process": str(os.getpid())} | (headers or {})
    request = urllib.request.Request(url, data, given, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def states(acknowledged, unknown, effects):
    """The answer of `inspect`: one word for each effect."""
    return {
        str(n): "acknowledged" if n in acknowledged else "unknown" if n in unknown else "absent"
        for n in range(1, effects + 1)
    }


def main(peer, *, run, inspect, serve=None, conversation=None):
    """The command line of an adapter. `peer`: system, packages, page, configurations, cannot."""
    commands = argparse.ArgumentParser()
    commands.add_argument("command", choices=["describe", "run", "inspect", "serve", "build", "grow"])
    for name in ("sink", "state", "trial", "database", "pause"):
        commands.add_argument(f"--{name}")
    commands.add_argument("--configuration", default="documented")
    for name, value in (("effects", 3), ("messages", 0), ("steps", 0)):
        commands.add_argument(f"--{name}", type=int, default=value)
    options = commands.parse_args()
    if options.command == "describe":
        versions = {name: version(name) for name in peer["packages"]}
        print(json.dumps({**peer, "versions": versions, "server": serve is not None}))
    elif options.command in ("build", "grow"):
        import conversation as measured

        {"build": measured.build, "grow": measured.grow}[options.command](options, conversation)
    elif options.command == "serve":
        serve(options)
    elif options.command == "inspect":
        print(json.dumps({"effects": inspect(options)}), flush=True)
        os._exit(0)
    else:
        _finish(run, options)


def until_closed(server):
    """Say that the server is ready, and end it when standard input is closed."""
    print(json.dumps({"ready": server.poll() is None}), flush=True)
    sys.stdin.read()
    server.terminate()
    server.wait()


def _finish(run, options):
    try:
        run(options)
    except Asked as asked:
        end, code = {"ended": "asked", "asked": [asked.args[0]]}, 3
    else:
        end, code = {"ended": "done", "asked": []}, 0
    print(json.dumps(end), flush=True)
    sys.stderr.flush()
    os._exit(code)  # some peers keep threads that would hold the process
