#include "platform/webhook/sign.h"

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
        ("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
         "AAAAAAAAAAAAAA"),
    };
    for (size_t i = 0; i < CV_COUNT(secrets); i++) {
        char signature[WEBHOOK_SIGNATURE_SIZE];
        struct cv_error error;
        assert_int_equal(webhook_sign(secrets[i], "m", 1, "", 0, signature, &error), -1);
        assert_int_equal(error.type, CV_ERROR_CONFIGURATION);
        assert_null(strstr(error.message, "MfKQ"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_signature_of_the_specification),
        cmocka_unit_test(test_what_is_no_secret),
    };
    return cmocka_run_group_tests_name("webhook", tests, NULL, NULL);
}
