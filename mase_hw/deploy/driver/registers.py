"""Addresses and fields of the registers, from the register map."""

MAGIC = 0x00
VERSION = 0x04
HASH_LOW = 0x08
HASH_HIGH = 0x0C
PORTS = 0x10
CONTROL = 0x14
STATUS = 0x18
ERROR = 0x1C
CYCLES = 0x20
INFERENCES_IN = 0x24
INFERENCES_OUT = 0x28
FIRST_WRONG = 0x2C
INDEX = 0x30
DESCRIPTION = 0x34
WEIGHTS = 0x38
BATCH = 0x3C
INPUT_LOW = 0x40
INPUT_HIGH = 0x44
OUTPUT_LOW = 0x48
OUTPUT_HIGH = 0x4C
COUNT = 0x50
INTERRUPT = 0x54

MAGIC_WORD = 0x4D415345
CONTROL_RESET = 1
CONTROL_LOAD = 2
CONTROL_START = 4
STATUS_BUSY = 1
STATUS_LOADING = 2
STATUS_WEIGHTS_WHOLE = 4
STATUS_DONE = 8
# Fields of ERROR: lowest and highest bit.
ERRORS = {
    "short_packet": (0, 7),
    "long_packet": (8, 15),
    "bad_keep": (16, 23),
    "bad_weights": (24, 24),
    "bad_memory": (25, 25),
    "bad_external": (26, 26),
    "bad_start": (27, 27),
    "lost": (28, 28),
}
