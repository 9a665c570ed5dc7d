#include "gateway/limits.h"

#include <arpa/inet.h>
#include <math.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

enum {
    SETS = 4096, /* sets of buckets: 16,384 callers at once, in 512 KiB */
    WAYS = 4,
    SEED_BYTES = 16,
    LARGEST = 1000000,
};

struct bucket {
    uint64_t caller; /* keyed hash, so that nobody can provoke collisions; 0: free */
    double level;    /* requests in the bucket at the time below */
    int64_t at_ms;
};

struct limits {
    struct {
        double rate; /* per second; 0: no limit */
        double burst;
    } classes[RATE_COUNT];
    unsigned char seed[SEED_BYTES];

    pthread_mutex_t mutex; /* protects the buckets */
    struct bucket buckets[SETS][WAYS];
};

static const char *const names[RATE_COUNT] = {"read", "write", "search", "failure", "note"};
static const char defaults[] = "read=50:200,write=5:20,search=10:30,failure=0.1:10,note=0.17:10";

const char *rate_class_name(enum rate_class class)
{
    return names[class];
}

/* ---- configuration ------------------------------------------------------------------------------- */

static bool read_class(struct limits *limits, const char *text, size_t length)
{
    char part[64];
    double rate = 0;
    double burst = 0;
    if (length >= sizeof(part)) {
        return false;
    }
    (void)snprintf(part, sizeof(part), "%.*s", (int)length, text);
    char *value = strchr(part, '=');
    char *colon = strchr(part, ':');
    if (!value) {
        return false;
    }
    *value++ = '\0';
    if (colon) {
        *colon++ = '\0';
    }
    if (!cv_parse_double(value, 0, LARGEST, &rate) ||
        (rate > 0 && (!colon || !cv_parse_double(colon, 1, LARGEST, &burst)))) {
        return false;
    }
    for (size_t i = 0; i < RATE_COUNT; i++) {
        if (strcmp(names[i], part) == 0) {
            limits->classes[i].rate = rate;
            limits->classes[i].burst = burst;
            return true;
        }
    }
    return false;
}

static bool read_classes(struct limits *limits, const char *text)
{
    for (size_t length; *text; text += length + (text[length] == ',')) {
        length = strcspn(text, ",");
        if (!read_class(limits, text, length)) {
            return false;
        }
    }
    return true;
}

int limits_new(const char *text, struct limits **ret_limits, struct cv_error *error)
{
    cv_auto_free struct limits *limits = calloc(1, sizeof(*limits));
    CV_TRY_MEMORY(limits && pthread_mutex_init(&limits->mutex, NULL) == 0, error, "limits");
    if (!read_classes(limits, defaults) || (text && !read_classes(limits, text))) {
        (void)pthread_mutex_destroy(&limits->mutex);
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "--rates is '%s', but must be like read=50:200,write=5:20,search=10:30,"
                       "failure=0.1:10 (a second, and at once), or read=0 for no bound",
                       text);
    }
    arc4random_buf(limits->seed, sizeof(limits->seed));
    *ret_limits = cv_take(limits);
    return 0;
}

void limits_free(struct limits *limits)
{
    if (limits) {
        (void)pthread_mutex_destroy(&limits->mutex);
        free(limits);
    }
}

/* ---- buckets ------------------------------------------------------------------------------------- */

static uint64_t hash(const struct limits *limits, enum rate_class class, const char *caller)
{
    unsigned char text[SEED_BYTES + 1 + 96];
    unsigned char digest[EVP_MAX_MD_SIZE];
    uint64_t made = 0;
    size_t length = strnlen(caller, 96);
    (void)memcpy(text, limits->seed, SEED_BYTES);
    text[SEED_BYTES] = (unsigned char)class;
    (void)memcpy(text + SEED_BYTES + 1, caller, length);
    if (EVP_Digest(text, SEED_BYTES + 1 + length, digest, NULL, EVP_sha256(), NULL) == 1) {
        (void)memcpy(&made, digest, sizeof(made));
    }
    return made | 1; /* 0 marks a free bucket */
}

/* Returns the caller's bucket, or the least recently used one, refilled. */
static struct bucket *find(struct limits *limits, uint64_t caller, double burst, int64_t now_ms)
{
    struct bucket *set = limits->buckets[caller >> 32 & (SETS - 1)];
    struct bucket *oldest = set;
    for (size_t i = 0; i < WAYS; i++) {
        if (set[i].caller == caller) {
            return &set[i];
        }
        oldest = set[i].at_ms < oldest->at_ms ? &set[i] : oldest;
    }
    *oldest = (struct bucket){caller, burst, now_ms};
    return oldest;
}

static struct rate_state find_rate(struct limits *limits, enum rate_class class, const char *caller,
                                   bool is_charged)
{
    double rate = limits->classes[class].rate;
    double burst = limits->classes[class].burst;
    struct rate_state state = {.class = class, .is_bounded = rate > 0, .burst = (int)burst};
    if (!state.is_bounded) {
        return state;
    }
    int64_t now_ms = cv_monotonic_ms();
    uint64_t id = hash(limits, class, caller);
    (void)pthread_mutex_lock(&limits->mutex);
    struct bucket *bucket = find(limits, id, burst, now_ms);
    double level = bucket->level + (double)(now_ms - bucket->at_ms) / 1000 * rate;
    bucket->level = level < burst ? level : burst;
    bucket->at_ms = now_ms;
    state.is_over = bucket->level < 1;
    bucket->level -= state.is_over || !is_charged ? 0 : 1;
    level = bucket->level;
    (void)pthread_mutex_unlock(&limits->mutex);
    state.left = (int)level;
    state.window_s = (int)ceil(burst / rate);
    state.retry_s = level >= 1 ? 0 : (int)ceil((1 - level) / rate);
    return state;
}

struct rate_state limits_charge(struct limits *limits, enum rate_class class, const char *caller)
{
    return find_rate(limits, class, caller, true);
}

struct rate_state limits_look(struct limits *limits, enum rate_class class, const char *caller)
{
    return find_rate(limits, class, caller, false);
}

void limits_network(const char *address, char *network)
{
    enum { HOST_BYTES = 8 }; /* bytes of an IPv6 address that a subscriber can choose */
    struct in6_addr v6;
    (void)snprintf(network, ADDRESS_TEXT_SIZE, "%s", address);
    if (strchr(address, ':') && inet_pton(AF_INET6, address, &v6) == 1) {
        (void)memset(v6.s6_addr + HOST_BYTES, 0, HOST_BYTES);
        (void)inet_ntop(AF_INET6, &v6, network, ADDRESS_TEXT_SIZE);
    }
}

/* ---- addresses ----------------------------------------------------------------------------------- */

/* Reads "192.0.2.1", "192.0.2.1:80", "2001:db8::1" or "[2001:db8::1]:80", with blanks or quotes around it. */
static bool read_address(const char *text, size_t length, struct sockaddr_storage *address)
{
    char plain[ADDRESS_TEXT_SIZE + 8];
    struct sockaddr_in *v4 = (struct sockaddr_in *)address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;
    while (length > 0 && strchr(" \t\"", text[0])) {
        text++, length--;
    }
    while (length > 0 && strchr(" \t\"", text[length - 1])) {
        length--;
    }
    const char *bracket = length > 0 && text[0] == '[' ? memchr(text, ']', length) : NULL;
    if (bracket) {
        length = (size_t)(bracket - text) - 1;
        text++;
    } else if (memchr(text, '.', length) && memchr(text, ':', length) &&
               memchr(text, ':', length) == memrchr(text, ':', length)) {
        length = (size_t)((const char *)memchr(text, ':', length) - text);
    }
    if (length == 0 || length >= sizeof(plain)) {
        return false;
    }
    (void)memcpy(plain, text, length);
    plain[length] = '\0';
    *address = (struct sockaddr_storage){0};
    if (inet_pton(AF_INET, plain, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        return true;
    }
    v6->sin6_family = AF_INET6;
    return inet_pton(AF_INET6, plain, &v6->sin6_addr) == 1;
}

static void write_address(const struct sockaddr *address, char text[ADDRESS_TEXT_SIZE])
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    const void *bytes = &((const struct sockaddr_in *)address)->sin_addr;
    int family = AF_INET;
    if (address->sa_family == AF_INET6) {
        bool is_mapped = IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr);
        family = is_mapped ? AF_INET : AF_INET6;
        bytes = is_mapped ? (const void *)(v6->sin6_addr.s6_addr + 12) : &v6->sin6_addr;
    }
    if (!inet_ntop(family, bytes, text, ADDRESS_TEXT_SIZE)) {
        text[0] = '\0';
    }
}

void address_find(const struct sockaddr *peer, const char *forwarded,
                  const struct cv_http_networks *trusted, char text[ADDRESS_TEXT_SIZE])
{
    struct sockaddr_storage current;
    size_t left = forwarded ? strlen(forwarded) : 0;
    write_address(peer, text);
    const struct sockaddr *last = peer;
    while (left > 0 && cv_http_is_in(trusted, last)) {
        const char *comma = memrchr(forwarded, ',', left);
        const char *element = comma ? comma + 1 : forwarded;
        size_t length = left - (size_t)(element - forwarded);
        left = comma ? (size_t)(comma - forwarded) : 0;
        if (!read_address(element, length, &current)) {
            return; /* entries before it were not added by a known proxy */
        }
        last = (const struct sockaddr *)&current;
        write_address(last, text);
    }
}
