"""Every error this package raises on purpose descends from `MaseError`."""

from __future__ import annotations


class MaseError(Exception):
    """Root of all errors: the message says what was asked, what was found and what is allowed."""


class UnitError(MaseError):
    """The file of an operator, a cell or another unit is at fault, not what it was given."""


class CaptureError(MaseError):
    """A model could not be captured as a graph."""


class UnsupportedError(MaseError):
    """A node, format or shape has no hardware or no integer reference."""


class FormatError(MaseError):
    """A number format was given parameters or data that it does not define."""


class ConfigError(MaseError):
    """A configuration names something that does not exist or a value that is not allowed."""


class ParallelismError(ConfigError):
    """A parallelism does not fit the tensor that it is asked for."""


class EmissionError(MaseError):
    """A hardware project could not be written."""


class SimulationError(MaseError):
    """A simulation could not be built, or did not finish."""


class SynthesisError(MaseError):
    """Synthesis, or place and route, failed."""


class RoutingError(MaseError):
    """A design could not be placed and routed, or does not meet its clock."""


class DoesNotFitError(RoutingError):
    """A design takes more than its device has."""


class ProofError(MaseError):
    """A proof could not be set up, or its solver failed."""


class ToolError(MaseError):
    """An external tool is missing or broken."""


class CacheError(MaseError):
    """The cache of downloads and builds cannot be used."""


class DataError(MaseError):
    """A data set or model file is missing, broken or of another kind."""


class SearchError(MaseError):
    """A search cannot start, go on or give a result."""


class PrecisionError(MaseError):
    """No number formats keep what is asked of them."""


class OutputError(MaseError):
    """A file of results cannot be written, or is somebody else's."""
