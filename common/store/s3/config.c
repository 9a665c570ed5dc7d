#include "common/store/s3/config.h"

#include <curl/curl.h>
#include <string.h>

enum {
    BUCKET_MIN = 3,
    BUCKET_MAX = 63,
    STALL_TIMEOUT_S = 30,
    ATTEMPTS = 8, /* with pauses half a minute or more; after that the job is retried */
};

CV_DEFINE_CLEANUP(CURLU *, curl_url_cleanup)

/* Returns the value of the first of these variables that is set; NULL if none is. */
static const char *env_of(const char *first, const char *second)
{
    return cv_env(first, cv_env(second, NULL));
}

void cv_s3_config_deinit(struct cv_s3_config *config)
{
    free(config->bucket);
    free(config->prefix);
    free(config->scheme);
    free(config->host);
    free(config->public_scheme);
    free(config->public_host);
    free(config->base);
    free(config->region);
    free(config->ca_file);
    *config = (struct cv_s3_config){0};
}

static bool is_bucket_name(const char *name)
{
    size_t length =
        strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_");
    return name[length] == '\0' && length >= BUCKET_MIN && length <= BUCKET_MAX && name[0] != '.' &&
           name[0] != '-';
}

static int read_name(struct cv_s3_config *config, const char *url, struct cv_error *error)
{
    const char *name = url ? url + strlen("s3://") : cv_env("S3_BUCKET", "");
    size_t length = strcspn(name, "/");
    CV_TRY(cv_format(&config->bucket, error, "%.*s", (int)length, name));
    if (!is_bucket_name(config->bucket)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "'%s' is not the name of a bucket: use s3://BUCKET or s3://BUCKET/PREFIX",
                       config->bucket);
    }
    const char *prefix = name[length] == '/' ? name + length + 1 : "";
    size_t prefix_length = strlen(prefix);
    while (prefix_length > 0 && prefix[prefix_length - 1] == '/') {
        prefix_length--;
    }
    return cv_format(&config->prefix, error, "%.*s%s", (int)prefix_length, prefix,
                     prefix_length > 0 ? "/" : "");
}

static int read_region(struct cv_s3_config *config, struct cv_error *error)
{
    const char *region = env_of("S3_REGION", "AWS_REGION");
    region = region ? region : cv_env("AWS_DEFAULT_REGION", "us-east-1");
    if (region[strspn(region,
                      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")]) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "S3_REGION is not the name of a region");
    }
    return cv_format(&config->region, error, "%s", region);
}

static bool is_address(const char *host)
{
    return host[0] == '[' || host[strspn(host, "0123456789.")] == '\0';
}

/* Chooses the style. Path style works with every server except AWS's newest regions; virtual-host
 * style needs DNS for each bucket, and TLS certificates do not cover names with dots. */
static int is_path_style(const struct cv_s3_config *config, bool is_aws, bool *ret_path_style,
                         struct cv_error *error)
{
    const char *style = cv_env("S3_ADDRESSING", "auto");
    if (strcmp(style, "path") == 0 || strcmp(style, "virtual") == 0) {
        *ret_path_style = style[0] == 'p';
        return 0;
    }
    if (strcmp(style, "auto") != 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "S3_ADDRESSING is 'path', 'virtual' or 'auto', not '%s'", style);
    }
    *ret_path_style = !is_aws || strchr(config->bucket, '.');
    return 0;
}

static int read_part(CURLU *url, const char *setting, CURLUPart part, char **ret_text,
                     struct cv_error *error)
{
    char *text = NULL;
    CURLUcode code = curl_url_get(url, part, &text, 0);
    if (code == CURLUE_NO_PORT) {
        return cv_format(ret_text, error, "%s", "");
    }
    if (code != CURLUE_OK) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "%s cannot be understood", setting);
    }
    int result = cv_format(ret_text, error, "%s", text);
    curl_free(text);
    return result;
}

/* Parses an endpoint. `setting` is the name of its variable; `ret_host` is in the form of the Host
 * header. */
static int parse_endpoint(const struct cv_s3_config *config, const char *setting,
                          const char *endpoint, bool path_style, char **ret_scheme, char **ret_host,
                          struct cv_error *error)
{
    cv_auto_free char *own = NULL;
    if (!strstr(endpoint, "://") && cv_format(&own, error, "https://%s", endpoint)) {
        return -1;
    }
    cv_auto(curl_url_cleanup) CURLU *url = curl_url();
    if (!url || curl_url_set(url, CURLUPART_URL, own ? own : endpoint, 0) != CURLUE_OK) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "%s is no URL: use https://HOST[:PORT]",
                       setting);
    }
    cv_auto_free char *host = NULL;
    cv_auto_free char *port = NULL;
    cv_auto_free char *path = NULL;
    CV_TRY(read_part(url, setting, CURLUPART_SCHEME, ret_scheme, error));
    CV_TRY(read_part(url, setting, CURLUPART_HOST, &host, error));
    CV_TRY(read_part(url, setting, CURLUPART_PORT, &port, error));
    CV_TRY(read_part(url, setting, CURLUPART_PATH, &path, error));
    bool tls = strcmp(*ret_scheme, "https") == 0;
    if (!tls && strcmp(*ret_scheme, "http") != 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION, "%s is neither http nor https", setting);
    }
    if (strcmp(path, "/") != 0) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "%s has a path; the bucket belongs into STORE_URL=s3://BUCKET", setting);
    }
    if (!path_style && is_address(host)) {
        return cv_fail(error, CV_ERROR_CONFIGURATION,
                       "S3_ADDRESSING=virtual needs a host name in %s, not an address", setting);
    }
    /* A default port is not sent in the Host header, and so must not be signed. */
    bool usual = strcmp(port, tls ? "443" : "80") == 0 || port[0] == '\0';
    return cv_format(ret_host, error, "%s%s%s%s%s", path_style ? "" : config->bucket,
                     path_style ? "" : ".", host, usual ? "" : ":", usual ? "" : port);
}

static int read_endpoint(struct cv_s3_config *config, struct cv_error *error)
{
    cv_auto_free char *own = NULL;
    const char *endpoint = env_of("S3_ENDPOINT", "AWS_ENDPOINT_URL_S3");
    endpoint = endpoint ? endpoint : cv_env("AWS_ENDPOINT_URL", NULL);
    bool is_aws = !endpoint || strstr(endpoint, ".amazonaws.com");
    bool path_style = true;
    if (!endpoint) {
        const char *suffix = strncmp(config->region, "cn-", 3) == 0 ? ".cn" : "";
        if (cv_format(&own, error, "https://s3.%s.amazonaws.com%s", config->region, suffix)) {
            return -1;
        }
        endpoint = own;
    }
    const char *public = cv_env("S3_PUBLIC_ENDPOINT", endpoint);
    CV_TRY(is_path_style(config, is_aws, &path_style, error));
    CV_TRY(parse_endpoint(config, "S3_ENDPOINT", endpoint, path_style, &config->scheme,
                          &config->host, error));
    CV_TRY(parse_endpoint(config, "S3_PUBLIC_ENDPOINT", public, path_style, &config->public_scheme,
                          &config->public_host, error));
    config->tls = config->scheme && strcmp(config->scheme, "https") == 0;
    return cv_format(&config->base, error, "%s%s", path_style ? "/" : "",
                     path_style ? config->bucket : "");
}

static int read_limits(struct cv_s3_config *config, struct cv_error *error)
{
    CV_TRY(cv_env_int("S3_STALL_TIMEOUT_S", STALL_TIMEOUT_S, 1, 3600, &config->stall_timeout_s,
                      error));
    CV_TRY(cv_env_int("S3_ATTEMPTS", ATTEMPTS, 1, 100, &config->attempts, error));
    const char *ca_file = env_of("S3_CA_FILE", "AWS_CA_BUNDLE");
    return !ca_file ? 0 : cv_format(&config->ca_file, error, "%s", ca_file);
}

int cv_s3_config_init(struct cv_s3_config *config, const char *url, struct cv_error *error)
{
    *config = (struct cv_s3_config){0};
    int result = read_name(config, url, error);
    result = result ? result : read_region(config, error);
    result = result ? result : read_endpoint(config, error);
    result = result ? result : read_limits(config, error);
    if (result) {
        cv_s3_config_deinit(config);
    }
    return result;
}
