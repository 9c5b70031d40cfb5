"""Pure decisions: functions over frozen dataclasses.

Nothing here reads a clock, a random number, a file or the network. Callers pass in times, ids, settings and bytes.
"""
