"""What passes insert: casts, queues, other tiles, shared layers."""
