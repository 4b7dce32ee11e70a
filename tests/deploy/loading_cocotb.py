"""Loads weights into a running design, inside the simulator."""

import os
import struct
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import Timer

from tests.deploy.axis_cocotb import Bench


def arrays(kind: str) -> list[np.ndarray]:
    with np.load(os.environ["BUS_VECTORS"]) as found:
        return [found[name] for name in sorted(found) if name.startswith(kind)]


async def load(bench: Bench, image: bytes) -> tuple[int, int]:
    """Write an image; return STATUS and ERROR behind it."""
    await bench.write("CONTROL", 2)
    while not await bench.read("STATUS") & 2:
        pass
    for (word,) in struct.iter_unpack("<I", image):
        await bench.write("WEIGHTS", word)
    return await bench.read("STATUS"), await bench.read("ERROR")


async def check(bench: Bench, expected: np.ndarray) -> None:
    (inputs,), (port,) = arrays("in"), bench.ports["outputs"]
    task = cocotb.start_soon(bench.receive(len(inputs)))
    await bench.send([bench.ports["inputs"][0].pack(inputs)])
    (rows,) = await task
    np.testing.assert_array_equal(port.unpack(rows), expected)


@cocotb.test()
async def loads_between_inferences(dut: Any) -> None:
    """An image changes all inferences behind it and none before, while streams go on."""
    bench = Bench(dut)
    await bench.start()
    images = [Path(name).read_bytes() for name in os.environ["BUS_IMAGES"].split(":")]
    first, second, third = arrays("out")
    (inputs,), (port,) = arrays("in"), bench.ports["outputs"]
    await check(bench, first)
    packets = bench.ports["inputs"][0].pack(inputs)
    task = cocotb.start_soon(bench.receive(2 * len(inputs)))
    await bench.send([packets])
    await Timer(1, "us")
    loading = cocotb.start_soon(load(bench, images[1]))
    await bench.send([packets])
    (rows,) = await task
    assert (await loading)[0] & 6 == 4
    results = port.unpack(rows)
    changed = int(np.argmax((results[:, :] != np.tile(first, (2, 1))).any(axis=1)))
    assert 0 < changed < len(inputs)
    wanted = np.concatenate([first[:changed], np.tile(second, (2, 1))[changed:]])
    np.testing.assert_array_equal(results, wanted)
    await check(bench, second)
    assert (await load(bench, images[2]))[0] & 6 == 4
    await check(bench, third)
    assert await bench.read("ERROR") == 0
    bench.check_rules()


@cocotb.test()
async def wrong_images(dut: Any) -> None:
    """Images of another design, of another length, damaged, or unasked for are refused."""
    bench = Bench(dut)
    await bench.start()
    images = [Path(name).read_bytes() for name in os.environ["BUS_IMAGES"].split(":")]
    first, *_ = arrays("out")
    status, error = await load(bench, images[0])
    assert (status & 6, error) == (4, 0)
    right = images[1]
    for wrong in (
        b"\1" + right[1:4],
        right[:4] + b"\1" + right[5:8],
        right[:8] + struct.pack("<I", struct.unpack("<I", right[8:12])[0] + 1),
    ):
        status, error = await load(bench, wrong)
        assert (status & 6, error) == (4, 1 << 24)
        await bench.write("ERROR", 1 << 24)
        await check(bench, first)
    await bench.write("WEIGHTS", 5)
    assert await bench.read("ERROR") == 1 << 24
    await bench.write("ERROR", 1 << 24)
    damaged = right[:-4] + bytes([right[-4] ^ 1]) + right[-3:]
    status, error = await load(bench, damaged)
    assert (status & 6, error) == (0, 1 << 24)
    (inputs,) = arrays("in")
    await bench.send([bench.ports["inputs"][0].pack(inputs[:1])])
    await Timer(20, "us")
    assert await bench.read("INFERENCES_IN") == len(inputs) * 3
    await bench.write("ERROR", 1 << 24)
    status, error = await load(bench, images[0])
    assert (status & 6, error) == (4, 0)
    (rows,) = await bench.receive(1)
    np.testing.assert_array_equal(bench.ports["outputs"][0].unpack(rows), first[:1])
