#include "common/base/base.h"

#include <getopt.h>

/* getopt_long yields an option's index, which must not be '?'. */
enum { OPTIONS_MAX = 24, HELP = OPTIONS_MAX, VERSION };

static bool set_number(const struct cv_program *program, const struct cv_option *option)
{
    bool is_good =
        option->integer
            ? cv_parse_int(optarg, (int64_t)option->least, (int64_t)option->most, option->integer)
            : cv_parse_double(optarg, option->least, option->most, option->decimal);
    if (!is_good) {
        (void)fprintf(stderr, "%s: --%s is \"%s\", and must be a number from %.10g to %.10g\n",
                      program->name, option->name, optarg, option->least, option->most);
    }
    return is_good;
}

static bool set_option(const struct cv_program *program, const struct cv_option *option)
{
    if (option->flag) {
        *option->flag = true;
        return true;
    }
    if (option->text) {
        *option->text = optarg;
        return true;
    }
    return set_number(program, option);
}

enum parsed { PARSED_RUN, PARSED_SHOWN, PARSED_WRONG };

static enum parsed parse_all(const struct cv_program *program, const struct option *names, int argc,
                             char **argv)
{
    for (int index; (index = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (index == HELP) {
            (void)fputs(program->usage, stdout);
            return PARSED_SHOWN;
        }
        if (index == VERSION) {
            (void)printf("%s %s\n", program->name, CV_VERSION);
            return PARSED_SHOWN;
        }
        if (index == '?' || !set_option(program, &program->options[index])) {
            return PARSED_WRONG;
        }
    }
    if (optind < argc) {
        (void)fprintf(stderr, "%s: unexpected argument \"%s\"\n", program->name, argv[optind]);
        return PARSED_WRONG;
    }
    return PARSED_RUN;
}

/* Loads the settings, and sets options that were not given from their variables. */
static bool complete(const struct cv_program *program)
{
    struct cv_error error;
    if (cv_settings_load(&error)) {
        (void)fprintf(stderr, "%s: %s\n", program->name, error.message);
        return false;
    }
    for (size_t i = 0; i < program->option_count; i++) {
        const struct cv_option *option = &program->options[i];
        if (option->variable && !*option->text) {
            *option->text = cv_env(option->variable, NULL);
        }
    }
    return true;
}

bool cv_parse_options(const struct cv_program *program, int argc, char **argv, int *ret_exit)
{
    struct option names[OPTIONS_MAX + 3] = {{NULL, 0, NULL, 0}};
    size_t count = program->option_count < OPTIONS_MAX ? program->option_count : OPTIONS_MAX;
    for (size_t i = 0; i < count; i++) {
        const struct cv_option *option = &program->options[i];
        names[i] = (struct option){option->name, option->flag ? no_argument : required_argument,
                                   NULL, (int)i};
    }
    names[count] = (struct option){"help", no_argument, NULL, HELP};
    names[count + 1] = (struct option){"version", no_argument, NULL, VERSION};
    enum parsed parsed = parse_all(program, names, argc, argv);
    if (parsed == PARSED_WRONG) {
        (void)fprintf(stderr, "try %s --help\n", program->name);
    }
    *ret_exit = parsed == PARSED_WRONG ? CV_EXIT_USAGE : CV_EXIT_DONE;
    if (parsed == PARSED_RUN && !complete(program)) {
        *ret_exit = CV_EXIT_STOP;
        return false;
    }
    return parsed == PARSED_RUN;
}
