"""The same on PostgreSQL, and with the server itself killed by SIGKILL."""

import pytest

from perdure.testing import Sink
from perdure.testing.postgres import PostgresServer
from perdure.testing.sweep.server_pool import ServerPool
from tests.ledger.conftest import with_debits
from tests.ledger.support.faults import check_cell
from tests.ledger.support.matrix import ROWS, cells

pytestmark = [pytest.mark.postgres, pytest.mark.slow]


@pytest.mark.parametrize(("name", "fault"), cells("PostgreSQL", without="server killed"))
def test_every_effect_happens_once(name: str, fault: str, pool: ServerPool, sink: Sink, database: str) -> None:
    check_cell(name, fault, "PostgreSQL", pool, sink, database)


@pytest.mark.parametrize("name", ROWS)
def test_every_effect_happens_once_when_the_server_is_killed(
    name: str, pool: ServerPool, sink: Sink, victim: PostgresServer
) -> None:
    """The client is stopped, the server killed with all its processes and started again; then both continue."""
    check_cell(name, "server killed", "PostgreSQL", pool, sink, with_debits(victim.create_database()), victim)
