/* What a picture of a screen shows: its lines of text, which of their pixels are ink, and which parts of the screen
 * scroll. Pictures in, boxes out: nothing here reads text, and nothing is remembered but the panes of a scene. */
#pragma once

#include "common/screen/components.h"
#include "common/screen/find_lines.h"
#include "common/screen/frame.h"
#include "common/screen/ink.h"
#include "common/screen/panes.h"
