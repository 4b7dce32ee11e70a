"""Timing: schedules, queue depths, deadlocks, latency and interval; see README.md."""
