"""Where tests put what they throw away: in memory, if there is room; what a sync costs is not what they test."""

import os
import shutil

ROOM = 4 << 30
PLACE = "/dev/shm"
MEMORY = PLACE if os.access(PLACE, os.W_OK) and shutil.disk_usage(PLACE).free > ROOM else None  # None: wherever it is
