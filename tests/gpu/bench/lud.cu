// LU decomposition without pivoting, in blocks of 16 by 16: at every step the diagonal block, the
// blocks right of it and below, and the rest of the matrix, each in a new array. Sizes are those of
// Rodinia's data sets, 256 to 2048; the matrix is made up, its diagonal dominant.
#include "bench.cuh"

enum { B = 16 };

// Block (i, j) of `side` by `side` blocks.
static DEVICE inline size_t block(int side, int i, int j) {
    return ((size_t)i * (size_t)side + (size_t)j) * B * B;
}

// `matrix` in blocks; the factors go to `out`, rows and columns of the whole.
static void decompose(const float *matrix, float *out, int n) {
    int side = n / B;
    Buffer<float> rest((size_t)n * (size_t)n);
    {
        float *r = rest.data;
        each((size_t)n * (size_t)n, [=] DEVICE(size_t i) { r[i] = matrix[i]; });
    }
    for (int step = 0; side > 0; step++, side--) {
        const float *a = rest.data;
        int offset = step * B;
        Buffer<float> diagonal(B * B);
        float *d = diagonal.data;
        each(1, [=] DEVICE(size_t) {
            float t[B][B];
            for (int i = 0; i < B * B; i++)
                t[i / B][i % B] = a[i];
            for (int i = 0; i < B; i++)
                for (int r = i + 1; r < B; r++) {
                    t[r][i] /= t[i][i];
                    for (int c = i + 1; c < B; c++)
                        t[r][c] -= t[r][i] * t[i][c];
                }
            for (int i = 0; i < B * B; i++) {
                d[i] = t[i / B][i % B];
                out[(size_t)(offset + i / B) * (size_t)n + (size_t)(offset + i % B)] =
                    t[i / B][i % B];
            }
        });
        int m = side - 1;
        Buffer<float> top((size_t)m * B * B), left((size_t)m * B * B);
        float *u = top.data, *l = left.data;
        each((size_t)m * B, [=] DEVICE(size_t i) { // a column of the blocks to the right
            int b = (int)i / B, c = (int)i % B;
            float x[B];
            for (int r = 0; r < B; r++) {
                x[r] = a[block(side, 0, b + 1) + (size_t)(r * B + c)];
                for (int k = 0; k < r; k++)
                    x[r] -= d[r * B + k] * x[k];
                u[(size_t)b * B * B + (size_t)(r * B + c)] = x[r];
                out[(size_t)(offset + r) * (size_t)n + (size_t)(offset + (b + 1) * B + c)] = x[r];
            }
        });
        each((size_t)m * B, [=] DEVICE(size_t i) { // a row of the blocks below
            int b = (int)i / B, r = (int)i % B;
            float x[B];
            for (int c = 0; c < B; c++) {
                x[c] = a[block(side, b + 1, 0) + (size_t)(r * B + c)];
                for (int k = 0; k < c; k++)
                    x[c] -= x[k] * d[k * B + c];
                x[c] /= d[c * B + c];
                l[(size_t)b * B * B + (size_t)(r * B + c)] = x[c];
                out[(size_t)(offset + (b + 1) * B + r) * (size_t)n + (size_t)(offset + c)] = x[c];
            }
        });
        Buffer<float> next((size_t)m * (size_t)m * B * B);
        float *x = next.data;
        each((size_t)m * (size_t)m * B * B, [=] DEVICE(size_t i) {
            int bi = (int)(i / (B * B)) / m, bj = (int)(i / (B * B)) % m;
            int r = (int)(i % (B * B)) / B, c = (int)i % B;
            float value = a[block(side, bi + 1, bj + 1) + (size_t)(r * B + c)];
            for (int k = 0; k < B; k++)
                value -= l[(size_t)bi * B * B + (size_t)(r * B + k)] *
                         u[(size_t)bj * B * B + (size_t)(k * B + c)];
            x[i] = value;
        });
        rest = std::move(next);
    }
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 2048, runs = argc > 2 ? atoi(argv[2]) : 10;
    REQUIRE(n > 0 && n % B == 0);
    size_t count = (size_t)n * (size_t)n;
    int side = n / B;
    std::vector<float> blocks(count);
    auto element = [n](size_t i, size_t j) {
        return (float)uniform(5, (uint32_t)(i * (size_t)n + j)) + (i == j ? (float)n : 0.0f);
    };
    for (size_t i = 0; i < (size_t)n; i++)
        for (size_t j = 0; j < (size_t)n; j++)
            blocks[((i / B) * (size_t)side + j / B) * B * B + i % B * B + j % B] = element(i, j);
    Buffer<float> matrix(count);
    upload(matrix.data, blocks);
    std::vector<float> factors;
    measure("lud-" + std::to_string(n), runs, [&](bool hashed) {
        Buffer<float> out(count);
        decompose(matrix.data, out.data, n);
        if (!hashed)
            return (uint64_t)0;
        factors = download(out.data, count);
        uint64_t hash = HASH_START;
        for (size_t i = 0; i < count; i++) {
            uint32_t bits;
            memcpy(&bits, &factors[i], sizeof bits);
            hash = (hash ^ bits) * 1099511628211ull;
        }
        return hash;
    });
    // L times U is the matrix again, in rows here and there.
    for (size_t i = 0; i < (size_t)n; i += (size_t)n / 16 + 1)
        for (size_t j = 0; j < (size_t)n; j++) {
            double sum = 0;
            for (size_t k = 0; k <= i && k <= j; k++)
                sum += (k == i ? 1.0 : factors[i * (size_t)n + k]) * factors[k * (size_t)n + j];
            REQUIRE(fabs(sum - element(i, j)) < 1e-4 * n);
        }
    return 0;
}
