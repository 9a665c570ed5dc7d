#include "common/worker/mounts.h"

#include "common/worker/sanitizer.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* The calls that move mounts by descriptors (Linux 5.2; attributes of a tree: 5.12). What a stage may see is
 * copied first, so that it can be attached to the new root wherever that lies. */
enum { SEEN_MAX = 64 };

/* Hidden by the new root until that is the root; any directory that every system has would do. */
static const char attach_at[] = "/usr";

struct seen {
    char *path; /* absolute; owned */
    int fd;     /* a copy of what is mounted there */
    bool is_directory;
};

struct view {
    struct seen seen[SEEN_MAX];
    size_t count;
};

static void view_deinit(struct view *view)
{
    for (size_t i = 0; i < view->count; i++) {
        close(view->seen[i].fd);
        free(view->seen[i].path);
    }
}
CV_DEFINE_CLEANUP_ADDRESS(struct view, view_deinit)

static uint64_t attributes_of(enum cv_sandbox_use use)
{
    switch (use) {
    case CV_SANDBOX_READ:
        return MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID;
    case CV_SANDBOX_WRITE:
        return MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;
    case CV_SANDBOX_DEVICE:
        break;
    }
    return MOUNT_ATTR_NOSUID;
}

static int set_attributes(int fd, uint64_t set, unsigned flags)
{
    struct mount_attr attributes = {.attr_set = set};
    return mount_setattr(fd, "", AT_EMPTY_PATH | flags, &attributes, sizeof(attributes));
}

/* What is not there, or not for this user, is not seen; any other failure is the view's. */
static int copy_mount(void *opaque, const char *path, enum cv_sandbox_use use)
{
    struct view *view = opaque;
    struct stat status;
    if (path[0] != '/' || view->count == SEEN_MAX) {
        return -1;
    }
    cv_auto_fd int fd =
        open_tree(AT_FDCWD, path, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE);
    if (fd < 0) {
        return errno == ENOENT || errno == ENOTDIR || errno == EACCES ? 0 : -1;
    }
    if (fstat(fd, &status) != 0 || set_attributes(fd, attributes_of(use), AT_RECURSIVE) != 0) {
        return -1;
    }
    struct seen *seen = &view->seen[view->count];
    seen->path = strdup(path);
    if (!seen->path) {
        return CV_SANDBOX_NO_MEMORY;
    }
    seen->fd = cv_take_fd(&fd);
    seen->is_directory = S_ISDIR(status.st_mode);
    view->count++;
    return 0;
}

/* The directories above `path`, and for it a directory or an empty file. */
static int make_place(int root, const char *path, bool is_directory)
{
    char part[PATH_MAX];
    for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        (void)snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
        if (part[0] && mkdirat(root, part, 0755) != 0 && errno != EEXIST) {
            return -1;
        }
    }
    if (is_directory) {
        return mkdirat(root, path, 0755) == 0 || errno == EEXIST ? 0 : -1;
    }
    cv_auto_fd int file = openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    return file >= 0 || errno == EEXIST ? 0 : -1;
}

static int attach(const struct view *view, int root)
{
    for (size_t i = 0; i < view->count; i++) {
        const struct seen *seen = &view->seen[i];
        const char *place = seen->path + strspn(seen->path, "/");
        if (make_place(root, place, seen->is_directory) != 0 ||
            move_mount(seen->fd, "", root, place, MOVE_MOUNT_F_EMPTY_PATH) != 0) {
            return -1;
        }
    }
    return set_attributes(root, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, 0);
}

static int new_root(void)
{
    cv_auto_fd int kind = fsopen("tmpfs", FSOPEN_CLOEXEC);
    if (kind < 0 || fsconfig(kind, FSCONFIG_SET_STRING, "mode", "0755", 0) != 0 ||
        fsconfig(kind, FSCONFIG_CMD_CREATE, NULL, NULL, 0) != 0) {
        return -1;
    }
    return fsmount(kind, FSMOUNT_CLOEXEC, 0);
}

static int turn_to(int root)
{
    /* The old root is mounted over the new one, and goes with all that hangs on it. */
    return fchdir(root) == 0 && syscall(SYS_pivot_root, ".", ".") == 0 &&
                   umount2(".", MNT_DETACH) == 0
               ? chdir("/")
               : -1;
}

void cv_mounts_enter(const struct cv_sandbox *sandbox, unsigned *layers)
{
    /* The leak check of a sanitizer looks for this process under its number. */
    if (CV_UNDER_SANITIZER || sandbox->families) {
        return;
    }
    cv_auto(view_deinit) struct view view = {.count = 0};
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        cv_sandbox_each_path(sandbox, copy_mount, &view) != 0) {
        return;
    }
    cv_auto_fd int root = new_root();
    if (root < 0 || move_mount(root, "", AT_FDCWD, attach_at, MOVE_MOUNT_F_EMPTY_PATH) != 0) {
        return;
    }
    if (attach(&view, root) == 0 && turn_to(root) == 0) {
        *layers |= CV_SANDBOX_MOUNTS;
    } else {
        (void)umount2(attach_at, MNT_DETACH); /* the old root is as it was */
    }
}
