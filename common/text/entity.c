#define PCRE2_CODE_UNIT_WIDTH 8

#include "common/text/entity_patterns.h"
#include "common/text/number.h"
#include "common/text/text.h"

#include <pcre2.h>
#include <string.h>
#include <utf8proc.h>

enum {
    /* A line of a screen has some hundred bytes; a page read as one line some thousand. What is longer than this comes
     * from no screen. */
    MAX_TEXT_BYTES = 1 << 20,
    /* A screen line holds a few; a text that holds more was made to fill the table. */
    MAX_ENTITIES = 500,
    /* PostgreSQL's B-tree takes values up to about 2,700 bytes; no URL on a screen is longer. */
    MAX_VALUE_BYTES = 1024,
    /* The patterns need a few hundred steps for a match; these bounds cost milliseconds. */
    MATCH_LIMIT = 200000,
    DEPTH_LIMIT = 2000,
    JIT_STACK_START = 32 * 1024,
    JIT_STACK_MAX = 512 * 1024,
};

struct cv_entity_extractor {
    pcre2_code **codes; /* one for each of cv_entity_patterns */
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

/* A part of the text that a pattern has claimed. */
struct claim {
    size_t start, end;
    const struct cv_entity_pattern *pattern;
    bool is_entity;
    char *normalized; /* NULL: SQL makes the normal form of the value */
};

struct claims {
    struct claim *items;
    size_t count;
};

static void claims_deinit(struct claims *claims)
{
    for (size_t i = 0; i < claims->count; i++) {
        free(claims->items[i].normalized);
    }
    free(claims->items);
}
CV_DEFINE_CLEANUP_ADDRESS(struct claims, claims_deinit)

void cv_entity_list_deinit(struct cv_entity_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->entities[i].value);
        free(list->entities[i].normalized_value);
    }
    free(list->entities);
    *list = (struct cv_entity_list){0};
}

void cv_entity_extractor_free(struct cv_entity_extractor *extractor)
{
    if (!extractor) {
        return;
    }
    for (size_t i = 0; extractor->codes && i < cv_entity_pattern_count; i++) {
        pcre2_code_free(extractor->codes[i]);
    }
    free(extractor->codes);
    pcre2_match_data_free(extractor->match);
    pcre2_match_context_free(extractor->context);
    pcre2_jit_stack_free(extractor->stack);
    free(extractor);
}

static int compile(const struct cv_entity_pattern *pattern, pcre2_code **ret_code,
                   struct cv_error *error)
{
    int code = 0;
    PCRE2_SIZE offset = 0;
    *ret_code = pcre2_compile((PCRE2_SPTR)pattern->pattern, PCRE2_ZERO_TERMINATED,
                              PCRE2_UTF | PCRE2_UCP | PCRE2_CASELESS | PCRE2_EXTENDED |
                                  PCRE2_NEVER_BACKSLASH_C,
                              &code, &offset, NULL);
    if (!*ret_code) {
        PCRE2_UCHAR message[128] = "";
        (void)pcre2_get_error_message(code, message, sizeof(message));
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "PCRE2 refuses entity pattern %d at offset %zu: %s",
                       (int)(pattern - cv_entity_patterns), (size_t)offset, (const char *)message);
    }
    /* Where executable memory is forbidden the interpreter does the same, slower. */
    (void)pcre2_jit_compile(*ret_code, PCRE2_JIT_COMPLETE);
    return 0;
}

int cv_entity_extractor_new(struct cv_entity_extractor **ret_extractor, struct cv_error *error)
{
    cv_auto(cv_entity_extractor_free) struct cv_entity_extractor *made = calloc(1, sizeof(*made));
    if (made) {
        made->codes = calloc(cv_entity_pattern_count, sizeof(*made->codes));
        made->context = pcre2_match_context_create(NULL);
        made->stack = pcre2_jit_stack_create(JIT_STACK_START, JIT_STACK_MAX, NULL);
    }
    CV_TRY_MEMORY(made && made->codes && made->context, error, "the entity patterns");
    uint32_t most_groups = 0;
    for (size_t i = 0; i < cv_entity_pattern_count; i++) {
        CV_TRY(compile(&cv_entity_patterns[i], &made->codes[i], error));
        uint32_t groups = 0;
        (void)pcre2_pattern_info(made->codes[i], PCRE2_INFO_CAPTURECOUNT, &groups);
        most_groups = groups > most_groups ? groups : most_groups;
    }
    (void)pcre2_set_match_limit(made->context, MATCH_LIMIT);
    (void)pcre2_set_depth_limit(made->context, DEPTH_LIMIT);
    if (made->stack) {
        pcre2_jit_stack_assign(made->context, NULL, made->stack);
    }
    made->match = pcre2_match_data_create(most_groups + 1, NULL);
    CV_TRY_MEMORY(made->match, error, "the entity patterns");
    *ret_extractor = cv_take(made);
    return 0;
}

/* ---- ends of URLs ---------------------------------------------------------------------------- */

/* Full stops, brackets without a partner and quotes at the end belong to the sentence. */
static size_t url_end(const char *text, size_t start, size_t end)
{
    for (; end > start; end--) {
        char last = text[end - 1];
        if (last == ')' || last == ']') {
            char partner = last == ')' ? '(' : '[';
            int depth = 0;
            for (size_t i = start; i < end; i++) {
                depth += (text[i] == partner) - (text[i] == last);
            }
            if (depth >= 0) {
                break;
            }
        } else if (end - start >= 3 && memcmp(text + end - 3, "\xE2\x80\xA6", 3) == 0) {
            end -= 2; /* an ellipsis */
        } else if (!strchr(".,;:!?'*_~([", last)) {
            break;
        }
    }
    return end;
}

/* ---- normal forms ---------------------------------------------------------------------------- */

/* A URL with its scheme and host in lower case; the path means what it says. */
static void normalize_url(const char *text, size_t length, struct cv_buffer *out)
{
    const char *scheme_end = memmem(text, length, "://", 3);
    size_t host = scheme_end ? (size_t)(scheme_end - text) + 3 : 0;
    size_t host_length = strcspn(text + host, "/?#");
    for (size_t i = 0; i < length; i++) {
        char byte = text[i];
        if (i < host + host_length && byte >= 'A' && byte <= 'Z') {
            byte = (char)(byte - 'A' + 'a');
        }
        cv_buffer_append(out, &byte, 1);
    }
}

/* A named part of the last match; empty when it took no part. */
static struct cv_number_part group(const pcre2_code *code, pcre2_match_data *match,
                                   const char *text, const char *name)
{
    int number = pcre2_substring_number_from_name(code, (PCRE2_SPTR)name);
    PCRE2_SIZE length = 0;
    if (number <= 0 || pcre2_substring_length_bynumber(match, (uint32_t)number, &length) != 0 ||
        length == 0) {
        return (struct cv_number_part){0};
    }
    return (struct cv_number_part){text + pcre2_get_ovector_pointer(match)[2 * number], length};
}

static bool normalize_number(const pcre2_code *code, pcre2_match_data *match, const char *text,
                             struct cv_buffer *out)
{
    struct cv_number_parts parts = {
        .sign = group(code, match, text, "sign"),
        .digits = group(code, match, text, "digits"),
        .scale = group(code, match, text, "scale"),
        .currency = group(code, match, text, "before"),
        .unit = group(code, match, text, "unit"),
    };
    if (!parts.currency.text) {
        parts.currency = group(code, match, text, "inner");
    }
    if (!parts.currency.text) {
        parts.currency = group(code, match, text, "after");
    }
    return cv_number_normalize(&parts, out);
}

/* Finds out whether what was claimed is an entity after all, and its normal form. */
static int normalize_value(const struct cv_entity_extractor *extractor, const char *text,
                           struct claim *claim, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer out = CV_BUFFER_INIT;
    size_t which = (size_t)(claim->pattern - cv_entity_patterns);
    size_t length = claim->end - claim->start;
    cv_auto_free char *value = strndup(text + claim->start, length);
    CV_TRY_MEMORY(value, error, "an entity");
    claim->is_entity = true;
    switch (claim->pattern->form) {
    case CV_ENTITY_TEXT:
        return 0;
    case CV_ENTITY_URL:
        normalize_url(value, length, &out);
        break;
    case CV_ENTITY_PHONE:
        claim->is_entity = cv_phone_normalize(value, length, &out);
        break;
    case CV_ENTITY_NUMBER:
        claim->is_entity = normalize_number(extractor->codes[which], extractor->match, text, &out);
        break;
    }
    return claim->is_entity || out.failed ? cv_buffer_detach(&out, &claim->normalized, error) : 0;
}

/* ---- claiming -------------------------------------------------------------------------------- */

static int add_claim(struct claims *claims, struct claim claim, struct cv_error *error)
{
    if (!CV_MAKE_ROOM(claims->items, claims->count)) {
        free(claim.normalized);
        return cv_fail(error, CV_ERROR_OUT_OF_MEMORY, "out of memory for entities");
    }
    claims->items[claims->count++] = claim;
    return 0;
}

static int compare_claims(const void *left, const void *right)
{
    const struct claim *a = left, *b = right;
    return (a->start > b->start) - (a->start < b->start);
}

/* Whether [start, end) touches one of the first `sorted` claims, which are in order and apart; then
 * *ret_end is where the last one it touches ends. */
static bool is_claimed(const struct claims *claims, size_t sorted, size_t start, size_t end,
                       size_t *ret_end)
{
    size_t low = 0, high = sorted;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (claims->items[middle].end <= start) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == sorted || claims->items[low].start >= end) {
        return false;
    }
    *ret_end = claims->items[low].end;
    return true;
}

/* Claims all that one pattern finds outside what others have claimed. */
static int claim_pattern(struct cv_entity_extractor *extractor, size_t which, const char *text,
                         size_t length, struct claims *claims, struct cv_error *error)
{
    const struct cv_entity_pattern *pattern = &cv_entity_patterns[which];
    size_t sorted = claims->count;
    for (size_t at = 0; at < length && claims->count - sorted < MAX_ENTITIES;) {
        int found = pcre2_match(extractor->codes[which], (PCRE2_SPTR)text, length, at,
                                PCRE2_NO_UTF_CHECK, extractor->match, extractor->context);
        if (found < 0) {
            break; /* no more; or a limit: the rest of such a text is not worth it */
        }
        const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(extractor->match);
        struct claim claim = {.start = ends[0], .end = ends[1], .pattern = pattern};
        at = claim.end; /* never empty: every pattern takes a character */
        size_t other_end;
        if (is_claimed(claims, sorted, claim.start, claim.end, &other_end)) {
            at = other_end;
            continue;
        }
        if (pattern->form == CV_ENTITY_URL && claim.end - claim.start <= MAX_VALUE_BYTES) {
            claim.end = url_end(text, claim.start, claim.end);
        }
        if (claim.end - claim.start <= MAX_VALUE_BYTES && pattern->type) {
            CV_TRY(normalize_value(extractor, text, &claim, error));
            if (!claim.is_entity) {
                continue;
            }
        }
        CV_TRY(add_claim(claims, claim, error));
    }
    if (claims->count > 1) {
        qsort(claims->items, claims->count, sizeof(*claims->items), compare_claims);
    }
    return 0;
}

static int publish(const char *text, struct claims *claims, struct cv_entity_list *ret_list,
                   struct cv_error *error)
{
    cv_auto(cv_entity_list_deinit) struct cv_entity_list list = {0};
    list.entities = calloc(claims->count + 1, sizeof(*list.entities));
    CV_TRY_MEMORY(list.entities, error, "entities");
    for (size_t i = 0; i < claims->count && list.count < MAX_ENTITIES; i++) {
        struct claim *claim = &claims->items[i];
        if (!claim->is_entity ||
            (claim->normalized && strlen(claim->normalized) > 2 * MAX_VALUE_BYTES)) {
            continue;
        }
        struct cv_entity *entity = &list.entities[list.count++];
        entity->type = claim->pattern->type;
        entity->normalized_value = cv_take(claim->normalized);
        entity->value = strndup(text + claim->start, claim->end - claim->start);
        CV_TRY_MEMORY(entity->value, error, "entities");
    }
    *ret_list = list;
    list = (struct cv_entity_list){0};
    return 0;
}

json_t *cv_entities_json(const struct cv_entity_list *list)
{
    cv_auto(json_decref) json_t *entities = json_array();
    for (size_t i = 0; i < list->count; i++) {
        const struct cv_entity *entity = &list->entities[i];
        json_t *object = json_pack("{s:s, s:s, s:s*}", "type", entity->type, "value", entity->value,
                                   "normalized_value", entity->normalized_value);
        if (json_array_append_new(entities, object) != 0) {
            return NULL;
        }
    }
    return cv_take(entities);
}

static bool is_type(const char *type)
{
    bool is = false;
    for (size_t i = 0; i < cv_entity_pattern_count && type && !is; i++) {
        is = cv_entity_patterns[i].type && strcmp(cv_entity_patterns[i].type, type) == 0;
    }
    return is;
}

bool cv_are_entities(const json_t *entities)
{
    size_t index;
    json_t *entity;
    json_array_foreach(entities, index, entity)
    {
        const json_t *normal = json_object_get(entity, "normalized_value");
        if (!is_type(json_string_value(json_object_get(entity, "type"))) ||
            json_string_length(json_object_get(entity, "value")) == 0 ||
            (normal && json_string_length(normal) == 0)) {
            return false;
        }
    }
    return json_is_array(entities);
}

/* Each byte that belongs to no valid sequence of UTF-8 becomes U+FFFD, because PCRE2 refuses such texts. */
static int copy_valid(const char *text, struct cv_buffer *clean, struct cv_error *error)
{
    if (strnlen(text, MAX_TEXT_BYTES + 1) > MAX_TEXT_BYTES) {
        return cv_fail(error, CV_ERROR_LIMIT_EXCEEDED, "a text is longer than %d bytes",
                       MAX_TEXT_BYTES);
    }
    while (*text) {
        int32_t point;
        utf8proc_ssize_t size = utf8proc_iterate((const utf8proc_uint8_t *)text, -1, &point);
        cv_buffer_append(clean, size > 0 ? text : "\uFFFD", size > 0 ? (size_t)size : 3);
        text += size > 0 ? size : 1;
    }
    CV_TRY_MEMORY(!clean->failed, error, "a text");
    return 0;
}

int cv_entity_extract(struct cv_entity_extractor *extractor, const char *text,
                      struct cv_entity_list *ret_list, struct cv_error *error)
{
    cv_auto(cv_buffer_deinit) struct cv_buffer clean = CV_BUFFER_INIT;
    CV_TRY(copy_valid(text, &clean, error));
    cv_auto(claims_deinit) struct claims claims = {0};
    for (size_t i = 0; i < cv_entity_pattern_count && clean.length > 0; i++) {
        CV_TRY(claim_pattern(extractor, i, clean.data, clean.length, &claims, error));
    }
    return publish(clean.data, &claims, ret_list, error);
}
