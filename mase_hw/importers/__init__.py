"""Importers: models of other tools become modules of torch that `trace` captures."""
