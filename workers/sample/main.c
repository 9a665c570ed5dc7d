#include "workers/sample/stage.h"

int main(int argc, char **argv)
{
    return cv_worker_main(&sample_stage, argc, argv);
}
