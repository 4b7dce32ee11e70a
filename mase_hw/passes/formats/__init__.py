"""Number formats: chosen, calibrated, measured."""
