/* The operations of atom and red. */
#ifndef SIMCUDA_PTX_ATOMIC_H
#define SIMCUDA_PTX_ATOMIC_H

enum atomic {
    ATOMIC_EXCHANGE,
    ATOMIC_COMPARE,
    ATOMIC_ADD,
    ATOMIC_INCREMENT,
    ATOMIC_DECREMENT,
    ATOMIC_MIN,
    ATOMIC_MAX,
    ATOMIC_AND,
    ATOMIC_OR,
    ATOMIC_XOR
};

#endif
