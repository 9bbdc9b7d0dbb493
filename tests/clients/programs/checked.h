/* Tests that check their own results: each prints its name, and a sum of what came out or what was
 * wrong. */
#ifndef CLIENTS_CHECKED_H
#define CLIENTS_CHECKED_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

/* Numbers that are the same in every run. */
class Numbers {
    std::uint32_t state;

  public:
    explicit Numbers(std::uint32_t seed) : state(seed * 2654435761u + 1) {
    }
    std::uint32_t operator()() {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        return state;
    }
    /* Below `bound`. */
    std::vector<int> some(int count, int bound) {
        std::vector<int> made(count);
        for (int &number : made)
            number = static_cast<int>((*this)() % static_cast<std::uint32_t>(bound));
        return made;
    }
};

template <typename Container> std::uint32_t sum_of(const Container &numbers) {
    std::uint32_t sum = 0;
    for (auto number : numbers)
        sum = sum * 31 + static_cast<std::uint32_t>(number);
    return sum;
}

inline void expect(bool right, const char *what) {
    if (!right)
        throw std::runtime_error(std::string("wrong: ") + what);
}

inline void run(const char *name, std::uint32_t (*test)()) {
    try {
        std::printf("%s: %08x\n", name, test());
    } catch (const std::exception &error) {
        std::printf("%s: FAILED %s\n", name, error.what());
    }
    std::fflush(stdout);
}

#define RUN(test) run(#test, test)

#endif
