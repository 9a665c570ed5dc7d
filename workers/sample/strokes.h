/* Strokes: what writing is made of, and edges between two surfaces are not. */
#pragma once

#include "common/base/base.h"

#include "workers/sample/plane.h"

/* Have strokes come, gone or moved in the block of GATE_BLOCK pixels at x, y, which differs by
 * `sad`? In a picture too narrow to look for strokes: yes. */
bool strokes_differ(const struct plane *a, const struct plane *b, int x, int y, int sad);
