/* The pictures of lines: cut out of a frame, and kept in the store so that they can be read again. */
#pragma once

#include "workers/ocr/pictures/crop.h"
#include "workers/ocr/pictures/pack.h"
