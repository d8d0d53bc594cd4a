"""What the doctor reports about notifications that people did not get."""

from perdure.control.doctor.notification_findings import of_notifications
from perdure.store.moves.notification import ChannelCounts


def found(waiting: int, failed: int, error: str | None) -> list[str]:
    return [one.level for one in of_notifications([ChannelCounts("ops", waiting, failed, error)])]


def test_what_people_were_not_told_is_a_finding() -> None:
    assert found(0, 0, None) == []
    assert found(0, 2, "the receiver answered 500") == ["risk"]
    assert found(1, 1, "the receiver answered 500") == ["risk", "risk"]
    assert found(3, 0, None) == ["note"]
