"""A pytest plugin that reports the processor time of each test: a shared machine disturbs it less than the clock.

python -m pytest -p processor_time --processor-time 30 tests/text
"""

import os
from collections import defaultdict

import pytest

_SECONDS: dict[str, float] = defaultdict(float)


def pytest_addoption(parser):
    parser.addoption("--processor-time", type=int, default=0, metavar="N", help="list the N most expensive tests")


def _seconds():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


_BEGIN = pytest.StashKey[float]()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    item.stash[_BEGIN] = _seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if call.when == "teardown":
        report.user_properties.append(("processor_seconds", _seconds() - item.stash.get(_BEGIN, 0.0)))
    return report


def pytest_runtest_logreport(report):
    if report.when == "teardown":
        _SECONDS[report.nodeid] += dict(report.user_properties).get("processor_seconds", 0.0)


def pytest_terminal_summary(terminalreporter, config):
    count = config.getoption("--processor-time")
    if not count:
        return
    total = sum(_SECONDS.values())
    terminalreporter.write_line(f"processor time: {total:.0f} s in {len(_SECONDS)} tests")
    for name, seconds in sorted(_SECONDS.items(), key=lambda row: -row[1])[:count]:
        terminalreporter.write_line(f"{seconds:8.1f} s  {name}")
