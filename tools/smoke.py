"""Run a session with a small real model on this machine: `make smoke`.

    run      the answer is streamed, and it is recorded with its token usage
    again    the model server is stopped now, so a second request would fail

This is not part of `make test`, because it downloads the model, once, into its own environment.
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
                    sys.exit("The model server did not start.")
                first = run(place, address)
            finally:
                server.terminate()
        used = check(first, perdure(place, "show", "smoke")[0]["session"])
        run(place, address)
        again = perdure(place, "show", "smoke")[0]["session"]
    if (again["tokens_in"], again["tokens_out"]) != used:
        sys.exit("The second run used more tokens.")
    print(f"A real model answered, with one request: {again['result']!r} ({used[0]} tokens in, {used[1]} out)")
    return 0


def run(place: str, address: str) -> list[dict[str, Any]]:
    """Start or continue the session; return the objects that it prints."""
    prompt = ["run", "Say hello in one word.", "--model", "openai:smollm2", "--once", "--tool", "read_file"]
    return perdure(place, *prompt, "--turns", "2", "--id", "smoke", "--repo", place, OPENAI_BASE_URL=f"{address}/v1")


def perdure(place: str, *words: str, **told: str) -> list[dict[str, Any]]:
    line = [str(PERDURE), *words, "--json", "--store", str(Path(place, "perdure.db"))]
    done = subprocess.run(line, env=os.environ | told, stdout=subprocess.PIPE, text=True, check=False, timeout=300)
    if done.returncode:
        sys.exit(f"perdure {words[0]} ended with {done.returncode}: {done.stdout}")
    return [json.loads(said) for said in done.stdout.splitlines()]


def check(said: list[dict[str, Any]], session: dict[str, Any]) -> tuple[int, int]:
    """The tokens used, if there is an answer and all of it is recorded."""
    if sum("delta" in one.get("item", {}) for one in said) < 2:
        sys.exit("The answer was not streamed.")
    if session["status"] != "done" or not session["result"]:
        sys.exit(f"There is no answer: {session['status']}, {session['error']}.")
    if not session["tokens_in"] or not session["tokens_out"]:
        sys.exit("The token usage of the answer is not recorded.")
    return session["tokens_in"], session["tokens_out"]


if __name__ == "__main__":
    sys.exit(main())
