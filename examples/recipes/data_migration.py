"""Change a large table in small batches, each exactly once, in the database that Perdure uses.

    python data_migration.py shop.db

Prices are converted from euros to cents. Running a batch twice would be wrong, and no key or probe is needed: a `joint`
tool writes in the store's own transaction, so a batch and the record of it commit together or not at all.
"""

import sys

import perdure
from perdure import Session, Transaction, program, tool

BATCH = 1000


@tool(replay="joint")
def add_column(tx: Transaction) -> None:
    tx.execute("alter table product add column cents integer")


@tool(replay="joint")
def convert_prices(tx: Transaction, after: int) -> int | None:
    """Convert the next batch; returns its last id, or None when there is nothing left."""
    rows = tx.execute("select id from product where id > ? order by id limit ?", (after, BATCH))
    if not rows:
        return None
    last: int = rows[-1][0]
    tx.execute("update product set cents = euros * 100, euros = 0 where id > ? and id <= ?", (after, last))
    return last


@program
async def migrate_prices(s: Session) -> int:
    """Returns the number of batches."""
    await s.do(add_column)
    batches, last = 0, await s.do(convert_prices, after=0)
    while last is not None:
        batches, last = batches + 1, await s.do(convert_prices, after=last)
    return batches


if __name__ == "__main__":
    print(perdure.run(migrate_prices.bind(), id="prices-in-cents", store=sys.argv[1]), "batches")
