"""Names of nodes: the module path of the user's model, valid in Python and in SystemVerilog."""

from __future__ import annotations

import builtins
import keyword
import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from torch.fx import Node

SYSTEMVERILOG_KEYWORDS = frozenset(
    """accept_on alias always always_comb always_ff always_latch and assert assign assume automatic
    before begin bind bins binsof bit break buf bufif0 bufif1 byte case casex casez cell chandle
    checker class clocking cmos config const constraint context continue cover covergroup
    coverpoint cross deassign default defparam design disable dist do edge else end endcase
    endchecker endclass endclocking endconfig endfunction endgenerate endgroup endinterface
    endmodule endpackage endprimitive endprogram endproperty endsequence endspecify endtable
    endtask enum event eventually expect export extends extern final first_match for force foreach
    forever fork forkjoin function generate genvar global highz0 highz1 if iff ifnone ignore_bins
    illegal_bins implements implies import incdir include initial inout input inside instance int
    integer interconnect interface intersect join join_any join_none large let liblist library
    local localparam logic longint macromodule matches medium modport module nand negedge nettype
    new nexttime nmos nor noshowcancelled not notif0 notif1 null or output package packed parameter
    pmos posedge primitive priority program property protected pull0 pull1 pulldown pullup
    pulsestyle_ondetect pulsestyle_onevent pure rand randc randcase randsequence rcmos real
    realtime ref reg reject_on release repeat restrict return rnmos rpmos rtran rtranif0 rtranif1
    s_always s_eventually s_nexttime s_until s_until_with scalared sequence shortint shortreal
    showcancelled signed small soft solve specify specparam static string strong strong0 strong1
    struct super supply0 supply1 sync_accept_on sync_reject_on table tagged task this throughout
    time timeprecision timeunit tran tranif0 tranif1 tri tri0 tri1 triand trior trireg type typedef
    union unique unique0 unsigned until until_with untyped use uwire var vectored virtual void wait
    wait_order wand weak weak0 weak1 while wildcard wire with within wor xnor xor""".split()  # noqa: SIM905
)
_RESERVED = SYSTEMVERILOG_KEYWORDS | set(keyword.kwlist) | set(dir(builtins)) | {"torch", "self"}


class ModuleCall(NamedTuple):
    """The call of the user's module that made a node.

    Attributes:
        path: dotted path below the model, empty for the model itself.
        key: tells the calls of a shared module apart.
        class_name: class of the module.
    """

    path: str
    key: str
    class_name: str


def module_call(node: Node) -> ModuleCall:
    """Return the innermost module call that `node` was captured in."""
    stack = node.meta.get("nn_module_stack") or {}
    if not stack:
        return ModuleCall("", "", "")
    key, (path, kind) = list(stack.items())[-1]
    class_name = kind if isinstance(kind, str) else kind.__name__
    return ModuleCall(str(path).split("@")[0], str(key), class_name.rpartition(".")[2])


def operation_name(node: Node) -> str:
    """Return the short name of what a node calls, such as `relu`."""
    schema = getattr(node.target, "_schema", None)
    name = schema.name if schema is not None else getattr(node.target, "__name__", str(node.target))
    return str(name).rpartition("::")[2].strip("_")


def node_names(nodes: Iterable[Node]) -> dict[Node, str]:
    """Return a unique readable name for every node.

    The only call of a leaf module takes the module's path (`fc1`); several take the path and the
    operation (`attention_matmul`); calls outside leaf modules are named by the operation, below
    their module's path where there is one.
    """
    listed = list(nodes)
    calls = {node: module_call(node) for node in listed if node.op == "call_function"}
    containers = _containers(calls)
    sizes = Counter(calls.values())
    names: dict[Node, str] = {}
    used: set[str] = {"output"}
    owners: dict[str, str] = {}
    order = {"placeholder": 0, "get_attr": 2, "output": 3}
    for node in sorted(listed, key=lambda node: order.get(node.op, 1)):
        if node.op == "output":
            names[node] = "output"
            continue
        call = calls.get(node)
        if call is None:
            owner, _, leaf = str(node.target).rpartition(".")
            wanted, prefix = str(node.target), "model" if node.op == "placeholder" else "constant"
            if owner in owners:
                wanted = f"{owners[owner]}_{leaf}"
        else:
            wanted, prefix = operation_name(node), "op"
            if call.path and sizes[call] == 1 and call.path not in containers:
                wanted, prefix = call.path, call.class_name.lower()
            elif call.path:
                wanted, prefix = f"{call.path}_{wanted}", call.class_name.lower()
        names[node] = _unique(_identifier(wanted, prefix), used)
        if call is not None and wanted == call.path:
            owners.setdefault(call.path, names[node])
    return names


def _containers(calls: dict[Node, ModuleCall]) -> set[str]:
    paths = {""}
    for call in calls.values():
        parts = call.path.split(".")
        paths.update(".".join(parts[:depth]) for depth in range(len(parts)))
    for node in calls:
        stack = list((node.meta.get("nn_module_stack") or {}).values())
        paths.update(str(path).split("@")[0] for path, _ in stack[:-1])
    return paths


def _identifier(text: str, prefix: str) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", text)
    if not name.strip("_") or name[0].isdigit() or name in _RESERVED:
        return f"{prefix}_{name}"
    return name


def _unique(name: str, used: set[str]) -> str:
    candidate, number = name, 0
    while candidate in used:
        number += 1
        candidate = f"{name}_{number}"
    used.add(candidate)
    return candidate
