/* Long polls: requests with the parameter "wait", which are asked again when the job that they wait for
 * has ended or their time is over. One statement asks for the jobs of all of them. Any thread may call
 * these functions. */
#pragma once

#include "common/db/db.h"

#include "gateway/exchange.h"

struct polls {
    pthread_mutex_t mutex;   /* protects everything below */
    struct exchange *parked; /* those that wait for the next query, by `next` */
    struct exchange *all;    /* those that have waited, also while they are asked again */
    int of_a_caller;         /* most of one caller at once; 0: no limit */
    bool is_ending;
};

/* `of_a_caller`: most of one caller at once; 0: no limit. */
CV_MUST_CHECK int polls_init(struct polls *polls, int of_a_caller, struct cv_error *error);
void polls_deinit(struct polls *polls);

/* Keeps an exchange whose answer says that it may still change; false: it must be answered now, also
 * because its caller has too many (then the answer is a refusal). */
CV_MUST_CHECK bool polls_park(struct polls *polls, struct exchange *exchange);

/* Writes the ids of the jobs that the parked ones wait for, as a PostgreSQL array; whether there are
 * any. */
CV_MUST_CHECK bool polls_jobs(struct polls *polls, struct cv_buffer *array);

/* Takes those whose job is among the rows (column "id"; NULL: none), and those whose time is over, a list
 * by `next`, to be asked again. */
struct exchange *polls_detach(struct polls *polls, const struct cv_db_result *ended);

/* Takes all; none is parked any more. */
struct exchange *polls_end(struct polls *polls);

/* To be called before an exchange is freed. */
void polls_forget(struct polls *polls, struct exchange *exchange);
