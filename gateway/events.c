#include "gateway/events.h"

#include "common/db/db.h"

#include <poll.h>
#include <string.h>

enum {
    TICK_MS = 250,
    QUIET_TICK_MS = 1000,
    QUIET_AFTER_MS = 10 * 1000,
    IDLE_MS = 60 * 1000, /* how long the connection is kept without streams */
    RECONNECT_MS = 1000,
    STATEMENT_MS = 10 * 1000,
    PING_MS = 20 * 1000,
    /* Then the stream ends and the client connects again, so that its rights are checked again. */
    STREAM_MS = 5 * 60 * 1000,
    /* Before a client whose stream gave its place to a newer one connects again. Without a pause two
     * clients would take the last place from each other all the time. */
    REPLACED_RETRY_MS = 30 * 1000,
    QUEUES_MS = 1000,        /* between two events of the topic "queues" */
    UNSENT_MAX = 256 * 1024, /* bytes; a client that falls further behind must connect again */
    /* The buffer of each stream's response, used only for HTTP/1.0: chunks are written to the
     * connection's own memory. */
    BLOCK_BYTES = 256,
    TOPICS_MAX = 50,
    UUID_TEXT = 37,
    POSITION_TEXT = 64,
};

struct topic {
    char column[8]; /* "job", "video", "run", "upload", "tenant", "all", "queues" */
    char id[UUID_TEXT];
    uint64_t told; /* hash of the state sent last; 0: none */
};

/* A position in the timeline. */
struct position {
    int64_t xid, id;
};

struct stream {
    struct events *events;
    struct stream *next, **here;
    struct MHD_Connection *connection;
    struct cv_buffer unsent;
    uint64_t caller; /* hash of the caller */
    struct position position;
    int64_t serial;
    int64_t ping_at_ms, ends_at_ms, queues_at_ms;
    int64_t expires_s;
    bool is_new; /* it has not caught up with the tail */
    bool is_suspended, is_over;
    size_t topic_count;
    struct topic topics[];
};

struct events {
    struct events_params params;
    pthread_t thread;
    bool is_running;
    int wake_fd;

    pthread_mutex_t mutex; /* protects everything below except the thread's own members */
    struct stream *streams;
    int64_t serials;
    int64_t generation; /* generation of the lists */
    bool is_ending;

    /* Used by the thread only. */
    struct cv_db *db;
    struct position position; /* of the tail; xid 0: not known yet */
    int64_t since_s;          /* events after the position are not older than this */
    int64_t mark_xid, mark_s; /* transactions from this one on began after that time */
    int64_t topics_generation;
    char *topics;  /* JSON: the topics of all streams */
    char *watched; /* JSON: ids of the watched jobs and uploads; NULL: none */
    int64_t changed_at_ms;
};

/* ---- streams, with the lock held --------------------------------------------------------------- */

static void resume(struct stream *stream)
{
    if (stream->is_suspended) {
        stream->is_suspended = false;
        MHD_resume_connection(stream->connection);
    }
}

static void send_text(struct stream *stream, const char *text)
{
    if (stream->is_over) {
        return;
    }
    cv_buffer_text(&stream->unsent, text);
    if (stream->unsent.length > UNSENT_MAX || stream->unsent.failed) {
        cv_buffer_clear(&stream->unsent);
        cv_buffer_text(&stream->unsent, "event: reset\ndata: {}\n\n");
        stream->is_over = true;
    }
    resume(stream);
}

static void send_event(struct stream *stream, const char *position, const char *kind,
                       const char *data)
{
    char head[POSITION_TEXT + 64];
    (void)snprintf(head, sizeof(head), "%s%s%sevent: %s\ndata: ", position ? "id: " : "",
                   position ? position : "", position ? "\n" : "", kind);
    send_text(stream, head);
    send_text(stream, data);
    send_text(stream, "\n\n");
}

static void end_stream(struct stream *stream, const char *last_words)
{
    send_text(stream, last_words);
    stream->is_over = true;
    resume(stream);
}

/* The library calls this in a thread of the server. */
static ssize_t read_stream(void *opaque, uint64_t offset, char *data, size_t size)
{
    struct stream *stream = opaque;
    ssize_t result = 0;
    (void)offset;
    CV_LOCK(&stream->events->mutex);
    size_t length = stream->unsent.length < size ? stream->unsent.length : size;
    if (length > 0) {
        (void)memcpy(data, stream->unsent.data, length);
        (void)memmove(stream->unsent.data, stream->unsent.data + length,
                      stream->unsent.length - length);
        stream->unsent.length -= length;
        result = (ssize_t)length;
        if (stream->unsent.length == 0) {
            cv_buffer_deinit(&stream->unsent); /* freed, because most streams are idle */
        }
    } else if (stream->is_over) {
        result = MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        stream->is_suspended = true;
        MHD_suspend_connection(stream->connection);
    }
    return result;
}

static void free_stream(void *opaque)
{
    struct stream *stream = opaque;
    struct events *events = stream->events;
    (void)pthread_mutex_lock(&events->mutex);
    if (stream->here) {
        *stream->here = stream->next;
        if (stream->next) {
            stream->next->here = stream->here;
        }
        events->generation++;
    }
    (void)pthread_mutex_unlock(&events->mutex);
    cv_buffer_deinit(&stream->unsent);
    free(stream);
}

/* Makes a stream of the topics that the database has allowed; NULL: out of memory. */
static struct stream *make_stream(const json_t *topics)
{
    size_t i;
    json_t *one;
    size_t count = json_array_size(topics);
    struct stream *stream = calloc(1, sizeof(*stream) + count * sizeof(stream->topics[0]));
    if (!stream || count > TOPICS_MAX) {
        free(stream);
        return NULL;
    }
    stream->topic_count = count;
    json_array_foreach(topics, i, one)
    {
        const char *column = json_string_value(json_object_get(one, "kind"));
        const char *id = json_string_value(json_object_get(one, "id"));
        struct topic *topic = &stream->topics[i];
        (void)snprintf(topic->column, sizeof(topic->column), "%s", column ? column : "");
        (void)snprintf(topic->id, sizeof(topic->id), "%s", id ? id : "");
    }
    return stream;
}

/* Ends the oldest stream of a caller who has as many as one may have: whoever loads a page again
 * must not wait until the gateway has noticed that the streams before are gone. */
static void make_room(struct events *events, uint64_t caller)
{
    int count = 0;
    struct stream *oldest = NULL; /* the newest stands first */
    for (struct stream *stream = events->streams; stream; stream = stream->next) {
        if (stream->caller == caller && !stream->is_over) {
            oldest = stream;
            count++;
        }
    }
    if (oldest && events->params.streams > 0 && count >= events->params.streams) {
        char last_words[64];
        (void)snprintf(last_words, sizeof(last_words), "retry: %d\nevent: replaced\ndata: {}\n\n",
                       REPLACED_RETRY_MS);
        end_stream(oldest, last_words);
    }
}

struct MHD_Response *events_respond(struct events *events, const struct exchange *exchange)
{
    cv_auto(json_decref) json_t *body = answer_json(&exchange->answer);
    struct stream *stream = body ? make_stream(json_object_get(body, "topics")) : NULL;
    if (!stream) {
        return NULL;
    }
    int64_t now = cv_monotonic_ms();
    stream->events = events;
    stream->connection = exchange->connection;
    stream->caller = exchange_caller(exchange);
    stream->expires_s = exchange->principal.expires_s;
    stream->ping_at_ms = now + PING_MS;
    stream->ends_at_ms = now + STREAM_MS;
    stream->is_new = true;
    stream->position = (struct position){json_integer_value(json_object_get(body, "xid")),
                                         json_integer_value(json_object_get(body, "id"))};
    cv_buffer_text(&stream->unsent, "retry: 2000\n\n");
    if (json_is_true(json_object_get(body, "is_lost"))) {
        send_event(stream, NULL, "reset", "{}");
    }
    send_event(stream, json_string_value(json_object_get(body, "position")), "ready", "{}");
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, BLOCK_BYTES, read_stream, stream, free_stream);
    if (!response || stream->unsent.failed) {
        if (response) {
            MHD_destroy_response(response);
        } else {
            cv_buffer_deinit(&stream->unsent);
            free(stream);
        }
        return NULL;
    }
    (void)pthread_mutex_lock(&events->mutex);
    make_room(events, stream->caller);
    stream->is_over = events->is_ending;
    stream->serial = ++events->serials;
    stream->next = events->streams;
    stream->here = &events->streams;
    if (stream->next) {
        stream->next->here = &stream->next;
    }
    events->streams = stream;
    events->generation++;
    (void)pthread_mutex_unlock(&events->mutex);
    cv_wakeup_signal(events->wake_fd);
    return response;
}

/* ---- the tail ---------------------------------------------------------------------------------- */

static bool concerns(const struct topic *topic, const json_t *event)
{
    if (strcmp(topic->column, "all") == 0) {
        return true;
    }
    if (strcmp(topic->column, "tenant") == 0) {
        const char *owner = json_string_value(json_object_get(event, "owner"));
        const char *team = json_string_value(json_object_get(event, "team"));
        return (owner && strcmp(owner, topic->id) == 0) || (team && strcmp(team, topic->id) == 0);
    }
    const char *value = json_string_value(json_object_get(event, topic->column));
    return value && strcmp(value, topic->id) == 0;
}

static struct topic *find_topic(struct stream *stream, const char *column, const char *id)
{
    for (size_t i = 0; i < stream->topic_count; i++) {
        struct topic *topic = &stream->topics[i];
        if (strcmp(topic->column, column) == 0 && strcmp(topic->id, id) == 0) {
            return topic;
        }
    }
    return NULL;
}

/* Whether a state differs from the one that was sent last for the topic. */
static bool is_news(struct topic *topic, const char *data)
{
    uint64_t hash = exchange_hash(data, strlen(data));
    bool is_same = topic->told == hash;
    topic->told = hash;
    return !is_same;
}

static void send_if_wanted(struct stream *stream, const json_t *event)
{
    const struct position at = {json_integer_value(json_object_get(event, "xid")),
                                json_integer_value(json_object_get(event, "event"))};
    if (at.xid < stream->position.xid ||
        (at.xid == stream->position.xid && at.id <= stream->position.id)) {
        return;
    }
    stream->position = at;
    for (size_t i = 0; i < stream->topic_count; i++) {
        if (concerns(&stream->topics[i], event)) {
            cv_auto_free char *data = json_dumps(json_object_get(event, "data"), JSON_COMPACT);
            const char *job = json_string_value(json_object_get(event, "job"));
            struct topic *own = job ? find_topic(stream, "job", job) : NULL;
            if (data && (!own || is_news(own, data))) {
                send_event(stream, json_string_value(json_object_get(event, "position")),
                           json_string_value(json_object_get(event, "kind")), data);
            }
            return;
        }
    }
}

static void send_queues(struct stream *stream, int64_t now)
{
    for (size_t i = 0; i < stream->topic_count; i++) {
        if (strcmp(stream->topics[i].column, "queues") == 0 && stream->queues_at_ms <= now) {
            stream->queues_at_ms = now + QUEUES_MS;
            send_event(stream, NULL, "queues", "{}");
            return;
        }
    }
}

static json_t *topics_of(const struct stream *stream, json_t *lists)
{
    for (size_t i = 0; lists && i < stream->topic_count; i++) {
        const struct topic *topic = &stream->topics[i];
        json_t *list = json_object_get(lists, topic->column);
        if (!list) {
            list = json_array();
            if (json_object_set_new(lists, topic->column, list) != 0) {
                return NULL;
            }
        }
        if (json_array_append_new(list, json_string(topic->id)) != 0) {
            return NULL;
        }
    }
    return lists;
}

/* Reads the timeline once after a position; *ret_look is the result of api.event_tail. */
static int read_timeline(struct events *events, const struct position *position, int64_t since_s,
                         const char *topics, json_t **ret_look, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY(cv_db_run(events->db, &rows, error,
                     "SELECT api.event_tail($1::bigint, $2::bigint, $3::bigint, $4::jsonb)"
                     " AS look",
                     cv_db_number(position->xid).text, cv_db_number(position->id).text,
                     cv_db_number(since_s).text, topics));
    *ret_look = json_loads(cv_db_text(rows, 0, "look"), 0, NULL);
    return *ret_look ? 0 : cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for events");
}

static int64_t number_of(const json_t *look, const char *name)
{
    return json_integer_value(json_object_get(look, name));
}

/* Where the next read begins: after the last event if there were too many for one read, else at the
 * first transaction that may still be open. */
static struct position end_of(const json_t *look)
{
    const json_t *list = json_object_get(look, "events");
    const json_t *last = json_array_get(list, json_array_size(list) - 1);
    return json_is_true(json_object_get(look, "is_full"))
               ? (struct position){number_of(last, "xid"), number_of(last, "event")}
               : (struct position){number_of(look, "horizon"), -1};
}

/* Finds the first stream that has not caught up, and copies its topics; false: there is none. */
static bool find_newcomer(struct events *events, int64_t *ret_serial, struct position *position,
                          char **ret_topics)
{
    bool found = false;
    CV_LOCK(&events->mutex);
    for (struct stream *stream = events->streams; stream && !found; stream = stream->next) {
        if (stream->is_new) {
            cv_auto(json_decref) json_t *lists = json_object();
            *ret_topics = topics_of(stream, lists) ? json_dumps(lists, JSON_COMPACT) : NULL;
            *ret_serial = stream->serial;
            *position = stream->position;
            found = *ret_topics != NULL;
        }
    }
    return found;
}

static int greet(struct events *events, struct cv_error *error)
{
    enum { REPLAY_S = 15 * 60 };
    for (;;) {
        int64_t serial = 0;
        struct position position = {0};
        cv_auto_free char *topics = NULL;
        cv_auto(json_decref) json_t *found = NULL;
        if (!find_newcomer(events, &serial, &position, &topics)) {
            return 0;
        }
        int64_t since = cv_wall_ms() / 1000 - REPLAY_S;
        CV_TRY(read_timeline(events, &position, since, topics, &found, error));
        struct position end = end_of(found);
        bool is_full = json_is_true(json_object_get(found, "is_full"));
        size_t i;
        json_t *event;
        (void)pthread_mutex_lock(&events->mutex);
        struct stream *stream = events->streams;
        while (stream && stream->serial != serial) {
            stream = stream->next;
        }
        if (stream) {
            json_array_foreach(json_object_get(found, "events"), i, event)
            {
                send_if_wanted(stream, event);
            }
            if (json_is_true(json_object_get(found, "is_changed"))) {
                send_queues(stream, cv_monotonic_ms());
            }
            stream->position = end;
            stream->is_new = is_full;
        }
        (void)pthread_mutex_unlock(&events->mutex);
        if (events->position.xid == 0 && !is_full) {
            events->position = end;
            events->since_s = since;
            events->mark_xid = number_of(found, "next_xid");
            events->mark_s = number_of(found, "now");
        }
    }
}

/* Collects the topics of all streams, if the lists have changed. Returns whether there are any
 * streams. */
static bool gather(struct events *events)
{
    CV_LOCK(&events->mutex);
    bool is_anybody = events->streams != NULL;
    if (events->generation != events->topics_generation || !events->topics) {
        cv_auto(json_decref) json_t *lists = json_object();
        for (struct stream *stream = events->streams; stream; stream = stream->next) {
            (void)topics_of(stream, lists);
        }
        cv_auto(json_decref) json_t *watched =
            json_pack("{s:O*, s:O*}", "job", json_object_get(lists, "job"), "upload",
                      json_object_get(lists, "upload"));
        free(events->topics);
        free(events->watched);
        events->topics = json_dumps(lists, JSON_COMPACT);
        events->watched = json_object_size(watched) > 0 ? json_dumps(watched, JSON_COMPACT) : NULL;
        events->topics_generation = events->generation;
        if (!events->streams) {
            events->position = (struct position){0};
        }
    }
    return is_anybody;
}

static void move_on(struct events *events, const json_t *found)
{
    events->position = end_of(found);
    if (events->position.xid >= events->mark_xid) {
        events->since_s = events->mark_s;
        events->mark_xid = number_of(found, "next_xid");
        events->mark_s = number_of(found, "now");
    }
}

static int follow(struct events *events, struct cv_error *error)
{
    bool is_full = true;
    while (is_full && events->position.xid > 0 && events->topics) {
        cv_auto(json_decref) json_t *found = NULL;
        CV_TRY(read_timeline(events, &events->position, events->since_s, events->topics, &found,
                             error));
        int64_t now = cv_monotonic_ms();
        bool is_changed = json_is_true(json_object_get(found, "is_changed"));
        size_t i;
        json_t *event;
        (void)pthread_mutex_lock(&events->mutex);
        for (struct stream *stream = events->streams; stream; stream = stream->next) {
            json_array_foreach(json_object_get(found, "events"), i, event)
            {
                if (!stream->is_new) {
                    send_if_wanted(stream, event);
                }
            }
            if (is_changed) {
                send_queues(stream, now);
            }
        }
        (void)pthread_mutex_unlock(&events->mutex);
        events->changed_at_ms = is_changed ? now : events->changed_at_ms;
        is_full = json_is_true(json_object_get(found, "is_full"));
        move_on(events, found);
    }
    return 0;
}

/* Reads the state of individually watched jobs and uploads: progress and uploads write no events,
 * and some types of jobs write none at all. */
static int watch(struct events *events, struct cv_error *error)
{
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    if (!events->watched) {
        return 0;
    }
    CV_TRY(cv_db_run(events->db, &rows, error,
                     "SELECT kind, id, data FROM api.event_states($1::jsonb)", events->watched));
    CV_LOCK(&events->mutex);
    for (int row = 0; row < cv_db_rows(rows); row++) {
        const char *kind = cv_db_text(rows, row, "kind");
        const char *id = cv_db_text(rows, row, "id");
        cv_auto(json_decref) json_t *state = json_loads(cv_db_text(rows, row, "data"), 0, NULL);
        cv_auto_free char *data = state ? json_dumps(state, JSON_COMPACT) : NULL;
        for (struct stream *stream = events->streams; data && stream; stream = stream->next) {
            struct topic *topic = stream->is_new ? NULL : find_topic(stream, kind, id);
            if (topic && is_news(topic, data)) {
                send_event(stream, NULL, kind, data);
                events->changed_at_ms = cv_monotonic_ms();
            }
        }
    }
    return 0;
}

/* Whether the client has closed its side. The library does not look at a suspended connection. */
static bool has_left(const struct stream *stream)
{
    const union MHD_ConnectionInfo *info =
        stream->is_suspended
            ? MHD_get_connection_info(stream->connection, MHD_CONNECTION_INFO_CONNECTION_FD)
            : NULL;
    struct pollfd fd = {.fd = info ? info->connect_fd : -1, .events = POLLRDHUP};
    return poll(&fd, 1, 0) > 0;
}

/* Sends pings, ends streams whose time is over or whose client has left, and sends `news` to all
 * streams. Returns whether the service ends. */
static bool keep_time(struct events *events, const char *news)
{
    int64_t now = cv_monotonic_ms();
    CV_LOCK(&events->mutex);
    for (struct stream *stream = events->streams; stream; stream = stream->next) {
        if (news) {
            send_event(stream, NULL, news, "{}");
        }
        if (stream->expires_s > 0 && stream->expires_s <= cv_wall_ms() / 1000) {
            end_stream(stream, "event: expired\ndata: {}\n\n");
        } else if (stream->ends_at_ms <= now || has_left(stream)) {
            end_stream(stream, "retry: 100\n\n");
        } else if (stream->ping_at_ms <= now) {
            send_text(stream, ": ping\n\n");
            stream->ping_at_ms = now + PING_MS;
        }
    }
    return events->is_ending;
}

static int tick(struct events *events, struct cv_error *error)
{
    const struct cv_db_params params = {.application_name = "api-gateway events",
                                        .cancel = events->params.cancel,
                                        .connect_timeout_ms = RECONNECT_MS,
                                        .statement_timeout_ms = STATEMENT_MS};
    struct cv_error reason;
    if (!events->db) {
        CV_TRY(cv_db_open(&params, &events->db, error));
        if (cv_db_listen(events->db, "cv_events", &reason) != 0) {
            cv_log(CV_LOG_WARN, "no LISTEN, polling for events: %s",
                   reason.message); /* behind a pooler */
        }
    } else if (!cv_db_is_connected(events->db)) {
        CV_TRY(cv_db_reconnect(events->db, RECONNECT_MS, error));
    }
    CV_TRY(greet(events, error));
    /* Streams that have caught up are now served together with the others, from the common
     * position. */
    (void)gather(events);
    CV_TRY(follow(events, error));
    return watch(events, error);
}

static void rest(struct events *events, bool is_anybody)
{
    int64_t quiet_ms = cv_monotonic_ms() - events->changed_at_ms;
    int pause = !is_anybody ? IDLE_MS : quiet_ms > QUIET_AFTER_MS ? QUIET_TICK_MS : TICK_MS;
    struct pollfd fds[] = {
        {.fd = events->wake_fd, .events = POLLIN},
        {.fd = events->db && is_anybody ? cv_db_fd(events->db) : -1, .events = POLLIN}};
    struct cv_error error;
    if (poll(fds, CV_COUNT(fds), pause) > 0 && fds[0].revents) {
        cv_wakeup_clear(events->wake_fd);
        events->changed_at_ms = cv_monotonic_ms();
    }
    for (int result = 1; fds[1].revents && result == 1;) {
        cv_auto_free char *channel = NULL;
        cv_auto_free char *payload = NULL;
        result = cv_db_notification(events->db, &channel, &payload, &error);
    }
}

static void *run_tail(void *opaque)
{
    struct events *events = opaque;
    struct cv_error error;
    bool is_told = false;
    for (;;) {
        bool is_anybody = gather(events);
        int result = is_anybody ? tick(events, &error) : 0;
        if (result != 0 && !is_told) {
            cv_log_error(&error, "live events");
        }
        /* Streams are told that the database is away; otherwise it would look as if nothing
         * happened. */
        const char *news = is_told == (result != 0) ? NULL : result ? "away" : "back";
        is_told = result != 0;
        if (keep_time(events, news)) {
            return NULL;
        }
        (void)poll(NULL, 0, result ? TICK_MS : 0);
        rest(events, is_anybody);
    }
}

/* ---- beginning and end -------------------------------------------------------------------------- */

int events_start(const struct events_params *params, struct events **ret_events,
                 struct cv_error *error)
{
    cv_auto(events_stop) struct events *events = calloc(1, sizeof(*events));
    CV_TRY_MEMORY(events, error, "live events");
    events->params = *params;
    events->wake_fd = -1;
    if (pthread_mutex_init(&events->mutex, NULL) != 0) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "cannot make a lock for live events");
    }
    CV_TRY(cv_wakeup_open(&events->wake_fd, error));
    CV_TRY(cv_thread_start(&events->thread, run_tail, events, error));
    events->is_running = true;
    *ret_events = cv_take(events);
    return 0;
}

void events_quiesce(struct events *events)
{
    (void)pthread_mutex_lock(&events->mutex);
    events->is_ending = true;
    for (struct stream *stream = events->streams; stream; stream = stream->next) {
        end_stream(stream, "retry: 100\n\n");
    }
    (void)pthread_mutex_unlock(&events->mutex);
    cv_wakeup_signal(events->wake_fd);
    if (events->is_running) {
        (void)pthread_join(events->thread, NULL);
        events->is_running = false;
    }
}

void events_stop(struct events *events)
{
    if (!events) {
        return;
    }
    if (events->is_running) {
        events_quiesce(events);
    }
    cv_db_close(events->db);
    if (events->wake_fd >= 0) {
        (void)close(events->wake_fd);
    }
    (void)pthread_mutex_destroy(&events->mutex);
    free(events->topics);
    free(events->watched);
    free(events);
}
