#include "common/text/number.h"

#include <string.h>
#include <strings.h>
#include <utf8proc.h>

enum {
    MAX_NUMBER_CHARS = 96, /* digits and separators of one number; the pattern allows fewer */
    PHONE_DIGITS_MIN = 7,
    PHONE_DIGITS_MAX = 15, /* E.164 */
};

/* Zero of each script whose digits are read: ASCII, Arabic, Persian, Devanagari, Bengali, Thai,
 * full width. */
static const int32_t zeros[] = {'0', 0x660, 0x6F0, 0x966, 0x9E6, 0xE50, 0xFF10};

static int digit_value(int32_t point)
{
    for (size_t i = 0; i < CV_COUNT(zeros); i++) {
        if (point >= zeros[i] && point <= zeros[i] + 9) {
            return (int)(point - zeros[i]);
        }
    }
    return -1;
}

/* Digits and separators in ASCII: '.', ',' and '_' for what can only group. */
static size_t to_plain(struct cv_number_part part, char plain[MAX_NUMBER_CHARS])
{
    size_t count = 0;
    for (size_t at = 0; at < part.length && count + 1 < MAX_NUMBER_CHARS;) {
        int32_t point;
        utf8proc_ssize_t taken = utf8proc_iterate((const utf8proc_uint8_t *)part.text + at,
                                                  (utf8proc_ssize_t)(part.length - at), &point);
        if (taken <= 0) {
            return 0;
        }
        at += (size_t)taken;
        int digit = digit_value(point);
        if (digit >= 0) {
            plain[count++] = (char)('0' + digit);
        } else if (point == '.' || point == ',') {
            plain[count++] = (char)point;
        } else if (point == 0x66B) {
            plain[count++] = ':'; /* the Arabic decimal separator is never anything else */
        } else if (utf8proc_category(point) == UTF8PROC_CATEGORY_ND) {
            return 0; /* a script whose digits are not known here */
        } else {
            plain[count++] = '_';
        }
    }
    plain[count] = '\0';
    return count;
}

/* Index of the decimal separator in `plain`, or -1. One separator before exactly three digits
 * groups ("1,204", "1.204"), unless a scale, a percent sign or a leading zero says otherwise. */
static int decimal_separator(const char *plain, size_t length, bool three_may_be_decimals)
{
    int last = -1, dots = 0, commas = 0, groups = 0;
    for (size_t i = 0; i < length; i++) {
        if (plain[i] == ':') {
            return (int)i;
        }
        dots += plain[i] == '.';
        commas += plain[i] == ',';
        groups += plain[i] == '_';
        if (plain[i] == '.' || plain[i] == ',') {
            last = (int)i;
        }
    }
    if (last < 0 || dots > 1 || commas > 1) {
        bool both = dots > 0 && commas > 0;
        bool last_is_single = last >= 0 && (plain[last] == '.' ? dots == 1 : commas == 1);
        return both && last_is_single ? last : -1;
    }
    if ((dots && commas) || groups) {
        return last;
    }
    bool three_follow = length - (size_t)last - 1 == 3;
    bool may_group = last >= 1 && last <= 3 && plain[0] != '0';
    return three_follow && may_group && !three_may_be_decimals ? -1 : last;
}

struct name_value {
    const char *name;
    const char *value;
};

static const struct name_value currencies[] = {
    {"US$", "USD"},   {"CA$", "CAD"},    {"C$", "CAD"},      {"AU$", "AUD"},   {"A$", "AUD"},
    {"NZ$", "NZD"},   {"HK$", "HKD"},    {"SG$", "SGD"},     {"S$", "SGD"},    {"R$", "BRL"},
    {"$", "USD"},     {"€", "EUR"},      {"£", "GBP"},       {"¥", "JPY"},     {"￥", "JPY"},
    {"₹", "INR"},     {"₩", "KRW"},      {"₽", "RUB"},     {"₺", "TRY"},     {"₴", "UAH"},
    {"₫", "VND"},     {"฿", "THB"},      {"₪", "ILS"},       {"₱", "PHP"},     {"euro", "EUR"},
    {"euros", "EUR"}, {"dollar", "USD"}, {"dollars", "USD"}, {"pound", "GBP"}, {"pounds", "GBP"},
    {"zł", "PLN"},    {"Kč", "CZK"},     {"kr", "kr"},       {"Fr.", "CHF"},   {"円", "JPY"},
    {"元", "CNY"},    {"원", "KRW"},     {"руб", "RUB"},     {"р.", "RUB"},
};

static const struct {
    const char *name;
    int exponent;
} scales[] = {
    {"k", 3},        {"K", 3},          {"M", 6},          {"B", 9},    {"bn", 9},
    {"Tsd", 3},      {"thousand", 3},   {"тыс", 3},        {"千", 3},   {"Mio", 6},
    {"million", 6},  {"millions", 6},   {"millionen", 6},  {"млн", 6},  {"Mrd", 9},
    {"milliard", 9}, {"milliards", 9},  {"milliarden", 9}, {"млрд", 9}, {"billion", 9},
    {"billions", 9}, {"billionen", 12}, {"万", 4},         {"萬", 4},   {"만", 4},
    {"億", 8},       {"亿", 8},         {"억", 8},
};

/* A part without blanks around it and, for scales, without the full stop of an abbreviation. */
static struct cv_number_part trimmed(struct cv_number_part part)
{
    while (part.length > 0 && part.text[0] == ' ') {
        part.text++;
        part.length--;
    }
    if (part.length > 2 && (unsigned char)part.text[0] == 0xC2 &&
        (unsigned char)part.text[1] == 0xA0) {
        part.text += 2;
        part.length -= 2;
    }
    return part;
}

static bool is_named(struct cv_number_part part, const char *name)
{
    return part.length == strlen(name) && strncasecmp(part.text, name, part.length) == 0;
}

static int scale_exponent(struct cv_number_part scale)
{
    if (!scale.text) {
        return 0;
    }
    scale = trimmed(scale);
    if (scale.length > 1 && scale.text[scale.length - 1] == '.') {
        scale.length--;
    }
    for (size_t i = 0; i < CV_COUNT(scales); i++) {
        if (is_named(scale, scales[i].name)) {
            return scales[i].exponent;
        }
    }
    return 0;
}

/* Integer and fraction digits, the point moved `exponent` places to the right. */
static void append_decimal(struct cv_buffer *out, const char *plain, size_t length, int separator,
                           int exponent)
{
    int after = -1; /* places behind the point that were written or skipped so far */
    bool has_point = false;
    for (size_t i = 0; i < length; i++) {
        if ((int)i == separator) {
            after = 0;
            continue;
        }
        if (plain[i] < '0' || plain[i] > '9') {
            continue;
        }
        if (after >= 0 && after == exponent && !has_point) {
            cv_buffer_text(out, ".");
            has_point = true;
        }
        cv_buffer_append(out, &plain[i], 1);
        after += after >= 0;
    }
    for (int i = after < 0 ? 0 : after; i < exponent; i++) {
        cv_buffer_text(out, "0");
    }
}

/* "1.2K" gives "1.2" and exponent 3: no zero of "0.5K" → "0500" may stay in front. */
static void strip_leading_zeros(struct cv_buffer *out, size_t start)
{
    size_t zeros_in_front = 0;
    while (out->data[start + zeros_in_front] == '0' &&
           out->data[start + zeros_in_front + 1] >= '0' &&
           out->data[start + zeros_in_front + 1] <= '9') {
        zeros_in_front++;
    }
    memmove(out->data + start, out->data + start + zeros_in_front,
            out->length - start - zeros_in_front + 1);
    out->length -= zeros_in_front;
}

static void append_unit(struct cv_buffer *out, struct cv_number_part unit)
{
    unit = trimmed(unit);
    cv_buffer_text(out, " ");
    if (is_named(unit, "٪") || is_named(unit, "％")) {
        cv_buffer_text(out, "%");
    } else {
        cv_buffer_append(out, unit.text, unit.length);
    }
}

static void append_currency(struct cv_buffer *out, struct cv_number_part currency)
{
    currency = trimmed(currency);
    cv_buffer_text(out, " ");
    for (size_t i = 0; i < CV_COUNT(currencies); i++) {
        if (is_named(currency, currencies[i].name)) {
            cv_buffer_text(out, currencies[i].value);
            return;
        }
    }
    cv_buffer_append(out, currency.text, currency.length);
}

bool cv_number_normalize(const struct cv_number_parts *parts, struct cv_buffer *normalized)
{
    char plain[MAX_NUMBER_CHARS];
    size_t length = to_plain(parts->digits, plain);
    if (length == 0) {
        return false;
    }
    int exponent = scale_exponent(parts->scale);
    bool percent = parts->unit.text && memchr(parts->unit.text, '%', parts->unit.length);
    int separator = decimal_separator(plain, length, exponent > 0 || percent);
    if (parts->sign.text && parts->sign.text[0] != '+') {
        cv_buffer_text(normalized, "-");
    }
    size_t start = normalized->length;
    append_decimal(normalized, plain, length, separator, exponent);
    if (normalized->failed) {
        return false;
    }
    if (exponent > 0) {
        strip_leading_zeros(normalized, start);
    }
    if (parts->currency.text) {
        append_currency(normalized, parts->currency);
    } else if (parts->unit.text) {
        append_unit(normalized, parts->unit);
    }
    return true;
}

bool cv_phone_normalize(const char *text, size_t length, struct cv_buffer *normalized)
{
    size_t digits = 0;
    bool international = length > 2 && (text[0] == '+' || (text[0] == '0' && text[1] == '0'));
    size_t first = international ? (text[0] == '+' ? 1 : 2) : 0;
    if (international) {
        cv_buffer_text(normalized, "+");
    }
    for (size_t i = first; i < length; i++) {
        /* "+49 (0) 30": the zero in brackets is not dialled from abroad */
        if (international && text[i] == '(' && i + 2 < length && text[i + 1] == '0' &&
            text[i + 2] == ')') {
            i += 2;
            continue;
        }
        if (text[i] >= '0' && text[i] <= '9') {
            cv_buffer_append(normalized, &text[i], 1);
            digits++;
        }
    }
    return digits >= PHONE_DIGITS_MIN && digits <= PHONE_DIGITS_MAX;
}
