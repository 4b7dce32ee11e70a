"""Single mutations of the SystemVerilog of a project, all in one text, chosen when it runs.

What is mutated is what the design elaborates: a branch of a `generate` that it does not take has no
mutation. A mutation of an expression stands beside the expression, behind a choice that a variable
of the package `mutants` makes, so that one build serves all of them. A mutation of what is constant
at elaboration, such as a parameter, is a text of its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mase_hw.errors import ToolError

if TYPE_CHECKING:
    from mase_hw.emit.design import DesignSummary

PACKAGE = "mutants"
CHOICE_FILE = "mutant.txt"
Kind = Literal["operator", "constant", "condition", "signal", "statement", "parameter", "memory"]
OPERATORS: Mapping[str, tuple[str, ...]] = {
    "+": ("-",), "-": ("+",), "*": ("+",), "/": ("*",), "%": ("*",),
    "&": ("|",), "|": ("&",), "^": ("&",), "&&": ("||",), "||": ("&&",),
    "==": ("!=",), "!=": ("==",), "<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="),
    ">=": (">", "<"), "<<": (">>",), ">>": ("<<",), "<<<": (">>>",), ">>>": (">>", "<<<"),
}  # fmt: skip
# What leaves one operand alone as if the other one were not there.
NEUTRAL = {"&&": "1'b1 &&", "||": "1'b0 ||"}
# Nobody reads them.
UNREAD = "unused"
SWAPS = 2
# pyslang has no types.
Syntax = Any


@dataclass(frozen=True)
class Mutation:
    """One mutation.

    Attributes:
        file: path in the project.
        line: in that file.
        start: first byte that is replaced; of a memory, the word.
        end: the byte behind them; of a memory, the bit.
        text: what stands there instead; empty for a statement that is left out.
        kind: what kind of mutation.
        was: what stood there.
    """

    file: str
    line: int
    start: int
    end: int
    text: str
    kind: Kind
    was: str

    @property
    def is_built_in(self) -> bool:
        """Whether it is chosen while the design runs."""
        return self.kind not in ("parameter", "memory")

    def __str__(self) -> str:
        """Return one line."""
        name = Path(self.file).name
        if self.kind == "memory":
            return f"{name}: bit {self.end} of word {self.start} inverted"
        now = " ".join(self.text.split()) or "nothing"
        return f"{name}:{self.line}: `{' '.join(self.was.split())}` is `{now}`"


class Finder:
    """Finds the mutations of a project.

    Args:
        project: the emitted folder.
        top: the module to elaborate.
        listing: its sources, packages first.

    Raises:
        ToolError: when pyslang is missing.
    """

    def __init__(self, project: Path, top: str = "top", listing: str = "files.f") -> None:
        try:
            import pyslang
        except ImportError as error:
            raise ToolError(
                "mutations need the package pyslang; install it: python -m pip install pyslang"
            ) from error
        self._ast, self._project = pyslang.ast, project.resolve()
        options = pyslang.ast.CompilationOptions()
        options.topModules = {top}
        self._compilation = pyslang.ast.Compilation(pyslang.Bag([options]))
        self._texts: dict[str, bytes] = {}
        for name in sources(project, listing):
            path = str(project / name)
            self._texts[name] = (project / name).read_bytes()
            self._compilation.addSyntaxTree(pyslang.syntax.SyntaxTree.fromFile(path))
        self._found: dict[tuple[str, int, int, str], Mutation] = {}
        self._scopes: list[Syntax] = []

    def mutations(self) -> list[Mutation]:
        """Return all, each once, in the order of the text."""
        self._scope(self._compilation.getRoot().topInstances[0].body)
        return sorted(self._found.values(), key=lambda item: (item.file, item.start, item.text))

    def _scope(self, scope: Syntax) -> None:
        self._scopes.append(scope)
        for member in scope:
            name = type(member).__name__
            if name == "InstanceSymbol":
                for connection in member.portConnections:
                    if str(connection.port.direction).endswith(".In"):
                        self._value(connection.expression, clocked=False)
                self._scope(member.body)
            elif name == "GenerateBlockSymbol" and not member.isUninstantiated:
                self._scope(member)
            elif name == "GenerateBlockArraySymbol":
                for entry in member.entries:
                    self._scope(entry)
            elif name == "ContinuousAssignSymbol":
                self._assigned(member.assignment, clocked=False)
            elif name == "ProceduralBlockSymbol":
                clocked = str(member.procedureKind).endswith("AlwaysFF")
                if clocked or str(member.procedureKind).endswith("AlwaysComb"):
                    self._statement(member.body, clocked)
            elif name == "ParameterSymbol":
                self._parameter(member.declaredType.initializer)
        self._scopes.pop()

    def _statement(self, node: Syntax, clocked: bool) -> None:
        name = type(node).__name__
        if name == "TimedStatement":
            self._statement(node.stmt, clocked)
        elif name == "BlockStatement":
            self._statement(node.body, clocked)
        elif name == "StatementList":
            for item in node.list:
                self._statement(item, clocked)
        elif name == "ConditionalStatement":
            for condition in node.conditions:
                self._condition(condition.expr, clocked)
            self._statement(node.ifTrue, clocked)
            if node.ifFalse is not None:
                self._statement(node.ifFalse, clocked)
        elif name == "ForLoopStatement":
            self._statement(node.body, clocked)
        elif name == "ExpressionStatement" and type(node.expr).__name__ == "AssignmentExpression":
            if clocked:
                self._add(node, "", "statement")
            self._assigned(node.expr, clocked)

    def _assigned(self, node: Syntax, clocked: bool) -> None:
        if not self._text(node.left).strip().startswith(UNREAD):
            self._value(node.right, clocked)

    def _condition(self, node: Syntax, clocked: bool) -> None:
        text = self._text(node)
        if self._constant(node):
            return
        for instead in ("1'b1", "1'b0", f"!({text})"):
            self._add(node, instead, "condition")
        self._value(node, clocked)

    def _value(self, node: Syntax, clocked: bool) -> None:
        """Find the mutations of an expression whose value is read."""
        if node is None or node.bad:
            return
        name = type(node).__name__
        if self._constant(node):
            self._literal(node)
        elif name == "BinaryExpression":
            self._operator(node, "operator")
            self._value(node.left, clocked)
            self._value(node.right, clocked)
        elif name == "UnaryExpression":
            operand, text = self._text(node.operand), self._text(node)
            sign = text.strip().lstrip("(")[:1]
            instead = {"&": f"|({operand})", "|": f"&({operand})", "^": f"|({operand})"}
            self._add(node, instead.get(sign, operand), "operator")
            self._value(node.operand, clocked)
        elif name == "ConditionalExpression":
            for branch in (node.left, node.right):
                self._add(node, self._text(branch), "condition")
                self._value(branch, clocked)
            for condition in node.conditions:
                if not self._constant(condition.expr):
                    self._value(condition.expr, clocked)
        elif name == "ConversionExpression":
            self._value(node.operand, clocked)
        elif name == "ConcatenationExpression":
            for operand in node.operands:
                self._value(operand, clocked)
        elif name == "ReplicationExpression":
            self._value(node.concat, clocked)
        elif name == "CallExpression":
            for argument in node.arguments:
                self._value(argument, clocked)
        elif name == "ElementSelectExpression":
            if not self._constant(node.selector):
                self._value(node.selector, clocked)
        elif name == "NamedValueExpression":
            self._swap(node, clocked)

    def _operator(self, node: Syntax, kind: Kind) -> None:
        file, start, end = self._range(node)
        _, left_start, left_end = self._range(node.left)
        _, right_start, right_end = self._range(node.right)
        text = self._texts[file]
        between = text[left_end:right_start].decode()
        sign = between.strip("() \n\t")
        if sign not in OPERATORS or between.count(sign) != 1:
            return
        head, tail = text[start:left_end].decode(), text[right_start:end].decode()
        for other in OPERATORS[sign]:
            self._add(node, head + between.replace(sign, other) + tail, kind)
        left, right = (
            text[first:last].decode()
            for first, last in ((left_start, left_end), (right_start, right_end))
        )
        if sign in NEUTRAL:
            left, right = f"{NEUTRAL[sign]} ({left})", f"{NEUTRAL[sign]} ({right})"
        elif sign not in "+-*&|^":
            return
        dropped: Kind = "condition" if sign in NEUTRAL and kind == "operator" else kind
        for operand in (left, right):
            self._add(node, operand, dropped)

    def _literal(self, node: Syntax) -> None:
        text = self._text(node).strip()
        if not node.type.isIntegral or node.type.isEnum:
            return
        if text in ("'0", "'1"):
            self._add(node, "'1" if text == "'0" else "'0", "constant")
        elif node.type.bitWidth == 1:
            self._add(node, f"!({text})", "constant")
        else:
            # One of one bit, in the sign of the expression: -1 as a signed number.
            more, less = ("- 1'sb1", "+ 1'sb1") if node.type.isSigned else ("+ 1'b1", "- 1'b1")
            self._add(node, f"({text}) {more}", "constant")
            self._add(node, f"({text}) {less}", "constant")

    def _swap(self, node: Syntax, clocked: bool) -> None:
        symbol = node.symbol
        if symbol.name in ("clk", "rst") or not symbol.type.isIntegral:
            return
        width, wanted = symbol.type.bitWidth, _declared(symbol)
        others = [
            item.name
            for scope in self._scopes[self._scopes.index(self._body()) :]
            for item in scope
            if type(item).__name__ in ("VariableSymbol", "NetSymbol")
            and item.name not in ("clk", "rst", symbol.name)
            and not item.name.startswith(UNREAD)
            and item.type.isIntegral
            and item.type.bitWidth == width
            and item.type.isSigned == symbol.type.isSigned
            and _declared(item) == wanted
            # Registers close no loop; nor does anything in front of a register.
            and (clocked or item.name.endswith("_q"))
        ]
        chance = random.Random(f"{symbol.name} {self._range(node)}")
        for name in chance.sample(others, min(SWAPS, len(others))):
            self._add(node, name, "signal")

    def _body(self) -> Syntax:
        """Return the module that the traversal is in."""
        return next(
            scope for scope in self._scopes[::-1] if type(scope).__name__ == "InstanceBodySymbol"
        )

    def _parameter(self, node: Syntax) -> None:
        """Find the mutations of a constant, as texts of their own."""
        if node is None or node.bad or not self._is_here(node):
            return
        name = type(node).__name__
        if name == "BinaryExpression":
            self._operator(node, "parameter")
            self._parameter(node.left)
            self._parameter(node.right)
        elif name == "ConditionalExpression":
            for branch in (node.left, node.right):
                self._add(node, self._text(branch), "parameter")
                self._parameter(branch)
        elif name == "ConversionExpression":
            self._parameter(node.operand)
        elif name == "CallExpression":
            for argument in node.arguments:
                self._parameter(argument)
        elif name in ("IntegerLiteral", "NamedValueExpression"):
            type_ = node.type
            if type_.isIntegral and not type_.isEnum and type_.bitWidth > 1:
                text = self._text(node).strip()
                self._add(node, f"{text} + 1", "parameter")
                self._add(node, f"{text} - 1", "parameter")
            elif type_.isIntegral and type_.bitWidth == 1:
                self._add(node, f"!{self._text(node).strip()}", "parameter")

    def _constant(self, node: Syntax) -> bool:
        """Return whether an expression reads nothing that moves."""
        moves = [False]
        ast = self._ast

        def look(item: Syntax) -> Syntax:
            if type(item).__name__ in ("NamedValueExpression", "HierarchicalValueExpression"):
                kind = type(item.symbol).__name__
                moves[0] |= kind not in ("ParameterSymbol", "GenvarSymbol", "EnumValueSymbol")
            return ast.VisitAction.Advance

        node.visit(look)
        return not moves[0]

    def _is_here(self, node: Syntax) -> bool:
        return self._file(node) in self._texts

    def _file(self, node: Syntax) -> str:
        buffer = node.sourceRange.start.buffer
        name = Path(self._compilation.sourceManager.getFullPath(buffer))
        return str(name.relative_to(self._project)) if name.is_relative_to(self._project) else ""

    def _range(self, node: Syntax) -> tuple[str, int, int]:
        places = node.sourceRange
        return self._file(node), places.start.offset, places.end.offset

    def _text(self, node: Syntax) -> str:
        file, start, end = self._range(node)
        return self._texts[file][start:end].decode()

    def _add(self, node: Syntax, text: str, kind: Kind) -> None:
        file, start, end = self._range(node)
        # `mase_pkg` is what constants are made with; `.port` stands for `.port(port)`.
        if not file or file.endswith("_pkg.sv") or self._texts[file][start - 1 : start] == b".":
            return
        was = self._texts[file][start:end].decode()
        line = self._compilation.sourceManager.getLineNumber(node.sourceRange.start)
        if was.strip() != text.strip():
            self._found.setdefault(
                (file, start, end, text), Mutation(file, line, start, end, text, kind, was)
            )


def _declared(symbol: Syntax) -> str:
    """Return the type of a variable as it is written."""
    syntax = symbol.declaredType.typeSyntax
    return " ".join(str(syntax).split()) if syntax is not None else str(symbol.type)


def sources(project: Path, listing: str = "files.f") -> list[str]:
    """Return the sources of a project, packages first."""
    lines = [line.strip() for line in (project / listing).read_text().splitlines()]
    return [line for line in lines if line.endswith(".sv")]


def memory_bits(project: Path, summary: DesignSummary, seed: int, count: int) -> list[Mutation]:
    """Return mutations of one bit of a memory image each, of bits that are read."""
    chance = random.Random(seed)
    found = []
    for name in summary.memories:
        words = (project / name).read_text().split()
        found += [(name, place, 4 * len(word)) for place, word in enumerate(words)]
    if (memory := summary.external) is not None:
        for region in memory.regions:
            places = range(region.offset, region.offset + region.words * region.width_bits // 8)
            found += [(memory.file, place, 8) for place in places]
    return [
        Mutation(name, place + 1, place, chance.randrange(width), "", "memory", "")
        for name, place, width in chance.sample(found, min(count, len(found)))
    ]


def invert(project: Path, mutation: Mutation) -> None:
    """Invert the bit of a memory image."""
    path, place, bit = project / mutation.file, mutation.start, 1 << mutation.end
    data = bytearray(path.read_bytes())
    if path.suffix == ".bin":
        data[place] ^= bit
        path.write_bytes(data)
        return
    words = data.decode().split()
    width = len(words[place])
    words[place] = f"{int(words[place], 16) ^ bit:0{width}x}"
    path.write_text("".join(f"{word}\n" for word in words))


def replaced(text: bytes, mutation: Mutation) -> bytes:
    """Return a source with one mutation in place."""
    instead = f"({mutation.text})" if mutation.text else ""
    return text[: mutation.start] + instead.encode() + text[mutation.end :]


def combined(text: bytes, mutations: Mapping[int, Mutation]) -> bytes:
    """Return a source with mutations of it behind their choice, by number from 1.

    Ranges nest, as expressions do. What stands in a mutation is the text as it was.
    """
    places: dict[tuple[int, int], list[int]] = {}
    for number, item in mutations.items():
        places.setdefault((item.start, item.end), []).append(number)
    ordered = sorted(places, key=lambda place: (place[0], -place[1]))

    def write(start: int, end: int, inner: Sequence[tuple[int, int]]) -> bytes:
        found, position, index = b"", start, 0
        while index < len(inner):
            place = inner[index]
            within = [item for item in inner[index + 1 :] if item[1] <= place[1]]
            found += text[position : place[0]] + choose(place, within)
            position, index = place[1], index + 1 + len(within)
        return found + text[position:end]

    def choose(place: tuple[int, int], inner: Sequence[tuple[int, int]]) -> bytes:
        body = write(*place, inner).decode()
        numbers = places[place]
        if not mutations[numbers[0]].text:
            left_out = " && ".join(f"{PACKAGE}::chosen != {number}" for number in numbers)
            return f"begin if ({left_out}) {body} end".encode()
        for number in numbers:
            body = f"({PACKAGE}::chosen == {number}) ? ({mutations[number].text}) : ({body})"
            body = f"({body})"
        return body.encode()

    return write(0, len(text), ordered)


def package(number: int | None) -> str:
    """Return the package that makes the choice: `number`, or what a file says in the run."""
    if number is not None:
        return f"package {PACKAGE};\n  localparam int chosen = {number};\nendpackage\n"
    return f"""package {PACKAGE};
  function automatic int read();
    int file;
    int number;
    file = $fopen("{CHOICE_FILE}", "r");
    if ($fscanf(file, "%d", number) != 1) number = 0;
    $fclose(file);
    return number;
  endfunction
  int chosen = read();
endpackage
"""


def write_combined(
    project: Path, texts: Mapping[str, bytes], mutations: Mapping[int, Mutation], number: int | None
) -> Iterator[str]:
    """Write the sources of a project with all mutations; yield what was changed.

    Args:
        project: where they are written.
        texts: the sources as they were, by path.
        mutations: those that a choice is made of, by number.
        number: the one that is chosen for good; None leaves it to the run.
    """
    (project / f"{PACKAGE}.sv").write_text(package(number))
    for name, text in texts.items():
        chosen = {number: item for number, item in mutations.items() if item.file == name}
        (project / name).write_bytes(combined(text, chosen))
        if chosen:
            yield name
    (project / "files.f").write_text("".join(f"{name}\n" for name in [f"{PACKAGE}.sv", *texts]))
