"""Networks as logic: all constants unrolled, an inference every cycle."""
