#include "workers/sample/pace.h"

enum { BURST = 5 }; /* states beyond target_fps that may be kept after a calm */

void pace_init(struct pace *pace, double target_fps)
{
    *pace = (struct pace){.interval_us = (int64_t)(1e6 / target_fps), .tokens = 1};
}

void pace_refill(struct pace *pace, int64_t now_us)
{
    pace->tokens += (double)(now_us - pace->tokens_at) / (double)pace->interval_us;
    pace->tokens = pace->tokens > BURST ? BURST : pace->tokens;
    pace->tokens_at = now_us;
}

bool pace_allows(const struct pace *pace)
{
    return pace->tokens >= 0.99; /* whole, but for rounding */
}

int64_t pace_due(const struct pace *pace, int64_t change_began_us, bool calm_before)
{
    return (calm_before ? change_began_us : pace->grid_us) + pace->interval_us;
}

void pace_spend(struct pace *pace, int64_t start_us)
{
    pace->tokens = pace->tokens > 1 ? pace->tokens - 1 : 0;
    if (start_us - pace->grid_us >= 2 * pace->interval_us) {
        pace->grid_us = start_us;
    }
}
