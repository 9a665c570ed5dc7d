#include "gateway/address.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

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

/* The value of "for" in an element of the header Forwarded. */
static bool find_for(const char **text, size_t *length)
{
    const char *end = *text + *length;
    for (const char *part = *text; part < end;) {
        const char *semicolon = memchr(part, ';', (size_t)(end - part));
        const char *part_end = semicolon ? semicolon : end;
        while (part < part_end && (*part == ' ' || *part == '\t')) {
            part++;
        }
        if (part_end - part > 4 && strncasecmp(part, "for=", 4) == 0) {
            *text = part + 4;
            *length = (size_t)(part_end - part) - 4;
            return true;
        }
        part = part_end + 1;
    }
    return false;
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

void address_find(const struct sockaddr *peer, const char *forwarded, enum forwarded_header kind,
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
        if ((kind == FORWARDED_STANDARD && !find_for(&element, &length)) ||
            !read_address(element, length, &current)) {
            return; /* what stands before it was not added by a proxy that we know */
        }
        last = (const struct sockaddr *)&current;
        write_address(last, text);
    }
}
