#include "common/screen/ink_levels.h"

int cv_quantile(const struct cv_histogram *histogram, double share)
{
    double wanted = share * histogram->total, seen = 0;

    for (int level = 0; level < 256; level++) {
        seen += histogram->count[level];
        if (seen >= wanted && seen > 0) {
            return level;
        }
    }
    return 255;
}

struct cv_split cv_otsu(const struct cv_histogram *histogram)
{
    struct cv_split best = {127, 0, 255, 0, 0};
    double sum = 0, squares = 0, total = histogram->total;

    for (int level = 0; level < 256; level++) {
        sum += (double)level * histogram->count[level];
        squares += (double)level * level * histogram->count[level];
    }
    double variance = total > 0 ? squares / total - (sum / total) * (sum / total) : 0;
    double low_count = 0, low_sum = 0;
    for (int level = 0; level < 255; level++) {
        low_count += histogram->count[level];
        low_sum += (double)level * histogram->count[level];
        double high_count = total - low_count;
        if (low_count < 1 || high_count < 1 || variance < 1) {
            continue;
        }
        double low_mean = low_sum / low_count, high_mean = (sum - low_sum) / high_count;
        double between = low_count * high_count * (high_mean - low_mean) * (high_mean - low_mean) /
                         (total * total);
        if (between / variance > best.quality) {
            best = (struct cv_split){level, low_mean, high_mean, high_count / total,
                                     between / variance};
        }
    }
    return best;
}
