"""Loads weights into a running design, inside the simulator."""

import os
import random
import struct
from pathlib import Path
from typing import Any

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, Timer, with_timeout

from tests.deploy.axis_cocotb import Bench, at


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


@cocotb.test()
async def loads_at_any_time(dut: Any) -> None:
    """Whenever a load comes, and however ports pause, results are of one image, then the next."""
    bench = Bench(dut)
    await bench.start()
    images = [Path(name).read_bytes() for name in os.environ["BUS_IMAGES"].split(":")]
    results = arrays("out")
    (inputs,), (port,) = arrays("in"), bench.ports["outputs"]
    packets = bench.ports["inputs"][0].pack(inputs)
    chance = random.Random(int(os.environ.get("BUS_SEED", "0")))
    held = 0
    for turn in range(int(os.environ.get("BUS_TURNS", "12"))):
        number = chance.randrange(len(images))
        bench.pause(chance.choice((0.0, 0.6)), turn)
        # A word is on offer, and stays so, while the design is closed.
        bench.sinks[0].pause = True
        task = cocotb.start_soon(bench.receive(len(inputs)))
        await bench.send([packets])
        await ClockCycles(dut.aclk, chance.randrange(1, 400))
        loading = cocotb.start_soon(load(bench, images[number]))
        await ClockCycles(dut.aclk, chance.randrange(1, 200))
        bench.pause(0.3, turn + 100)
        (rows,) = await task
        status, error = await with_timeout(loading, 20, "ms")
        assert (status & 6, error) == (4, 0), turn
        found = port.unpack(rows)
        old, new = results[held], results[number]
        fits = [
            place
            for place in range(len(inputs) + 1)
            if (found == np.concatenate([old[:place], new[place:]])).all()
        ]
        assert fits, turn
        held = number
        await check(bench, results[held])
    bench.check_rules()


@cocotb.test()
async def loads_that_are_cut(dut: Any) -> None:
    """An image that begins anew, or is ended by a reset, at any word: the next whole one holds."""
    bench = Bench(dut)
    await bench.start()
    images = [Path(name).read_bytes() for name in os.environ["BUS_IMAGES"].split(":")]
    results = arrays("out")
    words = [word for (word,) in struct.iter_unpack("<I", images[1])]
    for number, count in enumerate((0, 1, 2, 3, 4, len(words) // 2, len(words) - 1)):
        await bench.write("CONTROL", at.CONTROL_LOAD)
        while not await bench.read("STATUS") & at.STATUS_LOADING:
            pass
        for word in words[:count]:
            await bench.write("WEIGHTS", word)
        if number % 2:
            await bench.write("CONTROL", at.CONTROL_RESET)
        whole = await bench.read("STATUS") & at.STATUS_WEIGHTS_WHOLE
        # Hash and length come before what is written.
        assert bool(whole) == (count <= 3), count
        assert await bench.read("ERROR") == 0, count
        status, error = await load(bench, images[2])
        assert (status & 6, error) == (4, 0), count
        await check(bench, results[2])
    wrong = {
        "low word of the hash": (0, 1 << 31), "high word": (1, 1), "length": (2, 4),
    }  # fmt: skip
    for name, (place, bit) in wrong.items():
        data = bytearray(images[1])
        data[4 * place : 4 * place + 4] = (words[place] ^ bit).to_bytes(4, "little")
        status, error = await load(bench, bytes(data))
        assert (status & 6, error) == (4, 1 << 24), name
        await bench.write("ERROR", 1 << 24)
        await check(bench, results[2])
