#include "cli/clips.h"
#include "cli/command.h"
#include "cli/text.h"

#include <getopt.h>
#include <string.h>

enum { COPY_SIZE = 1 << 20 };

/* Copies an object into a file; the half of one is removed. */
static int copy_object(struct cv_store *store, const char *key, const char *path,
                       struct cv_error *error)
{
    cv_auto(cv_store_reader_close) struct cv_store_reader *reader = NULL;
    cv_auto_free char *data = malloc(COPY_SIZE);
    int result = cv_store_reader_open(store, key, &reader, error);
    if (result || !data) {
        return result < 0 ? result : cv_fail(error, CV_ERROR_OBJECT_NOT_FOUND, "%s is gone", key);
    }
    FILE *file = fopen(path, "we");
    if (!file) {
        return cv_fail_errno(error, errno, "write %s", path);
    }
    struct cv_byte_source source = cv_store_reader_source(reader);
    size_t length = 0;
    int64_t at = 0;
    while ((result = source.read(source.opaque, at, data, COPY_SIZE, &length, error)) == 0 &&
           length > 0) {
        if (fwrite(data, 1, length, file) != length) {
            result = cv_fail_errno(error, errno, "write %s", path);
            break;
        }
        at += (int64_t)length;
    }
    if (fclose(file) && result == 0) {
        result = cv_fail_errno(error, errno, "write %s", path);
    }
    if (result) {
        (void)unlink(path);
    }
    return result;
}

static int make(const struct cli_session_params *params, char **arguments, struct cli_clip clip,
                const char *output, struct cv_error *error)
{
    cv_auto(cli_session_close) struct cli_session session = {0};
    char id[CLI_UUID_SIZE];
    int result = cli_session_open(&session, params, error);
    result = result ? result : cli_find_video(session.db, arguments[0], id, error);
    if (result) {
        return result;
    }
    clip.video_id = id;
    cv_auto(cli_workers_stop) struct cli_workers workers;
    cli_workers_init(&workers, &session);
    cv_auto_free char *key = NULL;
    cv_auto_free char *path = NULL;
    result = cli_clip_make(&session, &workers, &clip, params->cancel, &key, error);
    if (result == 0 && output) {
        result = copy_object(session.store, key, output, error);
    } else if (result == 0) {
        result = cli_object_path(session.store, key, &path, error);
    }
    if (result == 0) {
        (void)printf("%s\n", output ? output : path);
    }
    return result;
}

static int read_crop(const char *text, struct cli_clip *clip)
{
    char rest;
    int found = sscanf(text, "%5dx%5d+%5d+%5d%c", &clip->crop.width, &clip->crop.height,
                       &clip->crop.x, &clip->crop.y, &rest);
    bool inside =
        clip->crop.width > 0 && clip->crop.height > 0 && clip->crop.x >= 0 && clip->crop.y >= 0;
    return found == 4 && inside ? 0 : -1;
}

/* One option; an exit status, or -1 to go on. */
static int take_option(const struct cli_command *command, int option,
                       struct cli_session_params *params, struct cli_clip *clip,
                       const char **output)
{
    switch (option) {
    case 'd':
        params->data = optarg;
        return -1;
    case 'o':
        *output = optarg;
        return -1;
    case 'p':
        return cli_parse_time(optarg, &clip->padding_ms)
                   ? -1
                   : cli_usage(command, "'%s' is no time: 500 (ms), 0.5s or 0", optarg);
    case 'm':
        clip->mode = optarg;
        return strcmp(optarg, "smart") == 0 || strcmp(optarg, "encode") == 0
                   ? -1
                   : cli_usage(command, "'%s' is no mode: smart or encode", optarg);
    case 'f':
        clip->format = optarg;
        return -1;
    case 't':
        return cv_parse_int(optarg, 1, INT16_MAX, &clip->max_height)
                   ? -1
                   : cli_usage(command, "'%s' is no height in pixels", optarg);
    case 'c':
        return read_crop(optarg, clip) == 0
                   ? -1
                   : cli_usage(command, "'%s' is no part of a picture: WIDTHxHEIGHT+X+Y", optarg);
    case 'q':
        clip->mute = true;
        return -1;
    default:
        return option == 'h' ? CLI_EXIT_OK : CLI_EXIT_USAGE;
    }
}

static int run(const struct cli_command *command, int argc, char **argv, struct cv_cancel *cancel,
               struct cv_error *error)
{
    static const struct option options[] = {
        {"data", required_argument, NULL, 'd'},    {"output", required_argument, NULL, 'o'},
        {"padding", required_argument, NULL, 'p'}, {"mode", required_argument, NULL, 'm'},
        {"format", required_argument, NULL, 'f'},  {"max-height", required_argument, NULL, 't'},
        {"crop", required_argument, NULL, 'c'},    {"mute", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},          {0}};
    struct cli_session_params params = {.cancel = cancel};
    const char *output = NULL;
    struct cli_clip clip = {.padding_ms = CLI_CLIP_PADDING_MS};
    for (int option; (option = cli_next_option(command, argc, argv, ":ho:", options)) != -1;) {
        int status = take_option(command, option, &params, &clip, &output);
        if (status != -1) {
            return status;
        }
    }
    bool moment = clip.format && strcmp(clip.format, "jpg") == 0;
    int times = moment ? 1 : 2;
    if (argc - optind != 1 + times) {
        return cli_usage(command, moment ? "name a video and a moment"
                                         : "name a video, where the clip starts and where it ends");
    }
    for (int i = 1; i <= times; i++) {
        if (!cli_parse_time(argv[optind + i], i == 1 ? &clip.t_start : &clip.t_end)) {
            return cli_usage(command, "'%s' is no time: 12500 (ms), 12.5s or 0:12.500",
                             argv[optind + i]);
        }
    }
    if (!moment && clip.t_end <= clip.t_start) {
        return cli_usage(command, "the clip ends before it starts");
    }
    return make(&params, argv + optind, clip, output, error);
}

const struct cli_command cli_command_clip = {
    .name = "clip",
    .summary = "cut a clip out of a video",
    .help =
        "usage: cortana clip VIDEO|last T_START T_END [OPTION…] [-o FILE]\n"
        "       cortana clip VIDEO|last T --format jpg [OPTION…] [-o FILE]\n\n"
        "Cuts from two seconds before T_START to two seconds after T_END, exact to the frame,\n"
        "through a clip_generate job, and prints where the clip lies. Times are milliseconds\n"
        "(12500), seconds (12.5s) or a clock (0:12.500). The same clip asked for again is the\n"
        "same object.\n\n"
        "  --padding TIME  what is added on both sides (2s); 0 cuts at the times themselves\n"
        "  --mode MODE     smart copies what lies between the ends, where the video allows it;\n"
        "                  encode encodes every picture (smart)\n"
        "  --format F      mp4, webm, gif, or jpg: the picture that stands at one moment (mp4)\n"
        "  --max-height N  pixels; larger pictures are scaled down\n"
        "  --crop WxH+X+Y  only this part of the picture, pixels as the viewer sees it\n"
        "  --mute          without sound\n"
        "  -o FILE         copy the clip there\n"
        "  --data DIR      the installation in DIR, even if DATABASE_URL is set\n",
    .run = run,
};
