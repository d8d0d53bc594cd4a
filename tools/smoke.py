"""The whole way to a real model: `make smoke` runs a session against a small one on this machine.

    run      the answer is streamed, and is on record with what it used
    again    the model's server is stopped by then, so an answer that was paid for twice could not be had

Not a part of `make test`: it downloads the model, once, into an environment of its own.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SERVER = [ROOT / ".smoke" / "bin" / "python", ROOT / "tools" / "smoke_server.py"]
PERDURE = Path(sys.executable).with_name("perdure")


def main() -> int:
    with tempfile.TemporaryDirectory() as place:
        with subprocess.Popen(SERVER, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            try:
                assert server.stdout is not None
                address = server.stdout.readline().strip()
                if not address:
                    sys.exit("The model's server did not start.")
                first = run(place, address)
            finally:
                server.terminate()
        used = check(first, perdure(place, "show", "smoke")[0]["session"])
        run(place, address)
        again = perdure(place, "show", "smoke")[0]["session"]
    if (again["tokens_in"], again["tokens_out"]) != used:
        sys.exit("The second run was paid for again.")
    print(f"A real model answered, and was asked once: {again['result']!r} ({used[0]} tokens in, {used[1]} out)")
    return 0


def run(place: str, address: str) -> list[dict[str, Any]]:
    """The session, begun or gone on with: what was said of it, line by line."""
    prompt = ["run", "Say hello in one word.", "--model", "openai:smollm2", "--once", "--tool", "read_file"]
    return perdure(place, *prompt, "--turns", "2", "--id", "smoke", "--repo", place, OPENAI_BASE_URL=f"{address}/v1")


def perdure(place: str, *words: str, **told: str) -> list[dict[str, Any]]:
    line = [str(PERDURE), *words, "--json", "--store", str(Path(place, "perdure.db"))]
    done = subprocess.run(line, env=os.environ | told, stdout=subprocess.PIPE, text=True, check=False, timeout=300)
    if done.returncode:
        sys.exit(f"perdure {words[0]} ended with {done.returncode}: {done.stdout}")
    return [json.loads(said) for said in done.stdout.splitlines()]


def check(said: list[dict[str, Any]], session: dict[str, Any]) -> tuple[int, int]:
    """What was used, if an answer came and all of it is on record."""
    if sum("delta" in one.get("item", {}) for one in said) < 2:
        sys.exit("The answer came in one piece and not as a stream.")
    if session["status"] != "done" or not session["result"]:
        sys.exit(f"There is no answer: {session['status']}, {session['error']}.")
    if not session["tokens_in"] or not session["tokens_out"]:
        sys.exit("What the answer used is not on record.")
    return session["tokens_in"], session["tokens_out"]


if __name__ == "__main__":
    sys.exit(main())
