#include "gateway/password.h"

#include "gateway/caller.h"

#include <argon2.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* OWASP's choice for Argon2id. More memory would let a crowd that signs in at once use up a small
 * server's. */
enum {
    MEMORY_KIB = 19 * 1024,
    PASSES = 2,
    LANES = 1,
    SALT_BYTES = 16,
    HASH_BYTES = 32,
    ENCODED_SIZE = 128,
    AT_ONCE = 2, /* the other threads go on with other requests */
};

static atomic_int under_way;

static int hash(const char *password, char encoded[ENCODED_SIZE])
{
    unsigned char salt[SALT_BYTES];
    arc4random_buf(salt, sizeof(salt));
    return argon2id_hash_encoded(PASSES, MEMORY_KIB, LANES, password, strlen(password), salt,
                                 sizeof(salt), HASH_BYTES, encoded, ENCODED_SIZE);
}

/* Of nobody's password: compared with where there is no account, so that it takes as long. */
static char nobodys[ENCODED_SIZE];

static void make_nobodys(void)
{
    char text[2 * HASH_BYTES + 1];
    cv_random_hex(HASH_BYTES, text);
    if (hash(text, nobodys) != ARGON2_OK) {
        nobodys[0] = '\0';
    }
}

/* Compares the password with that of the account, which is named in the entry from then on. */
static void compare(struct exchange *exchange, const json_t *account, const char *password)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    json_t *entry = exchange->entry;
    json_t *person = json_object_get(account, "person_id");
    const char *email = json_string_value(json_object_get(entry, "email"));
    const char *own = json_string_value(json_object_get(account, "password"));
    const char *name = person ? json_string_value(person) : email ? email : "nobody";
    (void)pthread_once(&once, make_nobodys);
    if (!admission_may_try(exchange, name, json_is_true(json_object_get(account, "is_known")))) {
        return;
    }
    int result = argon2id_verify(own ? own : nobodys, password, strlen(password));
    if (result == ARGON2_MEMORY_ALLOCATION_ERROR) {
        exchange_refuse(exchange, REFUSE_BUSY, "out of memory");
    } else if (result != ARGON2_OK || !own || json_object_set(entry, "person_id", person) != 0) {
        admission_refuse_entry(exchange);
    }
}

static void replace(struct exchange *exchange, const char *password)
{
    char encoded[ENCODED_SIZE];
    if (hash(password, encoded) != ARGON2_OK ||
        json_object_set_new(exchange->entry, "password_hash", json_string(encoded)) != 0) {
        exchange_refuse(exchange, REFUSE_BUSY, "out of memory");
    }
}

/* Finds the account of the e-mail address; without one, that of the caller. */
static int find_account(struct cv_db *db, struct exchange *exchange, json_t **ret_account,
                        struct cv_error *error)
{
    const struct principal *principal = &exchange->principal;
    cv_auto(json_decref) json_t *claims =
        json_loads(principal->claims ? principal->claims : "{}", 0, NULL);
    cv_auto(json_decref) json_t *wanted =
        json_pack("{s:O*, s:s*, s:O*, s:s}", "email", json_object_get(exchange->entry, "email"),
                  "session", principal->key_digest[0] ? principal->key_digest : NULL, "person_id",
                  json_object_get(claims, "sub"), "address", exchange->address);
    cv_auto_free char *text = wanted ? json_dumps(wanted, JSON_COMPACT) : NULL;
    cv_auto(cv_db_result_free) struct cv_db_result *rows = NULL;
    CV_TRY_MEMORY(text, error, "an account");
    CV_TRY(
        cv_db_run(db, &rows, error, "SELECT api.find_account($1::jsonb)::text AS account", text));
    const char *found = cv_db_rows(rows) ? cv_db_text(rows, 0, "account") : NULL;
    *ret_account = found ? json_loads(found, 0, NULL) : NULL;
    return 0;
}

void password_do(struct cv_db *db, struct exchange *exchange)
{
    struct cv_error error;
    json_t *entry = exchange->entry;
    cv_auto(json_decref) json_t *account = NULL;
    const char *password = json_string_value(json_object_get(entry, "password"));
    const char *new_password = json_string_value(json_object_get(entry, "new_password"));
    if (password && find_account(db, exchange, &account, &error) != 0) {
        exchange_refuse_sqlstate(exchange, cv_db_sqlstate(db), error.message, "");
        return;
    }
    if (atomic_fetch_add(&under_way, 1) >= AT_ONCE) {
        exchange_refuse(exchange, REFUSE_BUSY, "many sign in at this moment: try again");
    } else if (password) {
        compare(exchange, account, password);
    }
    if (new_password && !exchange->answer.status) {
        replace(exchange, new_password);
    }
    atomic_fetch_sub(&under_way, 1);
    (void)json_object_del(entry, "password");
    (void)json_object_del(entry, "new_password");
}
