"""Runs the design of this project on a device: numpy arrays of codes in, arrays of codes out.

    from driver import Model
    from driver.serial_device import SerialDevice

    model = Model(SerialDevice("/dev/ttyUSB0"))
    classes = model.decode(model(model.encode(images)))

It needs Python 3.10 and numpy; a serial port also pyserial, a Zynq board pynq, and the simulated
device Verilator and a C++ compiler. The layout of packets is read from `design.json`.
"""

from .layout import DriverError, Port, TimedOutError, WrongDesignError
from .model import Model

__all__ = ["DriverError", "Model", "Port", "TimedOutError", "WrongDesignError"]
