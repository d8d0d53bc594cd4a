"""The sink: what it stores, what it answers, how it fails, and that it ends with its parent."""

import http.client
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.errors import ConfigError
from perdure.testing import Sink, SinkClient, SinkError, SinkRefused
from perdure.testing.proxy import wait_until

CUT = (http.client.RemoteDisconnected, ConnectionError)


@pytest.fixture
def run(sink: Sink) -> Iterator[SinkClient]:
    client = sink.run()
    yield client
    client.forget()


def log(sink: Sink, run: SinkClient) -> list[str]:
    return [line["what"] for line in sink.log(run.url.rpartition("/")[2])]


def kept(sink: Sink, run: SinkClient) -> int:
    return sum(sink.lasting(run.url.rpartition("/")[2]).values())


def test_a_key_is_stored_once(sink: Sink, run: SinkClient) -> None:
    assert run.post("k", {"n": 1}) == run.post("k", {"n": 1})
    assert log(sink, run) == ["posted", "kept", "posted", "repeated"]
    assert kept(sink, run) == 1


def test_a_key_for_another_body_is_refused(sink: Sink, run: SinkClient) -> None:
    run.post("k", {"n": 1})
    with pytest.raises(SinkError, match="422"):
        run.post("k", {"n": 2})
    assert kept(sink, run) == 1


def test_a_sink_without_keys_stores_every_post(sink: Sink, run: SinkClient) -> None:
    run.mode(keys=False)
    run.post("k", {"n": 1})
    run.post("k", {"n": 1})
    assert kept(sink, run) == 2


def test_a_marker_does_not_deduplicate(sink: Sink, run: SinkClient) -> None:
    first = run.post(None, {"n": 1}, marker="m")
    run.post(None, {"n": 1}, marker="m")
    assert [one["id"] for one in run.find(key="m")] == [first["id"]] * 2
    assert run.find(key="other") == []


def test_a_deleted_body_is_gone_and_its_key_stays_used(sink: Sink, run: SinkClient) -> None:
    run.post("k", {"n": 1})
    assert (run.delete(key="k"), run.delete(key="k")) == (1, 0)
    run.post("k", {"n": 1})
    assert run.find() == []
    assert kept(sink, run) == 0


def test_any_path_can_be_used(run: SinkClient) -> None:
    posted = run.post(None, {"body": "fine"}, path="repos/perdure/pulls/7/comments")
    (found,) = run.find(path=f"repos/perdure/pulls/7/comments/{posted['id']}")
    assert found["body"] == {"body": "fine"}
    assert run.find() == []


@pytest.mark.parametrize(("fault", "error", "left"), [("error", SinkError, 1), ("refuse", SinkRefused, 0)])
def test_a_refusal_proves_that_nothing_was_stored(
    fault: str, error: type[Exception], left: int, sink: Sink, run: SinkClient
) -> None:
    run.mode(fault=fault)
    with pytest.raises(error):
        run.post(None, {"n": 1})
    assert kept(sink, run) == left
    run.post(None, {"n": 1})  # each body fails once
    assert kept(sink, run) == left + 1


def test_the_connection_is_cut_after_the_commit(sink: Sink, run: SinkClient) -> None:
    run.mode(fault="cut")
    with pytest.raises(CUT):
        run.post(None, {"n": 1})
    assert kept(sink, run) == 1


def test_a_late_request_lands_without_its_client(sink: Sink, run: SinkClient) -> None:
    run.mode(fault="late_cut", delay=None)
    with pytest.raises(CUT):
        run.post(None, {"n": 1})
    assert kept(sink, run) == 0
    run.release()
    assert kept(sink, run) == 1


def test_a_waiting_client_is_answered_when_its_request_lands(sink: Sink, run: SinkClient) -> None:
    run.mode(fault="late", delay=None)
    answers: list[object] = []
    waiting = threading.Thread(target=lambda: answers.append(run.post(None, {"n": 1})))
    waiting.start()
    wait_until(lambda: "posted" in log(sink, run), "the request has arrived")
    assert kept(sink, run) == 0
    run.release()
    waiting.join()
    assert len(answers) == kept(sink, run) == 1


def test_a_slow_sink_answers_after_it_has_stored(sink: Sink, run: SinkClient) -> None:
    run.mode(fault="slow", delay=0.01)
    run.post(None, {"n": 1})
    assert kept(sink, run) == 1


def test_counts_are_those_of_the_log(sink: Sink, run: SinkClient) -> None:
    run.post("k", {"n": 1})
    run.find(key="k")
    run.note(verdict="happened")
    assert run.counts() == {"kept": 1, "looked": 1, "noted": 1, "posted": 1}


def test_a_forgotten_run_leaves_nothing(sink: Sink) -> None:
    run = sink.run("short")
    run.post("k", {"n": 1})
    run.forget()
    assert sink.log("short") == []
    assert run.find() == []


def test_there_is_no_sink_outside_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERDURE_SINK", raising=False)
    with pytest.raises(ConfigError, match="not part of a sweep"):
        SinkClient.here()


@pytest.mark.slow
def test_a_sink_ends_with_its_parent(tmp_path: Path) -> None:
    code = "from perdure.testing import Sink; import os; s = Sink(); s.__enter__(); print(s._process.pid, flush=True); "
    started = subprocess.run(
        [sys.executable, "-c", code + "os.kill(os.getpid(), 9)"], cwd=tmp_path, capture_output=True, text=True
    )
    pid = int(started.stdout)
    wait_until(lambda: not os.path.exists(f"/proc/{pid}") or _is_zombie(pid), "the sink has ended")


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize(("fault", "there"), [("kill_before", 0), ("kill_after", 1), ("kill_replied", 1)])
def test_sink_kills_the_client_of_one_body(sink: Sink, fault: str, there: int) -> None:
    client = sink.run(fault)
    client.mode(fault=fault, only={"n": 2}, delay=None)
    code = (
        f"import time; from perdure.testing.sink import SinkClient; c = SinkClient({client.url!r}); "
        "c.post(None, {'n': 1}); c.post(None, {'n': 2}); time.sleep(60)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    assert sink.lasting(fault)['effects {"n":1}'] == 1
    assert sink.lasting(fault)['effects {"n":2}'] == there


def test_sink_kills_the_client_before_a_late_commit(sink: Sink) -> None:
    client = sink.run("late")
    client.mode(fault="kill_late", delay=None)
    code = f"from perdure.testing.sink import SinkClient; SinkClient({client.url!r}).post(None, 7)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == -signal.SIGKILL
    assert not sink.lasting("late")
    client.release()
    wait_until(lambda: bool(sink.lasting("late")), "the request has landed")
