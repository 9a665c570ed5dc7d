/* Whose address a request comes from. Behind proxies that are named it is in a header, which anybody else can write,
 * too: it is read from its end, as far as what is there was added by one of these proxies. */
#pragma once

#include "common/http/http.h"

#include <netinet/in.h>

enum { ADDRESS_TEXT_SIZE = INET6_ADDRSTRLEN };

enum forwarded_header {
    FORWARDED_X_FORWARDED_FOR, /* "192.0.2.1, 10.0.0.7" */
    FORWARDED_STANDARD,        /* RFC 7239: "for=192.0.2.1, for=\"[2001:db8::1]:4711\"" */
};

/* Writes the address as text: that of the peer, or, where the peer is a trusted proxy, the last address in
 * `forwarded` (all lines of the header, joined by commas; NULL: none) that is none. */
void address_find(const struct sockaddr *peer, const char *forwarded, enum forwarded_header kind,
                  const struct cv_http_networks *trusted, char text[ADDRESS_TEXT_SIZE]);
