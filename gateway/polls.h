/* Long polls: requests with the parameter "wait", which are asked again until what they ask about has
 * ended or their time is over. Any thread may call these functions. */
#pragma once

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

/* Takes all that wait, a list by `next`, to be asked again. `is_ending`: none is parked any more. */
struct exchange *polls_take(struct polls *polls, bool is_ending);

/* To be called before an exchange is freed. */
void polls_forget(struct polls *polls, struct exchange *exchange);
