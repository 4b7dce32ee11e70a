"""Makes what is generated from the register map again: `python -m tests.registers`."""

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from systemrdl import RDLCompiler
from systemrdl.node import FieldNode, RegNode

from mase_hw.deploy import bus

FOLDER = bus.registers_folder()
SOURCE = FOLDER / "mase_control.rdl"
MAPS = {kind.registers: kind.in_memory for kind in bus.bus_kinds().values() if kind.registers}
DRIVER = FOLDER.parent / "driver" / "registers.py"


def generate(folder: Path) -> None:
    """Write the SystemVerilog, the C headers, the pages and the driver's table into a folder."""
    for name, memory in sorted(MAPS.items()):
        chosen = [str(SOURCE), "--rename", name, *(["-D", "MEMORY=1"] if memory else [])]
        options = ["--cpuif", "axi4-lite-flat", "--module-name", name]
        options += ["--package-name", f"{name}_pkg", "--type-style", "hier"]
        options += ["--err-if-bad-addr", "--err-if-bad-rw", "--default-reset", "rst"]
        for arguments in (
            ["regblock", *chosen, "-o", str(folder), *options],
            ["c-header", *chosen, "-o", str(folder / f"{name}.h")],
        ):
            command = [sys.executable, "-m", "peakrdl", *arguments]
            subprocess.run(command, check=True, capture_output=True)
        (folder / f"{name}.md").write_text(_page(_registers(memory)))
    every = {item.inst_name: item for memory in (False, True) for item in _registers(memory)}
    (folder / DRIVER.name).write_text(_table(every))


def _registers(memory: bool) -> list[RegNode]:
    compiler = RDLCompiler()
    compiler.compile_file(str(SOURCE), defines={"MEMORY": ""} if memory else {})
    return list(compiler.elaborate().top.registers())


def _page(registers: list[RegNode]) -> str:
    top = registers[0].parent
    lines = [f"# {top.get_property('name')}", "", _text(top), ""]
    lines += [
        "| address | register | bits | field | access | meaning |",
        "|---|---|---|---|---|---|",
    ]
    for item in registers:
        title = ". ".join(filter(None, (item.get_property("name"), _text(item)))).removesuffix(".")
        for field in item.fields():
            lines.append(
                f"| {item.absolute_address:#04x} | `{item.inst_name}` | {_bits(field)} | "
                f"`{field.inst_name}` | {field.get_property('sw').name} | {title}. {_text(field)} |"
            )
    return "\n".join(lines) + "\n"


def _bits(field: FieldNode) -> str:
    return str(field.low) if field.low == field.high else f"{field.high}:{field.low}"


def _text(node: Any) -> str:
    return " ".join((node.get_property("desc") or "").split())


def _table(registers: dict[str, RegNode]) -> str:
    lines = ['"""Addresses and fields of the registers, from the register map."""', ""]
    lines += [f"{name} = 0x{item.absolute_address:02X}" for name, item in registers.items()]
    magic = registers["MAGIC"].fields()[0].get_property("reset")
    lines += ["", f"MAGIC_WORD = 0x{magic:08X}"]
    for name in ("CONTROL", "STATUS"):
        fields = registers[name].fields()
        lines += [f"{name}_{field.inst_name.upper()} = {1 << field.low}" for field in fields]
    lines += ["# Fields of ERROR: lowest and highest bit.", "ERRORS = {"]
    lines += [f'    "{f.inst_name}": ({f.low}, {f.high}),' for f in registers["ERROR"].fields()]
    return "\n".join([*lines, "}"]) + "\n"


def main() -> None:
    """Replace what lies beside the register map."""
    with tempfile.TemporaryDirectory() as name:
        generate(Path(name))
        for path in Path(name).iterdir():
            target = DRIVER if path.name == DRIVER.name else FOLDER / path.name
            target.write_bytes(path.read_bytes())


if __name__ == "__main__":
    main()
