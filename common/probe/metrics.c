#include "common/probe/probe_internal.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

enum {
    SERIES_MAX = 5000, /* of one set; labels are types, outcomes and hosts, which are few */
    LABEL_MAX = 200,   /* bytes of a label's value; the rest is cut off */
};

struct series {
    char *labels; /* name="value",… as it is printed; "" for none */
    double value; /* of a histogram: the sum */
    uint64_t count;
    uint64_t
        *buckets; /* of a histogram: how many were at most bounds[i] and above the one before */
};

struct family {
    const struct cv_metric *metric;
    struct series *series;
    size_t count;
};

struct cv_metrics {
    pthread_mutex_t mutex; /* everything below */
    struct family *families;
    size_t count;
    size_t series_count;
    uint64_t dropped;
};

static const char *const kind_names[] = {"counter", "gauge", "histogram"};

int cv_metrics_new(struct cv_metrics **ret_metrics, struct cv_error *error)
{
    struct cv_metrics *metrics = calloc(1, sizeof(*metrics));
    if (!metrics || pthread_mutex_init(&metrics->mutex, NULL) != 0) {
        free(metrics);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for metrics");
    }
    *ret_metrics = metrics;
    return 0;
}

void cv_metrics_free(struct cv_metrics *metrics)
{
    if (!metrics) {
        return;
    }
    for (size_t i = 0; i < metrics->count; i++) {
        struct family *family = &metrics->families[i];
        for (size_t j = 0; j < family->count; j++) {
            free(family->series[j].labels);
            free(family->series[j].buckets);
        }
        free(family->series);
    }
    free(metrics->families);
    (void)pthread_mutex_destroy(&metrics->mutex);
    free(metrics);
}

/* ---- finding a series ------------------------------------------------------------------------ */

static struct family *find_family(struct cv_metrics *metrics, const struct cv_metric *metric)
{
    for (size_t i = 0; i < metrics->count; i++) {
        if (metrics->families[i].metric == metric) {
            return &metrics->families[i];
        }
    }
    assert(strncmp(metric->name, "cortana_", 8) == 0);
    if (!CV_MAKE_ROOM(metrics->families, metrics->count)) {
        return NULL;
    }
    metrics->families[metrics->count] = (struct family){.metric = metric};
    return &metrics->families[metrics->count++];
}

static void append_value(struct cv_buffer *text, const char *value)
{
    char clean[LABEL_MAX + 1];
    size_t length = strnlen(value, LABEL_MAX);
    while (length == LABEL_MAX && length > 0 && ((unsigned char)value[length] & 0xC0) == 0x80) {
        length--; /* not within a character */
    }
    (void)memcpy(clean, value, length);
    clean[length] = '\0';
    cv_redact(clean);
    for (const char *c = clean; *c; c++) {
        if (*c == '\\' || *c == '"') {
            cv_buffer_printf(text, "\\%c", *c);
        } else if (*c == '\n') {
            cv_buffer_text(text, "\\n");
        } else {
            cv_buffer_append(text, c, 1);
        }
    }
}

static void print_labels(const struct cv_metric *metric, const char *const *values,
                         struct cv_buffer *text)
{
    for (size_t i = 0; i < CV_METRIC_LABELS_MAX && metric->labels[i]; i++) {
        cv_buffer_printf(text, "%s%s=\"", i ? "," : "", metric->labels[i]);
        append_value(text, values[i] ? values[i] : "");
        cv_buffer_text(text, "\"");
    }
    cv_buffer_text(text, "");
}

static struct series *add_series(struct cv_metrics *metrics, struct family *family,
                                 struct cv_buffer *labels)
{
    struct cv_error error;
    cv_auto_free char *text = NULL;
    cv_auto_free uint64_t *buckets = NULL;
    size_t bounds = family->metric->bound_count;
    if (metrics->series_count == SERIES_MAX || cv_buffer_detach(labels, &text, &error) < 0) {
        return NULL;
    }
    if (bounds) {
        buckets = calloc(bounds, sizeof(*buckets));
        if (!buckets) {
            return NULL;
        }
    }
    if (!CV_MAKE_ROOM(family->series, family->count)) {
        return NULL;
    }
    metrics->series_count++;
    family->series[family->count] =
        (struct series){.labels = cv_take(text), .buckets = cv_take(buckets)};
    return &family->series[family->count++];
}

/* The series with these labels, created if necessary; NULL, and counted, if that is not possible.
 */
static struct series *find_series(struct cv_metrics *metrics, const struct cv_metric *metric,
                                  const char *const *values)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer labels = CV_BUFFER_INIT;
    struct family *family = find_family(metrics, metric);
    print_labels(metric, values, &labels);
    if (!family || labels.failed) {
        metrics->dropped++;
        return NULL;
    }
    const char *wanted = labels.data ? labels.data : "";
    for (size_t i = 0; i < family->count; i++) {
        if (strcmp(family->series[i].labels, wanted) == 0) {
            return &family->series[i];
        }
    }
    struct series *series = add_series(metrics, family, &labels);
    metrics->dropped += series ? 0 : 1;
    return series;
}

/* ---- changing it ----------------------------------------------------------------------------- */

enum change { ADD, SET, RAISE, OBSERVE };

static void observe(const struct cv_metric *metric, struct series *series, double value)
{
    for (size_t i = 0; i < metric->bound_count; i++) {
        if (value <= metric->bounds[i]) {
            series->buckets[i]++;
            break;
        }
    }
    series->count++;
    series->value += value;
}

static void change(struct cv_metrics *metrics, const struct cv_metric *metric,
                   const char *const *labels, enum change what, double value)
{
    if (!metrics || isnan(value)) {
        return;
    }
    CV_LOCK(&metrics->mutex);
    struct series *series = find_series(metrics, metric, labels);
    if (series && what == OBSERVE) {
        observe(metric, series, value);
    } else if (series) {
        series->value = what == ADD || (what == RAISE && value < series->value)
                            ? series->value + (what == ADD ? value : 0)
                            : value;
    }
}

void cv_metric_add(struct cv_metrics *metrics, const struct cv_metric *metric,
                   const char *const *labels, double amount)
{
    if (metric->kind == CV_METRIC_COUNTER && amount < 0) {
        return; /* for example after the clock was set back: a counter never decreases */
    }
    change(metrics, metric, labels, ADD, amount);
}

void cv_metric_set(struct cv_metrics *metrics, const struct cv_metric *metric,
                   const char *const *labels, double value)
{
    change(metrics, metric, labels, SET, value);
}

void cv_metric_raise(struct cv_metrics *metrics, const struct cv_metric *metric,
                     const char *const *labels, double value)
{
    change(metrics, metric, labels, RAISE, value);
}

void cv_metric_observe(struct cv_metrics *metrics, const struct cv_metric *metric,
                       const char *const *labels, double value)
{
    assert(metric->kind == CV_METRIC_HISTOGRAM);
    change(metrics, metric, labels, OBSERVE, value);
}

/* ---- showing it ------------------------------------------------------------------------------ */

static void print_number(double value, struct cv_buffer *text)
{
    if (isinf(value)) {
        cv_buffer_text(text, value > 0 ? "+Inf" : "-Inf");
    } else {
        /* Print whole numbers without an exponent: ten million is easier to read in this way. */
        bool is_whole = fabs(value) < 1e15 && value == floor(value);
        cv_buffer_printf(text, is_whole ? "%.0f" : "%.12g", value);
    }
}

static void print_line(const char *name, const char *suffix, const char *labels, const char *more,
                       double value, struct cv_buffer *text)
{
    cv_buffer_printf(text, "%s%s", name, suffix);
    if (labels[0] || more[0]) {
        cv_buffer_printf(text, "{%s%s%s}", labels, labels[0] && more[0] ? "," : "", more);
    }
    cv_buffer_text(text, " ");
    print_number(value, text);
    cv_buffer_text(text, "\n");
}

static void print_histogram(const struct cv_metric *metric, const struct series *series,
                            struct cv_buffer *text)
{
    uint64_t below = 0;
    char bound[40];
    for (size_t i = 0; i < metric->bound_count; i++) {
        below += series->buckets[i];
        (void)snprintf(bound, sizeof(bound), "le=\"%.9g\"", metric->bounds[i]);
        print_line(metric->name, "_bucket", series->labels, bound, (double)below, text);
    }
    print_line(metric->name, "_bucket", series->labels, "le=\"+Inf\"", (double)series->count, text);
    print_line(metric->name, "_sum", series->labels, "", series->value, text);
    print_line(metric->name, "_count", series->labels, "", (double)series->count, text);
}

static void print_family(const struct family *family, struct cv_buffer *text)
{
    const struct cv_metric *metric = family->metric;
    cv_buffer_printf(text, "# HELP %s %s\n# TYPE %s %s\n", metric->name, metric->help, metric->name,
                     kind_names[metric->kind]);
    for (size_t i = 0; i < family->count; i++) {
        const struct series *series = &family->series[i];
        if (metric->kind == CV_METRIC_HISTOGRAM) {
            print_histogram(metric, series, text);
        } else {
            print_line(metric->name, "", series->labels, "", series->value, text);
        }
    }
}

void cv_metrics_print(const struct cv_metrics *metrics, struct cv_buffer *text)
{
    if (!metrics) {
        return;
    }
    pthread_mutex_t *mutex = (pthread_mutex_t *)&metrics->mutex;
    CV_LOCK(mutex);
    for (size_t i = 0; i < metrics->count; i++) {
        print_family(&metrics->families[i], text);
    }
}

uint64_t cv_metrics_dropped(const struct cv_metrics *metrics)
{
    if (!metrics) {
        return 0;
    }
    pthread_mutex_t *mutex = (pthread_mutex_t *)&metrics->mutex;
    CV_LOCK(mutex);
    return metrics->dropped;
}
