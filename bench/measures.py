"""Measures that all benches of speed share: times, percentiles, sizes, and a table that compares them with bars."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import apsw
from rich.console import Console
from rich.table import Table

Calls = Mapping[str, Callable[[str], object]]


def percentile(values: list[float], share: float) -> float:
    """Return the value below which `share` (0 to 1) of the values lie."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


@dataclass(frozen=True, slots=True)
class Times:
    """The seconds of repeated calls, by the clock and of processor time, which other programs disturb less."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def ms(self, share: float) -> float:
        """Return a percentile of the times, in milliseconds."""
        return percentile(self.seconds, share) * 1000

    @property
    def busy(self) -> str:
        """Return p50 / p95 of the processor time, in milliseconds."""
        return f"{percentile(self.cpu, 0.5) * 1000:.1f} / {percentile(self.cpu, 0.95) * 1000:.1f}" if self.cpu else "–"

    def __str__(self) -> str:
        return f"{self.ms(0.5):.1f} / {self.ms(0.95):.1f}" if self.seconds else "–"

    def __add__(self, other: Times) -> Times:
        """Add the times of two calls that were measured in turn, as if they were one call."""
        return Times(
            [own + others for own, others in zip(self.seconds, other.seconds, strict=True)],
            [own + others for own, others in zip(self.cpu, other.cpu, strict=True)],
        )


def time_call(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def time_in_turn(inputs: Sequence[str], calls: Calls) -> dict[str, Times]:
    """Make every call with every input, one after the other, so that all of them see the same noise."""
    times = {name: Times() for name in calls}
    for text in inputs:
        for name, call in calls.items():
            start, busy = time.perf_counter(), time.process_time()
            call(text)
            times[name].seconds.append(time.perf_counter() - start)
            times[name].cpu.append(time.process_time() - busy)
    return times


def resident_mb() -> float:
    """Return the megabytes that this process has in memory now; its peak if the system does not tell."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def table_bytes(connection: apsw.Connection) -> dict[str, int]:
    """Return the bytes of each table and index of a database, in whole pages."""
    rows = connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name")
    return {str(name): int(size or 0) for name, size in rows}


class Report:
    """A table of measured values beside their bars. `missed` lists the bars that were not met."""

    def __init__(self, title: str, *columns: str) -> None:
        self._table = Table(title=title, title_justify="left")
        self._subject = title.partition(",")[0]
        self._columns = len(columns)
        self._table.add_column("")
        for column in columns:
            self._table.add_column(column, justify="right")
        self._table.add_column("bar")
        self.missed: list[str] = []

    def add(self, name: str, *cells: str, bar: str = "", met: bool | None = None) -> None:
        """Add a row. `met` says whether the bar is met; None if there is no bar."""
        mark = "" if met is None else " [green]✓[/]" if met else " [red]✗[/]"
        if met is False:
            self.missed.append(f"{self._subject}: {name.strip()}")
        self._table.add_row(name, *cells, *[""] * (self._columns - len(cells)), bar + mark)

    def section(self) -> None:
        """Draw a line below the last row."""
        self._table.add_section()

    def show(self, console: Console) -> None:
        """Print the table."""
        console.print(self._table)
