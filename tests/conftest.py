"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# A slow machine is no failure, and a few dozen drawn traces find what hundreds do.
settings.register_profile("tests", deadline=None, max_examples=30)
settings.load_profile("tests")


def pytest_collection_modifyitems(items):
    """Skip, and say so, what needs real traces where there are none; drive browsers last.

    Playwright leaves an event loop running as long as its browser is open, and IPython, in the
    tests of the magic, behaves differently under one.
    """
    items.sort(key=lambda item: Path(__file__).with_name("browser") in item.path.parents)
    if os.environ.get("CHOPPER_REAL_DATA"):
        return
    skip = pytest.mark.skip(reason="CHOPPER_REAL_DATA names no folder with real traces")
    for item in items:
        if item.get_closest_marker("real"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Return the folder of real traces; only for tests marked ``real``."""
    return Path(os.environ["CHOPPER_REAL_DATA"])
