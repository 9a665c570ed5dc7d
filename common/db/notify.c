#include "common/db/connection.h"

#include <string.h>

CV_DEFINE_CLEANUP(PGnotify *, PQfreemem)

int cv_db_send_listen(struct cv_db *db, const char *channel, struct cv_error *error)
{
    if (!cv_db_is_connected(db)) {
        return cv_fail(error, CV_ERROR_CONNECTION, "not connected to the database");
    }
    char *quoted = PQescapeIdentifier(db->connection, channel, strlen(channel));
    if (!quoted) {
        return cv_fail(error, CV_ERROR_INTERNAL, "not the name of a channel: %s", channel);
    }
    char statement[160];
    int length = snprintf(statement, sizeof(statement), "LISTEN %s", quoted);
    PQfreemem(quoted);
    if (length < 0 || (size_t)length >= sizeof(statement)) {
        return cv_fail(error, CV_ERROR_INTERNAL, "the name of a channel is too long");
    }
    return cv_db_script(db, statement, error);
}

int cv_db_listen(struct cv_db *db, const char *channel, struct cv_error *error)
{
    for (size_t i = 0; i < db->channel_count; i++) {
        if (strcmp(db->channels[i], channel) == 0) {
            return 0;
        }
    }
    char **channels = reallocarray(db->channels, db->channel_count + 1, sizeof(*channels));
    if (!channels) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a channel");
    }
    db->channels = channels;
    cv_auto_free char *name = strdup(channel);
    if (!name) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a channel");
    }
    int result = cv_db_send_listen(db, channel, error);
    if (result) {
        return result;
    }
    db->channels[db->channel_count++] = cv_take(name);
    return 0;
}

int cv_db_fd(const struct cv_db *db)
{
    return db->connection ? PQsocket(db->connection) : -1;
}

int cv_db_notification(struct cv_db *db, char **ret_channel, char **ret_payload,
                       struct cv_error *error)
{
    if (!cv_db_is_connected(db)) {
        return cv_fail(error, CV_ERROR_CONNECTION, "not connected to the database");
    }
    if (!PQconsumeInput(db->connection)) {
        char message[sizeof(error->message)];
        (void)snprintf(message, sizeof(message), "%s", PQerrorMessage(db->connection));
        cv_redact(message);
        cv_db_drop(db);
        return cv_fail(error, CV_ERROR_CONNECTION, "the connection to the database is lost: %s",
                       message);
    }
    cv_auto(PQfreemem) PGnotify *notification = PQnotifies(db->connection);
    if (!notification) {
        return 0;
    }
    cv_auto_free char *channel = strdup(notification->relname);
    cv_auto_free char *payload = strdup(notification->extra);
    if (!channel || !payload) {
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for a notification");
    }
    *ret_channel = cv_take(channel);
    *ret_payload = cv_take(payload);
    return 1;
}
