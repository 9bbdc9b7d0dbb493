/* Makes the pool's configuration from the options. */
#ifndef POOLCUDA_POOL_OPTIONS_H
#define POOLCUDA_POOL_OPTIONS_H

#include "options.h"
#include "policy/policy.h"
#include "pool/pool.h"

static inline struct pool_config pool_config_from(const struct options *options) {
    return (struct pool_config){
        .policy = policies[options->policy],
        .free_mode = (enum pool_free_mode)options->free_mode,
        .ordered = options->async,
        .zero = options->zero,
        .host = options->host,
        .managed = options->managed,
        .reuse_ratio = options->reuse_ratio,
        .site_keep = options->site_keep,
        .steal = options->steal,
        .max_waste = options->max_waste,
        .max_idle = options->max_idle,
        .idle_decay = options->idle_decay,
        .throttle_ratio = options->throttle_ratio,
    };
}

#endif
