/* Which emoji a small coloured picture is, told by its shape: a small network of convolutions, which learnt from the
 * designs of free vendors (fixtures/train). It is part of the program.
 *
 * Layout of network.bin, little endian: "CVEMOJI2", layers, classes, bytes of all texts, 32 bits each; a group of each
 * class, 16 bits (classes of a group differ in sex alone); the texts, each ended by a zero (class 0, what is no emoji, has
 * an empty one); then each layer: outputs, inputs, 32 bits each; scales and biases, floats; the weights, signed bytes, the
 * outputs side by side. Each part is padded to four bytes. */
#pragma once

#include "common/screen/screen.h"

struct ocr_emoji_match {
    const char *text; /* of the program; NULL: it is no emoji */
    double score;     /* 0…1: how sure that is */
};

/* Reads what differs from `paper` (red, green, blue) in `box`, its tight box, within the frame. Thread safe. */
struct ocr_emoji_match ocr_emoji_match(const struct cv_frame *frame, const uint8_t paper[3],
                                       const struct cv_box *box);

/* Whether a match is sure enough to be reported. */
bool ocr_emoji_is_sure(const struct ocr_emoji_match *match);

/* A number that says which network this is: the same one reads the same. */
uint64_t ocr_emoji_network_id(void);
