"""Hardware: orders, parallelism, memories, queues, layers that share it."""
