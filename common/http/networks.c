/* Which addresses are public: IANA's special-purpose registries for IPv4 and IPv6 (RFC 6890 and its
 * successors) are the source of the tables. */
#include "common/http/http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

enum { ADDRESS_BYTES = 16, MAPPED_BITS = 96, NETWORK_TEXT_MAX = 64 };

static const unsigned char mapped_prefix[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

/* The routed ranges, and the exceptions in them: of IPv6 protocols, tunnels that contain an IPv4
 * address, and addresses for examples. */
static const char *const routed[] = {"0.0.0.0/0", "2000::/3", NULL};
static const char *const special[] = {
    "0.0.0.0/8",       "10.0.0.0/8",        "100.64.0.0/10",   "127.0.0.0/8",
    "169.254.0.0/16",  "172.16.0.0/12",     "192.0.0.0/24",    "192.0.2.0/24",
    "192.31.196.0/24", "192.52.193.0/24",   "192.88.99.0/24",  "192.168.0.0/16",
    "192.175.48.0/24", "198.18.0.0/15",     "198.51.100.0/24", "203.0.113.0/24",
    "224.0.0.0/4",     "240.0.0.0/4",       "2001::/23",       "2001:db8::/32",
    "2002::/16",       "2620:4f:8000::/48", "3fff::/20",       NULL,
};
static const char *const link_local[] = {"169.254.0.0/16", "fe80::/10", NULL};

static bool is_within(const unsigned char *address, const unsigned char *network, int bits)
{
    int bytes = bits / 8;
    int rest = bits % 8;
    if (memcmp(address, network, (size_t)bytes) != 0) {
        return false;
    }
    unsigned mask = rest ? 0xffU << (8 - rest) & 0xffU : 0;
    return rest == 0 || ((address[bytes] ^ network[bytes]) & mask) == 0;
}

static bool parse_network(const char *text, unsigned char address[ADDRESS_BYTES], int *ret_bits)
{
    char plain[NETWORK_TEXT_MAX];
    const char *slash = strchr(text, '/');
    size_t length = slash ? (size_t)(slash - text) : strlen(text);
    if (length >= sizeof(plain)) {
        return false;
    }
    (void)snprintf(plain, sizeof(plain), "%.*s", (int)length, text);
    bool is_v4 = inet_pton(AF_INET, plain, address + sizeof(mapped_prefix)) == 1;
    if (is_v4) {
        memcpy(address, mapped_prefix, sizeof(mapped_prefix));
    } else if (inet_pton(AF_INET6, plain, address) != 1) {
        return false;
    }
    int first = is_v4 ? MAPPED_BITS : 0;
    int64_t bits = 8 * ADDRESS_BYTES - first;
    if (slash && !cv_parse_int(slash + 1, 0, bits, &bits)) {
        return false;
    }
    *ret_bits = first + (int)bits;
    return true;
}

static bool is_among(const unsigned char *address, const char *const *networks)
{
    unsigned char network[ADDRESS_BYTES];
    int bits = 0;
    for (; *networks; networks++) {
        if (parse_network(*networks, network, &bits) && is_within(address, network, bits)) {
            return true;
        }
    }
    return false;
}

/* The address as IPv6; an IPv4 address in its mapped form. */
static bool read_address(const struct sockaddr *given, unsigned char address[ADDRESS_BYTES])
{
    if (given->sa_family == AF_INET) {
        struct sockaddr_in v4;
        memcpy(&v4, given, sizeof(v4));
        memcpy(address, mapped_prefix, sizeof(mapped_prefix));
        memcpy(address + sizeof(mapped_prefix), &v4.sin_addr, sizeof(v4.sin_addr));
        return true;
    }
    if (given->sa_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, given, sizeof(v6));
        memcpy(address, &v6.sin6_addr, ADDRESS_BYTES);
        return true;
    }
    return false;
}

bool cv_http_networks_parse(const char *text, struct cv_http_networks *ret_networks)
{
    struct cv_http_networks allowed = {.count = 0};
    for (const char *part = text; *part;) {
        char one[NETWORK_TEXT_MAX];
        size_t length = strcspn(part, ",");
        if (length >= sizeof(one) || allowed.count == CV_COUNT(allowed.networks)) {
            return false;
        }
        (void)snprintf(one, sizeof(one), "%.*s", (int)length, part);
        if (!parse_network(one, allowed.networks[allowed.count].address,
                           &allowed.networks[allowed.count].bits)) {
            return false;
        }
        allowed.count++;
        part += length;
        if (*part == ',' && *++part == '\0') {
            return false;
        }
    }
    *ret_networks = allowed;
    return true;
}

static bool is_in(const struct cv_http_networks *networks, const unsigned char *address)
{
    for (size_t i = 0; i < networks->count; i++) {
        if (is_within(address, networks->networks[i].address, networks->networks[i].bits)) {
            return true;
        }
    }
    return false;
}

static bool add_network(struct cv_http_networks *networks, const char *text)
{
    unsigned char address[ADDRESS_BYTES];
    int bits = 0;
    if (networks->count == CV_COUNT(networks->networks) || !parse_network(text, address, &bits) ||
        is_among(address, link_local)) {
        return false;
    }
    memcpy(networks->networks[networks->count].address, address, ADDRESS_BYTES);
    networks->networks[networks->count++].bits = bits;
    return true;
}

bool cv_http_networks_add_host(struct cv_http_networks *networks, const char *host)
{
    struct cv_http_networks added = *networks;
    bool is_loopback = strcmp(host, "localhost") == 0;
    bool good = is_loopback ? add_network(&added, "127.0.0.0/8") && add_network(&added, "::1")
                            : !strchr(host, '/') && add_network(&added, host);
    if (good) {
        *networks = added;
    }
    return good;
}

bool cv_http_may_call(const struct cv_http_networks *allowed, const struct sockaddr *given)
{
    unsigned char address[ADDRESS_BYTES];
    return read_address(given, address) &&
           (is_in(allowed, address) || (is_among(address, routed) && !is_among(address, special)));
}

bool cv_http_is_in(const struct cv_http_networks *networks, const struct sockaddr *given)
{
    unsigned char address[ADDRESS_BYTES];
    return read_address(given, address) && is_in(networks, address);
}
