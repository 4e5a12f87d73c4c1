from __future__ import annotations

from hypothesis import settings

# A machine that is busy with something else is no fault of the code under test.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")
