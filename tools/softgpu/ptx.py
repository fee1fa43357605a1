"""A kernel's PTX as C++: a statement for each instruction.

`executor/instructions.h` and `executor/threads.h` say what each opcode means.
"""

import re
from collections.abc import Iterator

TYPES = frozenset(f"{kind}{bits}" for kind in "bus" for bits in (8, 16, 32, 64))
TYPES |= {"b128", "f32", "f64", "pred"}
REGISTERS = {"pred": "bool", "b16": "uint16_t", "b32": "uint32_t", "b64": "uint64_t"}
REGISTERS |= {"b128": "unsigned __int128", "f32": "float", "f64": "double"}
# Operands that are not of the instruction's type, by name; T is that type.
OPERANDS = {
    "selp": ("T", "T", "pred"),
    **dict.fromkeys(("shl", "shr"), ("T", "u32")),
    "bfi": ("T", "T", "u32", "u32"),
    "shf_l_wrap": ("T", "T", "u32"),
    "prmt": ("T", "T", "u32"),
    **dict.fromkeys(("vote_sync_any", "vote_sync_ballot"), ("pred", "u32")),
    "match_any_sync": ("T", "u32"),
    **{f"redux_sync_{fold}": ("T", "u32") for fold in ("max", "min", "add")},
    **{f"shfl_sync_{way}": ("u32",) * 4 for way in ("up", "bfly", "idx")},
}
# Names that are not a C++ identifier.
RESERVED = {name: f"{name}_" for name in ("and", "or", "xor", "not")}
SPECIAL = {
    "%tid.x": "executor::here.thread",
    "%ctaid.x": "executor::here.block",
    "%ntid.x": "executor::here.threads",
    "%nctaid.x": "executor::here.blocks",
}
GUARD = re.compile(r"@(!?)%(\w+)\s+")


class PtxError(Exception):
    """PTX that the translation does not know."""


def identifier(name: str) -> str:
    return re.sub(r"\W", "_", name.removeprefix("%"))


def split_operands(text: str) -> list[str]:
    """Operands of an instruction; those in braces or brackets stay together."""
    return [part.strip() for part in re.findall(r"(?:\{[^}]*\}|\[[^]]*\]|[^,{\[])+", text)]


class Kernel:
    """Makes the C++ of one kernel.

    Args:
        name: Mangled.
        body: Its instructions.
        strings: Constants of the module.
        dynamic: The symbol of dynamic shared memory.
    """

    def __init__(self, name: str, body: str, strings: set[str], dynamic: str) -> None:
        self._name, self._strings, self._dynamic = name, strings, dynamic
        self._body = body

    def statements(self) -> Iterator[str]:
        """C++ statements, declarations first."""
        text = re.sub(r"//[^\n]*", "", self._body)
        text = re.sub(r"^\s*[{}]\s*$", "", text, flags=re.MULTILINE)
        declared, done = [], []
        for part in re.split(r"(\$L__\w+:)|;", text):
            if part is None or not (line := part.strip()):
                continue
            if line.endswith(":"):
                done.append(f"{identifier(line[:-1])}:;")
            elif line.startswith("."):
                declared += self._declaration(line)
            else:
                done.append(self._guarded(line))
        yield from dict.fromkeys(declared)  # inline PTX declares its own each time
        yield from done

    def _declaration(self, line: str) -> Iterator[str]:
        words = line.replace("<", " ").replace(">", "").replace("\t", " ").split()
        if words[0] == ".reg" and words[2].startswith("%"):
            first, count = identifier(words[2]), int(words[3]) if len(words) > 3 else None
            names = [first] if count is None else [f"{first}{i}" for i in range(count)]
            yield f"{REGISTERS[words[1][1:]]} {', '.join(f'{n}{{}}' for n in names)};"
        elif words[0] not in (".reg", ".param", ".pragma"):
            raise PtxError(f"declaration: {line}")

    def _guarded(self, line: str) -> str:
        guard = GUARD.match(line)
        if guard is None:
            return self._instruction(line)
        done = self._instruction(line[guard.end() :])
        return f"if ({guard[1]}{guard[2]}) {{ {done} }}"

    def _instruction(self, line: str) -> str:
        opcode, _, rest = line.replace("\t", " ").replace("\n", " ").partition(" ")
        words = opcode.split(".")
        types = [word for word in words if word in TYPES]
        operands = split_operands(rest)
        match words[0]:
            case "ret" | "exit":
                return "return;"
            case "bra":
                return f"goto {identifier(operands[0])};"
            case "call":
                if operands[0] != "__assertfail":
                    raise PtxError(f"call: {line}")
                return "ptx::assert_failed(argument0);"
            case "ld" | "st":
                return self._memory(words, types[0], operands)
            case "atom" | "red":
                return self._atomic(words, types[0], operands)
            case "mov" if "{" in rest:
                return self._packed(types[0], *operands)
            case "cvta":
                return self._plain("mov", types[:1], operands)
            case "bar" | "barrier":
                return f"ptx::{'_'.join(words)}({self._value(operands[0], 'u32')});"
        kept = [w for w in words if w not in TYPES and w not in ("rn", "uni")]
        return self._plain("_".join(kept), types, operands)

    def _plain(self, name: str, types: list[str], operands: list[str]) -> str:
        target, *sources = operands
        expected = OPERANDS.get(name, ("T",) * len(sources))
        if name.startswith("cvt"):
            expected = (types[1],)
        values = [
            self._value(s, types[0] if e == "T" else e)
            for s, e in zip(sources, expected, strict=True)
        ]
        if name.startswith("shfl"):
            value, _, inside = target.partition("|")
            result = f"const auto s = ptx::{name}({', '.join(values)}); "
            result += f"ptx::set({identifier(value)}, s.value);"
            return (
                f"{{ {result} {identifier(inside)} = s.inside; }}" if inside else f"{{ {result} }}"
            )
        arguments = ", ".join(f"ptx::{t}" for t in types)
        call = f"ptx::{RESERVED.get(name, name)}<{arguments}>({', '.join(values)})"
        return f"ptx::set({identifier(target)}, {call});"

    def _value(self, operand: str, kind: str) -> str:
        return f"ptx::as<ptx::{kind}>({self._source(operand)})"

    def _source(self, operand: str) -> str:
        if operand in SPECIAL:
            return SPECIAL[operand]
        if operand.startswith("%"):
            return identifier(operand)
        if real := re.fullmatch(r"0([fd])([0-9A-F]+)", operand):
            return f"ptx::as<{'float' if real[1] == 'f' else 'double'}>(uint64_t{{0x{real[2]}}})"
        if re.fullmatch(r"-?(\d+|0x[0-9a-fA-F]+)U?", operand):
            return f"int64_t({operand}LL)" if operand != str(-(1 << 63)) else "INT64_MIN"
        if operand == self._dynamic:
            return "uint64_t{0}"
        if operand in self._strings:
            return f"reinterpret_cast<uint64_t>({identifier(operand)})"
        raise PtxError(f"operand: {operand}")

    def _address(self, space: str, operand: str, size: str, access: str) -> str:
        base, _, offset = operand.strip("[]").replace(" ", "").partition("+")
        place = f"{self._source(base)} + ({offset or 0})"
        if space == "shared":
            return f"ptx::shared(static_cast<uint32_t>({place}), {size})"
        return f"ptx::global({place}, {size}, SOFTGPU_{access})"

    def _memory(self, words: list[str], kind: str, operands: list[str]) -> str:
        space = next((w for w in words if w in ("shared", "global", "param")), "generic")
        count = next((int(w[1]) for w in words if w in ("v2", "v4")), 1)
        size = f"{count} * sizeof(ptx::{kind})"
        vector = f"std::array<ptx::{kind}, {count}>"
        if words[0] == "ld":
            values, address = operands
        else:
            address, values = operands
        names = [v.strip() for v in values.strip("{}").split(",")]
        if space == "param":
            return self._parameter(words[0], kind, address, names)
        place = self._address(space, address, size, "LOAD" if words[0] == "ld" else "STORE")
        if words[0] == "st":
            put = ", ".join(self._value(n, kind) for n in names)
            strong = ", true" if "relaxed" in words else ""
            return f"ptx::write({place}, {vector}{{{put}}}{strong});"
        get = "".join(f" ptx::set({identifier(n)}, v[{i}]);" for i, n in enumerate(names))
        return f"{{ const auto v = ptx::read<{vector}>({place});{get} }}"

    def _parameter(self, opcode: str, kind: str, address: str, names: list[str]) -> str:
        place, _, offset = address.strip("[]").partition("+")
        if opcode == "st":
            return f"argument0 = {self._source(names[0])};" if place == "param0" else ";"
        number = place.rpartition("_param_")[2]
        step = f"sizeof(ptx::{kind})"
        reads = (
            f"ptx::parameter<ptx::{kind}>(parameters, {number}, {offset or 0} + {i} * {step})"
            for i in range(len(names))
        )
        return " ".join(
            f"ptx::set({identifier(n)}, {r});" for n, r in zip(names, reads, strict=True)
        )

    def _atomic(self, words: list[str], kind: str, operands: list[str]) -> str:
        space = next((w for w in words if w in ("shared", "global")), "generic")
        fold = next(w for w in words if w in ("add", "max", "or"))
        names = [operands[-1]]
        if "v4" in words:
            names = operands[-1].strip("{}").split(",")
        size = f"{len(names)} * sizeof(ptx::{kind})"
        address = self._address(space, operands[-2], size, "ATOMIC")
        calls = [
            f"ptx::atom_{fold}<ptx::{kind}>(at + {i}, {self._value(n.strip(), kind)})"
            for i, n in enumerate(names)
        ]
        if words[0] == "atom":
            calls = [f"ptx::set({identifier(operands[0])}, {calls[0]})"]
        at = f"auto* const at = static_cast<ptx::{kind}*>({address})"
        return f"{{ {at}; {'; '.join(calls)}; }}"

    def _packed(self, kind: str, target: str, source: str) -> str:
        """mov between a register and the halves of its bits."""
        half = f"u{int(kind[1:]) // 2}"
        if target.startswith("{"):
            low, high = (identifier(n.strip()) for n in target.strip("{}").split(","))
            halves = f"ptx::unpack<ptx::{half}>({self._value(source, kind)})"
            return f"std::tie({low}, {high}) = {halves};"
        low, high = (self._value(n.strip(), half) for n in source.strip("{}").split(","))
        return f"ptx::set({identifier(target)}, ptx::pack<ptx::{kind}>({low}, {high}));"
