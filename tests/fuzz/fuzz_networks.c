/* Lists of networks as operators write them, and addresses: what is parsed as a list allows what it says, and without
 * a list nothing that is not public may be called. The input is a list; its first 16 bytes are an IPv6 address, too. */
#include "common/http/http.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cv_auto_free char *text = strndup((const char *)data, size);
    struct cv_http_networks networks = {.count = 0};
    const struct cv_http_networks none = {.count = 0};
    struct sockaddr_in6 address = {.sin6_family = AF_INET6};
    memcpy(&address.sin6_addr, data, size < 16 ? size : 16);
    const struct sockaddr *given = (const struct sockaddr *)&address;
    bool is_public = cv_http_may_call(&none, given);
    if (is_public &&
        (IN6_IS_ADDR_LOOPBACK(&address.sin6_addr) || address.sin6_addr.s6_addr[0] >= 0xfc)) {
        abort();
    }
    if (text && cv_http_networks_parse(text, &networks) && is_public &&
        !cv_http_may_call(&networks, given)) {
        abort();
    }
    (void)(text && cv_http_networks_add_host(&networks, text));
    return 0;
}
