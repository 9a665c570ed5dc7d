/* A VA-API driver without a GPU, to run FFmpeg's and our side of hardware decoding: it gives the pictures of
 * CORTANA_TEST_VIDEO, an H.264 file that it decodes with FFmpeg at the beginning, in coded order, whatever it is told to
 * decode. A device whose pictures are exact gives the same ones.
 *
 * The library is preloaded, and makes libva believe that any node (/dev/null) belongs to a GPU.
 *
 *   CORTANA_TEST_FAILS_AT   the picture, from 0, that cannot be decoded
 *   CORTANA_TEST_REFUSES    the device decodes no H.264
 */
#include <dlfcn.h>
#include <errno.h>
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <va/va_backend.h>
#include <va/va_drmcommon.h>

enum { PICTURES_MAX = 1024, SURFACES_MAX = 64, IMAGES_MAX = 256 };

static AVFrame *pictures[PICTURES_MAX]; /* by number in coded order */
static int shown[SURFACES_MAX];         /* the picture of each surface */
static int begun, surface_count, image_count;
static VASurfaceID current;
static uint8_t *images[IMAGES_MAX];
static const VAImageFormat nv12 = {
    .fourcc = VA_FOURCC_NV12, .byte_order = VA_LSB_FIRST, .bits_per_pixel = 12};

/* ---- how libva finds this library ------------------------------------------------------------- */

/* As in xf86drm.h. */
struct version {
    int major, minor, patch, name_length;
    char *name;
    int date_length;
    char *date;
    int description_length;
    char *description;
};

int drmGetNodeTypeFromFd(int fd);
struct version *drmGetVersion(int fd);
void drmFreeVersion(struct version *version);

int drmGetNodeTypeFromFd(int fd)
{
    enum { RENDER_NODE = 2 };
    (void)fd;
    return RENDER_NODE;
}

/* libva ignores the environment if the real and the effective user differ, as in a stage of a worker that runs as root. */
uid_t getuid(void)
{
    return geteuid();
}

/* The name of the kernel's driver: libva loads test_drv_video.so for it. */
struct version *drmGetVersion(int fd)
{
    (void)fd;
    static char name[] = "test", folder[4096];
    static struct version version = {.major = 1, .name = name, .name_length = sizeof(name) - 1};
    Dl_info self;
    if (dladdr((void *)folder, &self)) {
        (void)snprintf(folder, sizeof(folder), "%s", self.dli_fname);
        *strrchr(folder, '/') = '\0';
        (void)setenv("LIBVA_DRIVERS_PATH", folder, 1);
    }
    return &version;
}

void drmFreeVersion(struct version *version)
{
    (void)version;
}

/* ---- the pictures ------------------------------------------------------------------------------ */

/* Takes the decoded pictures, which come as they are shown, in the order of their packets. */
static void put_in_coded_order(AVFrame *decoded[], size_t count, const int64_t packet_pts[],
                               size_t packets)
{
    size_t next = 0;
    for (size_t i = 0; i < packets; i++) {
        for (size_t k = 0; k < count; k++) {
            if (decoded[k] && decoded[k]->pts == packet_pts[i]) {
                pictures[next++] = decoded[k];
                decoded[k] = NULL;
            }
        }
    }
}

static void read_pictures(const char *path)
{
    static AVFrame *decoded[PICTURES_MAX];
    static int64_t packet_pts[PICTURES_MAX];
    size_t count = 0, packets = 0;
    AVFormatContext *input = NULL;
    AVPacket *packet = av_packet_alloc();
    if (avformat_open_input(&input, path, NULL, NULL) < 0) {
        abort();
    }
    const AVCodec *codec = NULL;
    int stream = av_find_best_stream(input, AVMEDIA_TYPE_VIDEO, -1, -1, &codec, 0);
    AVCodecContext *context = avcodec_alloc_context3(codec);
    context->apply_cropping = 0; /* a device gives the whole coded picture */
    if (avcodec_parameters_to_context(context, input->streams[stream]->codecpar) < 0 ||
        avcodec_open2(context, codec, NULL) < 0) {
        abort();
    }
    bool goes_on = true;
    while (goes_on) {
        goes_on = av_read_frame(input, packet) >= 0;
        if (goes_on && packet->stream_index == stream && packets < PICTURES_MAX) {
            packet_pts[packets++] = packet->pts;
        }
        if (!goes_on || packet->stream_index == stream) {
            (void)avcodec_send_packet(context, goes_on ? packet : NULL);
        }
        av_packet_unref(packet);
        for (AVFrame *frame = av_frame_alloc();; frame = av_frame_alloc()) {
            if (avcodec_receive_frame(context, frame) < 0) {
                av_frame_free(&frame);
                break;
            }
            if (count == PICTURES_MAX) {
                abort();
            }
            decoded[count++] = frame;
        }
    }
    put_in_coded_order(decoded, count, packet_pts, packets);
    av_packet_free(&packet);
    avcodec_free_context(&context);
    avformat_close_input(&input);
}

/* A picture in 4:2:0 as NV12, in memory of the image's size. */
static void write_picture(const AVFrame *picture, uint8_t *bytes, int pitch, int height)
{
    uint8_t *chroma = bytes + (size_t)pitch * (size_t)height;
    for (int y = 0; y < picture->height; y++) {
        memcpy(bytes + (size_t)y * (size_t)pitch, picture->data[0] + y * picture->linesize[0],
               (size_t)picture->width);
    }
    for (int y = 0; y < (picture->height + 1) / 2; y++) {
        for (int x = 0; x < (picture->width + 1) / 2; x++) {
            chroma[y * pitch + 2 * x] = picture->data[1][y * picture->linesize[1] + x];
            chroma[y * pitch + 2 * x + 1] = picture->data[2][y * picture->linesize[2] + x];
        }
    }
}

/* ---- what FFmpeg calls ------------------------------------------------------------------------- */

static VAStatus unused(void)
{
    return VA_STATUS_ERROR_UNIMPLEMENTED;
}

static VAStatus succeed(void)
{
    return VA_STATUS_SUCCESS;
}

static VAStatus list_profiles(VADriverContextP driver, VAProfile *profiles, int *count)
{
    (void)driver;
    *count = 1;
    profiles[0] = getenv("CORTANA_TEST_REFUSES") ? VAProfileJPEGBaseline : VAProfileH264High;
    return VA_STATUS_SUCCESS;
}

static VAStatus list_entrypoints(VADriverContextP driver, VAProfile profile, VAEntrypoint *points,
                                 int *count)
{
    (void)driver;
    (void)profile;
    *count = 1;
    points[0] = VAEntrypointVLD;
    return VA_STATUS_SUCCESS;
}

static VAStatus get_attributes(VADriverContextP driver, VAProfile profile, VAEntrypoint point,
                               VAConfigAttrib *list, int count)
{
    (void)driver;
    (void)profile;
    (void)point;
    for (int i = 0; i < count; i++) {
        list[i].value =
            list[i].type == VAConfigAttribRTFormat ? VA_RT_FORMAT_YUV420 : VA_ATTRIB_NOT_SUPPORTED;
    }
    return VA_STATUS_SUCCESS;
}

static VAStatus create_config(VADriverContextP driver, VAProfile profile, VAEntrypoint point,
                              VAConfigAttrib *list, int count, VAConfigID *ret_id)
{
    (void)list;
    (void)count;
    *ret_id = 1;
    return get_attributes(driver, profile, point, NULL, 0);
}

static VAStatus list_surface_attributes(VADriverContextP driver, VAConfigID config,
                                        VASurfaceAttrib *list, unsigned *count)
{
    (void)driver;
    (void)config;
    *count = 1;
    if (list) {
        list[0] = (VASurfaceAttrib){
            .type = VASurfaceAttribPixelFormat,
            .flags = VA_SURFACE_ATTRIB_GETTABLE | VA_SURFACE_ATTRIB_SETTABLE,
            .value = {.type = VAGenericValueTypeInteger, .value.i = VA_FOURCC_NV12}};
    }
    return VA_STATUS_SUCCESS;
}

static VAStatus create_surfaces(VADriverContextP driver, unsigned format, unsigned width,
                                unsigned height, VASurfaceID *ids, unsigned count,
                                VASurfaceAttrib *list, unsigned attributes)
{
    (void)driver, (void)format, (void)width, (void)height, (void)list, (void)attributes;
    for (unsigned i = 0; i < count; i++) {
        if (surface_count == SURFACES_MAX) {
            return VA_STATUS_ERROR_ALLOCATION_FAILED;
        }
        ids[i] = (VASurfaceID)surface_count++;
    }
    return VA_STATUS_SUCCESS;
}

static VAStatus create_context(VADriverContextP driver, VAConfigID config, int width, int height,
                               int flag, VASurfaceID *targets, int count, VAContextID *ret_id)
{
    (void)driver, (void)config, (void)width, (void)height, (void)flag, (void)targets, (void)count;
    if (!pictures[0]) {
        read_pictures(getenv("CORTANA_TEST_VIDEO"));
    }
    *ret_id = 1;
    return VA_STATUS_SUCCESS;
}

static VAStatus create_buffer(VADriverContextP driver, VAContextID context, VABufferType type,
                              unsigned size, unsigned count, void *data, VABufferID *ret_id)
{
    (void)driver, (void)context, (void)type, (void)size, (void)count, (void)data;
    *ret_id = IMAGES_MAX; /* what is in it does not matter */
    return VA_STATUS_SUCCESS;
}

static VAStatus begin_picture(VADriverContextP driver, VAContextID context, VASurfaceID target)
{
    (void)driver, (void)context;
    current = target;
    return VA_STATUS_SUCCESS;
}

/* A driver sends its request to the kernel here, from within the sandbox. */
static VAStatus end_picture(VADriverContextP driver, VAContextID context)
{
    (void)context;
    const struct drm_state *drm = driver->drm_state;
    const char *fails_at = getenv("CORTANA_TEST_FAILS_AT");
    char version[64] = {0};
    if (ioctl(drm->fd, _IOWR('d', 0, version), version) == 0 || errno != ENOTTY ||
        (fails_at && atoi(fails_at) == begun)) {
        return VA_STATUS_ERROR_DECODING_ERROR;
    }
    shown[current] = begun++;
    return VA_STATUS_SUCCESS;
}

static VAStatus list_formats(VADriverContextP driver, VAImageFormat *list, int *count)
{
    (void)driver;
    *count = 1;
    list[0] = nv12;
    return VA_STATUS_SUCCESS;
}

static VAStatus create_image(VADriverContextP driver, VAImageFormat *format, int width, int height,
                             VAImage *ret_image)
{
    (void)driver, (void)format;
    int pitch = width + width % 2;
    size_t luma = (size_t)pitch * (size_t)height,
           size = luma + (size_t)pitch * (size_t)((height + 1) / 2);
    int id = image_count++ % IMAGES_MAX;
    images[id] = calloc(1, size);
    *ret_image = (VAImage){.image_id = (VAImageID)id,
                           .format = nv12,
                           .buf = (VABufferID)id,
                           .width = (uint16_t)width,
                           .height = (uint16_t)height,
                           .data_size = (uint32_t)size,
                           .num_planes = 2,
                           .pitches = {(uint32_t)pitch, (uint32_t)pitch},
                           .offsets = {0, (uint32_t)luma}};
    return images[id] ? VA_STATUS_SUCCESS : VA_STATUS_ERROR_ALLOCATION_FAILED;
}

static VAStatus get_image(VADriverContextP driver, VASurfaceID surface, int x, int y,
                          unsigned width, unsigned height, VAImageID image)
{
    (void)driver, (void)x, (void)y;
    write_picture(pictures[shown[surface]], images[image], (int)(width + width % 2), (int)height);
    return VA_STATUS_SUCCESS;
}

static VAStatus map_buffer(VADriverContextP driver, VABufferID buffer, void **ret_data)
{
    (void)driver;
    *ret_data = images[buffer];
    return VA_STATUS_SUCCESS;
}

static VAStatus destroy_image(VADriverContextP driver, VAImageID image)
{
    (void)driver;
    free(images[image]);
    images[image] = NULL;
    return VA_STATUS_SUCCESS;
}

VAStatus __vaDriverInit_1_17(VADriverContextP driver);
VAStatus __vaDriverInit_1_17(VADriverContextP driver)
{
    struct VADriverVTable *calls = driver->vtable;
    VAStatus (**every)(void) = (VAStatus(**)(void))calls;
    for (size_t i = 0; i < offsetof(struct VADriverVTable, vaQueryProcessingRate) / sizeof(*every);
         i++) {
        every[i] = unused;
    }
    void *done[] = {&calls->vaTerminate,      &calls->vaDestroyConfig, &calls->vaDestroySurfaces,
                    &calls->vaDestroyContext, &calls->vaDestroyBuffer, &calls->vaRenderPicture,
                    &calls->vaSyncSurface,    &calls->vaUnmapBuffer};
    for (size_t i = 0; i < sizeof(done) / sizeof(*done); i++) {
        *(VAStatus(**)(void))done[i] = succeed;
    }
    calls->vaQueryConfigProfiles = list_profiles;
    calls->vaQueryConfigEntrypoints = list_entrypoints;
    calls->vaGetConfigAttributes = get_attributes;
    calls->vaCreateConfig = create_config;
    calls->vaQuerySurfaceAttributes = list_surface_attributes;
    calls->vaCreateSurfaces2 = create_surfaces;
    calls->vaCreateContext = create_context;
    calls->vaCreateBuffer = create_buffer;
    calls->vaBeginPicture = begin_picture;
    calls->vaEndPicture = end_picture;
    calls->vaQueryImageFormats = list_formats;
    calls->vaCreateImage = create_image;
    calls->vaGetImage = get_image;
    calls->vaMapBuffer = map_buffer;
    calls->vaDestroyImage = destroy_image;
    driver->max_profiles = driver->max_entrypoints = driver->max_attributes =
        driver->max_image_formats = 1;
    driver->max_subpic_formats = driver->max_display_attributes = 1;
    driver->str_vendor = "a test without a GPU";
    return VA_STATUS_SUCCESS;
}
