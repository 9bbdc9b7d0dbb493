"""PTX that does not load, and what the log of the load says of it. Each is the body of a kernel that could use the registers
of a case."""


def texts():
    yield "setp.eq.u32 1, a32, b32;", "a predicate is expected for the result"
    yield "mov.pred 0, p;", "a predicate is expected for the result"
    yield "setp.eq.u32 !p, a32, b32;", "a predicate is expected for the result"
    yield "add.u32 d32, a32;", "missing"
    yield "add.u32 d32, a32, b32, c32;", "too many"
    yield "add.rq.f32 d32, a32, b32;", "unknown"
    yield "frobnicate.u32 d32, a32;", "unknown"
    yield "vadd.u32.u32.u32 d32, a32.b4, b32;", "no part"
    yield "vadd4.u32.u32.u32.sat.add d32, a32, b32, c32;", "not saturated"
    yield "vadd2.u32.u32.u32 d32, a32.h40, b32, c32;", "selects no parts"
    yield "vadd4.u32.u32.u32 d32.b01, a32, b32, c32;", "no mask"
    yield "vset.u32.u32 d32, a32, b32;", "comparison"
    yield "vmad.u32.u32.u32 d32, -a32, b32, -c32;", "not negated"
    yield "vadd.u32.u32.u32 d32, -a32, b32;", "negated"
    yield "bra nowhere;", "nowhere"
    yield "mov.u32 d32, undeclared;", "undeclared"
    yield "mov.u32 d32, (1 + ;", "expected"
