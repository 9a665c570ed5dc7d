/* Keys as strangers write them. A key that passes the check climbs nowhere, whatever is read out of it. */
#include "common/store/store.h"

#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

static void check_passed(const char *key)
{
    if (key[0] == '/' || key[strlen(key) - 1] == '/' || strstr(key, "//") || strstr(key, "/../") ||
        strncmp(key, "../", 3) == 0 || strcmp(key, "..") == 0 || strchr(key, '\n')) {
        abort();
    }
    for (int place = 0; place < CV_OBJECT_PLACE_COUNT; place++) {
        char id[CV_OBJECT_ID_SIZE];
        if (cv_object_video((enum cv_object_place)place, key, id) && !cv_is_uuid(id)) {
            abort();
        }
    }
    char id[CV_OBJECT_ID_SIZE];
    if (cv_object_is_original(key, id) && !cv_is_uuid(id)) {
        abort();
    }
    struct cv_inbox_key inbox;
    if (strncmp(key, CV_KEYS_INBOX, strlen(CV_KEYS_INBOX)) == 0 &&
        cv_inbox_read(key, &inbox) == CV_INBOX_VIDEO &&
        ((inbox.owner_id[0] && !cv_is_uuid(inbox.owner_id)) ||
         (inbox.team_id[0] && !cv_is_uuid(inbox.team_id)) || strchr(inbox.name, '/'))) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cv_error error;
    cv_auto_free char *key = malloc(size + 1);
    if (!key) {
        return 0;
    }
    memcpy(key, data, size);
    key[size] = '\0';
    if (cv_store_check_key(key, &error) == 0) {
        check_passed(key);
    }
    return 0;
}
