/* A kernel that finds in memory where it is to write: at `where`, an address and how many words. */
#ifndef TESTS_PROGRAMS_ORDER_FILL_BEHIND_H
#define TESTS_PROGRAMS_ORDER_FILL_BEHIND_H

static const char fill_behind_ptx[] = ".version 6.0\n"
                                      ".target sm_50\n"
                                      ".address_size 64\n"
                                      ".visible .entry fill_behind_u32(\n"
                                      "    .param .u64 where,\n"
                                      "    .param .u32 value\n"
                                      ")\n"
                                      "{\n"
                                      "    .reg .pred %p;\n"
                                      "    .reg .b32 %v;\n"
                                      "    .reg .b64 %w, %a, %c, %i;\n"
                                      "    ld.param.u64 %w, [where];\n"
                                      "    ld.param.u32 %v, [value];\n"
                                      "    ld.u64 %a, [%w];\n"
                                      "    ld.u64 %c, [%w+8];\n"
                                      "    mov.u64 %i, 0;\n"
                                      "LOOP:\n"
                                      "    setp.ge.u64 %p, %i, %c;\n"
                                      "    @%p bra DONE;\n"
                                      "    st.u32 [%a], %v;\n"
                                      "    add.u64 %a, %a, 4;\n"
                                      "    add.u64 %i, %i, 1;\n"
                                      "    bra LOOP;\n"
                                      "DONE:\n"
                                      "    ret;\n"
                                      "}\n";

#endif
