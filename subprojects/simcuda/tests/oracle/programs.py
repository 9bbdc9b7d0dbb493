"""Programs drawn at random: CUDA C++ that nvcc compiles for the device and the host's compiler for the host.

A program is one function of a thread, or of a block: then it is a list of phases, between which the threads of the block
wait for each other or exchange values. On the host a phase is run for one thread after another. What one thread computes
in a phase never depends on what another one does in it, so both orders have one result.
"""

import random

THREADS = 256  # at most, of a launch
WORDS_IN = 16  # of each thread
WORDS_OUT = 24
OWN_WORDS = 16

VARIABLES = {  # of each type: their names and what they are at first
    "u32": [("u0", "in[0]"), ("u1", "in[1]"), ("u2", "tid")],
    "s32": [("i0", "(s32)in[2]"), ("i1", "(s32)in[3]")],
    "u64": [("w0", "(u64)in[4] << 32 | in[5]"), ("w1", "(u64)in[1]")],
    "s64": [("l0", "(s64)((u64)in[6] << 32 | in[7])"), ("l1", "(s64)(s32)in[2]")],
    "u16": [("h0", "one_nan_half((u16)in[8])"), ("h1", "one_nan_half((u16)(in[8] >> 16))")],
    "u8": [("b0", "(u8)in[9]")],
    "s8": [("c0", "(s8)(in[9] >> 8)")],
    "s16": [("t0", "(s16)(in[9] >> 16)")],
    "float": [("f0", "one_nan(f_of(in[10]))"), ("f1", "one_nan(f_of(in[11]))"), ("f2", "(float)(s32)in[2]")],
    "double": [("d0", "one_nan(d_of((u64)in[12] << 32 | in[13]))"), ("d1", "(double)f_of(in[14])")],
}
# Templates: {NAME} is an expression of that type, one level down.
EXPRESSIONS = {
    "u32": ["({u32} + {u32})", "({u32} - {u32})", "({u32} * {u32})", "({u32} & {u32})", "({u32} | {u32})",
            "({u32} ^ {u32})", "(~{u32})", "({u32} << ({u32} & 31))", "({u32} >> ({u32} & 31))", "({u32} / ({u32} | 1))",
            "({u32} % ({u32} | 1))", "({bool} ? {u32} : {u32})", "(u32){s32}", "(u32){u64}", "(u32)({u64} >> 32)",
            "(u32){u8}", "(u32){s8}", "(u32){u16}", "(u32)({s16} + {s8})", "popc({u32})", "popcll({u64})", "clz({u32})", "clzll({u64})",
            "brev({u32})", "first_set({u32})", "byte_perm({u32}, {u32}, {u32})", "shift_left({u32}, {u32}, {u32})",
            "shift_right({u32}, {u32}, {u32})", "shift_left_clamp({u32}, {u32}, {u32} & 63)",
            "shift_right_clamp({u32}, {u32}, {u32} & 63)", "mul_high({u32}, {u32})", "mul_24({u32}, {u32})",
            "sad({u32}, {u32}, {u32})", "average({u32}, {u32})", "dot4({u32}, {u32}, {u32})", "add_pairs({u32}, {u32})",
            "differ_bytes({u32}, {u32})", "bits_of({float})", "u_of_f_ru({float})", "u_of_d({double})",
            "h2_fma({u32}, {u32}, {u32})", "({u32} < {u32} ? {u32} : {u32})", "(({u32} & {u32}) | (~{u32} & {u32}))",
            "(u32)({u32} >> 5 & 255)", "({u32} * 31u + 7u)", "({u32} % 10u)", "({u32} / 3u)"],
    "s32": ["s_add({s32}, {s32})", "s_sub({s32}, {s32})", "s_mul({s32}, {s32})", "s_div({s32}, {s32})", "s_rem({s32}, {s32})",
            "({s32} >> ({u32} & 31))", "({s32} & {s32})", "({s32} ^ {s32})", "({s32} < {s32} ? {s32} : {s32})",
            "({s32} > {s32} ? {s32} : {s32})", "({bool} ? {s32} : {s32})", "(s32){u32}", "(s32){s64}", "(s32){s8}", "(s32){s16}",
            "(s32)(s8){u32}", "(s32)(s16){u32}", "mul_high_s({s32}, {s32})", "dot4_s({s32}, {s32}, {s32})", "s_of_f({float})", "s_of_f_rn({float})",
            "s_of_d_rn({double})", "s_of_h({u16})", "(-({s32} & 0xffff))", "((s32)((u32){s32} << 3) >> 7)", "({s32} / 16)", "({s32} % 7)"],
    "u64": ["({u64} + {u64})", "({u64} - {u64})", "({u64} * {u64})", "({u64} ^ {u64})", "({u64} | {u64})", "({u64} & ~{u64})", "({u64} << ({u32} & 63))",
            "({u64} >> ({u32} & 63))", "({u64} / ({u64} | 1))", "({u64} % ({u64} | 1))", "((u64){u32} * {u32})",
            "(u64){u32}", "(u64){s64}", "brevll({u64})", "mul_high_ll({u64}, {u64})", "bits_of({double})", "ull_of_f({float})",
            "ull_of_d_ru({double})", "({bool} ? {u64} : {u64})", "({u64} < {u64} ? {u64} : {u64})", "({u64} / 10u)"],
    "s64": ["(s64)((u64){s64} + (u64){s64})", "(s64)((u64){s64} - (u64){s64})", "(s64)((u64){s64} * (u64){s64})", "l_div({s64}, {s64})", "l_rem({s64}, {s64})",
            "({s64} >> ({u32} & 63))", "(s64){s32}", "(s64){u64}", "((s64){s32} * {s32})", "mul_high_sll({s64}, {s64})",
            "sll_of_f_rd({float})", "sll_of_d({double})", "({s64} < {s64} ? {s64} : {s64})", "({bool} ? {s64} : {s64})"],
    "u16": ["(u16)({u16} + {u16})", "(u16)({u16} * {u16})", "(u16){u32}", "one_nan_half(h_add({u16}, {u16}))", "h_sub({u16}, {u16})",
            "h_mul({u16}, {u16})", "h_fma({u16}, {u16}, {u16})", "h_of_f({float})", "h_of_f_rz({float})", "h_of_f_ru({float})", "h_of_s({s32})",
            "b_of_f({float})", "b_of_f_rz({float})", "b_add({u16}, {u16})", "b_mul({u16}, {u16})", "(u16)({u16} >> ({u32} & 15))",
            "({bool} ? {u16} : {u16})", "({u16} > {u16} ? {u16} : {u16})"],
    "u8": ["(u8)({u8} + {u8})", "(u8){u32}", "(u8)({u8} * 3)", "(u8)({u16} >> 8)"],
    "s8": ["(s8)({s8} - {u8})", "(s8){u32}", "(s8)({s8} >> 2)", "(s8)({s8} * {s8})"],
    "s16": ["(s16)({s16} + {s8})", "(s16){u32}", "(s16)({s16} >> ({u32} & 15))", "(s16)({s16} * {s16})"],
    "float": ["({float} + {float})", "({float} - {float})", "({float} * {float})", "({float} / {float})", "fmaf({float}, {float}, {float})",
              "f_root({float})", "fabsf({float})", "(-{float})", "f_least({float}, {float})", "f_most({float}, {float})", "floorf({float})",
              "ceilf({float})", "truncf({float})", "rintf({float})", "f_sign({float}, {float})", "(float){s32}", "(float){u32}",
              "(float){s64}", "(float){u64}", "(float){double}", "(float){u8}", "(float){s16}", "f_of_h({u16})", "f_of_b({u16})", "f_add_rz({float}, {float})",
              "f_add_rd({float}, {float})", "f_mul_ru({float}, {float})", "f_mul_rz({float}, {float})", "f_fma_rz({float}, {float}, {float})",
              "f_fma_ru({float}, {float}, {float})", "f_div_rd({float}, {float})", "f_root_rz({float})", "f_of_s_rz({s32})", "f_of_u_ru({u32})",
              "f_of_ull_rd({u64})", "f_of_d_rz({double})", "f_of_d_ru({double})", "({bool} ? {float} : {float})", "({float} * 0.5f + 1.25f)"],
    "double": ["({double} + {double})", "({double} - {double})", "({double} * {double})", "({double} / {double})",
               "fma({double}, {double}, {double})", "d_root({double})", "fabs({double})", "(-{double})", "d_least({double}, {double})",
               "d_most({double}, {double})", "floor({double})", "ceil({double})", "trunc({double})", "rint({double})", "d_sign({double}, {double})",
               "(double){float}", "(double){s32}", "(double){u32}", "(double){s64}", "(double){u64}", "d_add_ru({double}, {double})",
               "d_mul_rd({double}, {double})", "d_fma_rz({double}, {double}, {double})", "d_div_ru({double}, {double})", "d_of_sll_rz({s64})",
               "({bool} ? {double} : {double})", "({double} * 3.0 - 0.1)"],
    "bool": ["({u32} < {u32})", "({u32} == {u32})", "({s32} <= {s32})", "({s32} != {s32})", "({u64} >= {u64})", "({s64} > {s64})", "({float} < {float})",
             "({float} >= {float})", "({float} != {float})", "!({float} <= {float})", "({double} > {double})", "!({double} < {double})",
             "({double} == {double})", "h_less({u16}, {u16})", "({u8} < {s8})", "({u32} & 1)", "({bool} && {bool})", "({bool} || {bool})"],
}
# None of 2^63 or more: nvcc 13.0 makes -2^63 of ceil(1e300). Of what is read at run time there are larger ones.
CONSTANTS = {
    "u32": ["0u", "1u", "0xffffffffu", "0x80000000u", "12345u", "0x0f0f0f0fu", "31u"],
    "s32": ["0", "1", "(-1)", "100", "(-2147483647 - 1)", "(-7)"],
    "u64": ["1ull", "0xffffffffffffffffull", "0x123456789abcdefull"], "s64": ["(-1ll)", "3ll", "(-9223372036854775807ll - 1)"],
    "u16": ["(u16)0x3c00", "(u16)1", "(u16)0xffff"], "u8": ["(u8)200"], "s8": ["(s8)-100"], "s16": ["(s16)-30000"],
    "float": ["0.0f", "1.0f", "(-0.5f)", "3.1415927f", "1e15f", "1e-40f", "16777216.0f"],
    "double": ["0.0", "1.0", "(-2.5)", "0.1", "9e15", "4e-310"],
    "bool": ["({u32} > 100u)"],
}


class Program:
    """The source of one program. `phases` is empty for a function of a thread."""

    def __init__(self, seed, number):
        self.random = random.Random(f"{seed} {number}")
        self.name = f"f{number}"
        self.helpers = []
        self.loops = 0
        self.blocks, self.threads = self.random.choice([(1, 32), (2, 64), (2, 96), (4, 33), (1, 256), (2, 128)])
        self.by_block = self.random.random() < 0.35
        self.source = self.block_source() if self.by_block else self.thread_source()

    def pick(self, *choices):
        return self.random.choice(choices)

    # Expressions.

    def leaf(self, kind):
        names = [name for name, _ in VARIABLES.get(kind, [])]
        if kind == "bool" or self.random.random() < 0.2:
            return self.fill(self.random.choice(CONSTANTS[kind]), 0)
        return self.random.choice(names)

    def fill(self, template, depth):
        out, rest = "", template
        while "{" in rest:
            before, _, rest = rest.partition("{")
            kind, _, rest = rest.partition("}")
            out += before + self.expression(kind, depth)
        return out + rest

    def expression(self, kind, depth):
        if depth <= 0:
            return self.leaf(kind)
        if kind == "u32" and self.helpers and self.random.random() < 0.08:
            return f"{self.random.choice(self.helpers)}({self.expression('u32', depth - 1)}, {self.expression('u32', depth - 2)})"
        return self.fill(self.random.choice(EXPRESSIONS[kind]), depth - 1)

    # Statements.

    def assignment(self, depth=3):
        kind = self.random.choice(list(VARIABLES))
        name = self.random.choice(VARIABLES[kind])[0]
        value = self.expression(kind, depth)
        return f"{name} = {'one_nan' if kind in ('float', 'double') else ''}({value});"

    def statement(self, depth):
        if depth <= 0 or self.random.random() < 0.45:
            return self.assignment()
        return self.random.choice([self.conditional, self.loop, self.switch, self.array, self.structure, self.while_loop])(depth)

    def body(self, depth, count=None):
        return " ".join(self.statement(depth - 1) for _ in range(count or self.random.randint(1, 3)))

    def conditional(self, depth):
        other = f" else {{ {self.body(depth)} }}" if self.random.random() < 0.5 else ""
        return f"if ({self.expression('bool', 2)}) {{ {self.body(depth)} }}{other}"

    # Not u1 += k: nvcc 13.0 takes the parity of such a sum of sums for that of k where it is used beside the loop's own
    # count, and a loop that counts by it never ends.
    def loop(self, depth):
        self.loops += 1
        k = f"k{self.loops}"
        leave = self.pick("", f"if ({self.expression('bool', 1)}) break; ", f"if ({self.expression('bool', 1)}) continue; ")
        return f"for (u32 {k} = 0; {k} < ({self.expression('u32', 1)} & 7); {k}++) {{ u1 = (u1 ^ {k}) * 3u; {leave}{self.body(depth)} }}"

    def while_loop(self, depth):
        self.loops += 1
        k = f"k{self.loops}"
        return f"u32 {k} = {self.expression('u32', 1)} % 9; while ({k}--) {{ {self.body(depth)} if ({self.expression('bool', 1)}) break; }}"

    def switch(self, depth):
        cases = " ".join(f"case {i}: {{ {self.body(depth, 1)} }} {self.pick('break;', '')}" for i in range(self.random.randint(3, 9)))
        return f"switch ({self.expression('u32', 1)} % 9) {{ {cases} default: {{ {self.assignment()} }} }}"

    def array(self, depth):
        self.loops += 1
        a = f"a{self.loops}"
        kind = self.pick("u32", "s32", "u64", "u8", "u16", "float", "double", "s16")
        clean = "one_nan" if kind in ("float", "double") else ""
        target = self.random.choice(VARIABLES[kind])[0]
        return (f"{kind} {a}[8]; for (u32 k = 0; k < 8; k++) {a}[k] = {clean}(({kind})({self.expression(kind, 1)})); "
                f"{a}[{self.expression('u32', 1)} & 7] = {clean}({self.expression(kind, 2)}); {self.body(depth, 1)} "
                f"{target} = {a}[{self.expression('u32', 1)} & 7];")

    def structure(self, depth):
        self.loops += 1
        s = f"st{self.loops}"
        return (f"struct {{ u8 b; double d; u16 h[3]; float f; s64 l; }} {s}[3]; "
                f"for (u32 k = 0; k < 3; k++) {{ {s}[k].b = (u8)(b0 + k); {s}[k].d = d0; {s}[k].h[0] = h0; {s}[k].h[1] = h1; {s}[k].h[2] = (u16)k; {s}[k].f = f0; {s}[k].l = l0; }} "
                f"{s}[{self.expression('u32', 1)} % 3].h[{self.expression('u32', 1)} % 3] = (u16){self.expression('u32', 2)}; "
                f"{s}[u0 % 3].d = one_nan({self.expression('double', 2)}); {self.body(depth, 1)} "
                f"{{ u32 k = u1 % 3; b0 = {s}[k].b; d1 = {s}[k].d; h1 = {s}[k].h[{self.expression('u32', 1)} % 3]; f1 = {s}[k].f; l0 = {s}[k].l; }}")

    # Functions.

    def helper(self, index):
        """A function that is called: one of its own, by itself, or by a pointer."""
        name = f"{self.name}_g{index}"
        parts = {"plain": "u32 u2 = x * y; {body} return u0 ^ bits_of(f0) ^ (u32)w0;",
                 "recursive": "u32 u2 = x - y; if (x == 0 || y == 0) return y; {body} return %s((x & 15) >> 1, u0) + u1;" % name,
                 "long": "u32 u2 = x; for (u32 k = 0; k < 3; k++) {{ {body} }} return u0 + u1 + (u32)l0 + bits_of(d0);"}
        kind = self.random.choice(list(parts))
        # Not the helper itself in its expressions: only the recursive one's return ends.
        body = " ".join(self.assignment(2) for _ in range(self.random.randint(1, 3)))
        text = parts[kind].replace("{{", "{").replace("}}", "}").replace("{body}", body)
        local = self.declarations("x, y, x ^ y, x + y, x * 3u, y * 5u, y, x, x * y, x - y, x, y, y, x, x, y", skip="u2")
        self.helpers.append(name)
        return f"NOINLINE u32 {name}(u32 x, u32 y) {{ {local} {text} }}\n"

    def pointers(self):
        if len(self.helpers) < 2:
            return ""
        name = f"{self.name}_p"
        text = (f"NOINLINE u32 {name}(u32 x, u32 y) {{ u32 (*const functions[2])(u32, u32) = {{ {self.helpers[0]}, {self.helpers[1]} }}; "
                f"return functions[x & 1](y, x); }}\n")
        self.helpers.append(name)
        return text

    def functions(self):
        text = "".join(self.helper(i) for i in range(self.random.randint(0, 3)))
        return text + (self.pointers() if self.random.random() < 0.4 else "")

    def declarations(self, values=None, skip=None):
        lines = f"const u32 in[16] = {{{values}}}; " if values else ""
        for kind, variables in VARIABLES.items():
            lines += "".join(f"{kind} {name} = {first}; " for name, first in variables if name != skip)
        used = [name for variables in VARIABLES.values() for name, _ in variables]
        return lines + "".join(f"(void){name}; " for name in used if name != skip)

    def results(self):
        words = ["u0", "u1", "u2", "(u32)i0", "(u32)i1", "(u32)w0", "(u32)(w0 >> 32)", "(u32)w1", "(u32)(w1 >> 32)", "(u32)l0", "(u32)((u64)l0 >> 32)", "(u32)l1",
                 "h0 | (u32)h1 << 16", "b0 | (u32)(u8)c0 << 8 | (u32)(u16)t0 << 16", "bits_of(f0)", "bits_of(f1)", "bits_of(f2)",
                 "(u32)bits_of(d0)", "(u32)(bits_of(d0) >> 32)", "(u32)bits_of(d1)", "(u32)(bits_of(d1) >> 32)"]
        assert len(words) <= WORDS_OUT
        return "".join(f"out[{i}] = {word}; " for i, word in enumerate(words))

    def thread_source(self):
        functions = self.functions()
        statements = "\n    ".join(self.statement(3) for _ in range(self.random.randint(4, 9)))
        return f"""{functions}
HD void {self.name}(u32 tid, const u32 *in, u32 *out) {{
    {self.declarations()}
    {statements}
    {self.results()}
}}
#ifdef __CUDACC__
extern "C" __global__ void k_{self.name}(const u32 *in, u32 *out, u32 *own) {{
    u32 tid = blockIdx.x * blockDim.x + threadIdx.x;
    {self.name}(tid, in + tid * {WORDS_IN}, out + tid * {WORDS_OUT});
}}
#else
static void k_{self.name}(const u32 *in, u32 *out, u32 *own) {{
    (void)own;
    for (u32 tid = 0; tid < {self.blocks * self.threads}; tid++)
        {self.name}(tid, in + tid * {WORDS_IN}, out + tid * {WORDS_OUT});
}}
#endif
"""

    # Programs of a block.

    def phase(self, index):
        """A function of the phase, a call of it for the device, and what the host does."""
        draw = self.random.random()
        if draw < 0.35:
            return self.compute_phase(index)
        if draw < 0.6:
            return self.shared_phase(index)
        if draw < 0.85:
            return self.warp_phase()
        return self.atomic_phase()

    def compute_phase(self, index):
        name = f"{self.name}_c{index}"
        i, j = self.random.randrange(8), self.random.randrange(8)
        body = " ".join(self.statement(2) for _ in range(self.random.randint(1, 3)))
        function = (f"HD void {name}(u32 tid, const u32 *in, state &s) {{ {self.declarations()} u0 ^= s.v[{i}]; f0 = one_nan((float)s.v[{j}]); {body} "
                    f"s.v[{i}] = u0 ^ bits_of(f0); s.v[{j}] += u1 + (u32)w0 + bits_of(d0); }}\n")
        call = f"{name}(tid, in + tid * {WORDS_IN}, s);"
        return function, call, f"EACH_THREAD {{ state &s = states[t]; u32 tid = first + t; {call} }}"

    def shared_phase(self, index):
        """Each thread writes its own word; after a barrier it reads another one's."""
        i, j, step = self.random.randrange(8), self.random.randrange(8), self.random.randint(1, 40)
        barrier = self.pick("__syncthreads();", "__syncthreads();", "votes = __syncthreads_count(s.v[0] & 1);", "votes = __syncthreads_or(s.v[1] & 64) != 0;",
                            "votes = __syncthreads_and(s.v[2] & 0xff) != 0;")
        host = {"__syncthreads();": "votes = 0;", "votes = __syncthreads_count(s.v[0] & 1);": "votes = 0; EACH_THREAD votes += states[t].v[0] & 1;",
                "votes = __syncthreads_or(s.v[1] & 64) != 0;": "votes = 0; EACH_THREAD votes |= (states[t].v[1] & 64) != 0;",
                "votes = __syncthreads_and(s.v[2] & 0xff) != 0;": "votes = 1; EACH_THREAD votes &= (states[t].v[2] & 0xff) != 0;"}[barrier]
        device = "votes = 0; " + barrier
        write = self.pick("words[t] = s.v[{i}];", "((u16 *)words)[2 * t] = (u16)s.v[{i}]; ((u8 *)words)[4 * t + 2] = (u8)t; ((u8 *)words)[4 * t + 3] = 9;",
                          "((volatile u32 *)words)[t] = ~s.v[{i}];").replace("{i}", str(i))
        read = f"s.v[{j}] ^= words[(t * {self.random.choice([1, 3, 5])} + {step}) % {self.threads}] + votes;"
        return ("", f"{write} {device} {read} __syncthreads();",
                f"EACH_THREAD {{ state &s = states[t]; {write} }} {host} EACH_THREAD {{ state &s = states[t]; {read} }}")

    def warp_phase(self):
        """An exchange within each warp. The last warp of a block may have few threads: these take part alone."""
        i, j = self.random.randrange(8), self.random.randrange(8)
        n = self.random.randint(0, 31)
        width = self.pick(32, 32, 16, 8, 4)
        lane, group = "(t & 31)", f"(t & {32 - width})"
        forms = {
            "xor": (f"__shfl_xor_sync(mask, s.v[{i}], {n % width}, {width})",
                    f"PARTNER({group} | (({lane} ^ {n % width}) & {width - 1}), {i})"),
            "up": (f"__shfl_up_sync(mask, s.v[{i}], {n % width}, {width})",
                   f"({lane} & {width - 1}) < {n % width} ? old[t].v[{i}] : PARTNER({lane} - {n % width}, {i})"),
            "down": (f"__shfl_down_sync(mask, s.v[{i}], {n % width}, {width})",
                     f"({lane} & {width - 1}) + {n % width} >= {width} ? old[t].v[{i}] : PARTNER({lane} + {n % width}, {i})"),
            "index": (f"__shfl_sync(mask, s.v[{i}], s.v[{j}] % warp_threads, 32)", f"PARTNER(old[t].v[{j}] % warp_threads, {i})"),
            "ballot": (f"__ballot_sync(mask, s.v[{i}] & 4)", f"ballot(old + (t & ~31u), warp_threads, [](const state &s) {{ return (s.v[{i}] & 4) != 0; }})"),
            "all": (f"(u32)(__all_sync(mask, s.v[{i}] & 6) != 0)", f"(u32)(ballot(old + (t & ~31u), warp_threads, [](const state &s) {{ return (s.v[{i}] & 6) != 0; }}) == mask)"),
            "any": (f"(u32)(__any_sync(mask, (s.v[{i}] & 31) == 31) != 0)", f"(u32)(ballot(old + (t & ~31u), warp_threads, [](const state &s) {{ return (s.v[{i}] & 31) == 31; }}) != 0)"),
            "match": (f"__match_any_sync(mask, s.v[{i}] & 3)", f"match(old + (t & ~31u), warp_threads, old[t].v[{i}] & 3, {i})"),
            "reduce": (f"__reduce_add_sync(mask, s.v[{i}])", f"total(old + (t & ~31u), warp_threads, {i})"),
        }
        if self.threads % 32:  # a thread that a warp lacks can give nothing
            forms = {name: forms[name] for name in ("index", "ballot", "all", "any", "match", "reduce")}
        device, host = self.random.choice(list(forms.values()))
        return ("", f"s.v[{j}] += {device};",
                f"memcpy(old, states, sizeof old); EACH_THREAD {{ u32 warp_threads = WARP_THREADS(t), mask = WARP_MASK(t); (void)mask; states[t].v[{j}] += {host}; }}")

    def atomic_phase(self):
        """What the order of the threads does not change, on words that nobody reads before the end."""
        i, word = self.random.randrange(8), self.random.randrange(8)
        device, host = self.random.choice([
            ("atomicAdd(&own[{w}], {v})", "own[{w}] += {v}"), ("atomicMax(&own[{w}], {v})", "own[{w}] = own[{w}] > {v} ? own[{w}] : {v}"),
            ("atomicOr(&own[{w}], {v} & 0x10101010)", "own[{w}] |= {v} & 0x10101010"), ("atomicXor(&own[{w}], {v})", "own[{w}] ^= {v}"),
            ("atomicAdd((unsigned long long *)own + {w} / 2, (unsigned long long){v})", "{{ u64 sum; memcpy(&sum, own + {w} / 2 * 2, 8); sum += {v}; memcpy(own + {w} / 2 * 2, &sum, 8); }}"),
            ("atomicAdd((float *)own + 8 + {w}, (float)({v} & 15))", "{{ float sum; memcpy(&sum, own + 8 + {w}, 4); sum += (float)({v} & 15); memcpy(own + 8 + {w}, &sum, 4); }}"),
        ])
        # One kind of operation for each word: sums and maxima of one word would depend on the order.
        word = {"+": 0, "x": 2, "r": 4, "o": 5, "l": 6, "f": 1}[self.kind_of(device)]
        value = f"s.v[{i}]"
        device, host = (text.replace("{w}", str(word)).replace("{v}", value).replace("{{", "{").replace("}}", "}") for text in (device, host))
        return "", f"{device};", f"EACH_THREAD {{ state &s = states[t]; {host}; }}"

    @staticmethod
    def kind_of(device):
        if "unsigned long long" in device:
            return "l"
        if "float" in device:
            return "f"
        return {"atomicAdd": "+", "atomicMax": "x", "atomicOr(": "r", "atomicXor": "o"}[device[:9]]

    def block_source(self):
        functions = self.functions()
        phases = [self.phase(i) for i in range(self.random.randint(3, 9))]
        device = "\n    ".join(call for _, call, _ in phases)
        host = "\n        ".join(text for _, _, text in phases)
        store = f"for (u32 i = 0; i < STATE_WORDS; i++) out[tid * {WORDS_OUT} + i] = s.v[i];"
        start = f"for (u32 i = 0; i < STATE_WORDS; i++) s.v[i] = in[tid * {WORDS_IN} + i];"
        return f"""{functions}{"".join(function for function, _, _ in phases)}
#ifdef __CUDACC__
extern "C" __global__ void k_{self.name}(const u32 *in, u32 *out, u32 *own) {{
    __shared__ u32 words[{self.threads}];
    u32 t = threadIdx.x, tid = blockIdx.x * blockDim.x + t, votes = 0;
    u32 warp_threads = min(32u, {self.threads}u - (t & ~31u)), mask = 0xffffffffu >> (32 - warp_threads);
    state s;
    (void)words, (void)votes, (void)mask;
    {start}
    {device}
    {store}
}}
#else
static void k_{self.name}(const u32 *in, u32 *out, u32 *own) {{
    const u32 threads = {self.threads};
    for (u32 first = 0; first < {self.blocks * self.threads}; first += threads) {{
        static state states[{THREADS}], old[{THREADS}];
        static u32 words[{THREADS}];
        u32 votes = 0;
        (void)words, (void)votes, (void)old, (void)own;
        EACH_THREAD {{ state &s = states[t]; u32 tid = first + t; {start} }}
        {host}
        EACH_THREAD {{ state &s = states[t]; u32 tid = first + t; {store} }}
    }}
}}
#endif
"""


MODELS = r"""#ifndef __CUDACC__
#define EACH_THREAD for (u32 t = 0; t < threads; t++)
#define WARP_THREADS(t) (threads - ((t) & ~31u) < 32 ? threads - ((t) & ~31u) : 32)
#define WARP_MASK(t) (0xffffffffu >> (32 - WARP_THREADS(t)))
#define PARTNER(lane, word) old[(t & ~31u) + (lane)].v[word]
template <typename F> static u32 ballot(const state *warp, u32 threads, F holds) {
    u32 result = 0;
    for (u32 lane = 0; lane < threads; lane++)
        result |= (u32)holds(warp[lane]) << lane;
    return result;
}
static inline u32 match(const state *warp, u32 threads, u32 value, u32 word) {
    u32 result = 0;
    for (u32 lane = 0; lane < threads; lane++)
        result |= (u32)((warp[lane].v[word] & 3) == value) << lane;
    return result;
}
static inline u32 total(const state *warp, u32 threads, u32 word) {
    u32 result = 0;
    for (u32 lane = 0; lane < threads; lane++)
        result += warp[lane].v[word];
    return result;
}
#endif
"""


def source(programs):
    """One file of many programs, with a main() for the host that writes what the device's runner does."""
    calls = "".join(f"    run(k_{program.name});\n" for program in programs)
    return f"""#include "prelude.cuh"
{MODELS}
{"".join(program.source for program in programs)}
#ifndef __CUDACC__
static u32 in[{THREADS * WORDS_IN}], out[{THREADS * WORDS_OUT} + {OWN_WORDS}];
static void run(void (*kernel)(const u32 *, u32 *, u32 *)) {{
    memset(out, 0, sizeof out);
    kernel(in, out, out + {THREADS * WORDS_OUT});
    fwrite(out, 1, sizeof out, stdout);
}}
int main(int argc, char **argv) {{
    FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
    if (!file || fread(in, 1, sizeof in, file) != sizeof in)
        return 1;
{calls}    return fclose(file) || fflush(stdout) ? 1 : 0;
}}
#endif
"""


def inputs(seed):
    """What the threads are given: small numbers, floats of all kinds, bits."""
    draw = random.Random(f"{seed} inputs")
    special = [0, 1, 0x80000000, 0xffffffff, 0x7fffffff, 0x3f800000, 0x7f800000, 0xff800000, 0x7fc00000, 0x00000001, 0x007fffff,
               0x00800000, 0x7f7fffff, 0x3c003c00, 0x7c00fc00, 0x00010400, 0x40490fdb, 0x4b000001, 0x5f000000, 0xcf000000]
    words = []
    for _ in range(THREADS * WORDS_IN):
        kind = draw.random()
        if kind < 0.25:
            words.append(draw.randrange(100))
        elif kind < 0.4:
            words.append(draw.choice(special))
        elif kind < 0.6:  # a float, or the upper half of a double, of a common size
            words.append(draw.choice([0, 1 << 31]) | draw.randrange(0x3d000000, 0x43000000))
        elif kind < 0.7:
            words.append(2 ** 32 - 1 - draw.randrange(1000))
        else:
            words.append(draw.getrandbits(32))
    return b"".join(word.to_bytes(4, "little") for word in words)
