// Prices options by quasi-Monte Carlo, in the manner of finpar's OptionPricing: a low-discrepancy
// sequence, normal numbers, a Brownian bridge, paths, payoffs, their mean, each stage in an array
// of its own. `small` is one underlying and one date with 8388608 paths, whose price is known in
// closed form and checked; `medium` three underlyings, five dates and 1048576 paths. The market is
// made up.
#include "bench.cuh"

enum { MOST_DATES = 5, MOST_ASSETS = 3, BITS = 30, CHUNK = 1024 };

struct Market { // plain values: handed to the device's code by copy
    int dates, assets;
    uint32_t directions[MOST_DATES * MOST_ASSETS][BITS];
    int at[MOST_DATES], left[MOST_DATES], right[MOST_DATES]; // of the bridge: 0 is "none"
    float deviation[MOST_DATES], of_left[MOST_DATES], of_right[MOST_DATES];
};

// Dates 1, 2, ...: the last one first, then the middle of what is known, and so on.
static void build_bridge(Market &market) {
    std::vector<int> known{0, market.dates};
    market.at[0] = market.dates;
    market.left[0] = market.right[0] = 0;
    market.deviation[0] = sqrtf((float)market.dates);
    market.of_left[0] = market.of_right[0] = 0;
    for (int step = 1; step < market.dates; step++) {
        size_t widest = 0;
        for (size_t i = 0; i + 1 < known.size(); i++)
            if (known[i + 1] - known[i] > known[widest + 1] - known[widest])
                widest = i;
        int l = known[widest], r = known[widest + 1], m = (l + r) / 2;
        market.at[step] = m;
        market.left[step] = l;
        market.right[step] = r;
        market.of_left[step] = (float)(r - m) / (float)(r - l);
        market.of_right[step] = (float)(m - l) / (float)(r - l);
        market.deviation[step] = sqrtf((float)((m - l) * (r - m)) / (float)(r - l));
        known.insert(known.begin() + (long)widest + 1, m);
    }
}

// The inverse of the normal distribution, by Acklam's rational approximation: relative
// error 1.2e-9.
static DEVICE inline float normal(float u) {
    float q = u - 0.5f, r = q * q;
    if (q > -0.47575f && q < 0.47575f)
        return (((((-39.69683f * r + 220.9461f) * r - 275.9285f) * r + 138.3578f) * r - 30.66480f) *
                    r +
                2.506628f) *
               q /
               (((((-54.47610f * r + 161.5858f) * r - 155.6990f) * r + 66.80131f) * r - 13.28068f) *
                    r +
                1);
    float t = sqrtf(-2 * logf(q < 0 ? u : 1 - u));
    float x =
        (((((-0.007784894f * t - 0.3223965f) * t - 2.400758f) * t - 2.549733f) * t + 4.374664f) *
             t +
         2.938164f) /
        ((((0.007784696f * t + 0.3224671f) * t + 2.445134f) * t + 3.754409f) * t + 1);
    return q < 0 ? x : -x;
}

static const float strike = 4000, start = 3758.05f, volatility = 0.19f, rate = 0.03f;

static double price_once(const Market &market, size_t paths) {
    int dates = market.dates, assets = market.assets, width = dates * assets;
    size_t count = paths * (size_t)width;
    Buffer<Market> copy(1);
    CUDA_OK(cudaMemcpy(copy.data, &market, sizeof market, cudaMemcpyHostToDevice));
    const Market *m = copy.data;
    Buffer<float> uniforms(count);
    float *u = uniforms.data;
    each(count, [=] DEVICE(size_t i) {
        uint32_t n = (uint32_t)(i / (size_t)width) + 1, gray = n ^ n >> 1, bits = 0;
        for (int b = 0; b < BITS; b++)
            if (gray >> b & 1)
                bits ^= m->directions[i % (size_t)width][b];
        u[i] = ((float)(bits >> 6) + 0.5f) / 16777216.0f;
    });
    Buffer<float> normals(count);
    float *z = normals.data;
    each(count, [=] DEVICE(size_t i) { z[i] = normal(u[i]); });
    Buffer<float> bridges(count);
    float *w = bridges.data;
    each(paths * (size_t)assets, [=] DEVICE(size_t i) { // a path of one underlying, as differences
        size_t path = i / (size_t)assets, asset = i % (size_t)assets;
        float walk[MOST_DATES + 1];
        walk[0] = 0;
        for (int step = 0; step < dates; step++)
            walk[m->at[step]] =
                m->of_left[step] * walk[m->left[step]] +
                (step ? m->of_right[step] * walk[m->right[step]] : 0) +
                m->deviation[step] *
                    z[(path * (size_t)dates + (size_t)step) * (size_t)assets + asset];
        for (int date = 0; date < dates; date++)
            w[(path * (size_t)dates + (size_t)date) * (size_t)assets + asset] =
                walk[date + 1] - walk[date];
    });
    Buffer<float> prices(count);
    float *p = prices.data;
    each(paths * (size_t)assets, [=] DEVICE(size_t i) { // correlated by the first underlying
        size_t path = i / (size_t)assets, asset = i % (size_t)assets;
        float price = 1;
        for (int date = 0; date < dates; date++) {
            const float *row = w + (path * (size_t)dates + (size_t)date) * (size_t)assets;
            float shock = asset ? 0.6f * row[0] + 0.8f * row[asset] : row[0];
            price *= expf(rate - volatility * volatility / 2 + volatility * shock);
            p[(path * (size_t)dates + (size_t)date) * (size_t)assets + asset] = price;
        }
    });
    Buffer<float> payoffs(paths);
    float *y = payoffs.data;
    each(paths, [=] DEVICE(size_t path) {
        const float *mine = p + path * (size_t)width;
        if (dates == 1) { // a call
            float gain = mine[0] * start - strike;
            y[path] = gain > 0 ? gain * expf(-rate) : 0;
            return;
        }
        // Pays at the first date at which all have kept their price, else what the worst is worth.
        float worst = 1;
        for (int date = 0; date < dates; date++) {
            worst = mine[date * assets];
            for (int asset = 1; asset < assets; asset++)
                worst = fminf(worst, mine[date * assets + asset]);
            if (worst >= 1) {
                y[path] = (1150.0f + 150.0f * (float)date) * expf(-rate * (float)(date + 1));
                return;
            }
        }
        y[path] = 1000 * (worst > 0.75f ? 1.0f : worst) * expf(-rate * (float)dates);
    });
    size_t chunks = (paths + CHUNK - 1) / CHUNK;
    Buffer<double> sums(chunks), sum(1);
    double *s = sums.data, *total = sum.data;
    each(chunks, [=] DEVICE(size_t i) {
        double part = 0;
        for (size_t k = i * CHUNK; k < (i + 1) * CHUNK && k < paths; k++)
            part += (double)y[k];
        s[i] = part;
    });
    each(1, [=] DEVICE(size_t) {
        double all = 0;
        for (size_t i = 0; i < chunks; i++)
            all += s[i];
        *total = all / (double)paths;
    });
    return download(total, 1)[0];
}

int main(int argc, char **argv) {
    std::string set = argc > 1 ? argv[1] : "medium";
    int runs = argc > 2 ? atoi(argv[2]) : 20;
    REQUIRE(set == "small" || set == "medium");
    bool small = set == "small";
    size_t paths = argc > 3 ? (size_t)atoll(argv[3]) : small ? 8388608 : 1048576;
    Market market = {};
    market.dates = small ? 1 : MOST_DATES;
    market.assets = small ? 1 : MOST_ASSETS;
    for (int d = 0; d < market.dates * market.assets; d++)
        for (int b = 0; b < BITS; b++) // triangular: each dimension alone is evenly distributed
            market.directions[d][b] =
                1u << (BITS - 1 - b) |
                (d ? mix((uint32_t)d, (uint32_t)b) & ~((1u << (BITS - b)) - 1) & ((1u << BITS) - 1)
                   : 0);
    build_bridge(market);
    double price = 0;
    measure("options-" + set, runs, [&](bool) { // one number is all there is to hash
        price = price_once(market, paths);
        uint64_t bits;
        memcpy(&bits, &price, sizeof bits);
        return bits;
    });
    if (small) { // Black and Scholes
        double d1 = (log((double)start / strike) + rate + volatility * volatility / 2) / volatility;
        auto phi = [](double x) { return erfc(-x / sqrt(2.0)) / 2; };
        double exact = start * phi(d1) - strike * exp(-(double)rate) * phi(d1 - (double)volatility);
        REQUIRE(fabs(price - exact) < 0.01 * exact);
    } else {
        REQUIRE(price > 700 && price < 1400);
    }
    return 0;
}
