/* The lines of a video: followed from kept frame to kept frame, each read once, and reported with the times in which
 * they were visible. */
#pragma once

#include "workers/ocr/tracks/accept.h"
#include "workers/ocr/tracks/detection.h"
#include "workers/ocr/tracks/session.h"
