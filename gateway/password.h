/* Passwords of people: Argon2id (RFC 9106), computed by a thread of the database outside of every
 * transaction, because it takes some 40 ms of CPU and 19 MiB. */
#pragma once

#include "common/db/db.h"

#include "gateway/exchange.h"

/* Does STEP_PASSWORD, with exchange->entry: compares `password` with that of the account, and puts the
 * Argon2id of `new_password` in its place. Refuses (401, 429, 503) in exchange->answer. An account
 * that does not exist takes as long as a wrong password. */
void password_do(struct cv_db *db, struct exchange *exchange);
