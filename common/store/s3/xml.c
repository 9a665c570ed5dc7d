#include "common/store/s3/xml.h"

#include <expat.h>
#include <string.h>

enum { PATH_SIZE = 512, DEPTH_MAX = 16 }; /* S3's answers are nested four levels deep */

struct reading {
    XML_Parser parser;
    char path[PATH_SIZE];
    int depth;
    struct cv_buffer text;
    cv_s3_xml_element *element;
    void *opaque;
    struct cv_error *error;
    int result;
};

static void XML_parser_free(XML_Parser parser)
{
    XML_ParserFree(parser);
}
CV_DEFINE_CLEANUP(XML_Parser, XML_parser_free)

static void stop(struct reading *reading, int result)
{
    reading->result = result;
    (void)XML_StopParser(reading->parser, XML_FALSE);
}

static void on_start(void *opaque, const XML_Char *name, const XML_Char **attributes)
{
    struct reading *reading = opaque;
    (void)attributes;
    const char *colon = strchr(name, ':');
    size_t length = strlen(reading->path);
    int added = snprintf(reading->path + length, PATH_SIZE - length, "%s%s", length > 0 ? "/" : "",
                         colon ? colon + 1 : name);
    if (++reading->depth > DEPTH_MAX || added < 0 || (size_t)added >= PATH_SIZE - length) {
        stop(reading, cv_fail(reading->error, CV_ERROR_SERVER, "the answer's XML is too deep"));
        return;
    }
    cv_buffer_clear(&reading->text);
}

static void on_text(void *opaque, const XML_Char *text, int length)
{
    struct reading *reading = opaque;
    cv_buffer_append(&reading->text, text, (size_t)length);
}

static void on_end(void *opaque, const XML_Char *name)
{
    struct reading *reading = opaque;
    (void)name;
    if (reading->text.failed) {
        stop(reading, cv_fail(reading->error, CV_ERROR_OUT_OF_MEMORY, "no memory for an answer"));
        return;
    }
    const char *text = reading->text.length > 0 ? reading->text.data : "";
    int result = reading->element(reading->opaque, reading->path, text, reading->error);
    if (result) {
        stop(reading, result);
        return;
    }
    cv_buffer_clear(&reading->text);
    char *slash = strrchr(reading->path, '/');
    *(slash ? slash : reading->path) = '\0';
    reading->depth--;
}

/* Refuses a document type, which could declare entities; S3 uses neither. */
static void on_document_type(void *opaque, const XML_Char *name, const XML_Char *system_id,
                             const XML_Char *public_id, int has_subset)
{
    struct reading *reading = opaque;
    (void)name;
    (void)system_id;
    (void)public_id;
    (void)has_subset;
    stop(reading, cv_fail(reading->error, CV_ERROR_SERVER, "the answer's XML has a document type"));
}

int cv_s3_xml_read(const char *text, size_t length, cv_s3_xml_element *element, void *opaque,
                   struct cv_error *error)
{
    cv_auto(XML_parser_free) XML_Parser parser = XML_ParserCreate(NULL);
    CV_TRY_MEMORY(parser, error, "an answer");
    struct reading reading = {
        .parser = parser, .element = element, .opaque = opaque, .error = error};
    XML_SetUserData(parser, &reading);
    XML_SetElementHandler(parser, on_start, on_end);
    XML_SetCharacterDataHandler(parser, on_text);
    XML_SetStartDoctypeDeclHandler(parser, on_document_type);
    bool whole = length <= INT32_MAX && XML_Parse(parser, text, (int)length, 1) == XML_STATUS_OK;
    cv_buffer_deinit(&reading.text);
    if (reading.result) {
        return reading.result;
    }
    return whole ? 0
                 : cv_fail(error, CV_ERROR_CONNECTION, "the server's answer is not whole XML (%s)",
                           XML_ErrorString(XML_GetErrorCode(parser)));
}

struct search {
    const char *path;
    char *value;
    size_t size;
};

static int look_at(void *opaque, const char *path, const char *text, struct cv_error *error)
{
    struct search *search = opaque;
    (void)error;
    if (strcmp(path, search->path) == 0) {
        (void)snprintf(search->value, search->size, "%s", text);
    }
    return 0;
}

int cv_s3_xml_find(const char *text, size_t length, const char *path, char *value, size_t size,
                   struct cv_error *error)
{
    struct search search = {path, value, size};
    value[0] = '\0';
    return cv_s3_xml_read(text, length, look_at, &search, error);
}

void cv_s3_xml_escape(struct cv_buffer *buffer, const char *text)
{
    for (const char *c = text; *c; c++) {
        switch (*c) {
        case '&':
            cv_buffer_text(buffer, "&amp;");
            break;
        case '<':
            cv_buffer_text(buffer, "&lt;");
            break;
        case '>':
            cv_buffer_text(buffer, "&gt;");
            break;
        case '"':
            cv_buffer_text(buffer, "&quot;");
            break;
        default:
            cv_buffer_append(buffer, c, 1);
        }
    }
}
