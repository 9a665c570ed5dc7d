/* Made by scripts/fit_words from 720 drawn lines; see docs/design/text.md. */
#pragma once

/* Of the log odds that a word is read right, for each feature of
 * choose_words.h. */
static const double OCR_WORD_WEIGHTS[OCR_WORD_FEATURE_COUNT] = {
    [OCR_WORD_BIAS] = -5.6962,         [OCR_WORD_NATIVE] = -0.8165,
    [OCR_WORD_SURE] = 9.9179,          [OCR_WORD_DOUBT] = 1.0170,
    [OCR_WORD_WORST] = -0.8897,        [OCR_WORD_MEAN] = -2.3261,
    [OCR_WORD_NATIVE_SURE] = 0.7360,   [OCR_WORD_NATIVE_LATIN] = 1.2647,
    [OCR_WORD_NATIVE_MIXED] = 1.3725,  [OCR_WORD_NATIVE_BARE] = -0.4122,
    [OCR_WORD_LATIN_BARE] = 0.3350,    [OCR_WORD_LENGTH] = 2.1801,
    [OCR_WORD_SHORT] = -1.0168,        [OCR_WORD_NATIVE_SHORT] = 3.0226,
    [OCR_WORD_CAPITALS] = -1.8701,     [OCR_WORD_DIGITS] = -1.8881,
    [OCR_WORD_MARKS] = -1.0676,        [OCR_WORD_LISTED] = 0.5510,
    [OCR_WORD_NATIVE_LISTED] = 1.1899,
};
