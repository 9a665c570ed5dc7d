#include "common/text/entity_patterns.h"

#include "common/base/base.h"

/* All are compiled with UTF, UCP, CASELESS and EXTENDED. Repetitions are possessive or bounded, and
 * what may start anywhere is held back by a look-behind, so that no text makes them slow. */

/* Letters, marks, digits and the underscore of any script, but not the keycap's two marks. */
#define WORD_CHAR "(?: (?! [\\x{FE0F}\\x{20E3}] ) [\\p{L}\\p{M}\\p{N}_\\x{200C}] )"

/* What may stand in a URL: no blank, quote, bracket of prose, CJK punctuation or pictograph. */
#define URL_CHAR                                                                               \
    "(?: (?! \\p{Emoji_Presentation} | \\p{Extended_Pictographic} ) "                          \
    "[^\\s\\x{0}-\\x{20}<>\"`{}|\\\\^\\x{AB}\\x{BB}\\x{2018}-\\x{201F}\\x{3000}-\\x{3020}\\x{" \
    "FF01}-\\x{FF0F}\\x{FFFD}] )"

/* Scripts that set words and numbers without blanks; and not within a word of another script. */
#define UNSPACED "[\\p{Han}\\p{Hiragana}\\p{Katakana}\\p{Hangul}\\p{Thai}]"
#define NOT_BEFORE_WORD "(?! (?! " UNSPACED " ) [\\p{L}\\p{N}_] )"
#define NOT_AFTER_WORD(more) "(?: (?<! [\\p{L}\\p{M}\\p{N}_" more "] ) | (?<= " UNSPACED " ) )"

/* Labels of a host name, each with its dot, and a top-level domain that people meet on screens. */
#define HOST_LABELS "(?: [a-z0-9] (?: [a-z0-9-]{0,61} [a-z0-9] )?+ \\. ){1,8}"
#define COMMON_TLD "(?: com | org | net | edu | gov )"
#define KNOWN_TLD                                                                                  \
    "(?: " COMMON_TLD " | int | mil | info | biz | name | pro | app | dev | page | blog | shop | " \
    "store | site | online | tech | cloud | live | news | media | art | xyz | club | world | "     \
    "life | today | link | space | wiki | email | design | studio | agency | gallery | tv | io | " \
    "ai | co | me | gg | to | ly | fm | am | cc | ws | eu | de | at | ch | li | fr | be | nl | "   \
    "lu | it | es | pt | ie | uk | gl | dk | no | se | fi | is | pl | cz | sk | hu | ro | bg | "   \
    "gr | tr | ru | ua | by | ee | lv | lt | si | hr | rs | ba | al | mk | md | ge | il | ae | "   \
    "sa | qa | kw | eg | ma | tn | dz | ng | ke | gh | za | in | pk | bd | lk | np | cn | hk | "   \
    "tw | jp | kr | th | vn | my | sg | id | ph | au | nz | us | ca | mx | br | ar | cl | pe | "   \
    "uy | ve | ec | cr | cu | do | pr )"

#define SKIN_TONE "[\\x{1F3FB}-\\x{1F3FF}]"
/* One picture: a base with its presentation mark, tone or flag tags. */
#define EMOJI_PART                                                                     \
    "(?: \\p{RI}\\p{RI} | (?: \\p{Extended_Pictographic} | \\p{Emoji_Presentation} ) " \
    "(?: " SKIN_TONE " | \\x{FE0F} \\x{20E3}? | [\\x{E0020}-\\x{E007E}]{1,16} \\x{E007F} )? )"

/* A digit of any script; number.c knows the usual ones and refuses the rest. */
#define D "\\d"
#define GROUP_BLANK "[\\x{A0}\\x{202F}\\x{2009}]"
#define SYMBOL                                                                              \
    "(?: (?: US | CA | AU | NZ | HK | SG | A | C | R | S )? \\$ | [\\x{20AC}\\x{A3}\\x{A5}" \
    "\\x{FFE5}\\x{20B9}\\x{20A9}\\x{20BD}\\x{20BA}\\x{20B4}\\x{20AB}\\x{E3F}\\x{20AA}\\x{20B1}] )"
#define CODE                                                                                     \
    "(?-i: USD | EUR | GBP | JPY | CHF | CNY | INR | KRW | RUB | TRY | UAH | PLN | CZK | SEK | " \
    "NOK | DKK | HUF | RON | BRL | MXN | CAD | AUD | NZD | SGD | HKD | ZAR | AED | SAR | ILS | " \
    "THB | VND | PHP | IDR | TWD )"
#define CURRENCY_WORD                                                                     \
    "(?: euros? | dollars? | pounds? | z\\x{142} | k\\x{10D} | kr | Fr\\. | \\x{5186} | " \
    "\\x{5143} | \\x{C6D0} | \\x{440}\\x{443}\\x{431} | \\x{440}\\. )"
#define SCALE                                                                                     \
    "(?: (?: \\x{20} | \\x{A0} )? (?: Mio | Mrd | Tsd | million(?:en|s)? | milliard(?:en|s)? | "  \
    "billion(?:en|s)? | thousand | bn | \\x{442}\\x{44B}\\x{441} | \\x{43C}\\x{43B}\\x{43D} | "   \
    "\\x{43C}\\x{43B}\\x{440}\\x{434} ) (?! \\p{L} ) \\.? | (?-i: [kKMB] ) (?! [\\p{L}\\p{N}] ) " \
    "| "                                                                                          \
    "[\\x{4E07}\\x{842C}\\x{5104}\\x{4EBF}\\x{C5B5}\\x{B9CC}\\x{5343}] )"
/* Longer units first; those of one letter only where they touch the number. */
#define UNIT                                                                                       \
    "(?: (?: \\x{20} | \\x{A0} )? (?: [%\\x{2030}\\x{66A}\\x{FF05}] | \\x{B0} (?-i: [CF] )? | "    \
    "km/h | mph | (?-i: kWh | kW | kHz | MHz | GHz | Hz | kB | KB | MB | GB | TB | Mbps | Gbps | " \
    "fps | px | km | cm | mm | kg | mg | ml | kcal | min | sec | ms | hrs? | dB ) (?! \\p{L} ) ) " \
    "| (?-i: [mglhsdwtVWA] ) (?! [\\p{L}\\p{N}] ) )"

const struct cv_entity_pattern cv_entity_patterns[] = {
    /* What a QR or bar code says is read from its modules: no text matches this. */
    {"code", CV_ENTITY_TEXT, "(?!)"},
    {"url", CV_ENTITY_URL,
     NOT_AFTER_WORD("@") " (?: https?:// [\\p{L}\\p{N}\\[] | www\\. [\\p{L}\\p{N}] (?= "
                         "[\\p{L}\\p{N}-]*+ \\. [\\p{L}\\p{N}] ) ) " URL_CHAR "*+"},
    {"url", CV_ENTITY_URL,
     "(?<! [\\p{L}\\p{N}_@./:&=%+~-] ) " HOST_LABELS "(?: " KNOWN_TLD " (?: : [0-9]{2,5} )? / "
     "(?= [\\p{L}\\p{N}@~#?] ) " URL_CHAR "*+ | (?-i: " COMMON_TLD " ) (?! [\\p{L}\\p{N}_@-] | "
     "\\.[\\p{L}\\p{N}] ) /? )"},
    /* E-mail addresses. */
    {NULL, CV_ENTITY_TEXT,
     "(?<! [\\p{L}\\p{N}_.+%-] ) [\\p{L}\\p{N}_.+%-]++ @ (?: [\\p{L}\\p{N}-]++ \\. )++ "
     "[\\p{L}\\p{N}-]++"},
    {"mention", CV_ENTITY_TEXT, NOT_AFTER_WORD("@") " @ [a-z0-9_]++"},
    {"hashtag", CV_ENTITY_TEXT,
     "(?<! [\\p{L}\\p{M}\\p{N}_#\\x{FF03}&] ) [#\\x{FF03}] (?! [0-9]\\x{FE0F}?\\x{20E3} ) "
     "[\\p{L}\\p{N}_] " WORD_CHAR "*+"},
    /* A sequence; or one picture. Signs that are text by default count as a picture when a
     * presentation mark asks for it, or when they are drawings and no letters, arrows or signs. */
    {"emoji", CV_ENTITY_TEXT,
     "[0-9\\#*] \\x{FE0F}? \\x{20E3} | " EMOJI_PART "(?: \\x{200D} " EMOJI_PART ")++ | "
     "\\p{RI}\\p{RI} | (?! \\p{RI} ) \\p{Emoji_Presentation} (?! \\x{FE0E} ) " SKIN_TONE
     "? (?: [\\x{E0020}-\\x{E007E}]{1,16} \\x{E007F} )? \\x{FE0F}? | (?= \\p{Emoji} ) "
     "[\\x{2600}-\\x{27BF}\\x{2B00}-\\x{2BFF}\\x{1F000}-\\x{1FAFF}] (?! \\x{FE0E} | \\p{RI} ) "
     "(?<! \\p{RI} ) (?: \\x{FE0F} | " SKIN_TONE " )? | "
     "\\p{Emoji} (?<! [0-9\\#*] ) \\x{FE0F} \\x{20E3}?"},
    /* Times, dates, versions. */
    {NULL, CV_ENTITY_TEXT,
     "(?<! [\\p{L}\\p{N}_] ) (?<! [0-9][.,:/-] ) (?: "
     /* 9:41, 12:03:55.5, 9:41 pm, 16:9 */
     "[0-9]{1,3} : [0-9]{1,2} (?: : [0-9]{2} )? (?: [.,][0-9]{1,6} )? (?: \\x{20}? [ap]\\.?m\\b )? "
     "| "
     /* 18h30, 9.41 Uhr, 9 Uhr */
     "[0-9]{1,2} h [0-9]{2} | [0-9]{1,2} (?: [.:][0-9]{2} )? \\x{20} Uhr\\b | "
     "[0-9]{1,2} \\x{20}? [ap]\\.?m\\b | "
     /* 2024-05-03, 12.03.1994, 5/3/24, 12.3. */
     "[0-9]{4} [-/.] [0-9]{1,2} [-/.] [0-9]{1,2} (?: T[0-9:.]{4,18}Z? )? | "
     "[0-9]{1,2} ([-/.]) [0-9]{1,2} \\g{-1} (?: [0-9]{4} | [0-9]{2} ) | "
     "[0-9]{1,2} \\. \\x{20}? [0-9]{1,2} \\. | [0-9]{1,4} / [0-9]{1,4} | "
     "[0-9]{4}\\x{5E74} (?: [0-9]{1,2}\\x{6708} (?: [0-9]{1,2}\\x{65E5} )? )? | "
     "[0-9]{1,2}\\x{6708} (?: [0-9]{1,2}\\x{65E5} )? | "
     /* 1.12.3, 192.168.0.1, but not 1.204.567 */
     "(?! [0-9]{1,3} (?: \\.[0-9]{3} )++ (?! \\.?[0-9] ) ) [0-9]++ (?: \\.[0-9]++ ){2,8} | "
     /* 1920x1080 */
     "[0-9]{1,6} \\x{20}? [x\\x{D7}] \\x{20}? [0-9]{1,6} (?: [x\\x{D7}] [0-9]{1,6} )? "
     ") (?! [\\p{L}\\p{N}_] | [.,:/][0-9] )"},
    {"number", CV_ENTITY_PHONE,
     "(?<! [\\p{L}\\p{N}_] ) (?<! [0-9][.,:/-] ) (?: "
     "\\+ [1-9][0-9]{0,2} (?: [\\x{20}\\x{A0}.\\-/]? \\(?[0-9]{1,8}\\)? ){1,6} | "
     "00 [1-9][0-9]{0,2} (?: [\\x{20}\\x{A0}\\-/] \\(?[0-9]{1,8}\\)? ){1,6} | "
     "(?: \\([0-9]{3}\\) \\x{20}? | [0-9]{3} [\\x{20}.-] ) [0-9]{3} [.-] [0-9]{4} | "
     "0[1-9] (?: [\\x{20}\\x{A0}.] [0-9]{2} ){4} | "
     "\\(? 0[1-9][0-9]{1,3} \\)? [\\x{20}\\x{A0}/-]{1,3} [0-9]{3,8} (?: [\\x{20}-] [0-9]{2,5} "
     "){0,3} "
     ") (?! [\\p{L}\\p{N}_] | [.,:/-][0-9] | \\x{20}? [%\\x{20AC}$\\x{A3}] )"},
    {"number", CV_ENTITY_NUMBER,
     NOT_AFTER_WORD(
         "@#/") " (?<! [\\p{L}_][-\\x{2019}'.] ) (?<! " D "[.,:/] ) "
                "(?: (?<before> " SYMBOL " | " CODE " ) [\\x{20}\\x{A0}\\x{202F}]? )? "
                "(?: (?<! " D "[-\\x{2013}] ) (?<! " D " ) (?<sign> [-+\\x{2212}] ) )? "
                "(?<inner> " SYMBOL " )? "
                "(?<digits> (?: " D "{1,3} (?: [.,'\\x{2019}\\x{66C}] " D "{3} | " GROUP_BLANK " " D
                "{3} ){1,8} | " D "{1,2} (?: , " D "{2} ){1,5} , " D "{3} | "
                "(?(<before>) | (?= " D "{1,3} (?: \\x{20} " D "{3} )++ (?: [.,] " D "++ )? "
                "\\x{20}? (?: " SYMBOL " | " CODE " | [%\\x{20AC}] ) ) ) " D "{1,3} (?: \\x{20} " D
                "{3} (?! " D " ) ){1,5} | " D "{1,30} ) (?: [.,\\x{66B}] " D "{1,12} )? ) (?! " D
                " ) "
                "(?<scale> " SCALE " )? "
                "(?: (?(<before>) (?!) ) [\\x{20}\\x{A0}\\x{202F}]? (?<after> " SYMBOL " (?! " D
                " ) | "
                "(?: " CODE " | " CURRENCY_WORD " ) " NOT_BEFORE_WORD " ) | (?<unit> " UNIT
                " ) )? " NOT_BEFORE_WORD " (?! [.,:/\\x{66B}] " D " | \\.[a-z]{2,4}\\b )"},
};

const size_t cv_entity_pattern_count = CV_COUNT(cv_entity_patterns);
