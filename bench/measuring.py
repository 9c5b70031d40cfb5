"""What benches of speed share: timing calls in turn, percentiles, sizes, and a table with bars."""

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

from bench.log import percentile

Calls = Mapping[str, Callable[[str], object]]


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds that one thing took, again and again; also of processor time, which other programs disturb less."""

    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def ms(self, share: float) -> float:
        return percentile(self.seconds, share) * 1000

    @property
    def busy(self) -> str:
        return f"{percentile(self.cpu, 0.5) * 1000:.1f} / {percentile(self.cpu, 0.95) * 1000:.1f}" if self.cpu else "–"

    def __str__(self) -> str:
        return f"{self.ms(0.5):.1f} / {self.ms(0.95):.1f}" if self.seconds else "–"

    def __add__(self, other: Times) -> Times:
        """Of two things that were measured in turn, as if they were one."""
        return Times(
            [one + two for one, two in zip(self.seconds, other.seconds, strict=True)],
            [one + two for one, two in zip(self.cpu, other.cpu, strict=True)],
        )


def clock(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def in_turn(inputs: Sequence[str], calls: Calls) -> dict[str, Times]:
    """Every call with every input, one after the other, so that all see the same noise."""
    found = {name: Times() for name in calls}
    for one in inputs:
        for name, call in calls.items():
            start, busy = time.perf_counter(), time.process_time()
            call(one)
            found[name].seconds.append(time.perf_counter() - start)
            found[name].cpu.append(time.process_time() - busy)
    return found


def resident() -> float:
    """Megabytes this process has in memory now (at most, where the system does not tell)."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024 * 1024 if sys.platform == "darwin" else 1024)


def table_bytes(connection: apsw.Connection) -> dict[str, int]:
    """The bytes of each table and index of a database, in whole pages."""
    rows = connection.execute("SELECT name, sum(pgsize) FROM dbstat GROUP BY name")
    return {str(name): int(size or 0) for name, size in rows}


class Report:
    """A table of what was measured, beside its bar."""

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
        mark = "" if met is None else " [green]✓[/]" if met else " [red]✗[/]"
        if met is False:
            self.missed.append(f"{self._subject}: {name.strip()}")
        self._table.add_row(name, *cells, *[""] * (self._columns - len(cells)), bar + mark)

    def section(self) -> None:
        self._table.add_section()

    def show(self, console: Console) -> None:
        console.print(self._table)
