#include "workers/webhook/webhook.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* The specification's own example. */
static void test_signature_of_the_specification(void **state)
{
    (void)state;
    static const char body[] = "{\"test\": 2432232314}";
    char signature[WEBHOOK_SIGNATURE_SIZE];
    struct cv_error error;
    assert_int_equal(webhook_sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                                  "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, body, strlen(body),
                                  signature, &error),
                     0);
    assert_string_equal(signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

static void test_what_is_no_secret(void **state)
{
    (void)state;
    static const char *const secrets[] = {
        "",
        "whsec_",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaS",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa==",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2La!aSw",
        "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
        "AAAA",
    };
    for (size_t i = 0; i < CV_COUNT(secrets); i++) {
        char signature[WEBHOOK_SIGNATURE_SIZE];
        struct cv_error error;
        assert_int_equal(webhook_sign(secrets[i], "m", 1, "", 0, signature, &error), -1);
        assert_int_equal(error.type, CV_ERROR_CONFIGURATION);
        assert_null(strstr(error.message, "MfKQ"));
    }
}

static bool may_call(const char *allow, const char *text)
{
    struct webhook_allowed allowed;
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    assert_true(webhook_allowed_parse(allow, &allowed));
    if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) {
        return webhook_may_call(&allowed, (const struct sockaddr *)&v4);
    }
    assert_int_equal(inet_pton(AF_INET6, text, &v6.sin6_addr), 1);
    return webhook_may_call(&allowed, (const struct sockaddr *)&v6);
}

static void test_public_addresses(void **state)
{
    (void)state;
    static const char *const public[] = {
        "1.1.1.1",      "9.255.255.255",  "11.0.0.0",     "100.63.255.255",  "100.128.0.0",
        "126.0.0.1",    "128.0.0.1",      "172.15.0.1",   "172.32.0.0",      "169.253.0.1",
        "192.167.1.1",  "198.17.255.255", "198.20.0.0",   "223.255.255.255", "2606:4700::1111",
        "2a00:1450::1", "::ffff:8.8.8.8", "2001:4860::1", "3ffe::1",
    };
    static const char *const private[] = {
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.9",
        "224.0.0.1",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "fc00::1",
        "fd12::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
        "3fff::1",
        "5f00::1",
        "2001:1ff::1",
    };
    for (size_t i = 0; i < CV_COUNT(public); i++) {
        if (!may_call("", public[i])) {
            fail_msg("%s is public", public[i]);
        }
    }
    for (size_t i = 0; i < CV_COUNT(private); i++) {
        if (may_call("", private[i])) {
            fail_msg("%s is not public", private[i]);
        }
    }
    const struct webhook_allowed none = {.count = 0};
    const struct sockaddr local = {.sa_family = AF_UNIX};
    assert_false(webhook_may_call(&none, &local));
}

static void test_networks_that_are_allowed(void **state)
{
    (void)state;
    assert_true(may_call("10.0.0.0/8", "10.255.0.1"));
    assert_false(may_call("10.0.0.0/8", "192.168.0.1"));
    assert_true(may_call("10.0.0.0/8", "::ffff:10.0.0.1"));
    assert_false(may_call("10.0.0.0/8", "a00::1"));
    assert_true(may_call("10.0.0.128/25,127.0.0.1", "127.0.0.1"));
    assert_false(may_call("10.0.0.128/25,127.0.0.1", "127.0.0.2"));
    assert_false(may_call("10.0.0.128/25", "10.0.0.127"));
    assert_true(may_call("fd00::/8", "fd12::1"));
    assert_false(may_call("fd00::/9", "fd80::1"));
    assert_true(may_call("::1", "::1"));
    assert_true(may_call("0.0.0.0/0", "127.0.0.1"));
    assert_false(may_call("0.0.0.0/0", "::1"));
    static const char *const wrong[] = {"10.0.0.0/33", "10.0.0/8",    "x",        "10.0.0.0/8,",
                                        ",",           "10.0.0.0/-1", "/8",       "::1/129",
                                        " ",           "10.0.0.0/8 ", "10.0.0.0/"};
    for (size_t i = 0; i < CV_COUNT(wrong); i++) {
        struct webhook_allowed allowed;
        if (webhook_allowed_parse(wrong[i], &allowed)) {
            fail_msg("'%s' is no list of networks", wrong[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signature_of_the_specification),
        cmocka_unit_test(test_what_is_no_secret),
        cmocka_unit_test(test_public_addresses),
        cmocka_unit_test(test_networks_that_are_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
