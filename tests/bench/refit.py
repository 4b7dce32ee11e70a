"""`python -m tests.bench.refit`: make the coefficients of areas and clock rates again.

Cells and designs that are new or changed are counted by Yosys and placed by nextpnr; the counts
lie beside this file, the coefficients in `mase_hw/hardware`. What is cut short goes on where it
stopped.
"""

import sys

from tests.bench import clock_fit, fit


def main() -> None:
    """Count, fit, write the files, and print the coefficients."""

    def say(text: str) -> None:
        sys.stderr.write(f"{text}\n")

    found = fit.refit(say)
    delays = {f"clock {name}": value for name, value in vars(clock_fit.refit(say)).items()}
    for name, value in {**found, **delays}.items():
        sys.stdout.write(f"{name}: {value:g}\n")


if __name__ == "__main__":
    main()
