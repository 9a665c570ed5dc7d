#include "common/probe/probe_internal.h"

#include <dirent.h>
#include <sys/resource.h>

static const struct cv_metric cpu_seconds =
    CV_COUNTER("cortana_process_cpu_seconds_total",
               "CPU time of this process, its stages not among it.", NULL);
static const struct cv_metric resident_bytes =
    CV_GAUGE("cortana_process_resident_memory_bytes",
             "Memory of this process, its stages not among it.", NULL);
static const struct cv_metric open_files =
    CV_GAUGE("cortana_process_open_files", "Open descriptors of this process.", NULL);

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static void measure_memory(struct cv_metrics *metrics)
{
    cv_auto_file FILE *file = fopen("/proc/self/statm", "re");
    long long pages = 0;
    if (file && fscanf(file, "%*s %lld", &pages) == 1) {
        cv_metric_set(metrics, &resident_bytes, NULL,
                      (double)pages * (double)sysconf(_SC_PAGESIZE));
    }
}

static void count_files(struct cv_metrics *metrics)
{
    DIR *directory = opendir("/proc/self/fd");
    if (!directory) {
        return;
    }
    int count = -3; /* ".", ".." and the directory itself */
    while (readdir(directory)) {
        count++;
    }
    (void)closedir(directory);
    cv_metric_set(metrics, &open_files, NULL, count);
}

void cv_probe_measure_process(struct cv_metrics *metrics)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        cv_metric_set(metrics, &cpu_seconds, NULL,
                      seconds(usage.ru_utime) + seconds(usage.ru_stime));
    }
    measure_memory(metrics);
    count_files(metrics);
}
