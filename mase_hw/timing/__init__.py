"""When beats move: times, queues, deadlocks, latency and interval; see README.md."""
