/* Signing in by a provider of OpenID Connect: the authorization code flow with PKCE. What it answers is
 * bound to the browser that asked: state, nonce and verifier are digests of a random cookie. */
#pragma once

#include "common/db/db.h"
#include "common/store/store.h"

#include "gateway/exchange.h"

/* Reads the settings of the provider that exchange->values or the state names into exchange->entry; or
 * refuses (404). */
void provider_find(struct cv_db *db, struct exchange *exchange);

/* Answers with the provider's URL for this browser, and sets the cookie. For a thread of the store, because
 * it waits for another server; the store is not used. Returns 0: the exchange may be refused. */
int provider_ask(struct cv_store *store, struct exchange *exchange, struct cv_error *error);

/* Exchanges the code for an ID token, checks it, and puts who it names into exchange->entry; or refuses
 * (401, 503). As provider_ask. */
int provider_take(struct cv_store *store, struct exchange *exchange, struct cv_error *error);
